#include "model/known.h"

#include <algorithm>
#include <mutex>

namespace nullcuda {

void KnownBytes::add(std::uint64_t begin, std::uint64_t size) {
  if (size == 0) return;
  std::uint64_t end = begin + size;
  const std::unique_lock lock(mutex_);
  auto next = ranges_.upper_bound(begin);
  if (next != ranges_.begin() && std::prev(next)->second >= begin) {
    --next;
    begin = next->first;
  }
  while (next != ranges_.end() && next->first <= end) {
    end = std::max(end, next->second);
    next = ranges_.erase(next);
  }
  ranges_.emplace(begin, end);
  count_.store(ranges_.size(), std::memory_order_relaxed);
}

void KnownBytes::remove(std::uint64_t begin, std::uint64_t size) {
  if (size == 0 || empty()) return;
  const std::unique_lock lock(mutex_);
  cut(begin, begin + size);
  count_.store(ranges_.size(), std::memory_order_relaxed);
}

void KnownBytes::cut(std::uint64_t begin, std::uint64_t end) {
  auto range = ranges_.upper_bound(begin);
  if (range != ranges_.begin() && std::prev(range)->second > begin) --range;
  while (range != ranges_.end() && range->first < end) {
    const auto [first, last] = *range;
    range = ranges_.erase(range);
    if (first < begin) ranges_.emplace(first, begin);
    if (last > end) ranges_.emplace(end, last);
  }
}

bool KnownBytes::holds(std::uint64_t begin, std::uint64_t size) const {
  if (size == 0) return true;
  if (empty()) return false;
  const std::shared_lock lock(mutex_);
  const auto next = ranges_.upper_bound(begin);
  return next != ranges_.begin() && std::prev(next)->second >= begin + size;
}

}  // namespace nullcuda
