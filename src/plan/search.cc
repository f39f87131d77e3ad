#include "plan/search.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <thread>
#include <utility>

#include "plan/exact.h"
#include "plan/portfolio.h"

namespace stweaver {
namespace {

/// Nodes of the first exact search, for each item: about a second for a thousand items where it fails.
constexpr std::int64_t kFirstNodes = 20;
/// Steps over items and sections that the first exact search may cost in all; large instances get fewer
/// nodes.
constexpr std::int64_t kFirstSteps = 6'000'000;
/// The share of the time that it may take, as nodes with much alive cost more than others.
constexpr double kFirstShare = 0.25;
/// Peaks that are tried between the goal and the best peak so far, each with this share of the effort that
/// goes into the goal: who meets it is done.
constexpr int kHalvings = 6;
constexpr std::int64_t kHalvingShare = 4;

/// What offsets can differ by: every peak is a multiple of it.
Bytes unit_of(const Instance& instance) {
  Bytes unit = 0;
  for (const Item& item : instance.items) unit = std::gcd(unit, item.size);
  for (const Persistent& request : instance.persistent) unit = std::gcd(unit, request.size);
  return std::max<Bytes>(unit, 1);
}

class Search {
 public:
  Search(const Instance& instance, const SearchOptions& options)
      : instance_(instance),
        options_(options),
        begin_(Clock::now()),
        deadline_(deadline_after(begin_, options.timeout)),
        unit_(unit_of(instance)) {
    result_.threads = options.threads > 0
                          ? options.threads
                          : static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
    result_.lower_bound = lower_bound_of(instance);
    result_.peak = std::numeric_limits<Bytes>::max();
    const bool with_exact =
        std::find(options.without.begin(), options.without.end(), Part::kExact) == options.without.end();
    if (with_exact && instance.lanes == 1 && instance.items.size() <= kExactItems && goal() <= kMostMemory)
      puzzle_ = {.items = instance.items, .obstacles = {}, .persistent = instance.persistent};
  }

  SearchResult run() {
    if (puzzle_ && options_.timeout > 0)
      try_at(goal(), first_nodes(), deadline_after(begin_, kFirstShare * options_.timeout));
    if (!is_done()) construct();
    if (puzzle_) {
      for (std::int64_t nodes = first_nodes(); !is_done() && goes_on(); nodes *= 2) go_down(nodes);
    }
    result_.seconds = seconds();
    return std::move(result_);
  }

 private:
  [[nodiscard]] Bytes goal() const {
    return std::max(align_up(result_.lower_bound, options_.page), options_.capacity);
  }
  [[nodiscard]] bool is_over() const { return options_.stop.stop_requested() || Clock::now() >= deadline_; }
  /// There is always a placement to return.
  [[nodiscard]] bool is_done() const {
    return result_.peak <= goal() || (is_over() && result_.peak < std::numeric_limits<Bytes>::max());
  }
  /// A placement that takes the slack more than the bound is worth little: a job without a plan holds no
  /// more.
  [[nodiscard]] bool goes_on() const {
    return options_.anytime || result_.peak - goal() > goal() / kSlackShare;
  }
  [[nodiscard]] double seconds() const {
    return std::chrono::duration<double>(Clock::now() - begin_).count();
  }

  [[nodiscard]] std::int64_t first_nodes() const {
    const auto items = static_cast<std::int64_t>(puzzle_->items.size()) + 1;
    return std::min(kFirstNodes * items, kFirstSteps / items);
  }

  void tell(Bytes peak) const {
    if (options_.improved && peak < result_.peak) options_.improved({result_.lower_bound, peak, seconds()});
  }

  void take(Placement placement, Bytes peak, const std::string& winner) {
    if (peak >= result_.peak) return;
    result_.placement = std::move(placement);
    result_.peak = peak;
    result_.winner = winner;
    searches_.erase(searches_.lower_bound(peak), searches_.end());
  }

  void construct() {
    PortfolioResult found = run_portfolio(instance_, {.threads = result_.threads,
                                                      .timeout = std::max(0.0, options_.timeout - seconds()),
                                                      .page = options_.page,
                                                      .stop = options_.stop,
                                                      .without = options_.without,
                                                      .improved = [this](Bytes peak) { tell(peak); }});
    take(std::move(found.placement), found.peak, found.winner);
  }

  /// Goes on looking for a placement at `capacity` or below; true when one is known afterwards.
  bool try_at(Bytes capacity, std::int64_t nodes, Clock::time_point deadline = Clock::time_point::max()) {
    std::unique_ptr<ExactSearch>& exact = searches_[capacity];
    if (!exact)
      exact = std::make_unique<ExactSearch>(*puzzle_, capacity,
                                            ExactOptions{.threads = result_.threads,
                                                         .deadline = deadline_,
                                                         .seed = options_.seed,
                                                         .stop = options_.stop});
    ExactResult found = exact->run(nodes, deadline);
    if (found.verdict == Verdict::kImpossible)
      result_.lower_bound = std::max(result_.lower_bound, (capacity / unit_ + 1) * unit_);
    if (found.verdict != Verdict::kFound) return false;
    const Bytes peak = peak_of(instance_, found.placement);
    tell(peak);
    take(std::move(found.placement), peak, "exact");
    return true;
  }

  /// Once at the goal, then half-way between what failed and what is known.
  void go_down(std::int64_t nodes) {
    Bytes failed = goal();
    if (try_at(failed, nodes)) return;
    for (int i = 0; i < kHalvings && !is_done(); ++i) {
      failed = std::max(failed, goal());
      const Bytes half = (failed + (result_.peak - failed) / 2) / unit_ * unit_;
      if (half <= failed) return;
      if (!try_at(half, nodes / kHalvingShare)) failed = half;
    }
  }

  const Instance& instance_;
  const SearchOptions& options_;
  Clock::time_point begin_;
  Clock::time_point deadline_;
  Bytes unit_;
  std::optional<Puzzle> puzzle_;                            ///< when exact search can help
  std::map<Bytes, std::unique_ptr<ExactSearch>> searches_;  ///< by capacity; they go on when their turn comes
  SearchResult result_;
};

}  // namespace

SearchResult search(const Instance& instance, const SearchOptions& options) {
  return Search(instance, options).run();
}

}  // namespace stweaver
