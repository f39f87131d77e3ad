#include "profile/pattern.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <optional>
#include <set>
#include <utility>

#include "profile/diff.h"
#include "profile/timeline.h"

namespace stweaver {
namespace {

using Pairs = std::vector<std::pair<std::size_t, std::size_t>>;

/// Insertions and deletions after which two steps count as different jobs.
constexpr std::size_t kMostDifferences = 2000;
/// Of a step's requests, so many must be found in the pattern.
constexpr double kAlike = 0.5;
/// Where a single step was aligned: of its sizes, so many may be new.
constexpr double kNew = 0.01;
/// In a step that repeats, what differs holds no more than this share of its bytes: of half of the run time's
/// slack a plan need not know.
constexpr Bytes kOddShare = 2 * kSlackShare;

/// The requests of one step.
struct Span {
  RequestId first = 0;
  RequestId end = 0;

  [[nodiscard]] std::size_t size() const { return end - first; }
};

Tokens slice(const Tokens& tokens, const Span& span) {
  return {tokens.begin() + span.first, tokens.begin() + span.end};
}

/// Grows a sequence of positions so that every added step is a subsequence of it.
class Aligner {
 public:
  explicit Aligner(const Trace& trace)
      : requests_(trace.requests), structure_(structure_tokens(trace)), sizes_(size_tokens(trace)) {}

  [[nodiscard]] std::size_t positions() const { return like_.size(); }
  std::vector<AlignedStep> take_steps() { return std::move(steps_); }

  /// False when the step is too different.
  bool add(const Span& span) {
    if (steps_.empty()) {
      merge(span, {});
      return true;
    }
    const std::optional<Pairs> pairs = match(span);
    if (!pairs || static_cast<double>(pairs->size()) < kAlike * static_cast<double>(span.size()))
      return false;
    merge(span, *pairs);
    return true;
  }

  /// Where the requests of a step stand that is not to add positions; kNoPosition for those that stand
  /// nowhere.
  [[nodiscard]] std::optional<AlignedStep> locate(const Span& span) const {
    const std::optional<Pairs> pairs = match(span);
    if (!pairs) return std::nullopt;
    AlignedStep step{span.first, std::vector<std::uint32_t>(span.size(), kNoPosition)};
    for (const auto& [here, there] : *pairs) step.position_of[there] = static_cast<std::uint32_t>(here);
    return step;
  }

 private:
  static constexpr std::size_t kNowhere = ~std::size_t{0};  ///< before all

  /// By size or by structure, whichever leaves less over: sizes are surer when shapes are fixed, structure
  /// holds when they vary.
  [[nodiscard]] std::optional<Pairs> match(const Span& span) const {
    const Tokens structure_here = of_positions(structure_);
    const Tokens sizes_here = of_positions(sizes_);
    const Tokens structure = slice(structure_, span);
    const Tokens sizes = slice(sizes_, span);
    if (structure == structure_here || sizes == sizes_here) return fill({}, span);  // each is its like
    std::optional<Pairs> by_structure = common_subsequence(structure_here, structure, kMostDifferences);
    std::optional<Pairs> by_size = common_subsequence(sizes_here, sizes, kMostDifferences);
    if (!by_structure || (by_size && by_size->size() >= by_structure->size())) return by_size;
    slide(*by_structure, sizes_here, sizes);
    return fill(*by_structure, span);
  }

  /// The tokens of the requests that stand for the positions.
  [[nodiscard]] Tokens of_positions(const Tokens& tokens) const {
    Tokens here;
    here.reserve(like_.size());
    for (const RequestId id : like_) here.push_back(tokens[id]);
    return here;
  }

  /// Where one of the two has more requests in a row than the other, structure may match the wrong one of
  /// them: of two beside each other it takes the one of the same size instead.
  static void slide(Pairs& pairs, const Tokens& sizes_here, const Tokens& sizes) {
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      auto& [here, there] = pairs[i];
      if (sizes_here[here] == sizes[there]) continue;
      const auto [here_before, there_before] = i > 0 ? pairs[i - 1] : std::pair(kNowhere, kNowhere);
      const auto [here_after, there_after] =
          i + 1 < pairs.size() ? pairs[i + 1] : std::pair(sizes_here.size(), sizes.size());
      const std::size_t other_there = find(sizes, there_before + 1, there_after, sizes_here[here]);
      const std::size_t other_here = find(sizes_here, here_before + 1, here_after, sizes[there]);
      if (other_there != there_after) {
        there = other_there;
      } else if (other_here != here_after) {
        here = other_here;
      }
    }
  }

