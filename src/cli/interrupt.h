// Ctrl-C that asks for an end instead of being one.
#pragma once

#include <csignal>
#include <stop_token>
#include <thread>

namespace stweaver {

/// While it lives, the first SIGINT requests a stop; the second ends the process, as always. All other
/// threads must be made later, or block the signal.
class Interrupt {
 public:
  Interrupt();
  ~Interrupt();

  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;
  Interrupt(Interrupt&&) = delete;
  Interrupt& operator=(Interrupt&&) = delete;

  [[nodiscard]] std::stop_token token() const { return requested_.get_token(); }
  [[nodiscard]] bool happened() const { return requested_.stop_requested(); }

 private:
  void watch(const std::stop_token& over);

  sigset_t signals_{};
  sigset_t before_{};
  std::stop_source requested_;
  std::jthread watcher_;  // last: it uses the others
};

}  // namespace stweaver
