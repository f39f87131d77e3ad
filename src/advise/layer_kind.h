// What the kernels of a layer depend on: how long one kind of layer takes carries over to depths and
// schedules.
#pragma once

#include <compare>
#include <map>
#include <span>
#include <string>

#include "advise/configuration.h"

namespace stweaver {

/// Layers of one kind run the same kernels on the same shapes. What is not here (depth, stages, data
/// parallelism, recomputation) changes how many run, and when.
struct LayerKind {
  std::string gpu;
  int hidden = 0;
  int ffn = 0;  ///< of a dense layer
  int heads = 0;
  int experts = 0;
  int topk = 0;
  int expert_ffn = 0;
  int tp = 1;
  int ep = 1;
  int cp = 1;
  int micro_batch = 1;  ///< sequences
  int sequence = 0;     ///< tokens
  Precision precision = Precision::kBf16;
  int lora = 0;  ///< 0 or 1, as what follows
  int compiled = 0;
  int overlap_tp = 0;

  friend auto operator<=>(const LayerKind&, const LayerKind&) = default;
};

LayerKind layer_kind(const Job& job);

/// The numbers of a kind, by name.
struct LayerField {
  std::string name;
  int LayerKind::*member = nullptr;
};
std::span<const LayerField> layer_fields();

/// How much longer a kind of layer takes than the constants say, where it was measured: a factor of the
/// step's work and bubbles.
inline constexpr double kLeastLayerFactor = 0.1;  ///< what lies beyond is no such layer
inline constexpr double kMostLayerFactor = 10;
using MeasuredLayers = std::map<LayerKind, double>;

}  // namespace stweaver