  /// Where in [begin, end) the token is; `end` where it is not.
  static std::size_t find(const Tokens& tokens, std::size_t begin, std::size_t end, std::uint64_t token) {
    const auto first = tokens.begin() + static_cast<std::ptrdiff_t>(begin);
    const auto last = tokens.begin() + static_cast<std::ptrdiff_t>(end);
    return static_cast<std::size_t>(std::find(first, last, token) - tokens.begin());
  }

  /// Between two pairs, as many requests on both sides, of the same streams, are the same ones too. Only how
  /// long they live differs, or is not known: the recording may end before they do.
  [[nodiscard]] Pairs fill(const Pairs& pairs, const Span& span) const {
    Pairs filled;
    std::size_t here = 0;
    std::size_t there = 0;
    const auto fill_until = [&](std::size_t here_end, std::size_t there_end) {
      if (is_same(here, here_end, span.first + there, span.first + there_end)) {
        for (; here < here_end; ++here, ++there) filled.emplace_back(here, there);
      }
      here = here_end;
      there = there_end;
    };
    for (const auto& [matched_here, matched_there] : pairs) {
      fill_until(matched_here, matched_there);
      filled.emplace_back(here++, there++);
    }
    fill_until(positions(), span.size());
    return filled;
  }

  /// Whether the positions [begin, end) ask the same streams and pools as as many requests.
  [[nodiscard]] bool is_same(std::size_t begin, std::size_t end, std::size_t first, std::size_t last) const {
    const auto where = [](const Request& request) { return std::pair(request.stream, request.pool); };
    if (end - begin != last - first) return false;
    for (; begin < end; ++begin, ++first) {
      if (where(requests_[like_[begin]]) != where(requests_[first])) return false;
    }
    return true;
  }

  /// Inserts the step's unmatched requests between the positions its matched ones have.
  void merge(const Span& span, const Pairs& pairs) {
    std::vector<RequestId> like;
    std::vector<std::uint32_t> moved_to(positions());
    AlignedStep step{span.first, std::vector<std::uint32_t>(span.size())};
    std::size_t here = 0;
    std::size_t there = 0;
    const auto keep_until = [&](std::size_t end) {
      for (; here < end; ++here) {
        moved_to[here] = static_cast<std::uint32_t>(like.size());
        like.push_back(like_[here]);
      }
    };
    const auto insert_until = [&](std::size_t end) {
      for (; there < end; ++there) {
        step.position_of[there] = static_cast<std::uint32_t>(like.size());
        like.push_back(span.first + static_cast<RequestId>(there));
      }
    };
    for (const auto& [matched_here, matched_there] : pairs) {
      keep_until(matched_here);
      insert_until(matched_there);
      step.position_of[there++] = static_cast<std::uint32_t>(like.size());
      keep_until(matched_here + 1);
    }
    keep_until(positions());
    insert_until(span.size());
    if (like.size() > moved_to.size()) move_positions(moved_to);
    like_ = std::move(like);
    steps_.push_back(std::move(step));
  }

  void move_positions(const std::vector<std::uint32_t>& moved_to) {
    for (AlignedStep& step : steps_) {
      for (std::uint32_t& position : step.position_of) position = moved_to[position];
    }
  }

