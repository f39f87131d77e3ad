// constructors TRACE...: what each member of the portfolio makes of each job or CSV instance on its own.
#include <algorithm>
#include <cstdio>
#include <exception>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "archive/archive.h"
#include "plan/plan.h"
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
    fmt::print("  {:<22}{:>12.6f}{:>12.6f}{:>8}{:>10.3f}\n", member.name, score.first, score.best,
               score.rounds, score.seconds);
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace stweaver

int main(int argc, char** argv) {
  try {
    for (int i = 1; i < argc; ++i) stweaver::print_job(argv[i]);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "constructors: %s\n", error.what());
    return 2;
  }
}
