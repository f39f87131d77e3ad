#include "profile/steps.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "profile/timeline.h"

namespace stweaver {
namespace {

// ---- Marks
// -----------------------------------------------------------------------------------------------------

/// True for "iteration 3", "step: 3", "ProfilerStep#3" and the like: a step word, then punctuation, then a
/// number.
bool names_step(std::string_view label) {
  std::string lower(label);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  for (const std::string_view word :
       {"profilerstep", "train_step", "training step", "iteration", "iter", "step"}) {
    if (!lower.starts_with(word)) continue;
    std::string_view rest = std::string_view(lower).substr(word.size());
    rest.remove_prefix(std::min(rest.find_first_not_of(" :#_=-"), rest.size()));
    return !rest.empty() && rest.find_first_not_of("0123456789") == std::string_view::npos;
  }
  return false;
}

/// A step that holds fewer requests than this share of the median was cut short.
constexpr double kWholeStep = 0.9;

void drop_last_if_cut_short(const Trace& trace, std::vector<Lifespan>& spans) {
  if (spans.size() < 3) return;
  const std::vector<RequestId> births = births_before(trace);
  const auto count = [&births](const Lifespan& span) {
    return births[static_cast<std::size_t>(span.upper)] - births[static_cast<std::size_t>(span.lower)];
  };
  std::vector<RequestId> counts;
  for (std::size_t i = 0; i + 1 < spans.size(); ++i) counts.push_back(count(spans[i]));
  std::nth_element(counts.begin(), counts.begin() + static_cast<std::ptrdiff_t>(counts.size() / 2),
                   counts.end());
  if (count(spans.back()) < kWholeStep * counts[counts.size() / 2]) spans.pop_back();
}

// ---- Repetition: the period
// ------------------------------------------------------------------------------------

/// How strings of requests are compared.
struct Strings {
  std::size_t length;  ///< requests in a string
  std::size_t enough;  ///< so many strings must agree on the number of steps
};
/// Structure repeats a lot within a step, so only long strings are telling.
constexpr Strings kStructureStrings{16, 8};
/// Sizes that stay when sequence lengths vary are an optimizer's, which may be a handful of requests.
constexpr Strings kSizeStrings{4, 2};

constexpr double kEven = 1.3;             // how far distances between a string's occurrences may differ
constexpr double kInterrupted = 1.0 / 3;  // this share of them may be longer: an evaluation lies in between
constexpr double kCoverage = 0.5;         // steps make up at least this share of the trace
constexpr double kSamePeriod = 0.1;       // how far two measurements of the period may lie apart
constexpr double kIdentical = 0.98;       // two steps alone must be this much alike to be believed

/// One token per request: what it looks like (profile/timeline.h).
using Tokens = std::vector<std::uint64_t>;

std::uint64_t hash_range(const Tokens& tokens, std::size_t first, std::size_t count) {
  std::uint64_t hash = 1;
  for (std::size_t i = first; i < std::min(first + count, tokens.size()); ++i)
    hash = mix_hash(hash, tokens[i]);
  return hash;
}

/// The occurrences of one string of requests, ascending.
using Occurrences = std::vector<RequestId>;

/// The distances between a string's occurrences, ascending.
std::vector<RequestId> distances_of(const Occurrences& occurrences) {
  std::vector<RequestId> distances;
  for (std::size_t i = 1; i < occurrences.size(); ++i)
    distances.push_back(occurrences[i] - occurrences[i - 1]);
  std::sort(distances.begin(), distances.end());
  return distances;
}

/// What the period is: the mean of the distances without those that something interrupted.
double typical_distance(const std::vector<RequestId>& distances) {
  const auto end = std::upper_bound(distances.begin(), distances.end(), kEven * distances.front());
  return std::accumulate(distances.begin(), end, 0.0) / static_cast<double>(end - distances.begin());
}

double period_of(const Occurrences& occurrences) {
  return typical_distance(distances_of(occurrences));
}

/// At most the share `interrupted` of the distances may be longer than the others; if there may be such,
/// something may follow the last one too.
bool evenly_spread(const Occurrences& occurrences, std::size_t requests, double interrupted) {
  const std::vector<RequestId> distances = distances_of(occurrences);
  const auto longer =
      distances.end() - std::upper_bound(distances.begin(), distances.end(), kEven * distances.front());
  const double period = typical_distance(distances);
  return static_cast<double>(longer) <= interrupted * static_cast<double>(distances.size()) &&
         distances.front() >= kStructureStrings.length &&
         static_cast<double>(occurrences.size()) * period >= kCoverage * static_cast<double>(requests) &&
         (interrupted > 0 || occurrences.back() + 1.5 * period >= static_cast<double>(requests));
}

bool identical_halves(const Tokens& tokens, const Occurrences& occurrences) {
  const std::size_t period = occurrences[1] - occurrences[0];
  const std::size_t end = std::min<std::size_t>(tokens.size(), occurrences[1] + period);
  std::size_t equal = 0;
  for (std::size_t i = occurrences[1]; i < end; ++i) equal += tokens[i] == tokens[i - period] ? 1 : 0;
  return static_cast<double>(equal) >= kIdentical * static_cast<double>(end - occurrences[1]);
}

/// For each number of occurrences that enough evenly spread strings share: one of those strings.
std::vector<Occurrences> find_rhythms(const Tokens& tokens, const Strings& kind, double interrupted) {
  std::vector<std::pair<std::uint64_t, RequestId>> grams;
  for (std::size_t i = 0; i + kind.length <= tokens.size(); ++i) {
    grams.emplace_back(hash_range(tokens, i, kind.length), static_cast<RequestId>(i));
  }
  std::sort(grams.begin(), grams.end());
  std::map<std::size_t, std::vector<Occurrences>> by_count;
  for (std::size_t first = 0, last = 0; first < grams.size(); first = last) {
    Occurrences occurrences;
    for (; last < grams.size() && grams[last].first == grams[first].first; ++last) {
      occurrences.push_back(grams[last].second);
    }
    if (occurrences.size() >= 2 && evenly_spread(occurrences, tokens.size(), interrupted)) {
      by_count[occurrences.size()].push_back(std::move(occurrences));
    }
  }
  std::vector<Occurrences> rhythms;
  for (auto& [count, strings] : by_count) {
    if (strings.size() < kind.enough) continue;
    std::sort(strings.begin(), strings.end());
    Occurrences& middle = strings[strings.size() / 2];
    if (count > 2 || identical_halves(tokens, middle)) rhythms.push_back(std::move(middle));
  }
  return rhythms;
}

/// One occurrence per step of a string that a step holds once. Micro-batches and layers repeat too, but
/// oftener, so the slowest rhythm is that of steps. Two kinds of step that happen to alternate make a slower
/// one still; but theirs shows only in the structure or only in the sizes, so a rhythm must show in both (if
/// sizes have any).
std::optional<Occurrences> find_anchors(const Tokens& structure, const Tokens& sizes, double interrupted) {
  const std::vector<Occurrences> by_structure = find_rhythms(structure, kStructureStrings, interrupted);
  const std::vector<Occurrences> by_size = find_rhythms(sizes, kSizeStrings, interrupted);
  const auto alike = [](double period) {
    return [period](const Occurrences& other) {
      return std::abs(period_of(other) - period) <= kSamePeriod * period;
    };
  };
  for (const Occurrences& candidate : by_structure) {
    const auto same_period = alike(period_of(candidate));
    if (!by_size.empty() && std::none_of(by_size.begin(), by_size.end(), same_period)) continue;
    if (interrupted == 0) return candidate;
    // Where distances may be long, a string that some steps lack passes too: the commonest one lacks in none.
    return *std::find_if(by_structure.rbegin(), by_structure.rend(), same_period);
  }
  return std::nullopt;
}

// ---- Repetition: the boundary
// ----------------------------------------------------------------------------------

constexpr double kNearLowest = 0.001;  // of the range between a step's lowest and highest load
constexpr std::size_t kContext = 4;    // requests before and after a boundary by which it is known again
constexpr std::size_t kOpening = 48;   // requests by which the first step's beginning is known

/// Looks for the place in each step where one ends and the next begins.
class BoundarySearch {
 public:
  BoundarySearch(const Trace& trace, const Tokens& tokens, const Tokens& sizes, Occurrences anchors)
      : trace_(trace),
        tokens_(tokens),
        sizes_(sizes),
        anchors_(std::move(anchors)),
        births_(births_before(trace)),
        period_(period_of(anchors_)),
        load_(step_load()) {}

