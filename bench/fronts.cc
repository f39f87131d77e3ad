// How much of the front of an advisor's problem searches find with few evaluations, beside all of it:
//   fronts [--seeds 10]                 a JSON document: MaOEA-CS and random search
//   fronts --answer PROBLEM             evaluates points for another search (bench/fronts.py)
// The latter reads points, doubles one after another, and writes for each the point mended, its violation and
// its objectives; at the end of its input, what the former says of a search.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "advise/advise.h"
#include "base/base.h"
#include "pareto/pareto.h"

namespace stweaver {
namespace {

using Json = nlohmann::ordered_json;
using Values = std::vector<double>;

struct Case {
  const char* name;
  const char* model;
  const char* gpu;
  int gpus;
  int sequence;
  std::vector<Objective> objectives;
};

std::vector<Case> cases() {
  const std::vector<Objective> three = {Objective::kTime, Objective::kMemory, Objective::kGpus};
  std::vector<Objective> four = three;
  four.push_back(Objective::kHeadroom);
  return {{"dense", "llama3_70b", "h100", 512, 8192, three},
          {"experts", "qwen3_235b_a22b", "gb200", 1024, 8192, three},
          {"headroom", "deepseek_v3", "h100", 1024, 4096, four}};
}

/// A problem with all there is to know of it.
class Known {
 public:
  explicit Known(const Case& what) : grid_(space_of(what)) {
    options_.objectives = what.objectives;
    options_.memory = static_cast<double>(known_gpu(what.gpu).memory);
    options_.exhaustive = true;
    const Front front = search_front(space_of(what), known_constants("megatron"), options_);
    evaluations_ = front.evaluations;
    for (const Choice& choice : front.choices) {
      Values values;
      for (const Objective objective : what.objectives) values.push_back(value_of(choice, objective));
      front_.push_back(values);
    }
    volume_ = volume_of(front_);
  }

  [[nodiscard]] pareto::Problem problem() const {
    return front_problem(grid_, known_constants("megatron"), options_);
  }
  [[nodiscard]] std::int64_t evaluations() const { return evaluations_; }
  [[nodiscard]] std::size_t size() const { return front_.size(); }

  /// The share of the hypervolume, in logarithms, from the front's ideal point to a tenth beyond its nadir.
  [[nodiscard]] double volume_share(const std::vector<Values>& found) const {
    return volume_of(found) / volume_;
  }
  /// The share of the front's points that were found.
  [[nodiscard]] double found_share(const std::vector<Values>& found) const {
    constexpr double kSame = 1e-9;
    const auto is_found = [&](const Values& point) {
      return std::any_of(found.begin(), found.end(), [&](const Values& other) {
        return std::equal(point.begin(), point.end(), other.begin(),
                          [](double a, double b) { return std::abs(a - b) < kSame; });
      });
    };
    return static_cast<double>(std::count_if(front_.begin(), front_.end(), is_found)) /
           static_cast<double>(front_.size());
  }

 private:
  static Space space_of(const Case& what) {
    Space space;
    space.model = known_model(what.model);
    space.gpu = known_gpu(what.gpu);
    space.gpus = what.gpus;
    space.sequence = what.sequence;
    space.global_batch = (1 << 22) / what.sequence;
    return space;
  }

  [[nodiscard]] double volume_of(const std::vector<Values>& points) const {
    const std::size_t dimension = front_.front().size();
    Values least = front_.front();
    Values most = front_.front();
    for (const Values& point : front_) {
      for (std::size_t k = 0; k < dimension; ++k) {
        least[k] = std::min(least[k], point[k]);
        most[k] = std::max(most[k], point[k]);
      }
    }
    pareto::Points scaled(dimension);
    for (Values point : points) {
      for (std::size_t k = 0; k < dimension; ++k) point[k] = (point[k] - least[k]) / (most[k] - least[k]);
      scaled.add(point);
    }
    return pareto::hypervolume(scaled, Values(dimension, 1.1));
  }