  const std::vector<Request>& requests_;
  const Tokens structure_;
  const Tokens sizes_;
  std::vector<RequestId> like_;  ///< of each position, the first request that came to it
  std::vector<AlignedStep> steps_;
};

/// The first step after which no more persistent memory is born than in a late one.
std::size_t first_steady(const Trace& trace, const std::vector<Span>& spans,
                         const std::vector<LifeClass>& classes) {
  if (spans.size() < 2) return 0;
  const auto persistent_bytes = [&](const Span& span) {
    Bytes bytes = 0;
    for (RequestId id = span.first; id < span.end; ++id) {
      if (classes[id] == LifeClass::kPersistent) bytes += trace.requests[id].size;
    }
    return bytes;
  };
  std::size_t steady = 1;
  if (spans.size() < 4) return steady;
  const Bytes late = persistent_bytes(spans[spans.size() - 2]);
  while (steady + 2 < spans.size() && persistent_bytes(spans[steady]) > late) ++steady;
  return steady;
}

/// Behind the last position that was taken before request `born` of the step.
Time behind(const AlignedStep& step, std::size_t born) {
  while (born > 0 && step.position_of[born - 1] == kNoPosition) --born;
  return born == 0 ? 0 : Time{step.position_of[born - 1]} + 1;
}

/// The same of a request of the step before, in positions from the beginning of that one. kForever when that
/// is beyond this step.
Time death_in_next(const Pattern& pattern, const AlignedStep& step, RequestId death) {
  const std::size_t born = death - step.first;
  if (born > step.position_of.size()) return kForever;
  return static_cast<Time>(pattern.positions.size()) + behind(step, born);
}

/// When the request's memory is free again, in positions from the beginning of its step: behind the last
/// position that was taken before, so that positions which only other steps have do not count. kForever when
/// that is beyond the next step, nothing when no step was recorded that would tell.
std::optional<Time> death_in_positions(const Pattern& pattern, std::size_t step, const Request& request,
                                       const std::vector<RequestId>& births) {
  const bool last = step + 1 == pattern.steps.size();
  if (request.life.upper == kForever) return last ? std::nullopt : std::optional<Time>(kForever);
  const AlignedStep& here = pattern.steps[step];
  const RequestId next = death_of(request, births);
  const std::size_t born = next - here.first;
  if (born < here.position_of.size()) return behind(here, born);
  if (last) return born == here.position_of.size() ? std::optional(behind(here, born)) : std::nullopt;
  const AlignedStep& after = pattern.steps[step + 1];
  // Between the steps others may be born that no step has.
  if (next <= after.first) return behind(here, here.position_of.size());
  return death_in_next(pattern, after, next);
}

/// Where no aligned step tells when a position's memory is free again, the step before them may: what it
/// leaves to the first of them, a gradient say, every step leaves to the next.
void fill_deaths_from_before(const Trace& trace, const std::vector<RequestId>& births, Pattern& pattern) {
  for (std::size_t i = 0; i < pattern.before.position_of.size(); ++i) {
    const Request& request = trace.requests[pattern.before.first + i];
    if (pattern.before.position_of[i] == kNoPosition || request.life.upper == kForever) continue;
    Position& position = pattern.positions[pattern.before.position_of[i]];
    const RequestId next = death_of(request, births);
    if (position.death > 0 || next < pattern.steps.front().first) continue;
    const Time death = death_in_next(pattern, pattern.steps.front(), next);
    if (death != kForever) position.death = death;
  }
}

void fill_positions(const Trace& trace, Pattern& pattern) {
  struct Seen {
    std::size_t steps = 0;
    Time earliest_death = kForever;
  };
  std::vector<Seen> seen(pattern.positions.size());
  const std::vector<RequestId> births = births_before(trace);
  for (std::size_t k = 0; k < pattern.steps.size(); ++k) {
    const AlignedStep& step = pattern.steps[k];
    for (std::size_t i = 0; i < step.position_of.size(); ++i) {
      const Request& request = trace.requests[step.first + i];
      Position& position = pattern.positions[step.position_of[i]];
      Seen& before = seen[step.position_of[i]];
      const std::optional<Time> death = death_in_positions(pattern, k, request, births);
      if (before.steps++ == 0) {
        position.smallest = request.size;
        position.stream = request.stream;
        position.pool = request.pool;
      }
      position.size = std::max(position.size, request.size);
      position.smallest = std::min(position.smallest, request.size);
      if (!death) {
        // The last step was over before it died. (Never seen to die at all: see below.)
        if (position.death != 0) position.death = std::max(position.death, static_cast<Time>(seen.size()));
        continue;
      }
      position.death = std::max(position.death, *death);
      before.earliest_death = std::min(before.earliest_death, *death);
    }
  }
  fill_deaths_from_before(trace, births, pattern);
  for (std::size_t p = 0; p < seen.size(); ++p) {
    Position& position = pattern.positions[p];
    // Never seen to die: for all we know it lives until its like is born again.
    if (position.death == 0) position.death = static_cast<Time>(p + pattern.positions.size());
    const Time earliest = seen[p].earliest_death;
    const bool fixed = seen[p].steps == pattern.steps.size() && position.size == position.smallest &&
                       (earliest == kForever || earliest == position.death);
    position.kind = fixed ? PositionKind::kStatic : PositionKind::kVarying;
  }
}

// ---- Varying or dynamic

/// How many neighbours are asked, and how many of them must agree, for a size to count as moving along.
constexpr std::size_t kNeighboursOfMoved = 128;
constexpr double kAgree = 0.9;

/// Marks as dynamic the positions whose sizes grow where their neighbours' shrink. `change` is +1, -1 or 0
/// per position: how its size differs between two steps. Agreement on one side is enough: two micro-batches
/// may meet here.
void vote_against(const std::vector<int>& change, std::vector<int>& votes) {
  std::vector<std::size_t> moved;
  for (std::size_t p = 0; p < change.size(); ++p) {
    if (change[p] != 0) moved.push_back(p);
  }
  std::vector<int> sum(moved.size() + 1, 0);
  for (std::size_t i = 0; i < moved.size(); ++i) sum[i + 1] = sum[i] + change[moved[i]];
  for (std::size_t i = 0; i < moved.size(); ++i) {
    const auto agrees = [&](std::size_t first, std::size_t end) {
      const auto count = static_cast<double>(end - first);
      return (count + change[moved[i]] * (sum[end] - sum[first])) / 2 >= kAgree * count;
    };
    const std::size_t before = i < kNeighboursOfMoved ? 0 : i - kNeighboursOfMoved;
    const std::size_t after = std::min(i + 1 + kNeighboursOfMoved, moved.size());
    votes[moved[i]] += agrees(before, i + 1) || agrees(i, after) ? -1 : 1;
  }
}

/// How far around a position dynamic ones are looked for, and so many of its size make it one of theirs; how
/// far around others of exactly its size, of which so many are no chance; and how many dynamic ones make up
/// for one that varies with its neighbours.
constexpr std::size_t kRow = 32;
constexpr std::size_t kFewestAlike = 4;
constexpr std::size_t kAround = 64;
constexpr std::size_t kNoChance = 8;
constexpr std::size_t kOutvoted = 2;

/// Calls visit(position) for those up to `reach` places away from p.
template <typename Visit>
void each_around(const Pattern& pattern, std::size_t p, std::size_t reach, Visit visit) {
  const std::size_t end = std::min(pattern.positions.size(), p + reach + 1);
  for (std::size_t i = p - std::min(p, reach); i < end; ++i) {
    if (i != p) visit(pattern.positions[i]);
  }
}

/// Whether what is around the position is dynamic and of about its size.
bool is_among_dynamic(const Pattern& pattern, std::size_t p) {
  const Position& position = pattern.positions[p];
  std::size_t alike = 0;
  std::size_t dynamic = 0;
  std::size_t varying = 0;
  each_around(pattern, p, kRow, [&](const Position& other) {
    const bool about_equal =
        3 * other.smallest <= 4 * position.size && 3 * position.smallest <= 4 * other.size;
    if (other.kind != PositionKind::kDynamic || other.stream != position.stream) {
      if (other.size != other.smallest) ++varying;
      return;
    }
    ++dynamic;
    if (about_equal) ++alike;
  });
  return alike >= kFewestAlike && dynamic >= kOutvoted * varying;
}

/// Whether hardly anybody around it has exactly its size. What has its size for a reason (a weight's
/// gradient) has company.
bool is_alone_of_its_size(const Pattern& pattern, std::size_t p) {
  std::size_t same = 0;
  each_around(pattern, p, kAround, [&](const Position& other) {
    if (other.kind != PositionKind::kDynamic && other.size == pattern.positions[p].size) ++same;
  });
  return same < kNoChance;
}

/// Marks as dynamic what stands among dynamic positions and is of about their size: that the recorded steps
/// agreed on it, that only one of them had it, or that it moved along with its neighbours was chance.
void find_dynamic_by_chance(Pattern& pattern) {
  std::vector<std::size_t> found;
  for (std::size_t p = 0; p < pattern.positions.size(); ++p) {
    if (pattern.positions[p].kind != PositionKind::kDynamic && is_among_dynamic(pattern, p) &&
        is_alone_of_its_size(pattern, p))
      found.push_back(p);
  }
  for (const std::size_t p : found) pattern.positions[p].kind = PositionKind::kDynamic;
}

void find_dynamic(const Trace& trace, Pattern& pattern) {
  std::vector<int> votes(pattern.positions.size(), 0);
  std::vector<Bytes> reference(pattern.positions.size(), -1);
  for (const AlignedStep& step : pattern.steps) {
    std::vector<int> change(pattern.positions.size(), 0);
    for (std::size_t i = 0; i < step.position_of.size(); ++i) {
      const Bytes size = trace.requests[step.first + i].size;
      Bytes& known = reference[step.position_of[i]];
      if (known < 0) known = size;
      change[step.position_of[i]] = size > known ? 1 : size < known ? -1 : 0;
    }
    vote_against(change, votes);
  }
  for (std::size_t p = 0; p < votes.size(); ++p) {
    if (votes[p] > 0) pattern.positions[p].kind = PositionKind::kDynamic;
  }
  find_dynamic_by_chance(pattern);
}

/// Whether what was allocated before a single step does not foretell its sizes.
bool differs_from_prologue(const Trace& trace, const Pattern& pattern) {
  std::set<Bytes> known;
  for (RequestId id = 0; id < pattern.prologue; ++id) known.insert(trace.requests[id].size);
  std::size_t differ = 0;
  for (const Position& position : pattern.positions) {
    if (position.kind != PositionKind::kStatic) ++differ;
    if (!known.contains(position.size)) ++differ;
  }
  return differ > 1 && static_cast<double>(differ) > kNew * static_cast<double>(pattern.positions.size());
}

}  // namespace

