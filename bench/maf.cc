// maf [--problem MaF3] [--objectives 10] [--runs 31] [--data DIR]: the mean IGD that MaOEA-CS reaches on the
// MaF problems, with the budget and the population of the 2017 competition, beside what was published.
#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <exception>
#include <filesystem>
#include <limits>
#include <map>
#include <mutex>
#include <numbers>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "archive/archive.h"
#include "base/error.h"
#include "maf_problems.h"
#include "pareto/pareto.h"

namespace stweaver {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using pareto::Points;

// Reading published data.

std::string read_text(const fs::path& path) {
  std::string text;
  std::array<std::byte, 1 << 16> buffer{};
  const ByteSource source = open_archive(path);
  while (const std::size_t count = source(buffer))
    text.append(reinterpret_cast<const char*>(buffer.data()), count);
  return text;
}

/// Calls `take` for each part of `text` between separators.
template <typename Take>
void split(std::string_view text, char separator, Take take) {
  while (true) {
    const std::size_t end = text.find(separator);
    take(text.substr(0, end));
    if (end == std::string_view::npos) return;
    text.remove_prefix(end + 1);
  }
}

double parse_number(std::string_view digits, const std::string& where) {
  double value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size())
    fail(where, ": `", digits, "` is no number; is the file complete?");
  return value;
}

using Row = std::map<std::string, std::string>;

std::vector<Row> read_table(const fs::path& path) {
  std::vector<std::string> header;
  std::vector<Row> rows;
  split(read_text(path), '\n', [&](std::string_view line) {
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty()) return;
    std::vector<std::string> cells;
    split(line, ',', [&](std::string_view cell) { cells.emplace_back(cell); });
    if (header.empty()) {
      header = std::move(cells);
      return;
    }
    if (cells.size() != header.size())
      fail(path.string(), ": a row of ", cells.size(), " columns under a header of ", header.size());
    Row& row = rows.emplace_back();
    for (std::size_t i = 0; i < cells.size(); ++i) row[header[i]] = std::move(cells[i]);
  });
  return rows;
}

const std::string& cell(const Row& row, const std::string& column) {
  const auto found = row.find(column);
  if (found == row.end()) fail("the table has no column `", column, "`: see bench/maf.cc for those it needs");
  return found->second;
}

double number(const Row& row, const std::string& column) {
  return parse_number(cell(row, column), "column " + column);
}

Points read_points(const fs::path& path, int dimension) {
  Points points(static_cast<std::size_t>(dimension));
  split(read_text(path), '\n', [&](std::string_view line) {
    std::vector<double> point;
    split(line, ' ', [&](std::string_view digits) {
      if (!digits.empty()) point.push_back(parse_number(digits, path.string()));
    });
    if (point.empty()) return;
    if (point.size() != points.dimension())
      fail(path.string(), ": a point of ", point.size(), " objectives, not ", dimension);
    points.add(point);
  });
  return points;
}

fs::path front_file(const std::string& data, int problem, int objectives) {
  return fs::path(data) / "fronts" / fmt::format("MaF{}_M{}.txt.xz", problem, objectives);
}

// Running.

struct Options {
  std::string problem;
  std::vector<int> objectives = {5, 10, 15};
  int runs = 31;
  int threads = 1;
  std::uint64_t seed = 1;
  std::string data;
  bool normalize = false;
  bool random = false;
  bool json = false;
  bool check = false;
  bool front = false;
  bool answer = false;
};

struct Run {
  double igd = 0;
  std::int64_t evaluations = 0;
  std::optional<std::int64_t> switched_at;
  double seconds = 0;  ///< of the processor
};

struct Instance {
  int problem = 0;
  int objectives = 0;
  [[nodiscard]] std::string name() const { return fmt::format("MaF{}", problem); }
};

/// What is known of an instance from others.
struct Published {
  double mean = 0;
  double deviation = 0;
  double runs = 0;
  std::vector<double> competitors;  ///< mean IGD
};

Points objectives_of(const std::vector<pareto::Solution>& population, int dimension) {
  Points points(static_cast<std::size_t>(dimension));
  for (const pareto::Solution& solution : population) points.add(solution.objectives);
  return points;
}

/// Seconds of the processor that this thread took: what others do at the same time does not count.
double processor_seconds() {
  timespec time = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + (static_cast<double>(time.tv_nsec) * 1e-9);
}

