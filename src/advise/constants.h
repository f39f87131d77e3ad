// What no data sheet says: how near real software comes to it. Fitted on measured steps (fit.h).
#pragma once

#include <span>
#include <string>
#include <vector>

#include "advise/layer_kind.h"

namespace stweaver {

/// The constants of the time model (time.h), each with a physical meaning; a set belongs to a software stack.
struct Constants {
  double matrix = 1;  ///< share of what the GPU sustains that matrix products reach, in bf16 and fp8
  double matrix_fp8_rowwise = 0.6;
  double matrix_fp4 = 1;
  double attention = 0.6;  ///< share of what the GPU sustains in bf16, as far as flash attention reaches it
  double streaming = 0.7;  ///< share of the memory's bandwidth at which operators read and write tensors
  double dispatch = 5;     ///< bytes moved besides per token, expert it goes to, unit of it and pass
  double layer = 2e-3;     ///< seconds that a layer takes of the host, all passes
  double unfused_softmax = 0;    ///< share by which that grows where no kernel takes the whole softmax
  double moe_layer = 3e-3;       ///< the same for a layer of experts on GPUs of racks (NVL72)
  double moe_layer_node = 8e-3;  ///< and on those of nodes
  double fused_experts = 0.9;    ///< time of experts in one kernel, as a share of that in several
  double head = 0;               ///< seconds that loss and output layer take of the host
  double unaligned = 0.35;  ///< share of their rate that products reach whose size is no multiple of eight
  double sharpness =
      2;  ///< exponent that joins the time of host and device: 1 adds them, large takes the larger
  double link = 0.7;                    ///< share of a link's bandwidth that collectives reach
  double tensor_exposed = 1;            ///< share of tensor parallel traffic that nothing hides
  double tensor_exposed_overlap = 0.5;  ///< the same with overlap_tp
  double expert_exposed = 0.5;          ///< of all-to-alls
  double data_exposed = 0.5;            ///< of data parallel traffic
  double several_nodes = 1;             ///< how much longer kernels take in runs of several nodes
  double ultra = 1.3;                   ///< matrix rate of Blackwell Ultra's units against Blackwell's
  double step = 10e-3;                  ///< seconds of a step that belong to none of the above
  MeasuredLayers layers = {};           ///< kinds of layers that were measured
};

/// A constant by its name, with the bounds of what it can mean.
struct ConstantInfo {
  std::string name;
  double Constants::*member = nullptr;
  double least = 0;
  double most = 0;
};
std::span<const ConstantInfo> constant_table();

/// Fitted sets (src/advise/sets; docs/results/advise.md says on which rows): "megatron" for Megatron-LM of
/// 2025 and 2026 with TransformerEngine, "torchtitan", "megatron-deepspeed" for Megatron-DeepSpeed of 2022
/// without flash attention. Error that lists the names when there is no such set.
const Constants& known_constants(const std::string& name);

/// `{"matrix": 1.0, ..., "layers": [{"gpu": "A100", "hidden": 2048, ..., "factor": 1.1}, ...]}` and
/// back; what is not named keeps its value in `base`. Error, with `name` in front, for what is no such
/// document, an unknown name, a layer that lacks a field, and a number outside its bounds.
std::string write_constants(const Constants& constants);
Constants read_constants(const std::string& json, const std::string& name, const Constants& base);

}  // namespace stweaver
