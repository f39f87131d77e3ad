#include "pareto/maoea_cs.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <deque>
#include <numeric>
#include <utility>

#include "pareto/evaluator.h"
#include "pareto/operators.h"
#include "pareto/points.h"
#include "pareto/search.h"

namespace stweaver::pareto {
namespace {

/// The share of generations that search for corners before they are stable, and for the rest afterwards.
constexpr double kFocus = 0.9;
/// The nadir is stable when it has not moved in so many generations, or in this part of the search if those
/// are fewer: a short one would look for corners alone. The competition's shortest search has 266
/// generations.
constexpr std::size_t kGenerations = 50;
constexpr double kPart = 0.2;
/// The exponent of the corners' mutation at the beginning; at the end it is next to nothing.
constexpr double kExponent = 0.7;

/// Mutated corners, each as often as the others.
Points mutated_corners(Search& search, const Problem& problem, double exponent) {
  Points children(problem.variables.size());
  const std::size_t each = search.capacity() / search.corners().size();
  for (const std::size_t corner : search.corners()) {
    for (std::size_t n = 0; n < each; ++n) {
      children.add(search.population()[corner]);
      mutate_far(children[children.size() - 1], problem.variables, exponent, search.random());
    }
  }
  return children;
}

std::vector<std::size_t> shuffled(std::size_t count, Random& random) {
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (std::size_t i = count; i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
  return order;
}

/// As many children as there are members, of pairs drawn at random: crossed, then mutated.
Points offspring(Search& search, const Problem& problem) {
  const std::size_t count = search.population().size();
  std::vector<std::size_t> order = shuffled(count, search.random());
  if (count % 2 == 1) order.push_back(order.front());
  const std::size_t half = order.size() / 2;
  Points children(problem.variables.size());
  for (const std::size_t parent : order) children.add(search.population()[parent]);
  for (std::size_t i = 0; i < half; ++i)
    cross(children[i], children[half + i], problem.variables, search.random());
  children.resize(count);
  for (std::size_t i = 0; i < count; ++i) mutate(children[i], problem.variables, search.random());
  return children;
}

/// Whether the nadir is where it was some generations ago: as published relative to its own value, else to
/// the front's extent.
class NadirWatch {
 public:
  /// Of a search of so many generations.
  NadirWatch(bool by_extent, double generations)
      : by_extent_(by_extent),
        window_(std::max<std::size_t>(
            static_cast<std::size_t>(std::min<double>(kGenerations, kPart * generations)), 1)) {}

  bool is_stable_after(const Box& box) {
    const bool is_stable_now =
        boxes_.size() == window_ && is_stable(boxes_.front().nadir, box.nadir, magnitudes(boxes_.front()));
    if (boxes_.size() == window_) boxes_.pop_front();
    boxes_.push_back(box);
    return is_stable_now;
  }

 private:
  [[nodiscard]] std::vector<double> magnitudes(const Box& box) const {
    if (by_extent_) return extents_of(box);
    std::vector<double> values = box.nadir;
    for (double& value : values) value = std::abs(value);
    return values;
  }

  bool by_extent_;
  std::size_t window_;
  std::deque<Box> boxes_;
};

}  // namespace

struct MaoeaCs::State {
  State(Problem given, const SearchOptions& options)
      : problem(std::move(given)),
        search(problem, options),
        watch(options.normalize,
              static_cast<double>(options.evaluations) / static_cast<double>(search.capacity())),
        allowed(options.evaluations) {}

  Points generation() {
    if (search.corners().empty()) return search.random_points();  // the first
    const double focus = switched_at ? 1 - kFocus : kFocus;
    const double end = static_cast<double>(allowed) + (2 * static_cast<double>(search.capacity()));
    const double exponent = kExponent * (1 - (static_cast<double>(search.evaluations()) / end));
    return search.random().uniform() <= focus ? mutated_corners(search, problem, exponent)
                                              : offspring(search, problem);
  }

  Problem problem;
  Search search;
  NadirWatch watch;
  std::int64_t allowed;
  std::optional<std::int64_t> switched_at;
};

MaoeaCs::MaoeaCs(const Problem& problem, const SearchOptions& options)
    : state_(std::make_unique<State>(problem, options)) {}
MaoeaCs::MaoeaCs(MaoeaCs&& other) noexcept = default;
MaoeaCs& MaoeaCs::operator=(MaoeaCs&& other) noexcept = default;
MaoeaCs::~MaoeaCs() = default;

Points MaoeaCs::ask() {
  return state_->search.unseen(state_->generation());
}

void MaoeaCs::tell(const Points& points, const Evaluations& evaluations) {
  Search& search = state_->search;
  search.take(points, evaluations);
  if (search.corners().empty()) return;  // nothing is known yet
  if (state_->watch.is_stable_after(search.box()) && !state_->switched_at)
    state_->switched_at = search.evaluations();
}

std::optional<End> MaoeaCs::end() const {
  return state_->search.end();
}

SearchResult MaoeaCs::result() const {
  SearchResult result = state_->search.result();
  result.switched_at = state_->switched_at;
  return result;
}

SearchResult minimize(const Problem& problem, const SearchOptions& options) {
  MaoeaCs search(problem, options);
  Evaluator evaluator(problem, options);
  do {
    const Points points = search.ask();
    search.tell(points, evaluator.evaluate(points));
  } while (!search.end());
  return search.result();
}

}  // namespace stweaver::pareto