Run run_once(const Instance& instance, const Points& front, const Options& options, std::uint64_t seed) {
  const pareto::Problem problem = maf_problem(instance.problem, instance.objectives);
  const pareto::SearchOptions search{
      .evaluations = maf_evaluations(problem), .seed = seed, .threads = 1, .normalize = options.normalize};
  const double begin = processor_seconds();
  const pareto::SearchResult result =
      options.random ? pareto::random_search(problem, search) : pareto::minimize(problem, search);
  const double seconds = processor_seconds() - begin;
  const Points found = objectives_of(result.population, instance.objectives);
  return {pareto::inverted_generational_distance(front, found), result.evaluations, result.switched_at,
          seconds};
}

/// The runs of an instance, several at once; each of them is the same on any number of threads.
std::vector<Run> run_all(const Instance& instance, const Points& front, const Options& options) {
  std::vector<Run> runs(static_cast<std::size_t>(options.runs));
  std::atomic<std::size_t> next = 0;
  std::mutex mutex;
  std::exception_ptr failure;
  const auto work = [&] {
    try {
      for (std::size_t i = next++; i < runs.size(); i = next++)
        runs[i] = run_once(instance, front, options, options.seed + i);
    } catch (...) {
      const std::scoped_lock lock(mutex);
      failure = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> helpers;
    for (int i = 1; i < std::min(options.threads, options.runs); ++i) helpers.emplace_back(work);
    work();
  }
  if (failure) std::rethrow_exception(failure);
  return runs;
}

// Judging.

struct Score {
  double mean = 0;
  double deviation = 0;  ///< of a sample
  double evaluations_per_second = 0;
};

Score score_of(const std::vector<Run>& runs) {
  Score score;
  const auto count = static_cast<double>(runs.size());
  double evaluations = 0;
  double seconds = 0;
  for (const Run& run : runs) {
    score.mean += run.igd / count;
    evaluations += static_cast<double>(run.evaluations);
    seconds += run.seconds;
  }
  double squares = 0;
  for (const Run& run : runs) squares += (run.igd - score.mean) * (run.igd - score.mean);
  score.deviation = runs.size() > 1 ? std::sqrt(squares / (count - 1)) : 0;
  score.evaluations_per_second = evaluations / std::max(seconds, 1e-9);
  return score;
}

/// Where the result would stand among the competitors.
std::size_t rank_of(double mean, const Published& published) {
  return 1 +
         static_cast<std::size_t>(std::count_if(published.competitors.begin(), published.competitors.end(),
                                                [&](double other) { return other < mean; }));
}

/// The difference of the means, in standard errors.
double standard_errors(double mean, std::size_t runs, const Published& published) {
  return (mean - published.mean) /
         (published.deviation * std::sqrt((1 / static_cast<double>(runs)) + (1 / published.runs)));
}

using Table = std::map<std::pair<std::string, int>, Published>;

Table read_published(const std::string& data) {
  Table table;
  if (data.empty()) return table;
  for (const Row& row : read_table(fs::path(data) / "igd.csv")) {
    Published& published = table[{cell(row, "problem"), static_cast<int>(number(row, "M"))}];
    if (cell(row, "algorithm") != "MaOEA-CS") {
      published.competitors.push_back(number(row, "igd_mean"));
      continue;
    }
    published.mean = number(row, "igd_mean");
    published.deviation = number(row, "igd_std");
    published.runs = number(row, "runs");
  }
  return table;
}

void print_head() {
  fmt::print("{:<7}{:>4}{:>6}{:>12}{:>11}{:>12}{:>11}{:>8}{:>7}{:>8}{:>6}{:>10}{:>10}\n", "problem", "M",
             "runs", "mean IGD", "deviation", "published", "deviation", "ratio", "z", "within", "rank",
             "switched", "eval/s");
}

void print_row(const Instance& instance, const std::vector<Run>& runs, const Published* published) {
  const Score score = score_of(runs);
  const auto switched =
      std::count_if(runs.begin(), runs.end(), [](const Run& run) { return run.switched_at; });
  fmt::print("{:<7}{:>4}{:>6}{:>12.5g}{:>11.3g}", instance.name(), instance.objectives, runs.size(),
             score.mean, score.deviation);
  if (published != nullptr) {
    fmt::print("{:>12.5g}{:>11.3g}{:>8.3f}{:>7.1f}{:>8}{:>6}", published->mean, published->deviation,
               score.mean / published->mean, standard_errors(score.mean, runs.size(), *published),
               std::abs(score.mean - published->mean) <= published->deviation ? "yes" : "no",
               rank_of(score.mean, *published));
  } else {
    fmt::print("{:>12}{:>11}{:>8}{:>7}{:>8}{:>6}", "-", "-", "-", "-", "-", "-");
  }
  fmt::print("{:>10}{:>10.0f}\n", fmt::format("{}/{}", switched, runs.size()), score.evaluations_per_second);
  std::fflush(stdout);
}

Json json_of(const Instance& instance, const std::vector<Run>& runs, const Published* published) {
  const Score score = score_of(runs);
  Json each = Json::array();
  for (const Run& run : runs) {
    each.push_back({{"igd", run.igd},
                    {"evaluations", run.evaluations},
                    {"switched_at", run.switched_at ? Json(*run.switched_at) : Json()},
                    {"seconds", run.seconds}});
  }
  Json json = {{"problem", instance.name()},
               {"objectives", instance.objectives},
               {"mean", score.mean},
               {"deviation", score.deviation},
               {"evaluations_per_second", score.evaluations_per_second}};
  if (published != nullptr) {
    json["published_mean"] = published->mean;
    json["published_deviation"] = published->deviation;
    json["standard_errors"] = standard_errors(score.mean, runs.size(), *published);
    json["rank"] = rank_of(score.mean, *published);
  }
  json["runs"] = each;
  return json;
}

/// The problems asked for: 0 for all of them.
std::vector<Instance> instances_of(const Options& options) {
  int asked = 0;
  if (!options.problem.empty()) {
    for (int i = 1; i <= kMafProblems; ++i) {
      if (options.problem == Instance{i, 0}.name()) asked = i;
    }
    if (asked == 0) fail("there is no problem ", options.problem, ": choose MaF1 to MaF", kMafProblems);
  }
  std::vector<Instance> instances;
  for (const int objectives : options.objectives) {
    for (int i = 1; i <= kMafProblems; ++i) {
      if (asked == 0 || asked == i) instances.push_back({i, objectives});
    }
  }
  return instances;
}

void run(const Options& options) {
  const Table table = read_published(options.data);
  if (!options.json) print_head();
  Json all = Json::array();
  for (const Instance& instance : instances_of(options)) {
    const auto found = table.find({instance.name(), instance.objectives});
    const Published* published = found == table.end() ? nullptr : &found->second;
    const fs::path file = front_file(options.data, instance.problem, instance.objectives);
    const Points front = !options.data.empty() && fs::exists(file)
                             ? read_points(file, instance.objectives)
                             : maf_front(instance.problem, instance.objectives);
    const std::vector<Run> runs = run_all(instance, front, options);
    if (options.json) {
      all.push_back(json_of(instance, runs, published));
    } else {
      print_row(instance, runs, published);
    }
  }
  if (options.json) fmt::print("{}\n", all.dump(2));
}

// For searches of others.

/// Answers each point on standard input with its objectives, as doubles in the machine's own form.
void answer(const Instance& instance) {
  const pareto::Problem problem = maf_problem(instance.problem, instance.objectives);
  std::vector<double> x(problem.variables.size());
  std::vector<double> f(static_cast<std::size_t>(instance.objectives));
  while (std::fread(x.data(), sizeof(double), x.size(), stdin) == x.size()) {
    problem.evaluate(x, f);
    if (std::fwrite(f.data(), sizeof(double), f.size(), stdout) != f.size())
      fail("nobody reads the objectives");
    std::fflush(stdout);
  }
}

/// The bounds of the variables, two lines, and the points of the front, as text.
void print_front(const Instance& instance) {
  const pareto::Problem problem = maf_problem(instance.problem, instance.objectives);
  std::vector<double> lower;
  std::vector<double> upper;
  for (const pareto::Variable& variable : problem.variables) {
    lower.push_back(variable.lower);
    upper.push_back(variable.upper);
  }
  fmt::print("{}\n{}\n", fmt::join(lower, " "), fmt::join(upper, " "));
  const Points front = maf_front(instance.problem, instance.objectives);
  for (std::size_t i = 0; i < front.size(); ++i) fmt::print("{}\n", fmt::join(front[i], " "));
}

/// Refuses more than one.
Instance only_instance(const Options& options) {
  const std::vector<Instance> instances = instances_of(options);
  if (instances.size() != 1) fail("one problem at a time: give --problem and --objectives");
  return instances.front();
}

// Checking.

constexpr double kGolden = 0.6180339887498949;

/// For MaF12: y = 0.35 in every variable, found from the last backwards as each is biased by those behind it.
std::vector<double> unbiased_point(std::size_t count) {
  constexpr double kTarget = 0.35;
  const double v = 0.98 / 49.98;
  std::vector<double> x(count);
  double sum = kTarget;
  x.back() = kTarget * 2 * static_cast<double>(count);
  for (std::size_t i = count - 1; i-- > 0;) {
    const double mean = sum / static_cast<double>(count - 1 - i);
    const double exponent = 0.02 + (49.98 * (v - ((1 - (2 * mean)) * std::abs(std::floor(0.5 - mean) + v))));
    const double z = std::pow(kTarget, 1 / exponent);
    x[i] = z * 2 * static_cast<double>(i + 1);
    sum += z;
  }
  return x;
}

/// For MaF13: distance variables at their optimum for the second position.
void settle_distances(std::vector<double>& x) {
  x[1] = 0.4;
  const auto count = static_cast<double>(x.size());
  for (std::size_t i = 2; i < x.size(); ++i)
    x[i] = 2 * x[1] *
           std::sin((2 * std::numbers::pi * x[0]) + (static_cast<double>(i + 1) * std::numbers::pi / count));
}

/// For MaF14 and MaF15: y = 0, or 1 for Rosenbrock's function, in each group.
void settle_groups(int number, int objectives, std::vector<double>& x) {
  std::size_t i = static_cast<std::size_t>(objectives) - 1;
  std::size_t m = 0;
  for (const std::size_t size : maf_groups(objectives)) {
    const double y = number == 14 && m % 2 == 1 ? 1 : 0;
    for (const std::size_t end = i + (2 * size); i < end; ++i) {
      const double share = static_cast<double>(i + 1) / static_cast<double>(x.size());
      x[i] = (y + (10 * x[0])) / (number == 14 ? 1 + share : 1 + std::cos(std::numbers::pi / 2 * share));
    }
    ++m;
  }
}

/// A point on the front, given the golden section.
std::vector<double> optimal_point(int number, int objectives, std::vector<double> x) {
  const auto begin = x.begin() + std::min<std::ptrdiff_t>(objectives - 1, std::ssize(x));
  if (number <= 6) std::fill(begin, x.end(), 0.5);
  if (number == 7) {
    for (double& value : x) value *= 0.25;
    std::fill(begin, x.end(), 0.0);
  }
  if (number == 8 || number == 9) return {0.3, -0.2};
  if (number == 10 || number == 11) {
    for (auto at = begin; at != x.end(); ++at) *at = 0.35 * 2 * static_cast<double>(at - x.begin() + 1);
  }
  if (number == 12) return unbiased_point(x.size());
  if (number == 13) settle_distances(x);
  if (number >= 14) settle_groups(number, objectives, x);
  return x;
}

/// The points at which checks.csv has objective values: the middle, the golden section, and one on the front.
std::vector<double> check_point(int number, const pareto::Problem& problem, const std::string& kind) {
  std::vector<double> x;
  x.reserve(problem.variables.size());
  for (const pareto::Variable& variable : problem.variables) {
    const double golden = kGolden * static_cast<double>(x.size() + 1);
    const double share = kind == "mid" ? 0.5 : golden - std::floor(golden);
    x.push_back(variable.lower + (share * (variable.upper - variable.lower)));
  }
  return kind == "optimal" ? optimal_point(number, problem.objectives, x) : x;
}

double relative_error(double value, double expected, double smallest) {
  return std::abs(value - expected) / std::max(std::abs(expected), smallest);
}

/// The largest error of a row of checks.csv, relative to the values where they are not small.
double check_row(const Row& row) {
  constexpr double kSmall = 0.01;
  const int index = static_cast<int>(parse_number(cell(row, "problem").substr(3), "column problem"));
  const int objectives = static_cast<int>(number(row, "M"));
  const pareto::Problem problem = maf_problem(index, objectives);
  const std::vector<double> x = check_point(index, problem, cell(row, "point"));
  std::vector<double> f(static_cast<std::size_t>(objectives));
  problem.evaluate(x, f);
  double worst = relative_error(std::accumulate(x.begin(), x.end(), 0.0), number(row, "sum_x"), 1);
  for (int m = 0; m < objectives; ++m)
    worst = std::max(worst, relative_error(f[static_cast<std::size_t>(m)],
                                           number(row, fmt::format("f{}", m + 1)), kSmall));
  return worst;
}

/// The number of rows of checks.csv that are not met.
std::size_t check_values(const std::string& data) {
  constexpr double kTolerance = 1e-10;
  const fs::path file = fs::path(data) / "checks.csv";
  const std::vector<Row> rows = read_table(file);
  if (rows.empty()) fail(file.string(), ": no values to compare with; is the file complete?");
  double worst = 0;
  std::size_t wrong = 0;
  for (const Row& row : rows) {
    const double error = check_row(row);
    worst = std::max(worst, error);
    if (error <= kTolerance) continue;
    ++wrong;
    fmt::print("{} M={} {}: error {:.2g}\n", cell(row, "problem"), cell(row, "M"), cell(row, "point"), error);
  }
  fmt::print("objective values: {} points, {} wrong, largest error {:.2g}\n", rows.size(), wrong, worst);
  return wrong;
}

/// How far apart two fronts are, in parts of their largest value; infinitely far unless of one size.
double front_error(const Points& made, const Points& stored) {
  if (made.size() != stored.size()) return std::numeric_limits<double>::infinity();
  double largest = 0;
  for (std::size_t i = 0; i < stored.size(); ++i) {
    for (const double value : stored[i]) largest = std::max(largest, std::abs(value));
  }
  return pareto::inverted_generational_distance(stored, made) / largest;
}

/// The number of generated fronts that are not those of the data.
std::size_t check_fronts(const Options& options) {
  constexpr double kTolerance = 1e-8;  // stored with nine digits
  double worst = 0;
  std::size_t wrong = 0;
  std::size_t count = 0;
  for (const Instance& instance : instances_of(options)) {
    const fs::path file = front_file(options.data, instance.problem, instance.objectives);
    if (!fs::exists(file)) continue;
    const Points made = maf_front(instance.problem, instance.objectives);
    const double error = front_error(made, read_points(file, instance.objectives));
    worst = std::max(worst, error);
    ++count;
    if (error <= kTolerance) continue;
    ++wrong;
    fmt::print("front of {} M={}: error {:.2g}\n", instance.name(), instance.objectives, error);
  }
  if (count == 0) fail(options.data, ": fronts/ has none of the fronts asked for; is the folder complete?");
  fmt::print("fronts: {} compared, {} wrong, largest error {:.2g}\n", count, wrong, worst);
  return wrong;
}

bool check(const Options& options) {
  if (options.data.empty())
    fail("--check compares with published values: say where they are with --data DIR");
  return check_values(options.data) + check_fronts(options) == 0;
}

}  // namespace
}  // namespace stweaver

