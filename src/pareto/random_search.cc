#include "pareto/random_search.h"

#include "pareto/evaluator.h"
#include "pareto/search.h"

namespace stweaver::pareto {

SearchResult random_search(const Problem& problem, const SearchOptions& options) {
  Search search(problem, options);
  Evaluator evaluator(problem, options);
  while (!search.end()) {
    const Points points = search.unseen(search.random_points());
    search.take(points, evaluator.evaluate(points));
  }
  return search.result();
}

}  // namespace stweaver::pareto
