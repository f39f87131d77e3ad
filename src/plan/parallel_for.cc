#include "plan/parallel_for.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace stweaver {

void parallel_for(std::size_t count, int threads, const std::function<void(std::size_t)>& work) {
  std::atomic<std::size_t> next = 0;
  std::exception_ptr failure;
  std::mutex mutex;
  const auto loop = [&] {
    try {
      for (std::size_t i = next++; i < count; i = next++) work(i);
    } catch (...) {
      const std::scoped_lock lock(mutex);
      failure = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> helpers;
    const auto start_one = [&] {
      try {
        helpers.emplace_back(loop);
        return true;
      } catch (const std::system_error&) {
        return false;  // those that there are do it all
      }
    };
    const std::size_t most = std::min(count, static_cast<std::size_t>(threads));
    while (helpers.size() + 1 < most && start_one()) continue;
    loop();
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace stweaver
