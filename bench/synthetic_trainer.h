// Jobs made up from a seed: what a trainer whose batches change from step to step asks its allocator for.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "trace/model.h"

namespace stweaver {

enum class Family : std::uint8_t {
  kLengths,       ///< one batch per step, each padded to a length of its own
  kAccumulation,  ///< several micro-batches of different lengths per step, gradients accumulated
  kPipeline,      ///< several micro-batches of different lengths in flight at one time
  kEvaluation,    ///< lengths, with evaluations of other shapes between steps and partial last batches
  kExperts,       ///< batches of one shape, tokens spread over experts by a router
  kRecomputed,    ///< the same with every layer's forward repeated in the backward
  kBoth,          ///< experts, and batches of different lengths
  kGrowing,       ///< adversary: each step's batch is longer than all before
  kAlternating,   ///< adversary: two jobs take turns, a few steps each
  kUnseen,        ///< adversary: no length ever comes twice, in no order
  kTranslation,   ///< adversary: an encoder and a decoder, each of a length of its own
};
inline constexpr std::size_t kFamilies = 11;
inline constexpr std::size_t kFirstAdversary = static_cast<std::size_t>(Family::kGrowing);

constexpr std::string_view name_of(Family family) {
  constexpr std::array<std::string_view, kFamilies> kNames = {
      "lengths", "accumulation", "pipeline",    "evaluation", "experts",    "recomputed",
      "both",    "growing",      "alternating", "unseen",     "translation"};
  return kNames[static_cast<std::size_t>(family)];
}

/// A whole job of `steps` steps: weights, gradients, optimizer states, activations of every layer, logits.
/// The seed chooses the model too. Lives on one stream; step marks are set.
Trace make_job(Family family, std::uint64_t seed, int steps);

}  // namespace stweaver
