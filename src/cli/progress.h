// A sign of life for whoever waits at a terminal.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace stweaver {

/// Says a line on standard error, in place of any progress that stands there.
void say(const std::string& line);

/// While it lives and more than a second has passed, says on standard error what is being done, for how long,
/// and how far it has come. Says nothing when standard error is no terminal, or if it is to be silent.
class Progress {
 public:
  Progress(const std::string& doing, bool silent);
  ~Progress();

  /// How far it has come, in a few words.
  void note(std::string words);

  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  Progress(Progress&&) = delete;
  Progress& operator=(Progress&&) = delete;

 private:
  void tell(const std::stop_token& stop);
  [[nodiscard]] std::string line(int seconds) const;

  std::string doing_;
  std::mutex mutex_;
  std::string words_;
  std::condition_variable_any changed_;
  std::jthread teller_;  // last: it uses the others
};

}  // namespace stweaver
