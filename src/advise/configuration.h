// One way to train: how a job is spread over GPUs, and what it trades for memory.
#pragma once

#include <cstdint>
#include <string>

#include "advise/cluster.h"
#include "advise/model.h"

namespace stweaver {

enum class Precision : std::uint8_t { kBf16, kFp8, kFp8Rowwise, kMxfp8, kNvfp4 };
enum class Recompute : std::uint8_t {
  kNone,
  kSelective,  ///< what is cheap: norms, activation functions, the core of attention if scores are kept. Of
               ///< these Megatron-LM has norms that stand alone and the activation functions of experts.
  kOperators,  ///< the same and every second product (torchtitan's selective policy by operator)
  kFull,       ///< a layer keeps its input only
};

/// How the loss is computed from bf16 logits.
enum class Loss : std::uint8_t {
  kMegatron,           ///< in place on a copy in fp32
  kTransformerEngine,  ///< in place: the gradient of the logits takes their place
  kPyTorch,            ///< operator by operator, in fp32
  kCompiled,           ///< PyTorch's in one kernel, which keeps the logits
};

/// What the layers are made of.
enum class Modules : std::uint8_t {
  kMegatron,  ///< Megatron-LM with TransformerEngine
  kPyTorch,   ///< modules of PyTorch that are not compiled
};

struct Configuration {
  int gpus = 1;
  int tp = 1;
  int pp = 1;
  int virtual_stages = 1;   ///< model chunks per pipeline stage
  int rounds = 0;           ///< micro-batches that a model chunk takes before the next one; 0 for `pp`
  int first_layers = 0;     ///< of the first pipeline stage; 0 for as many as the others have
  int last_layers = 0;      ///< likewise, of the last
  bool short_last = false;  ///< share_out_layers() leaves the last fewer, for its output layer
  int cp = 1;
  int ep = 1;
  int expert_tp = 1;  ///< ranks that split each expert
  int zero = 1;   ///< what data parallel ranks share: 1 optimizer, 2 gradients too, 3 parameters too (FSDP)
  int shard = 0;  ///< ranks that share it; 0 for all of dp x cp
  int micro_batch = 1;  ///< sequences
  int global_batch = 1;
  int sequence = 0;
  Recompute recompute = Recompute::kNone;
  int recompute_layers = 0;  ///< with kFull: the first so many layers of each model chunk; 0 for all
  bool offload_optimizer = false;
  Precision precision = Precision::kBf16;
  bool sequence_parallel = true;  ///< with tensor parallelism: activations between its regions are split too
  bool overlap_tp = false;        ///< products and their collectives run in pieces beside each other
  bool overlap_experts = false;   ///< traffic of experts runs beside other micro-batches' products
  bool flash_attention = true;    ///< scores are never in memory
  bool flash_library = false;     ///< the library of that name computes it, whatever the GPU would be given
  bool megatron = true;  ///< schedules, the output layer and what recomputes a part are Megatron-LM's
  bool transformer_engine = true;  ///< is installed: optimizer, attention and the products of routers are its
  bool local_layers = false;       ///< products and norms are Megatron-LM's own all the same
  bool fused_softmax = true;       ///< where scores are kept, they are in bf16 throughout
  bool grouped_experts = true;     ///< one call for the products of all experts of a rank
  bool compiled = true;            ///< pointwise operators are fused
  bool fused_gate = true;          ///< and so are the two halves of a gated MLP
  bool pads_vocabulary = true;     ///< as Megatron-LM does; others where tensor parallel ranks share it
  bool legacy = false;             ///< Megatron-LM's models from before its core (--use-legacy-models)
  Loss loss = Loss::kMegatron;
  bool fused_gradients = true;  ///< products add to the main gradients of weights by themselves
  bool rotary = true;           ///< positions turn queries and keys
  bool dropout = false;
  bool attention_mask = false;  ///< the data loader makes one: a byte for each pair of tokens
  bool deterministic = false;   ///< with the workspaces that cuBLAS then needs
  bool fused_experts = true;    ///< one kernel for their products, gate and narrowing, where there is one
  bool lora = false;            ///< weights are frozen but for adapters
  bool narrow_inputs = true;  ///< products keep their inputs as narrow as they take them (TransformerEngine)
  int weight_bytes = 2;       ///< per parameter of layers; embeddings are bf16
  int gradient_bytes = 4;     ///< per parameter, as it is reduced
  int moment_bytes = 4;       ///< of each of the optimizer's two moments, beside an fp32 parameter
};

/// By how much a real job differs from the memory model (calibration.h).
struct Calibration {
  double states = 1;       ///< what lives between steps, as a share of what the model says
  double activations = 1;  ///< what a step needs on top
};

/// What is to be trained, with what, how.
struct Job {
  ModelShape model;
  Gpu gpu;
  Configuration configuration;
  Calibration calibration = {};
};

/// Has the layers made of modules of PyTorch, which fuse nothing.
void use_pytorch_modules(Job& job);
/// Has them made of Megatron-LM's legacy modules: not compiled either, beside its own loss and collectives.
void use_legacy_modules(Job& job);

/// Data parallel size: gpus / (tp pp cp).
int data_parallel(const Configuration& configuration);
/// Micro-batches of a step on one rank.
int micro_batches(const Configuration& configuration);
/// Ranks that share optimizer states (or more, by `zero`).
int sharding(const Configuration& configuration);

/// Ranks that share the optimizer states of one expert: gpus / (pp ep), and of those that split it.
int expert_sharding(const Configuration& configuration);

/// Whether Megatron-LM can run the traffic of experts beside other micro-batches' products
/// (overlap_moe_expert_parallel_comm): an interleaved schedule, no layer that is recomputed as a whole, no
/// Mamba blocks, and one layer of multi-token prediction at most (transformer_config.py).
bool can_overlap_experts(const Job& job);

/// Shares layers out over the stages of a pipeline, as Megatron-LM can be told to. Where they do not come out
/// even, the stages between the first and the last have as many as are needed, all alike, and these two have
/// the rest, the first the larger half. With `short_last` the last has so many fewer that the slowest stage
/// is as fast as can be, the first no more than those between; that goes without model chunks, and not with
/// modules of PyTorch, whose software shares layers out itself. False, and no numbers of their own, where
/// less than a layer each is left for these two, or no stage gets faster.
bool share_out_layers(Job& job);
/// Layers of a pipeline stage: what does not come out even is given to the first stages.
int stage_layers(const Job& job, int stage);
/// Micro-batches that a model chunk takes in turn (`rounds`).
int round_of(const Configuration& configuration);

/// Layers of the largest model chunk of a pipeline stage.
int chunk_layers(const Job& job);
/// Those of them that are recomputed as a whole.
int recomputed_layers(const Job& job);

/// Why the job cannot run, in a line; empty when it can. Says nothing about memory.
std::string why_not(const Job& job);

/// Error that lists what the GPU has, where it has no units for products in this precision.
void require_units(const Gpu& gpu, Precision precision);

/// As names are compared where their case says nothing.
std::string lower_case(std::string name);

/// "none", "selective", "full"; "bf16", "fp8", ...
std::string name_of(Recompute recompute);
std::string name_of(Precision precision);
/// The same back, of a precision by any case. Error that lists the names.
Recompute recompute_named(const std::string& name);
Precision precision_named(const std::string& name);
Modules modules_named(const std::string& name);

}  // namespace stweaver
