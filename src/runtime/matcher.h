// Which slot of the plan a request stands for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/free_space.h"
#include "runtime/plan_index.h"

namespace stweaver {

/// Follows each stream's slots in order. A request takes its stream's next slot if it is like it (Likeness).
/// If not, the matcher finds out where the job has got to:
/// - the last kAnchor sizes may occur in the plan: that is where it is;
/// - a slot a little ahead is like the request: what lies between was left out. That is believed when the
/// next
///   request agrees, so a request that is merely on top leads nobody astray;
/// - otherwise the request is not in the plan, and the next slot stays the next.
/// At the end of the step it begins again, and so it does at each step boundary, wherever it was; if the next
/// request contradicts that, it goes on where it was.
class Matcher {
 public:
  explicit Matcher(std::shared_ptr<const PlanIndex> index);

  /// The slot of a request that `lane` makes on `stream`; nothing when the plan has none.
  std::optional<std::uint32_t> match(LaneId lane, Stream stream, Bytes size, Pool pool);

  /// A step begins.
  void begin_step();

  [[nodiscard]] const PlanIndex& index() const { return *index_; }

 private:
  static constexpr std::size_t kNowhere = ~std::size_t{0};

  /// How far one stream of the plan has been followed.
  struct Cursor {
    std::size_t next = 0;              ///< entry
    std::size_t otherwise = kNowhere;  ///< the next entry if a guess was right
    SizeTrail trail;
    LaneId lane = kNobody;     ///< whose requests it follows
    std::int64_t matched = 0;  ///< in this step
    std::int64_t lost = 0;     ///< in this step
  };

  struct Wish {
    Bytes size = 0;
    Pool pool = 0;
  };

  std::optional<std::size_t> stream_of(LaneId lane, Stream stream, const Wish& wish);
  [[nodiscard]] std::optional<std::size_t> find_stream(Stream stream, const Wish& wish) const;
  [[nodiscard]] bool alike(const Entry& entry, const Wish& wish) const;
  [[nodiscard]] static bool plausible(const Entry& entry, const Wish& wish);
  [[nodiscard]] bool may_be(const PlannedStream& stream, std::size_t entry, const Wish& wish) const;
  std::size_t find_entry(const PlannedStream& stream, Cursor& cursor, const Wish& wish) const;
  [[nodiscard]] std::size_t find_size(const PlannedStream& stream, std::size_t from, std::size_t reach,
                                      const Wish& wish) const;
  [[nodiscard]] std::size_t find_end_of_row(const PlannedStream& stream, std::size_t from, std::size_t reach,
                                            const Wish& wish) const;
  [[nodiscard]] static std::size_t find_loose(const PlannedStream& stream, std::size_t from,
                                              std::size_t reach, const Wish& wish);
  [[nodiscard]] std::size_t find_anchor(const PlannedStream& stream, const Cursor& cursor,
                                        const Wish& wish) const;

  std::shared_ptr<const PlanIndex> index_;
  std::vector<Cursor> cursors_;              ///< by stream of the plan
  std::vector<std::size_t> stream_of_lane_;  ///< kNowhere where the lane has none
  std::size_t steps_begun_ = 0;
};

}  // namespace stweaver
