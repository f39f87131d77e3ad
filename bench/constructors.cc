// constructors TRACE...: what each member of the portfolio makes of each job or CSV instance on its own.
// constructors --without TRACE...: what the whole search makes of it without each of its parts.
#include <algorithm>
#include <array>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "archive/archive.h"
#include "plan/plan.h"
#include "plan/search.h"
#include "trace/trace.h"

namespace stweaver {
namespace {

/// A member that has not met the bound after so many placements, or so many seconds, is given up.
constexpr int kRounds = 100;
constexpr double kSeconds = 10;

/// How a member did, alone and without a time limit.
struct Score {
  double first = 0;  ///< peak / bound of its first placement
  double best = 0;
  int rounds = 0;  ///< placements until the best
  double seconds = 0;
};

Score score_of(Member& member, const Instance& instance, Bytes bound) {
  Score score;
  const Clock::time_point begin = Clock::now();
  const auto elapsed = [&] { return std::chrono::duration<double>(Clock::now() - begin).count(); };
  for (int round = 1; round <= kRounds && score.best != 1 && elapsed() < kSeconds; ++round) {
    const std::optional<Placement> placement = member.step(Budget());
    if (!placement) break;
    const double ratio = static_cast<double>(peak_of(instance, *placement)) / static_cast<double>(bound);
    if (round == 1) score.first = ratio;
    if (round > 1 && ratio >= score.best) continue;
    score.best = ratio;
    score.rounds = round;
  }
  score.seconds = elapsed();
  return score;
}

Instance read_instance(const std::string& path) {
  if (!path.ends_with(".csv")) {
    const Trace trace = read_traces(open_archive(path), path).front();
    return job_instance(trace, profile_of(trace), {});
  }
  Instance instance;
  for (const CsvRow& row : read_csv(open_archive(path), path)) {
    instance.items.push_back({.size = std::max<Bytes>(row.size, 1), .life = row.life});
  }
  return instance;
}

void print_job(const std::string& path) {
  const Instance instance = read_instance(path);
  const Bytes bound = lower_bound_of(instance);
  fmt::print("{}: {} items, bound {:.4f} GiB\n", path, instance.items.size(), to_gib(bound));
  fmt::print("  {:<22}{:>12}{:>12}{:>8}{:>10}\n", "constructor", "first", "best", "rounds", "seconds");
  for (Member& member : portfolio_members(instance, bound)) {
    const Score score = score_of(member, instance, bound);
    if (score.rounds == 0) continue;  // it has nothing to give here
    fmt::print("  {:<22}{:>12.6f}{:>12.6f}{:>8}{:>10.3f}\n", member.name, score.first, score.best,
               score.rounds, score.seconds);
    std::fflush(stdout);
  }
}

constexpr double kTimeout = 1;

double ratio_without(const Instance& instance, Bytes bound, const std::vector<Part>& parts) {
  const SearchResult result = search(instance, {.timeout = kTimeout, .anytime = true, .without = parts});
  return static_cast<double>(result.peak) / static_cast<double>(bound);
}

constexpr std::array kParts = {Part::kSweeps, Part::kSkylines,  Part::kRings,    Part::kRows,
                               Part::kCore,   Part::kHomophase, Part::kBestFits, Part::kExact};

/// Sweeps alone know lanes and echoes: without them, such a job has no plan.
void print_without(const std::string& path) {
  const Instance instance = read_instance(path);
  const Bytes bound = lower_bound_of(instance);
  fmt::print("{:<24}{:>10.6f}", std::filesystem::path(path).stem().stem().string(),
             ratio_without(instance, bound, {}));
  for (const Part part : kParts) {
    if (part == Part::kSweeps && !is_plain(instance)) {
      fmt::print("{:>11}", "none");
      continue;
    }
    fmt::print("{:>11.6f}", ratio_without(instance, bound, {part}));
  }
  fmt::print("{:>11.6f}\n", ratio_without(instance, bound, {kParts.begin() + 1, kParts.end()}));
  std::fflush(stdout);
}

void print_all_without(std::span<char*> paths) {
  fmt::print("{:<24}{:>10}{:>11}{:>11}{:>11}{:>11}{:>11}{:>11}{:>11}{:>11}{:>11}\n", "without", "nothing",
             "sweeps", "skylines", "rings", "rows", "core", "homophase", "best fits", "exact", "but sweeps");
  for (const char* path : paths) print_without(path);
}

}  // namespace
}  // namespace stweaver

int main(int argc, char** argv) {
  try {
    std::span<char*> paths(argv + 1, static_cast<std::size_t>(argc - 1));
    const bool without = !paths.empty() && paths.front() == std::string_view("--without");
    if (without) paths = paths.subspan(1);
    if (paths.empty()) {
      fmt::print(stderr, "usage: constructors [--without] TRACE...\n");
      return 2;
    }
    if (without) {
      stweaver::print_all_without(paths);
    } else {
      for (const char* path : paths) stweaver::print_job(path);
    }
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "constructors: %s\n", error.what());
    return 2;
  }
}
