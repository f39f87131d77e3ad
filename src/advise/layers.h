// What layers of a transformer are made of, as far as memory goes: operators, as two kinds of software have
// them. Megatron-LM with TransformerEngine fuses what it can, and its tensors are those of Korthikanti et al.
// (arXiv 2205.05198, section 4); modules of PyTorch that are not compiled keep what each operator keeps.
#pragma once

#include "advise/configuration.h"
#include "advise/tape.h"

namespace stweaver {

inline constexpr double kHalf = 2;  ///< bytes of bf16

/// One layer, the mean over kinds of layers, of one micro-batch on one rank.
Tape layer_tape(const Job& job);
/// A layer of multi-token prediction: what it is given and the embedding of the token ahead are made one and
/// go through a layer like the last (DeepSeek-V3, arXiv 2412.19437, section 2.2).
Tape predicting_tape(const Job& job);
/// Last norm, output layer and loss.
Tape head_tape(const Job& job);

/// Whether there are operators whose results selective recomputation has again.
bool has_cheap_operators(const Job& job);

/// Operators of an expert that runs alone, as a share of those of a whole dense layer.
double expert_share(const Job& job);

/// Bytes of what passes between layers, and between stages.
double activation_bytes(const Job& job);
/// Bytes of all tokens' state, where sequence parallelism gathers them for a product; else 0.
double gathered_bytes(const Job& job);
/// Of the gradient of the embedding of one micro-batch.
double embedding_gradient(const Job& job);
/// The vocabulary, padded where it is or must be split.
double padded_vocabulary(const Job& job);

}  // namespace stweaver
