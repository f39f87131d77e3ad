#include "cli/interrupt.h"

#include <ctime>
#include <pthread.h>

namespace stweaver {

Interrupt::Interrupt() {
  sigemptyset(&signals_);
  sigaddset(&signals_, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals_, &before_);
  watcher_ = std::jthread([this](const std::stop_token& over) { watch(over); });
}

Interrupt::~Interrupt() {
  watcher_.request_stop();
  watcher_.join();
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

void Interrupt::watch(const std::stop_token& over) {
  constexpr timespec kMoment = {.tv_sec = 0, .tv_nsec = 20'000'000};
  while (!over.stop_requested()) {
    if (sigtimedwait(&signals_, nullptr, &kMoment) != SIGINT) continue;
    requested_.request_stop();
    // From now on this thread does not hold it back any more, and is there to take it.
    pthread_sigmask(SIG_UNBLOCK, &signals_, nullptr);
    while (!over.stop_requested()) nanosleep(&kMoment, nullptr);
  }
}

}  // namespace stweaver
