// How much memory a rank needs: what lives when, as a closed form of live bytes for many configurations, and
// as the requests of a trace for the few that are looked at, so that the planner says what would be reserved.
//
// Both run the same operators (layers.h). States are Megatron-LM's: bf16 weights, fp32 main gradients, fp32
// master weights and moments.
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
  double host = 0;         ///< on the host: optimizer states that are there instead
  [[nodiscard]] double peak() const { return states + activations + transient; }
};

/// Bytes that a layer asks for.
struct LayerMemory {
  double kept = 0;      ///< from its forward pass to its backward pass
  double forward = 0;   ///< most, forward
  double backward = 0;  ///< most, backward, what it kept included
};

/// What layers ask for, whatever the stage: of all configurations that agree in tensor and context
/// parallelism, micro-batch and recomputation the same.
struct ChunkMemory {
  double state = 0;        ///< between layers
  LayerMemory first;       ///< of a chunk, whose input the schedule holds
  LayerMemory plain;       ///< a layer behind it
  LayerMemory recomputed;  ///< a layer that keeps its input only
  LayerMemory head;        ///< last norm, output layer, loss
  LayerMemory predicting;  ///< a layer of multi-token prediction with a head of its own
};
ChunkMemory chunk_memory(const Job& job);

/// Live bytes of the rank, stages counted from 0. Of a job for which why_not() is empty.
RankMemory live_memory(const Job& job, int stage);
RankMemory live_memory(const Job& job, int stage, const ChunkMemory& parts);

/// The stage that needs most: the first holds most micro-batches, the second may have more layers, the last
/// has the logits.
RankMemory fullest_rank(const Job& job, const ChunkMemory& parts);

/// What the allocator of a rank is asked for: the states, and two steps of the 1F1B schedule or its
/// interleaved form, each marked. Where there are more micro-batches than the pipeline is deep, those that
/// only repeat are left out: they change no peak.
Trace rank_trace(const Job& job, int stage);

/// What PyTorch's allocator, simulated, reserves for a trace at most on a device of so many bytes; where it
/// does not fit there, without a limit.
Bytes reserved_by_pytorch(const Trace& trace, bool expandable, Bytes memory);

/// What allocators make of a rank's requests. PyTorch's empty their cache where memory is short: what they
/// reserve is then what there is. Where that does not help, it is what they would reserve without a limit.
struct Reservation {
  Bytes requested = 0;   ///< at their peak
  Bytes planned = 0;     ///< STWeaver, with a plan
  Bytes native = 0;      ///< PyTorch's default, simulated
  Bytes expandable = 0;  ///< PyTorch's expandable segments, simulated
};

/// Plans rank_trace() and serves it with PyTorch's allocators on a device of so many bytes. Takes a second
/// for the largest.
Reservation reserve(const Job& job, int stage, Bytes memory);

}  // namespace stweaver