  /// Boundaries in order; empty when no place is common to all steps.
  std::vector<Time> run() {
    choose_context();
    std::vector<Time> boundaries;
    for (std::size_t i = 0; i + 1 < anchors_.size(); ++i) {
      if (const auto time = find_in(birth(anchors_[i]), birth(anchors_[i + 1]))) boundaries.push_back(*time);
    }
    if (boundaries.empty()) return boundaries;
    extend_forwards(boundaries);
    extend_backwards(boundaries);
    return boundaries;
  }

 private:
  [[nodiscard]] Time birth(RequestId id) const { return std::max<Time>(trace_.requests[id].life.lower, 0); }

  /// Bytes before each event of requests that do not outlive a step.
  [[nodiscard]] std::vector<Bytes> step_load() const {
    std::vector<Bytes> load(static_cast<std::size_t>(trace_.end) + 1, 0);
    for (RequestId id = 0; id < trace_.requests.size(); ++id) {
      const Request& request = trace_.requests[id];
      if (request.life.upper == kForever || request.life.lower == kBeforeRecording) continue;
      if (death_of(request, births_) - id > 1.5 * period_) continue;
      load[static_cast<std::size_t>(request.life.lower) + 1] += request.size;
      load[static_cast<std::size_t>(request.life.upper) + 1] -= request.size;
    }
    for (std::size_t t = 1; t < load.size(); ++t) load[t] += load[t - 1];
    return load;
  }

