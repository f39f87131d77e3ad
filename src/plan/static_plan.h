// The Static Allocation Plan: an offset for every request that can be known in advance.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "trace/model.h"

namespace stweaver {

inline constexpr Bytes kUnplanned = -1;

/// How alike the steps are that a plan was made from. The run time follows no plan where they are kDynamic.
enum class StepShape : std::uint8_t {
  kFixed,    ///< steps do not differ: steps_differ() of profile/pattern.h
  kVarying,  ///< sizes follow lengths, which foretell them: profile/scale.h
  kDynamic,  ///< they differ otherwise (experts)
};

std::string_view name_of(StepShape shape);

/// The place of one request of the job.
///
/// Slots are numbered as the job makes its requests: first those of the prologue, then those of the step that
/// repeats for ever. Their lifespans count in these numbers: a slot is born at its own number, and its death
/// is the number of the first slot that may take its place; beyond the last slot it lies that far in the next
/// step. In plans of kVarying, what lives for ever lies below all else: longer steps need more above.
struct Slot {
  Bytes size = 0;             ///< bytes it serves at most, a multiple of the alignment
  Bytes offset = kUnplanned;  ///< into the arena; kUnplanned: the run time places it
  Stream stream = 0;
  Time death = 0;        ///< kForever for persistent requests
  bool varying = false;  ///< the size is the largest of several; serves smaller requests of its position too
  std::uint8_t length = 0;  ///< of the step's lengths, the one that the size follows, numbered from 0
  /// The size grows with this power of that length, 1 or 2; 0 where with none, or that is not known.
  std::uint8_t power = 0;
  Bytes tile = 0;  ///< and is rounded up to multiples of this; 0 where it is not
};

/// Gaps among blocks of one process that outlive the plan, by offset in what the process calls its arena:
/// disjoint.
using Gaps = std::vector<Interval>;

/// A slot that lies beside the arena, in one of these.
struct GapPlace {
  std::uint32_t slot = 0;
  Interval place;
};

/// `count` requests from `request` on stand in the slots from `slot` on.
struct Run {
  RequestId request = 0;
  std::uint32_t slot = 0;
  std::uint32_t count = 0;
};

struct Plan {
  std::string source;             ///< name of the trace it was made from
  std::uint64_t fingerprint = 0;  ///< of that trace
  Bytes alignment = kAlignment;
  Bytes arena = 0;        ///< bytes that the plan needs in all
  Bytes lower_bound = 0;  ///< no plan for these lifespans and this stream gap can need less
  /// Decided once, by synthesize().
  StepShape shape = StepShape::kFixed;
  /// Slots of different streams share bytes only if so many requests lie between the one's death and the
  /// other's birth; the run time puts an event wait between them.
  Time stream_gap = 0;
  std::string winner;              ///< the constructor that found it
  std::size_t prologue = 0;        ///< slots before the step
  std::size_t prologue_steps = 0;  ///< of the job's steps, those that begin within the prologue
  std::size_t steps = 1;  ///< of the job's steps, those in what repeats: 2 where requests outlive their own
  std::vector<Slot> slots;
  std::vector<Run> runs;  ///< which recorded requests the slots stand for, ascending
  /// Places of slots that have none in the arena, in the order of slots: good in one process, so that no file
  /// has them.
  std::vector<GapPlace> in_gaps;
};

/// How many slots have a place.
std::size_t planned_slots(const Plan& plan);
/// The arena, and what slots take of gaps.
Bytes planned_bytes(const Plan& plan);
/// Whether it takes more than its bound, with `beside` that is idle beside it, by more than twice the slack,
/// or the slack and what the job held in `excess` of its budget without one. A job without a plan holds the
/// slack more than it uses, and hardly a job needs all of a plan's arena; one that takes more was not
/// searched for long, or not for what lives where it is followed.
bool takes_too_much(const Plan& plan, Bytes slack, Bytes beside = 0, Bytes excess = 0);

/// Slots that live at one time.
struct LivingSlots {
  std::int64_t count = 0;
  Bytes bytes = 0;
};
/// What lives when each request comes, itself included: those of the prologue, and twice those of what
/// repeats, since lives reach into the next step.
std::vector<LivingSlots> living_at_births(const Plan& plan);

/// A number that two traces share only if they hold the same requests at the same times.
std::uint64_t fingerprint_of(const Trace& trace);

}  // namespace stweaver
