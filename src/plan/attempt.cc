#include "plan/attempt.h"

#include <algorithm>
#include <optional>

namespace stweaver::exact {
namespace {

/// Deeper than this a search is given up: each level is a call on the stack.
constexpr int kDeepest = 8000;

}  // namespace

Attempt::Attempt(const Board& board, const Strategy& strategy, Nogoods& nogoods, std::int64_t nodes,
                 const Budget& budget)
    : board_(board),
      state_(board, strategy.order),
      branching_(board, state_, strategy.by_failures),
      nogoods_(nogoods),
      limit_(nodes),
      budget_(budget) {}

Verdict Attempt::run() {
  if (!state_.begin()) return Verdict::kImpossible;
  if (settle(0, state_.sections())) return Verdict::kFound;
  return gave_up_ ? Verdict::kUndecided : Verdict::kImpossible;
}

/// Places whatever waits in [first, end). Parts that nobody bridges are settled on their own, the small ones
/// first: they fail sooner.
bool Attempt::settle(std::size_t first, std::size_t end) {
  if (state_.has_pairs()) return settle_connected(first, end);  // twins connect what no piece bridges
  struct Part {
    int waiting = 0;
    std::size_t first = 0, end = 0;
  };
  std::vector<Part> parts;
  for (std::size_t s = first; s < end; ++s) {
    if (state_.waiting_in(s) == 0) continue;
    Part part{state_.waiting_in(s), s, s};
    while (state_.is_bridged(s)) part.waiting += state_.waiting_in(++s);
    part.end = s + 1;
    parts.insert(std::ranges::upper_bound(parts, part.waiting, {}, &Part::waiting), part);
  }
  return std::all_of(parts.begin(), parts.end(),
                     [&](const Part& part) { return settle_connected(part.first, part.end); });
}

/// Settles one part, in which items connect all sections: one node of the search.
bool Attempt::settle_connected(std::size_t first, std::size_t end) {
  if (is_spent()) return false;
  ++nodes_;
  const std::uint64_t key = state_.key(first, end);
  if (nogoods_.contain(key)) return false;
  ++depth_;
  const std::optional<Branch> branch = branching_.choose(first, end);
  const bool done = branch && follow(*branch, first, end);
  --depth_;
  if (!done && !gave_up_) nogoods_.add(key);
  return done;
}

bool Attempt::follow(const Branch& branch, std::size_t first, std::size_t end) {
  if (branch.settled) return try_on_floor(*branch.settled, first, end);
  if (try_each_on_floor(branch.section, first, end)) return true;
  if (gave_up_ || branch.raised == kNever) return false;
  const std::size_t mark = state_.mark();
  if (state_.lift(branch.section, branch.raised) && settle(first, end)) return true;
  state_.undo(mark);
  return false;
}

bool Attempt::try_each_on_floor(std::size_t section, std::size_t first, std::size_t end) {
  const std::size_t begin = candidates_.size();
  state_.each_waiting_in(section, [&](Rank u) {
    if (state_.low(u) == state_.floor(section)) candidates_.push_back(u);
    return true;
  });
  const std::size_t behind = candidates_.size();
  const auto was_tried = [&](std::size_t i) {  // its equal was
    return std::any_of(&candidates_[begin], &candidates_[i],
                       [&](Rank v) { return are_alike(candidates_[i], v); });
  };
  bool done = false;
  for (std::size_t i = begin; i < behind && !done && !gave_up_; ++i)
    done = !was_tried(i) && try_on_floor(candidates_[i], first, end);
  candidates_.resize(begin);
  return done;
}

bool Attempt::try_on_floor(Rank u, std::size_t first, std::size_t end) {
  const std::size_t mark = state_.mark();
  if (state_.place(u) && settle(first, end)) return true;
  state_.undo(mark);
  return false;
}

/// Whether two pieces may change places.
bool Attempt::are_alike(Rank u, Rank v) const {
  const Piece& a = state_.pieces()[u];
  const Piece& b = state_.pieces()[v];
  return !a.has_twin() && !b.has_twin() && a.lower == b.lower && a.upper == b.upper && a.size == b.size &&
         board_.ceilings[a.id] == board_.ceilings[b.id];
}

bool Attempt::is_spent() {
  constexpr std::int64_t kNodesBetweenLooks = 32;
  gave_up_ = gave_up_ || nodes_ >= limit_ || depth_ > kDeepest ||
             (nodes_ % kNodesBetweenLooks == 0 && budget_.over());
  return gave_up_;
}

}  // namespace stweaver::exact
