// Work in pieces, on several threads.
#pragma once

#include <cstddef>
#include <functional>

namespace stweaver {

/// Calls `work(i)` for i in [0, count) on `threads` threads, or on fewer where the system has no more. What a
/// call throws is thrown here, once all threads are done.
void parallel_for(std::size_t count, int threads, const std::function<void(std::size_t)>& work);

}  // namespace stweaver
