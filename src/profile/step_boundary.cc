#include "profile/step_boundary.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <utility>

#include "base/base.h"
#include "profile/timeline.h"

namespace stweaver {
namespace {

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

  /// Bytes before each event of requests that do not outlive a step, or may yet not where the trace ends.
  [[nodiscard]] std::vector<Bytes> step_load() const {
    std::vector<Bytes> load(static_cast<std::size_t>(trace_.end) + 1, 0);
    for (RequestId id = 0; id < trace_.requests.size(); ++id) {
      const Request& request = trace_.requests[id];
      const bool is_alive = request.life.upper == kForever;
      const std::size_t death = is_alive ? trace_.requests.size() : death_of(request, births_);
      if (request.life.lower == kBeforeRecording || static_cast<double>(death - id) > 1.5 * period_) continue;
      load[static_cast<std::size_t>(request.life.lower) + 1] += request.size;
      if (!is_alive) load[static_cast<std::size_t>(request.life.upper) + 1] -= request.size;
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
      double pause = 0;  // a sum over steps may be larger than any in a trace
      double load = 0;
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
        vote.pause += static_cast<double>(pause_before(t));
        vote.load += static_cast<double>(load_[static_cast<std::size_t>(t)]);
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

}  // namespace

std::vector<Time> find_boundaries(const Trace& trace, const Tokens& structure, const Tokens& sizes,
                                  Occurrences anchors) {
  return BoundarySearch(trace, structure, sizes, std::move(anchors)).run();
}

}  // namespace stweaver
