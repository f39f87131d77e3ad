// What a search has tried in vain.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace stweaver::exact {

inline std::uint64_t hash_of(std::uint64_t x) {  // the finalizer of SplitMix64 (Steele et al. 2014)
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27U)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31U);
}
/// The states that failed, as many as there is room for.
class Nogoods {
 public:
  [[nodiscard]] bool contain(std::uint64_t key) const {
    const auto set = keys_.begin() + static_cast<std::ptrdiff_t>(first_of(key));
    return std::find(set, set + kWays, key) != set + kWays;
  }

  void add(std::uint64_t key) {
    if (used_ > keys_.size() / 2 && keys_.size() < kMost) grow();
    const std::size_t first = first_of(key);
    std::size_t place = first;
    while (place < first + kWays && keys_[place] != 0) ++place;
    if (place < first + kWays) {
      ++used_;
    } else {
      place = first + (key >> 60U) % kWays;
    }
    keys_[place] = key;
  }

 private:
  static constexpr std::size_t kWays = 4;
  static constexpr std::size_t kMost = std::size_t{1} << 20U;

  [[nodiscard]] std::size_t first_of(std::uint64_t key) const {
    return key & (keys_.size() - 1) & ~(kWays - 1);
  }

  void grow() {
    const std::vector<std::uint64_t> before =
        std::exchange(keys_, std::vector<std::uint64_t>(4 * keys_.size()));
    used_ = 0;
    for (const std::uint64_t key : before) {
      if (key != 0) add(key);
    }
  }

  std::vector<std::uint64_t> keys_ = std::vector<std::uint64_t>(std::size_t{1} << 10U);  ///< 0: free
  std::size_t used_ = 0;
};
}  // namespace stweaver::exact
