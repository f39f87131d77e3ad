// Which slot of the plan a request stands for.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/free_space.h"
#include "runtime/plan_index.h"

namespace stweaver {

/// What the matcher makes of a request.
struct Match {
  std::uint32_t slot = 0;
  /// The request looks like the one of that slot, but the one before it does not fit in: it may as well be
  /// one that the plan does not know.
  bool guess = false;
};

/// Follows each stream's slots in order. A request takes its stream's next slot if that is of its size, or of
/// a size that varies. If it is not, there are several ways to read that: the request is not in the plan; it
/// is the next one, of another size; what lies before a slot of its size was left out; the last kAnchor sizes
/// occur elsewhere in the plan; a step begins. Each is a cursor of its own. They advance together as long as
/// they agree with what comes, and one by one they drop out.
///
/// At the end of the step the matcher begins it again, and so it does at each step boundary, wherever it was;
/// if what comes contradicts that, it goes on where it was.
class Matcher {
 public:
  explicit Matcher(std::shared_ptr<const PlanIndex> index);

  /// The slot of a request that `lane` makes on `stream`; nothing when the plan has none.
  std::optional<Match> match(LaneId lane, Stream stream, Bytes size, Pool pool);

  /// Whether the lane's last requests were nothing like the plan: it does something else for now.
  [[nodiscard]] bool is_astray(LaneId lane) const;

  /// A step begins.
  void begin_step();

  [[nodiscard]] const PlanIndex& index() const { return *index_; }

 private:
  static constexpr std::size_t kNowhere = ~std::size_t{0};

  struct Wish {
    Bytes size = 0;
    Pool pool = 0;
    double share = 1;  ///< of their slots that the requests before it needed
  };

  /// Where the job may have got to: entries that may come next, the most likely first.
  class Cursors {
   public:
    explicit Cursors(std::size_t first) { set(first); }
    [[nodiscard]] std::size_t front() const { return entries_[0]; }
    [[nodiscard]] const std::size_t* begin() const { return entries_.data(); }
    [[nodiscard]] const std::size_t* end() const { return entries_.data() + count_; }
    [[nodiscard]] std::size_t size() const { return count_; }
    void set(std::size_t entry);
    /// Nothing happens if it is one of them; the least likely makes room.
    void add(std::size_t entry);

   private:
    std::array<std::size_t, 4> entries_ = {};
    std::size_t count_ = 0;
  };

  /// How far one stream of the plan has been followed.
  struct Follower {
    explicit Follower(std::size_t first) : cursors(first) {}
    Cursors cursors;
    SizeTrail trail;
    double share = 1;          ///< of its slot that the last large request needed
    std::size_t astray = 0;    ///< requests since the last one that was matched for sure
    LaneId lane = kNobody;     ///< whose requests it follows
    std::int64_t matched = 0;  ///< in this step
    std::int64_t lost = 0;     ///< in this step
  };

  enum class Agreement : std::uint8_t { kNone, kMayBe, kSize };

  struct Found {
    std::size_t entry = kNowhere;
    bool guess = false;
  };

  std::optional<std::size_t> stream_of(LaneId lane, Stream stream, const Wish& wish);
  [[nodiscard]] std::optional<std::size_t> find_stream(Stream stream, const Wish& wish) const;

  [[nodiscard]] bool alike(const Entry& entry, const Wish& wish) const;
  [[nodiscard]] Agreement agreement(const PlannedStream& stream, std::size_t entry, const Wish& wish) const;
  Found follow(const PlannedStream& stream, Follower& follower, const Wish& wish) const;
  std::size_t follow_cursors(const PlannedStream& stream, Cursors& cursors, const Wish& wish) const;
  Found look_around(const PlannedStream& stream, Cursors& cursors, const Wish& wish) const;
  [[nodiscard]] std::size_t find_size(const PlannedStream& stream, std::size_t from, std::size_t reach,
                                      const Wish& wish) const;
  [[nodiscard]] static bool in_proportion(const Entry& entry, const Wish& wish);
  [[nodiscard]] static std::size_t find_loose(const PlannedStream& stream, std::size_t from,
                                              const Wish& wish);
  [[nodiscard]] std::size_t find_end_of_row(const PlannedStream& stream, std::size_t from, std::size_t reach,
                                            const Wish& wish) const;
  [[nodiscard]] std::size_t find_anchor(const PlannedStream& stream, const Follower& follower,
                                        const Wish& wish) const;

  std::shared_ptr<const PlanIndex> index_;
  std::vector<Follower> followers_;          ///< by stream of the plan
  std::vector<std::size_t> stream_of_lane_;  ///< kNowhere where the lane has none
  std::size_t steps_begun_ = 0;
};

}  // namespace stweaver
