// The GPUs that null CUDA can be: a table of what programs ask a device for.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace nullcuda {

inline constexpr std::uint64_t kMiB = 1ULL << 20;

/// One model of GPU. Sizes are bytes.
struct Gpu {
  std::string_view key;   ///< what the user calls it
  std::string_view name;  ///< what the driver calls it
  std::uint64_t memory;   ///< what cudaMemGetInfo says in total
  std::uint64_t context;  ///< what a CUDA context with PyTorch's kernels takes of it
  int major, minor;       ///< compute capability
  int multiprocessors;
  int l2_cache;
  int shared_memory;        ///< of a multiprocessor
  int shared_memory_optin;  ///< the most that a block can have
  int threads;              ///< of a multiprocessor
  int blocks;               ///< of a multiprocessor
  int memory_bus;           ///< bits
  int memory_clock;         ///< kHz
  int clock;                ///< kHz
  int copy_engines;
  bool ecc;
  bool fabric;  ///< memory handles and peers as on an NVLink board
};

/// All of them; the first is the default.
const std::vector<Gpu>& gpus();

/// The GPU that the user names: a key, in any case. Null where there is none.
const Gpu* find_gpu(std::string_view key);

/// The keys, for messages: "h200, h100, ...".
std::string gpu_keys();

}  // namespace nullcuda
