#include "cli/progress.h"

#include <chrono>
#include <cstdio>
#include <unistd.h>

#include "report/report.h"

namespace stweaver {

Progress::Progress(const std::string& doing) : doing_(printable(doing)) {
  if (isatty(STDERR_FILENO) == 1) teller_ = std::jthread([this](const std::stop_token& stop) { tell(stop); });
}

Progress::~Progress() = default;

void Progress::tell(const std::stop_token& stop) {
  bool said = false;
  std::unique_lock lock(mutex_);
  for (int seconds = 1;; ++seconds) {
    changed_.wait_for(lock, stop, std::chrono::seconds(1), [] { return false; });
    if (stop.stop_requested()) break;
    std::fprintf(stderr, "\r%s ... %d s", doing_.c_str(), seconds);
    said = true;
  }
  if (said) std::fprintf(stderr, "\r\033[K");
}

}  // namespace stweaver
