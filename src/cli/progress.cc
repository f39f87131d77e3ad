#include "cli/progress.h"

#include <chrono>
#include <csignal>
#include <cstdio>
#include <pthread.h>
#include <unistd.h>
#include <utility>

#include "report/report.h"

namespace stweaver {

Progress::Progress(const std::string& doing, bool silent) : doing_(printable(doing)) {
  if (!silent && isatty(STDERR_FILENO) == 1)
    teller_ = std::jthread([this](const std::stop_token& stop) { tell(stop); });
}

Progress::~Progress() = default;

void Progress::note(std::string words) {
  const std::scoped_lock lock(mutex_);
  words_ = std::move(words);
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
    std::fprintf(stderr, "\r\033[K%s ... %d s%s", doing_.c_str(), seconds, words_.c_str());
    said = true;
  }
  if (said) std::fprintf(stderr, "\r\033[K");
}

}  // namespace stweaver
