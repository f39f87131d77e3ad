#include "pareto_search.h"

#include <array>
#include <charconv>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/base.h"
#include "pareto/pareto.h"
#include "reported.h"

namespace stweaver::pareto {
namespace {

struct AskedSearch {
  Problem problem;
  MaoeaCs search;
  bool archive;
};

AskedSearch& search_of(void* handle) {
  return *static_cast<AskedSearch*>(handle);
}

/// Of numbers that begin a row of `variables`: kind, lower and upper bound.
Variable variable_of(std::span<const double> row) {
  return {.kind = static_cast<Kind>(row[0]), .lower = row[1], .upper = row[2]};
}

/// What reads it gets the same number again.
std::string json_of(double value) {
  std::array<char, 32> digits = {};
  const auto [end, error] = std::to_chars(digits.data(), digits.data() + digits.size(), value);
  return {digits.data(), end};
}

template <typename Each>
std::string json_list(std::size_t count, const Each& each) {
  std::string list = "[";
  for (std::size_t i = 0; i < count; ++i) list += (i > 0 ? ", " : "") + each(i);
  return list + "]";
}

std::string json_of(std::span<const double> values) {
  return json_list(values.size(), [&](std::size_t i) { return json_of(values[i]); });
}

std::string json_of(const Points& points) {
  return json_list(points.size(), [&](std::size_t i) { return json_of(points[i]); });
}

std::string json_of(const std::vector<Solution>& solutions) {
  return json_list(solutions.size(), [&](std::size_t i) {
    std::vector<double> row = solutions[i].variables;
    row.insert(row.end(), solutions[i].objectives.begin(), solutions[i].objectives.end());
    row.push_back(solutions[i].violation);
    return json_of(row);
  });
}

/// Those that none dominates: of all that were seen, or else of the population.
std::vector<Solution> front_of(const SearchResult& result, bool archive) {
  if (archive) return result.archive;
  Archive<std::vector<double>> best;
  for (const Solution& member : result.population)
    if (member.violation == 0) best.offer(member.objectives, member.variables);
  std::vector<Solution> front;
  front.reserve(best.entries().size());
  for (const auto& entry : best.entries()) front.push_back({entry.payload, entry.objectives, 0});
  return front;
}

std::string json_of(const SearchResult& result, bool archive) {
  const std::string end = result.end ? text('"', name_of(*result.end), '"') : "null";
  return text(R"({"evaluations": )", result.evaluations, R"(, "generations": )", result.generations,
              R"(, "end": )", end, R"(, "population": )", json_of(result.population), R"(, "corners": )",
              json_of(result.corners), R"(, "front": )", json_of(front_of(result, archive)), "}");
}

/// Generations without a new point are nobody's business.
Points next_points(MaoeaCs& search) {
  while (!search.end()) {
    Points points = search.ask();
    if (points.size() > 0) return points;
    search.tell(points, {.objectives = Points(0), .violations = {}});
  }
  return Points(0);
}

void tell(AskedSearch& asked, std::span<const double> rows, std::size_t count) {
  const std::size_t variables = asked.problem.variables.size();
  const auto objectives = static_cast<std::size_t>(asked.problem.objectives);
  Points points(variables);
  Evaluations evaluations{.objectives = Points(objectives), .violations = {}};
  const std::size_t width = variables + objectives + 1;
  for (std::size_t i = 0; i < count; ++i) {
    const std::span<const double> row = rows.subspan(i * width, width);
    points.add(row.first(variables));
    evaluations.objectives.add(row.subspan(variables, objectives));
    evaluations.violations.push_back(row.back());
  }
  asked.search.tell(points, evaluations);
}

}  // namespace
}  // namespace stweaver::pareto

using namespace stweaver;          // NOLINT(google-build-using-namespace): what follows is C
using namespace stweaver::pareto;  // NOLINT(google-build-using-namespace)

const char* stweaver_search_new(const double* variables, size_t count, int objectives, int64_t evaluations,
                                uint64_t seed, int population, int64_t stagnation, bool archive,
                                void** search) {
  return reported([&] {
    Problem problem{.variables = {}, .objectives = objectives, .evaluate = {}};
    for (size_t i = 0; i < count; ++i) problem.variables.push_back(variable_of({variables + (3 * i), 3}));
    MaoeaCs begun(problem, {.evaluations = evaluations,
                            .seed = seed,
                            .population = population,
                            .stagnation = stagnation,
                            .archive = archive});
    *search =
        std::make_unique<AskedSearch>(AskedSearch{std::move(problem), std::move(begun), archive}).release();
  });
}

void stweaver_search_delete(void* search) {
  const std::unique_ptr<AskedSearch> owned(static_cast<AskedSearch*>(search));
}

const char* stweaver_search_ask(void* search, char** json) {
  return reported([&] { *json = copy_of(json_of(next_points(search_of(search).search))); });
}

const char* stweaver_search_tell(void* search, const double* rows, size_t count) {
  return reported([&] {
    AskedSearch& asked = search_of(search);
    const std::size_t width =
        asked.problem.variables.size() + static_cast<std::size_t>(asked.problem.objectives) + 1;
    tell(asked, {rows, count * width}, count);
  });
}

const char* stweaver_search_result(void* search, char** json) {
  return reported(
      [&] { *json = copy_of(json_of(search_of(search).search.result(), search_of(search).archive)); });
}
