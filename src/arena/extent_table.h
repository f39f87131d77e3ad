// The extents of an arena, in order of address.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <vector>

#include "arena/free_space.h"
#include "base/base.h"

namespace stweaver {

/// Memory that one call mapped, and one call unmaps. All but the range is kept in the region of large
/// requests alone, where most of the memory is. Elsewhere the gaps tell, though late: they grow together, and
/// count as freed when the last of them was.
struct Extent {
  Interval range;
  Bytes used = 0;
  LastUse last = {};
  bool has_several_uses = false;  ///< of different streams: its gaps tell which
};

/// In place of the number of an extent: none.
inline constexpr std::size_t kNoExtent = std::numeric_limits<std::size_t>::max();

/// Extents that do not overlap. Searches read nothing but where they begin and end, eight to a cache line:
/// there are thousands, and a request asks for many.
class ExtentTable {
 public:
  [[nodiscard]] std::size_t size() const { return extents_.size(); }
  [[nodiscard]] bool empty() const { return extents_.empty(); }
  Extent& operator[](std::size_t number) { return extents_[number]; }
  const Extent& operator[](std::size_t number) const { return extents_[number]; }
  [[nodiscard]] auto begin() const { return extents_.begin(); }
  [[nodiscard]] auto end() const { return extents_.end(); }

  /// Where an extent begins, if that is not above `most`; 0 where it is, or where there is none.
  [[nodiscard]] Bytes begin_of(std::size_t number, Bytes most) const {
    return number < begins_.size() && begins_[number] <= most ? begins_[number] : 0;
  }

  [[nodiscard]] Bytes end_of(std::size_t number) const { return ends_[number]; }

  /// The number of the first extent that begins above `offset`; `from` is no higher, and the nearer the
  /// faster.
  [[nodiscard]] std::size_t first_above(Bytes offset, std::size_t from = 0) const {
    std::size_t reach = 1;
    while (from + reach < begins_.size() && begins_[from + reach] <= offset) {
      from += reach;
      reach *= 2;
    }
    const auto at = [&](std::size_t number) { return begins_.begin() + static_cast<std::ptrdiff_t>(number); };
    const auto found = std::upper_bound(at(from), at(std::min(from + reach, begins_.size())), offset);
    return static_cast<std::size_t>(found - begins_.begin());
  }

  /// Calls visit(number) for each that overlaps the range, by offset, until it returns false. `from`: 0, or
  /// what it became with a range that begins no higher; the nearer the faster.
  template <typename Visit>
  void visit(const Interval& range, Visit visit, std::size_t& from) const {
    from = first_above(range.lower, from);
    if (from > 0 && ends_[from - 1] > range.lower) --from;
    for (std::size_t i = from; i < begins_.size() && begins_[i] < range.upper; ++i)
      if (!visit(i)) return;
  }
  template <typename Visit>
  void visit(const Interval& range, Visit visit_one) const {
    std::size_t from = 0;
    visit(range, visit_one, from);
  }

  void insert(const Interval& range) {
    const auto number = static_cast<std::ptrdiff_t>(first_above(range.lower));
    begins_.insert(begins_.begin() + number, range.lower);
    ends_.insert(ends_.begin() + number, range.upper);
    extents_.insert(extents_.begin() + number, Extent{.range = range});
  }

  /// Removes the extents whose range was made empty.
  void erase_empty() {
    std::erase_if(extents_, [](const Extent& extent) { return extent.range.empty(); });
    begins_.clear();
    ends_.clear();
    for (const Extent& extent : extents_) {
      begins_.push_back(extent.range.lower);
      ends_.push_back(extent.range.upper);
    }
  }

 private:
  std::vector<Bytes> begins_;
  std::vector<Bytes> ends_;
  std::vector<Extent> extents_;
};

}  // namespace stweaver
