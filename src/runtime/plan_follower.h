// A plan as the adviser of an allocator: where it would put a request.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "arena/memory.h"
#include "runtime/layout.h"
#include "runtime/matcher.h"
#include "runtime/plan_index.h"

namespace stweaver {

/// A request as the parts of the allocator hand it on.
struct AllocParams {
  Bytes size = 0;     ///< as asked for
  Bytes rounded = 0;  ///< that rounded up to the alignment
  StreamIndex stream = kNoStream;
  Stream handle = 0;  ///< of the stream
  Pool pool = 0;
  Bytes alive = 0;  ///< asked for by all blocks that live
};

/// Why a request was served by no plan.
enum class Unplanned : std::uint8_t {
  kNoPlan,    ///< there is none to follow
  kPool,      ///< it belongs to a CUDA graph or a MemPool
  kUnknown,   ///< no slot is like it
  kDynamic,   ///< its slot has no place: sizes there move on their own
  kTooLarge,  ///< larger than its slot, which stays as it is, or than all of the plan
  kOccupied,  ///< another block is in its slot, or another stream cannot be waited for
};
inline constexpr std::size_t kUnplannedReasons = 6;

/// What a plan says of a request.
struct Advice {
  std::optional<Interval> place = {};   ///< in the arena: its slot
  bool hands_over = false;              ///< another stream is going to use that place
  Unplanned why = Unplanned::kUnknown;  ///< where there is no place
  Time life = 0;                        ///< for how many requests it is thought to live; kForever for ever
};

/// Follows one plan, whose range begins at `base` in the arena. Holds no memory and maps none: what it says
/// is advice, and the allocator sees to it that the place is idle.
///
/// Where steps have lengths (StepShape::kVarying), the slots of a plan are as large as the longest step that
/// was recorded needs them. When a longer one comes, its first request shows by how much, and all slots of
/// varying size are raised by that share, for good: so a longer step moves the range's upper end, and the
/// places in it by a little. A saved plan may be of longer steps than this run is going to have. What its
/// slots leave idle cannot move, so they can be laid out for the longest step of this run (fit_lengths()).
class PlanFollower {
 public:
  /// No place ends above `end`. `policy` must outlive this.
  PlanFollower(std::shared_ptr<const PlanIndex> index, Bytes base, const Policy& policy,
               Bytes end = std::numeric_limits<Bytes>::max())
      : matcher_(std::move(index), policy),
        policy_(&policy),
        base_(base),
        end_(end),
        shares_(this->index().lengths(), 1),
        longest_(this->index().lengths(), 0) {}

  Advice advise(const AllocParams& asked);
  void forget(StreamIndex stream, Bytes size) { matcher_.forget(stream, size); }

  void begin_step() { matcher_.begin_step(); }

  [[nodiscard]] Interval range() const { return {base_, std::min(base_ + layout().arena(), end_)}; }
  [[nodiscard]] const Plan& plan() const { return matcher_.index().plan(); }
  [[nodiscard]] const PlanIndex& index() const { return matcher_.index(); }
  [[nodiscard]] bool has_several_streams() const { return index().streams().size() > 1; }
  /// Whether the stream's last requests were nothing like the plan.
  [[nodiscard]] bool is_astray(StreamIndex stream) const { return matcher_.is_astray(stream); }
  [[nodiscard]] bool knows(StreamIndex stream) const { return matcher_.knows(stream); }
  /// Of a plan that no step of this process was seen to be as, a stream takes places only while the plan
  /// knows its requests: it may be another job's.
  [[nodiscard]] bool is_believed(StreamIndex stream) const { return is_proven_ || knows(stream); }
  /// A step was as planned.
  void prove() { is_proven_ = true; }
  /// Between two steps: lays slots out for the longest step of this run so far, if they are larger and a step
  /// was as planned. Whether they were.
  bool fit_lengths();
  [[nodiscard]] bool is_proven() const { return is_proven_; }
  /// Whether each step uses all of the range.
  [[nodiscard]] bool uses_all() const { return is_proven_ && plan().shape == StepShape::kFixed; }

  /// Where in the arena the plan is going to use its range during the next `life` requests: ordered, no two
  /// touching. Good until the next call. What lies beside is the Dynamic Reusable Space.
  const std::vector<Interval>& used_within(Time life);

 private:
  [[nodiscard]] Time life_of(std::size_t number) const;
  [[nodiscard]] const Layout& layout() const { return raised_ ? *raised_ : index().layout(); }
  void note_length(std::size_t slot, double share);

  Matcher matcher_;
  const Policy* policy_;
  Bytes base_;
  Bytes end_;
  bool is_proven_ = false;
  std::size_t slot_ = 0;          ///< matched last
  std::optional<Layout> raised_;  ///< for longer steps than were recorded, or shorter ones
  // By length:
  std::vector<double> shares_;   ///< that the slots of varying size have of their own sizes
  std::vector<double> longest_;  ///< share that a step so far has needed; 0 before one showed it
  std::vector<Interval> used_;
};

}  // namespace stweaver
