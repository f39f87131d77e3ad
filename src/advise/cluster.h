// What a GPU can do at best, and what joins it to others.
#pragma once

#include <span>
#include <string>

#include "base/base.h"

namespace stweaver {

/// Figures of the makers' data sheets, dense (without sparsity), each direction of a link on its own.
struct Gpu {
  std::string name;
  double bf16 = 0;       ///< FLOP/s
  double fp8 = 0;        ///< FLOP/s; that of bf16 where there is no faster unit
  double fp4 = 0;        ///< FLOP/s; likewise
  double sustained = 1;  ///< share of these that products have once the GPU's power limits its clock
  double bandwidth = 0;  ///< of its memory, bytes/s
  Bytes memory = 0;      ///< what a program can have of it
  Bytes workspace = 0;   ///< of PyTorch's cuBLAS, for each thread
  double link = 0;       ///< to its neighbours (NVLink), bytes/s
  int domain = 8;        ///< GPUs that such links join
  double network = 0;    ///< to other domains, bytes/s per GPU
  bool rack = false;     ///< made for domains of a whole rack (NVL72), however many are used of one
  bool ultra = false;    ///< Blackwell Ultra: more power, and higher clocks under load
};

/// The GPUs that are known.
std::span<const Gpu> known_gpus();
/// One of them, as it is written here or elsewhere ("H100-80GB", "NVIDIA A100-SXM4-40GB"). Error that lists
/// the names where a word is left over that tells of another GPU ("H100-PCIe").
const Gpu& known_gpu(const std::string& name);

/// Bytes per second of a link between GPUs, each direction: that of `gpu` for "nvlink", those of 16 lanes for
/// "pcie3", "pcie4", "pcie5". Error that lists the names.
double link_named(const std::string& name, const Gpu& gpu);

}  // namespace stweaver