int main(int argc, char** argv) {
  stweaver::Options options;
  CLI::App app("Mean IGD of MaOEA-CS on the MaF problems, as in the 2017 competition", "maf");
  app.add_option("--problem", options.problem, "MaF1 to MaF15 (default: all)");
  app.add_option("--objectives", options.objectives, "one number or several (default: 5 10 15)");
  app.add_option("--runs", options.runs, "with seeds one after the other")->check(CLI::Range(1, 1'000'000));
  app.add_option("--seed", options.seed, "of the first run");
  app.add_option("--threads", options.threads, "runs at once")->check(CLI::Range(1, 1024));
  app.add_option("--data", options.data, "folder with igd.csv, checks.csv and fronts/")
      ->check(CLI::ExistingDirectory);
  app.add_flag("--normalize", options.normalize, "in units of the front's extent, not as published");
  app.add_flag("--random", options.random, "random search instead");
  app.add_flag("--json", options.json);
  app.add_flag("--check", options.check, "compare objective values and fronts with those of the data");
  app.add_flag("--front", options.front, "print bounds and front of one problem");
  app.add_flag("--answer", options.answer,
               "objectives of one problem for each point on standard input, as doubles");
  CLI11_PARSE(app, argc, argv);
  try {
    if (options.check) return stweaver::check(options) ? 0 : 1;
    if (options.answer) {
      stweaver::answer(stweaver::only_instance(options));
    } else if (options.front) {
      stweaver::print_front(stweaver::only_instance(options));
    } else {
      stweaver::run(options);
    }
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "maf: %s\n", error.what());
    return 2;
  }
}
