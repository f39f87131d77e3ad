#include "pareto/random_search.h"

#include "pareto/search.h"

namespace stweaver::pareto {

SearchResult random_search(const Problem& problem, const SearchOptions& options) {
  Search search(problem, options);
  while (!search.is_over()) search.advance(search.random_points());
  return search.result();
}

}  // namespace stweaver::pareto