  /// What stands around a time: the requests before and after it and how many events ago the last one was
  /// born.
  [[nodiscard]] std::uint64_t context(Time time) const {
    const std::size_t next = births_[static_cast<std::size_t>(time)];
    const std::size_t first = next < kContext ? 0 : next - kContext;
    const Time last_birth = next == 0 ? 0 : trace_.requests[next - 1].life.lower;
    return mix_hash(hash_range(tokens_, first, next - first + kContext),
                    static_cast<std::uint64_t>(time - last_birth));
  }

  /// The times in [from, to) where the load is near its lowest there.
  [[nodiscard]] std::vector<Time> valley(Time from, Time to) const {
    if (from >= to) return {};
    const auto begin = load_.begin() + from;
    const auto end = load_.begin() + to;
    const auto [low, high] = std::minmax_element(begin, end);
    const Bytes limit = *low + static_cast<Bytes>(kNearLowest * static_cast<double>(*high - *low));
    std::vector<Time> times;
    for (Time t = from; t < to; ++t) {
      if (load_[static_cast<std::size_t>(t)] <= limit) times.push_back(t);
    }
    return times;
  }

  [[nodiscard]] std::int64_t pause_before(Time time) const {
    if (trace_.micros.empty() || time == 0) return 0;
    return trace_.micros[static_cast<std::size_t>(time)] - trace_.micros[static_cast<std::size_t>(time) - 1];
  }

