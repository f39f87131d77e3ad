// The pattern: the one step that repeats, as an envelope of all steps that were recorded.
//
// A *position* is a request's place in the order of its step. Steps that are alike but not equal are aligned
// by a diff of their request sequences; the pattern holds every position that any step used, with the largest
// size and the latest death seen there, so that a slot planned for a position serves every request that comes
// to it.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "profile/classes.h"

namespace stweaver {

enum class PositionKind : std::uint8_t {
  kStatic,   ///< in every step, of one size and one lifespan
  kVarying,  ///< sizes or lifespans differ, but sizes move together with their neighbours' (sequence lengths)
  kDynamic,  ///< sizes move on their own (experts of a MoE layer)
};

struct Position {
  Bytes size = 0;      ///< the largest seen
  Bytes smallest = 0;  ///< the smallest seen
  Stream stream = 0;
  Pool pool = 0;
  /// In positions: the first one that may take its memory. Larger than the number of positions when that lies
  /// in the next step; kForever when it outlives that too.
  Time death = 0;
  PositionKind kind = PositionKind::kStatic;
  // What fit_to_longest() of profile/scale.h tells.
  bool is_foretold = false;  ///< a length of the step tells its size
  std::uint8_t length = 0;   ///< which of them: Pattern::lengths
  std::uint8_t power = 0;    ///< which grows with this power of it, 1 or 2; 0 where with neither
  Bytes tile = 0;            ///< and is rounded up to multiples of this; 0 where it is not
};

inline constexpr std::uint32_t kNoPosition = std::numeric_limits<std::uint32_t>::max();

/// One recorded step and where its requests stand in the pattern.
struct AlignedStep {
  RequestId first = 0;                     ///< its first request
  std::vector<std::uint32_t> position_of;  ///< of each of its requests, ascending; kNoPosition for none
};

struct Pattern {
  RequestId prologue = 0;           ///< requests before the first aligned step
  std::vector<Position> positions;  ///< in order
  std::vector<AlignedStep> steps;   ///< consecutive steps, in order
  std::size_t left_out = 0;         ///< steps behind them, the first of which could not be aligned
  /// The step before the first aligned one (it belongs to the prologue) where it could be aligned too: what
  /// it leaves alive has the places in which every step leaves its tensors. Empty when there is none.
  AlignedStep before;
  /// Of each length that sizes follow, by step: its share of the longest seen. fit_to_longest() finds them.
  std::vector<std::vector<double>> lengths;
};

/// Aligns the steps. The first ones, in which persistent requests are still being born, belong to the
/// prologue, and so does everything when there are no steps. From the first step on that cannot be aligned
/// the rest is left out.
Pattern find_pattern(const Trace& trace, const Steps& steps, const std::vector<LifeClass>& classes);

/// The same as a pattern of two steps, taken by recorded steps in turn: so a request may outlive its own step
/// and meet itself in the next.
Pattern two_steps_of(const Pattern& pattern);

/// How many of the aligned steps have each position.
std::vector<std::size_t> steps_with_each(const Pattern& pattern);

/// Whether steps differ: positions whose sizes do, or that some steps lack, hold more than a 600th of a
/// step's bytes. Lifespans that differ, as those of blocks do that other streams still use, do not count.
/// Where only one step was aligned: a hundredth of its requests, and more than one, have sizes that nothing
/// before had.
bool steps_differ(const Trace& trace, const Pattern& pattern);

/// Whether the last aligned step has positions that none before had: then the next may have others yet.
bool last_step_is_new(const Pattern& pattern);

}  // namespace stweaver
