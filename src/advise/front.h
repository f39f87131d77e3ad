// Every configuration of a space, and the few of them that are worth a look.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <stop_token>
#include <string>
#include <vector>

#include "advise/memory.h"
#include "advise/time.h"

namespace stweaver {

/// The configurations to choose from: all combinations of these that can run.
struct Space {
  ModelShape model;
  Gpu gpu;
  int gpus = 1;  ///< at most; fewer, by halves, are tried too unless `fixed` names gpus
  int sequence = 0;
  int global_batch = 0;
  Precision precision = Precision::kBf16;
  std::map<std::string, std::string> fixed;  ///< parameter to value: tp, pp, vp, cp, ep, zero, mbs, ...
};

/// A configuration with what it costs.
struct Choice {
  Configuration configuration;
  double seconds = 0;  ///< of a step
  double memory = 0;   ///< live bytes of the fullest rank
  int stage = 0;       ///< the pipeline stage of that rank

  /// Tokens per second, all GPUs together.
  [[nodiscard]] double rate() const { return tokens_of(configuration) / seconds; }
  /// Dollars for a million tokens.
  [[nodiscard]] double cost(const Gpu& gpu) const {
    return gpu.dollars_per_hour / 3600 * configuration.gpus / rate() * 1e6;
  }
};

struct Front {
  std::vector<Choice> choices;   ///< none of which another is as good as in all: time, memory, GPUs
  std::int64_t evaluations = 0;  ///< configurations that can run, whether they fit or not
  bool stopped = false;          ///< before all were seen
};

/// Looks at every configuration of the space. Those that need more than `memory` bytes are left out. Cost per
/// token is GPUs times time, so what is best in these is best in cost too.
///
/// Error for a parameter that does not exist or a value that it cannot have.
Front search_front(const Space& space, const Constants& constants, double memory,
                   const std::stop_token& stop);

/// At most `count` of them that differ clearly: the fastest, the smallest, the one with fewest GPUs, the
/// cheapest, the knee (nearest to the best of everything), and then whatever lies farthest from those chosen,
/// in logarithms. In order of time.
std::vector<Choice> clear_choices(const Front& front, const Gpu& gpu, std::size_t count);

/// The arguments of Megatron-LM's pretrain_gpt.py that make the configuration.
std::string megatron_arguments(const Job& job);

}  // namespace stweaver