  /// Picks the context that most steps have in their valley; among equals the one with the longest pause in
  /// all, then the lowest load, then the earliest.
  void choose_context() {
    struct Votes {
      std::size_t steps = 0;
      std::int64_t pause = 0;
      Bytes load = 0;
      Time first = 0;
    };
    std::unordered_map<std::uint64_t, Votes> votes;
    for (std::size_t i = 0; i + 1 < anchors_.size(); ++i) {
      std::unordered_map<std::uint64_t, Time>
          seen;  // a context counts once per step, where the pause is longest
      for (const Time t : valley(birth(anchors_[i]), birth(anchors_[i + 1]))) {
        const auto [it, fresh] = seen.emplace(context(t), t);
        if (!fresh && pause_before(t) > pause_before(it->second)) it->second = t;
      }
      for (const auto& [key, t] : seen) {
        Votes& vote = votes[key];
        if (vote.steps++ == 0) vote.first = t;
        vote.pause += pause_before(t);
        vote.load += load_[static_cast<std::size_t>(t)];
      }
    }
    const auto better = [](const Votes& a, const Votes& b) {
      if (a.steps != b.steps) return a.steps > b.steps;
      if (a.pause != b.pause) return a.pause > b.pause;
      return a.load != b.load ? a.load < b.load : a.first < b.first;
    };
    std::optional<Votes> best;
    for (const auto& [key, vote] : votes) {
      if (best && !better(vote, *best)) continue;
      best = vote;
      context_ = key;
      example_ = vote.first;
    }
  }

  /// The chosen context in [from, to); failing that the lowest place with the longest pause.
  [[nodiscard]] std::optional<Time> find_in(Time from, Time to) const {
    std::optional<Time> best;
    for (const bool known : {true, false}) {
      for (const Time t : valley(from, to)) {
        if (known && context(t) != context_) continue;
        if (!best || pause_before(t) > pause_before(*best)) best = t;
      }
      if (best) break;
    }
    return best;
  }

  /// The time in [from, to) with the chosen context that is nearest to `expected` requests.
  [[nodiscard]] std::optional<Time> find_known(double from, double to, double expected) const {
    std::optional<Time> best;
    double best_distance = 0;
    const Time end =
        to < static_cast<double>(tokens_.size()) ? birth(static_cast<RequestId>(to)) : trace_.end;
    for (Time t = birth(static_cast<RequestId>(std::max(from, 0.0))); t < end; ++t) {
      if (context(t) != context_) continue;
      const double distance = std::abs(births_[static_cast<std::size_t>(t)] - expected);
      if (best && distance >= best_distance) continue;
      best = t;
      best_distance = distance;
    }
    return best;
  }

  /// How much of the opening at `b` is found from `a` on: a longest common subsequence in which a request
  /// counts for its structure and again for its size. Looks twice as far from `a`, so that starting early
  /// costs nothing.
  [[nodiscard]] int likeness(std::size_t a, std::size_t b) const {
    std::array<int, kOpening + 1> row{};
    for (std::size_t i = a; i < std::min(a + 2 * kOpening, tokens_.size()); ++i) {
      int diagonal = 0;
      for (std::size_t j = 0; j < std::min(kOpening, tokens_.size() - b); ++j) {
        const int match = (tokens_[i] == tokens_[b + j] ? 1 : 0) + (sizes_[i] == sizes_[b + j] ? 1 : 0);
        const int with = diagonal + match;
        diagonal = row[j + 1];
        row[j + 1] = std::max({row[j], row[j + 1], with});
      }
    }
    return row[kOpening];
  }

  /// The birth in the valley of [from, to) from which on the requests are most like the beginning of a step;
  /// the last of equals, since requests of the prologue in front cost no likeness.
  [[nodiscard]] std::optional<Time> find_opening(double from, double to) const {
    const std::size_t model = births_[static_cast<std::size_t>(example_)];
    std::optional<Time> best;
    int best_likeness = static_cast<int>(kOpening) / 2;
    for (const Time t :
         valley(birth(static_cast<RequestId>(std::max(from, 0.0))), birth(static_cast<RequestId>(to)))) {
      const RequestId id = births_[static_cast<std::size_t>(t)];
      if (birth(id) != t || (tokens_[id] != tokens_[model] && sizes_[id] != sizes_[model])) continue;
      const int alike = likeness(id, model);
      if (alike < best_likeness) continue;
      best = t;
      best_likeness = alike;
    }
    return best;
  }

