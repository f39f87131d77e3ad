#include "cli/progress.h"

#include <chrono>
#include <csignal>
#include <cstdio>
#include <pthread.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <utility>

#include "report/report.h"

namespace stweaver {

namespace {

constexpr const char* kWipe = "\r\033[K";

bool is_terminal() {
  return isatty(STDERR_FILENO) == 1;
}

/// Characters of a row; more than any line has where that is not known.
std::size_t columns() {
  winsize size{};
  const bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : std::string::npos;
}

}  // namespace

void say(const std::string& line) {
  std::fprintf(stderr, "%sstweaver: %s\n", is_terminal() ? kWipe : "", printable(line).c_str());
}

Progress::Progress(const std::string& doing, bool silent) : doing_(printable(doing)) {
  if (!silent && is_terminal()) teller_ = std::jthread([this](const std::stop_token& stop) { tell(stop); });
}

Progress::~Progress() = default;

void Progress::note(std::string words) {
  const std::scoped_lock lock(mutex_);
  words_ = std::move(words);
}

/// In one row: what wraps could not be wiped any more. The last column stays free for the cursor.
std::string Progress::line(int seconds) const {
  const std::string far = text(" ... ", seconds, " s", words_);
  const std::size_t room = columns() - 1;
  return room <= far.size() ? first_columns(far, room) : first_columns(doing_, room - far.size()) + far;
}

void Progress::tell(const std::stop_token& stop) {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);  // signals are for who works
  bool said = false;
  std::unique_lock lock(mutex_);
  for (int seconds = 1;; ++seconds) {
    changed_.wait_for(lock, stop, std::chrono::seconds(1), [] { return false; });
    if (stop.stop_requested()) break;
    std::fprintf(stderr, "%s%s", kWipe, line(seconds).c_str());
    said = true;
  }
  if (said) std::fprintf(stderr, "%s", kWipe);
}

}  // namespace stweaver
