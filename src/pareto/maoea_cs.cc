#include "pareto/maoea_cs.h"

#include <algorithm>
#include <cstddef>
#include <deque>
#include <numeric>
#include <utility>

#include "pareto/operators.h"
#include "pareto/points.h"
#include "pareto/search.h"

namespace stweaver::pareto {
namespace {

/// The share of generations that search for corners before they are stable, and for the rest afterwards.
constexpr double kFocus = 0.9;
/// The nadir is stable when it has not moved in so many generations.
constexpr std::size_t kGenerations = 50;
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

/// Whether the nadir is where it was some generations ago.
class NadirWatch {
 public:
  bool is_stable_after(const std::vector<double>& nadir, const std::vector<double>& magnitudes) {
    const bool is_stable_now =
        nadirs_.size() == kGenerations && is_stable(nadirs_.front(), nadir, magnitudes_.front());
    if (nadirs_.size() == kGenerations) {
      nadirs_.pop_front();
      magnitudes_.pop_front();
    }
    nadirs_.push_back(nadir);
    magnitudes_.push_back(magnitudes);
    return is_stable_now;
  }

 private:
  std::deque<std::vector<double>> nadirs_;
  std::deque<std::vector<double>> magnitudes_;
};

}  // namespace

SearchResult minimize(const Problem& problem, const SearchOptions& options) {
  Search search(problem, options);
  search.advance(search.random_points());
  NadirWatch watch;
  std::optional<std::int64_t> switched_at;
  const double end = static_cast<double>(options.evaluations) + (2 * static_cast<double>(search.capacity()));
  watch.is_stable_after(search.nadir(), search.magnitudes());
  while (!search.is_over()) {
    const double focus = switched_at ? 1 - kFocus : kFocus;
    const double exponent = kExponent * (1 - (static_cast<double>(search.evaluations()) / end));
    search.advance(search.random().uniform() <= focus ? mutated_corners(search, problem, exponent)
                                                      : offspring(search, problem));
    if (watch.is_stable_after(search.nadir(), search.magnitudes()) && !switched_at)
      switched_at = search.evaluations();
  }
  SearchResult result = search.result();
  result.switched_at = switched_at;
  return result;
}

}  // namespace stweaver::pareto
