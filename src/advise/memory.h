// How much memory a rank needs: what lives when, as a closed form of live bytes for many configurations, and
// as the requests of a trace for the few that are looked at, so that the planner says what would be reserved.
//
// Both are made of the same lists of tensors. They follow Korthikanti et al. (arXiv 2205.05198, section 4)
// for activations and Megatron-LM for states: bf16 weights, fp32 main gradients, fp32 master weights and
// moments.
#pragma once

#include "advise/configuration.h"
#include "trace/model.h"

namespace stweaver {

/// Bytes of one rank of a pipeline stage.
struct RankMemory {
  int stage = 0;
  double states = 0;       ///< weights, gradients, optimizer: between steps
  double activations = 0;  ///< the most that forward passes keep for backward passes
  double transient = 0;    ///< on top, inside one phase: logits, what is recomputed, gradients of activations
  [[nodiscard]] double peak() const { return states + activations + transient; }
};

/// Live bytes of the rank, stages counted from 0. Of a job for which why_not() is empty.
RankMemory live_memory(const Job& job, int stage);

/// The stage that needs most: the first holds most micro-batches, the last has the logits.
RankMemory fullest_rank(const Job& job);

/// What the allocator of a rank is asked for: the states, and two steps of the 1F1B schedule or its
/// interleaved form, each marked. Where there are more micro-batches than the pipeline is deep, those that
/// only repeat are left out: they change no peak.
Trace rank_trace(const Job& job, int stage);

/// What allocators make of a rank's requests.
struct Reservation {
  Bytes requested = 0;   ///< at their peak
  Bytes planned = 0;     ///< STWeaver, with a plan
  Bytes native = 0;      ///< PyTorch's default, simulated
  Bytes expandable = 0;  ///< PyTorch's expandable segments, simulated
};

/// Plans rank_trace() and serves it with PyTorch's allocators. Takes a second for the largest.
Reservation reserve(const Job& job, int stage);

}  // namespace stweaver