Pattern find_pattern(const Trace& trace, const Steps& steps, const std::vector<LifeClass>& classes) {
  Pattern pattern;
  const std::vector<RequestId> births = births_before(trace);
  std::vector<Span> spans;
  for (const Lifespan& step : steps.spans) {
    const Span span{births[static_cast<std::size_t>(step.lower)],
                    births[static_cast<std::size_t>(step.upper)]};
    if (span.size() > 0) spans.push_back(span);
  }
  pattern.prologue = static_cast<RequestId>(trace.requests.size());
  if (spans.empty()) return pattern;

  Aligner aligner(trace);
  const std::size_t steady = first_steady(trace, spans, classes);
  pattern.prologue = spans[steady].first;
  std::size_t aligned = steady;
  while (aligned < spans.size() && aligner.add(spans[aligned])) ++aligned;
  pattern.left_out = spans.size() - aligned;
  pattern.positions.resize(aligner.positions());
  if (steady > 0) {
    if (std::optional<AlignedStep> before = aligner.locate(spans[steady - 1]))
      pattern.before = *std::move(before);
  }
  pattern.steps = aligner.take_steps();
  fill_positions(trace, pattern);
  find_dynamic(trace, pattern);
  return pattern;
}

Pattern two_steps_of(const Pattern& pattern) {
  Pattern two = pattern;
  const auto length = static_cast<std::uint32_t>(pattern.positions.size());
  const auto move_to_second = [&](AlignedStep& step) {
    for (std::uint32_t& position : step.position_of)
      if (position != kNoPosition) position += length;
  };
  for (Position position : pattern.positions) {
    if (position.death != kForever) position.death += length;
    two.positions.push_back(position);
  }
  for (std::size_t i = 1; i < two.steps.size(); i += 2) move_to_second(two.steps[i]);
  move_to_second(two.before);
  return two;
}

