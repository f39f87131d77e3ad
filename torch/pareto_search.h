// The C functions by which Python drives a many-objective search (pareto/maoea_cs.h): plain types only, and
// points are evaluated by who asks for them. Failures are told as in control.h.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {

/// `variables` has kind (0 real, 1 integer, 2 categorical), lower and upper bound of each. `population` 0 and
/// `stagnation` 0 and `archive` as in SearchOptions. Puts a search, to be given to stweaver_search_delete(),
/// into `search`.
const char* stweaver_search_new(const double* variables, size_t count, int objectives, int64_t evaluations,
                                uint64_t seed, int population, int64_t stagnation, bool archive,
                                void** search);
void stweaver_search_delete(void* search);

/// Puts the points to evaluate next into `json`, as a list of lists; an empty one when the search is over. To
/// be given to stweaver_release().
const char* stweaver_search_ask(void* search, char** json);

/// Some of these points, `count` rows of variables, objectives and violation.
const char* stweaver_search_tell(void* search, const double* rows, size_t count);

/// Puts into `json`: `evaluations`, `generations`, `end` (why it is over, null while it is not), and rows as
/// above of `population`, `corners` and `front`. To be given to stweaver_release().
const char* stweaver_search_result(void* search, char** json);

}  // extern "C"
