// Work in pieces, on several threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace stweaver {

/// Calls `work()` on so many threads, this one among them, or on fewer where the system has no more; returns
/// when all are done. `work` must not throw.
inline void on_threads(std::size_t threads, const std::function<void()>& work) {
  std::vector<std::jthread> helpers;
  const auto start_one = [&] {
    try {
      helpers.emplace_back(work);
      return true;
    } catch (const std::system_error&) {
      return false;  // those that there are do it all
    }
  };
  while (helpers.size() + 1 < threads && start_one()) continue;
  work();
}

/// What went wrong in one of many pieces of work: of several the first, so that it is the same on any number
/// of threads.
class FirstFailure {
 public:
  /// Of piece `i`, to be called where the exception is caught.
  void note(std::size_t i) {
    const std::scoped_lock lock(mutex_);
    if (i >= piece_) return;
    piece_ = i;
    failure_ = std::current_exception();
  }
  [[nodiscard]] bool any() const { return failure_ != nullptr; }  ///< once the threads are done
  void rethrow() const {
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  std::mutex mutex_;
  std::exception_ptr failure_;
  std::size_t piece_ = ~std::size_t{0};
};

/// Calls `work(i)` for i in [0, count) on so many threads. What the first of the calls that throw throws is
/// thrown here, once all are done.
inline void parallel_for(std::size_t count, int threads, const std::function<void(std::size_t)>& work) {
  std::atomic<std::size_t> next = 0;
  FirstFailure failure;
  on_threads(std::min(count, static_cast<std::size_t>(threads)), [&] {
    for (std::size_t i = next++; i < count; i = next++) {
      try {
        work(i);
      } catch (...) {
        failure.note(i);
      }
    }
  });
  failure.rethrow();
}

}  // namespace stweaver