  /// What follows the last step may be anything; if it is longer than a step, the step ends where memory is
  /// lowest.
  void extend_forwards(std::vector<Time>& boundaries) const {
    while (true) {
      const double last = births_[static_cast<std::size_t>(boundaries.back())];
      const double rest = static_cast<double>(tokens_.size()) - last;
      if (rest < kWholeStep * period_) return;  // the rest is no whole step
      const double from = last + period_ / kEven;
      const double to = last + kEven * period_;
      const auto next = find_known(from, to, last + period_);
      if (next) {
        boundaries.push_back(*next);
        continue;
      }
      const bool ends_here = rest <= kEven * period_;
      const auto lowest =
          ends_here ? std::nullopt
                    : find_in(birth(static_cast<RequestId>(from)), birth(static_cast<RequestId>(to)));
      boundaries.push_back(lowest.value_or(trace_.end));
      return;
    }
  }

  /// The first step is often unlike the others (lazy initialization, optimizer states), and so are its
  /// neighbours at the boundary; where the context is not found, likeness decides.
  void extend_backwards(std::vector<Time>& boundaries) const {
    while (true) {
      const double first = births_[static_cast<std::size_t>(boundaries.front())];
      const double from = first - kEven * period_;
      const double to = first - period_ / kEven;
      if (to <= 0) return;
      auto before = find_known(from, to, first - period_);
      if (!before) before = find_opening(from, to);
      if (!before) return;
      boundaries.insert(boundaries.begin(), *before);
    }
  }

  const Trace& trace_;
  const Tokens& tokens_;
  const Tokens& sizes_;
  Occurrences anchors_;
  std::vector<RequestId> births_;
  double period_;  // in requests
  std::vector<Bytes> load_;
  std::uint64_t context_ = 0;
  Time example_ = 0;  // a time with that context
};

std::vector<Lifespan> spans_between(const std::vector<Time>& boundaries) {
  std::vector<Lifespan> spans;
  for (std::size_t i = 1; i < boundaries.size(); ++i) spans.push_back({boundaries[i - 1], boundaries[i]});
  return spans;
}

}  // namespace

Steps steps_from_marks(const Trace& trace) {
  std::vector<Time> boundaries;
  std::string_view current;
  bool ended = false;
  for (const Mark& mark : trace.marks) {
    if (ended) break;
    ended = !boundaries.empty() && mark.label == "end";
    // A step's label comes again where metadata was lost in between: autograd's threads do not carry it.
    if (!ended && (!names_step(mark.label) || mark.label == current)) continue;
    current = mark.label;
    if (boundaries.empty() || mark.time > boundaries.back()) boundaries.push_back(mark.time);
  }
  if (boundaries.empty()) return {StepSource::kNone, {}, "the trace has no step marks"};
  if (!ended && boundaries.back() < trace.end) boundaries.push_back(trace.end);
  Steps steps{StepSource::kMarks, spans_between(boundaries), ""};
  if (!ended) drop_last_if_cut_short(trace, steps.spans);
  return steps;
}

Steps steps_from_repetition(const Trace& trace) {
  Steps none{StepSource::kNone,
             {},
             "no repetition was found: record at least three steps, or mark them (stweaver.mark_step())"};
  const Tokens structure = structure_tokens(trace);
  const Tokens sizes = size_tokens(trace);
  std::optional<Occurrences> anchors = find_anchors(structure, sizes, 0);
  if (!anchors) anchors = find_anchors(structure, sizes, kInterrupted);
  if (!anchors) return none;
  const std::vector<Time> boundaries = BoundarySearch(trace, structure, sizes, *std::move(anchors)).run();
  if (boundaries.size() < 2) return none;
  return {StepSource::kRepetition, spans_between(boundaries), ""};
}

Steps find_steps(const Trace& trace) {
  Steps steps = steps_from_marks(trace);
  return steps.spans.empty() ? steps_from_repetition(trace) : steps;
}

}  // namespace stweaver
