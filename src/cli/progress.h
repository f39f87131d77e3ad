// A sign of life for whoever waits at a terminal.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace stweaver {

/// While it lives and more than a second has passed, says on standard error what is being done and for how
/// long. Says nothing when standard error is no terminal.
class Progress {
 public:
  explicit Progress(const std::string& doing);
  ~Progress();

  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  Progress(Progress&&) = delete;
  Progress& operator=(Progress&&) = delete;

 private:
  void tell(const std::stop_token& stop);

  std::string doing_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::jthread teller_;  // last: it uses the others
};

}  // namespace stweaver
