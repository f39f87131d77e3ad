// The configurations that no other beats, and the few of them that are worth a look.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "advise/memory.h"
#include "advise/space.h"
#include "advise/time.h"

namespace stweaver {

/// A configuration with what it costs.
struct Choice {
  Configuration configuration;
  double seconds = 0;   ///< of a step
  double memory = 0;    ///< live bytes of the fullest rank
  int stage = 0;        ///< the pipeline stage of that rank
  double headroom = 0;  ///< times as long a sequence fits

  /// Tokens per second, all GPUs together.
  [[nodiscard]] double rate() const { return tokens_of(configuration) / seconds; }
  /// GPU hours for a thousand million tokens.
  [[nodiscard]] double cost() const { return configuration.gpus / rate() * 1e9 / 3600; }
};

/// What a front is of.
enum class Objective : std::uint8_t { kTime, kMemory, kGpus, kCost, kHeadroom };
std::string name_of(Objective objective);
/// Error that lists the names.
Objective objective_named(const std::string& name);
/// What is to be as small as can be, in logarithms, so that objectives of any unit can be compared.
double value_of(const Choice& choice, Objective objective);

/// How a front is looked for.
struct FrontOptions {
  /// Cost per token is GPUs times time, so what is best in cost is on the front of these.
  std::vector<Objective> objectives = {Objective::kTime, Objective::kMemory, Objective::kGpus};
  double memory = 0;  ///< bytes that a rank may need
  /// Look at every configuration; by default where there are at most ten times what a search evaluates.
  std::optional<bool> exhaustive = std::nullopt;
  std::int64_t evaluations = 200'000;
  std::uint64_t seed = 1;
  std::stop_token stop = {};
  /// Is told of the configurations looked at, now and then; several threads call it.
  std::function<void(std::int64_t)> progress = nullptr;
};

struct Front {
  std::vector<Choice> choices;   ///< none of which another is as good as in all objectives; by time
  std::int64_t evaluations = 0;  ///< configurations looked at, whether they fit or not
  bool exhaustive = false;       ///< all there are
  bool stopped = false;          ///< before its end
};

/// Looks for the front of a space by MaOEA-CS, or at all of it.
///
/// Error for a parameter that does not exist or a value that it cannot have, where no configuration can run,
/// and without objectives.
Front search_front(const Space& space, const Constants& constants, const FrontOptions& options);

/// The same as a problem of `pareto`: points are those of `grid`, which must outlive it.
pareto::Problem front_problem(const Grid& grid, const Constants& constants, const FrontOptions& options);

/// Of all configurations of a space whose living bytes are within the memory, the fastest that `fits`, which
/// is asked of one after another in order of time. Nothing where none does, or when it is stopped.
std::optional<Choice> fastest(const Space& space, const Constants& constants, const FrontOptions& options,
                              const std::function<bool(const Choice&)>& fits);

/// At most `count` of a front that differ clearly: the best of each objective, the one with fewest GPUs, the
/// cheapest, the knee (nearest to the best of everything), and then whatever lies farthest from those chosen,
/// in logarithms. In order of time.
std::vector<Choice> clear_choices(const Front& front, const std::vector<Objective>& objectives,
                                  std::size_t count);

}  // namespace stweaver