std::vector<std::size_t> steps_with_each(const Pattern& pattern) {
  std::vector<std::size_t> steps(pattern.positions.size(), 0);
  for (const AlignedStep& step : pattern.steps) {
    for (const std::uint32_t position : step.position_of) ++steps[position];
  }
  return steps;
}

bool steps_differ(const Trace& trace, const Pattern& pattern) {
  if (pattern.steps.size() == 1) return differs_from_prologue(trace, pattern);
  const std::vector<std::size_t> steps = steps_with_each(pattern);
  Bytes all = 0;
  Bytes odd = 0;
  for (std::size_t p = 0; p < steps.size(); ++p) {
    const Position& position = pattern.positions[p];
    all += position.size;
    const bool sizes_differ = position.size != position.smallest || position.kind == PositionKind::kDynamic;
    if (sizes_differ || steps[p] < pattern.steps.size()) odd += position.size;
  }
  return odd > all / kOddShare;
}

bool last_step_is_new(const Pattern& pattern) {
  std::vector<bool> known(pattern.positions.size(), false);
  for (std::size_t k = 0; k + 1 < pattern.steps.size(); ++k) {
    for (const std::uint32_t position : pattern.steps[k].position_of) {
      if (position != kNoPosition) known[position] = true;
    }
  }
  return !pattern.steps.empty() &&
         std::ranges::any_of(pattern.steps.back().position_of, [&](std::uint32_t position) {
           return position != kNoPosition && !known[position];
         });
}

}  // namespace stweaver
