#include "model/gpu.h"

#include <algorithm>
#include <cctype>
#include <ranges>

namespace nullcuda {
namespace {

// Where the numbers come from. H200: read on one (driver 580, CUDA 13.0; `bench/gpu/library_sizes.py` prints
// them). A100 40 GB: deviceQuery in bottlerocket-os/bottlerocket#3873. B200: a query printed in
// pytorch/ao#4002. H100, A100 80 GB and RTX 4090: totals in PyTorch's out-of-memory messages (79.18, 79.15
// and 23.64 GiB), not read on one; the rest from the CUDA C++ Programming Guide, table of compute
// capabilities, and data sheets. Contexts other than the H200's are the H200's.
constexpr std::uint64_t kContext = 530 * kMiB;

// clang-format off
const std::vector<Gpu> kGpus = {
    // key, name, memory, context, capability, SMs, L2, shared, optin, threads, blocks, bus, clocks, engines, ECC, fabric
    {"h200", "NVIDIA H200", 150109880320, kContext, 9, 0, 132, 62914560, 233472, 232448, 2048, 32, 6016, 3201000, 1980000, 3, true, true},
    {"h100", "NVIDIA H100 80GB HBM3", 85017493504, kContext, 9, 0, 132, 52428800, 233472, 232448, 2048, 32, 5120, 2619000, 1980000, 3, true, true},
    {"a100", "NVIDIA A100-SXM4-80GB", 84987740160, kContext, 8, 0, 108, 41943040, 167936, 166912, 2048, 32, 5120, 1593000, 1410000, 3, true, true},
    {"a100-40gb", "NVIDIA A100-SXM4-40GB", 42298834944, kContext, 8, 0, 108, 41943040, 167936, 166912, 2048, 32, 5120, 1215000, 1410000, 3, true, true},
    {"b200", "NVIDIA B200", 191501697024, kContext, 10, 0, 148, 132644864, 233472, 232448, 2048, 32, 7680, 3996000, 1965000, 4, true, true},
    {"rtx4090", "NVIDIA GeForce RTX 4090", 25386352640, kContext, 8, 9, 128, 75497472, 102400, 101376, 1536, 24, 384, 10501000, 2520000, 2, false, false},
};
// clang-format on

std::string lowered(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return std::tolower(c); });
  return lower;
}

}  // namespace

const std::vector<Gpu>& gpus() {
  return kGpus;
}

const Gpu* find_gpu(std::string_view key) {
  const auto found = std::ranges::find(kGpus, lowered(key), &Gpu::key);
  return found == kGpus.end() ? nullptr : &*found;
}

std::string gpu_keys() {
  std::string keys;
  for (const Gpu& gpu : kGpus) keys += (keys.empty() ? "" : ", ") + std::string(gpu.key);
  return keys;
}

}  // namespace nullcuda
