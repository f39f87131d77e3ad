// The baseline that every search has to beat.
#pragma once

#include "pareto/maoea_cs.h"

namespace stweaver::pareto {

/// Draws points at random, uniform in the bounds, and selects from them as minimize() does. Options, result
/// and errors are those of minimize().
SearchResult random_search(const Problem& problem, const SearchOptions& options = {});

}  // namespace stweaver::pareto