  Grid grid_;
  FrontOptions options_;
  std::int64_t evaluations_ = 0;
  std::vector<Values> front_;
  double volume_ = 0;
};

std::vector<Values> objectives_of(const std::vector<pareto::Solution>& solutions) {
  std::vector<Values> objectives;
  objectives.reserve(solutions.size());
  for (const pareto::Solution& solution : solutions) objectives.push_back(solution.objectives);
  return objectives;
}

using Search = pareto::SearchResult (*)(const pareto::Problem&, const pareto::SearchOptions&);

Json searched(const Known& known, Search search, std::int64_t evaluations, int seeds) {
  Json volumes = Json::array();
  Json found = Json::array();
  for (int seed = 1; seed <= seeds; ++seed) {
    const pareto::SearchResult result =
        search(known.problem(),
               {.evaluations = evaluations, .seed = static_cast<std::uint64_t>(seed), .archive = true});
    volumes.push_back(known.volume_share(objectives_of(result.archive)));
    found.push_back(known.found_share(objectives_of(result.archive)));
  }
  return {{"volume", volumes}, {"found", found}};
}

Json compare(const Case& what, int seeds) {
  const Known known(what);
  Json budgets = Json::array();
  for (const double share : {0.01, 0.05}) {
    const auto evaluations = static_cast<std::int64_t>(share * static_cast<double>(known.evaluations()));
    budgets.push_back({{"evaluations", evaluations},
                       {"MaOEA-CS", searched(known, pareto::minimize, evaluations, seeds)},
                       {"random", searched(known, pareto::random_search, evaluations, seeds)}});
  }
  return {{"problem", what.name},
          {"model", what.model},
          {"gpu", what.gpu},
          {"gpus", what.gpus},
          {"objectives", what.objectives.size()},
          {"configurations", known.evaluations()},
          {"front", known.size()},
          {"budgets", budgets}};
}

bool read_point(Values& point) {
  return std::fread(point.data(), sizeof(double), point.size(), stdin) == point.size();
}

void write_values(const Values& values) {
  std::fwrite(values.data(), sizeof(double), values.size(), stdout);
  std::fflush(stdout);
}

void answer(const Case& what) {
  const Known known(what);
  const pareto::Problem problem = known.problem();
  pareto::Archive<int> archive;
  pareto::Random random(1);
  const auto objectives = static_cast<std::size_t>(problem.objectives);
  // How many variables, their most values, how many objectives.
  Values shape = {static_cast<double>(problem.variables.size())};
  for (const pareto::Variable& variable : problem.variables) shape.push_back(variable.upper);
  shape.push_back(problem.objectives);
  write_values(shape);
  for (Values point(problem.variables.size()); read_point(point);) {
    Values values(objectives);
    problem.repair(point, random);
    const double violation = problem.evaluate(point, values);
    if (violation == 0) archive.offer(values, 0);
    write_values(point);
    write_values({violation});
    write_values(values);
  }
  std::vector<Values> found;
  for (const auto& entry : archive.entries()) found.push_back(entry.objectives);
  write_values({known.volume_share(found), known.found_share(found)});
}

int run(int argc, char** argv) {
  CLI::App app("How much of the front of an advisor's problem searches find.");
  int seeds = 10;
  std::string name;
  app.add_option("--seeds", seeds, "runs of each search")->check(CLI::Range(1, 1000));
  app.add_option("--answer", name, "evaluate points of this problem for another search");
  CLI11_PARSE(app, argc, argv);
  if (name.empty()) {
    Json document = Json::array();
    for (const Case& what : cases()) document.push_back(compare(what, seeds));
    std::cout << document.dump(2) << '\n';
    return 0;
  }
  for (const Case& what : cases()) {
    if (name != what.name) continue;
    answer(what);
    return 0;
  }
  fail("no problem is called ", name);
}

}  // namespace
}  // namespace stweaver

int main(int argc, char** argv) {
  try {
    return stweaver::run(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "fronts: " << error.what() << '\n';
    return 2;
  }
}
