// Which bytes of device memory hold what a GPU would hold.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <shared_mutex>

namespace nullcuda {

/// A set of addresses, kept as ranges. Any thread may call it.
class KnownBytes {
 public:
  void add(std::uint64_t begin, std::uint64_t size);
  void remove(std::uint64_t begin, std::uint64_t size);
  /// Whether all of the bytes are in the set.
  [[nodiscard]] bool holds(std::uint64_t begin, std::uint64_t size) const;
  [[nodiscard]] bool empty() const { return count_.load(std::memory_order_relaxed) == 0; }

 private:
  void cut(std::uint64_t begin, std::uint64_t end);

  mutable std::shared_mutex mutex_;
  std::map<std::uint64_t, std::uint64_t> ranges_;  ///< begin to end; they neither overlap nor touch
  std::atomic<std::size_t> count_ = 0;             ///< of ranges
};

}  // namespace nullcuda
