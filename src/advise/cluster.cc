#include "advise/cluster.h"

#include <algorithm>
#include <cctype>
#include <vector>

namespace stweaver {
namespace {

constexpr double kTera = 1e12;
constexpr double kGiga = 1e9;

struct Figures {
  const char* name;
  double bf16, fp8, fp4;  // TFLOP/s
  double sustained;       // share of these rates
  double bandwidth;       // GB/s
  double memory;          // GiB that a program sees
  double link, network;   // GB/s
  int domain;
  bool ultra;
};

// NVIDIA's data sheets of A100, A800, H100, H800, H200, HGX B200 and B300, GB200 and GB300 NVL72; dense rates
// are half of those printed with sparsity, and where both are printed (fp4 of Blackwell Ultra) the dense one.
// Otherwise Blackwell Ultra differs from Blackwell in power alone, and what that is worth is a constant of
// the time model. A800 and H800 have slower links alone (400 GB/s both ways). The H100 with HBM2e and a 500 W
// limit is torchtitan's.
//
// What is sustained:
// - Hopper: 0.69 to 0.71 in bf16 on an H100, and 0.65 to 0.68 in fp8; 3 % less on an H200
//   (bench/gpu/products.py).
// - B200 as it stands to H200 where power limits the clock: 1429 and 755 TFLOP/s ("MSMF" of S. Bekman,
//   Machine Learning Engineering).
// - A100, of which no such figure is known, as it stands to H100 in short runs: 86.9 and 80.3 % of the peak
//   ("MAMF" there).
// - Power grows with the clock and with the square of a voltage that grows with the clock, so that the clock
//   is as the cube root of the power: GB200 (1200 W) from B200 (1000 W), and the H100 of 500 W from that of
//   700 W.
constexpr Figures kFigures[] = {
    {"A100", 312, 312, 312, 0.757, 2039, 79.1, 300, 25, 8, false},
    {"A100-40GB", 312, 312, 312, 0.757, 1555, 39.4, 300, 25, 8, false},
    {"A800", 312, 312, 312, 0.757, 2039, 79.1, 200, 25, 8, false},
    {"H100", 989, 1979, 1979, 0.700, 3350, 79.1, 450, 50, 8, false},
    {"H100-96GB-HBM2e-500W", 989, 1979, 1979, 0.626, 2400, 94.9, 450, 50, 8, false},
    {"H800", 989, 1979, 1979, 0.700, 3350, 79.1, 200, 50, 8, false},
    {"H200", 989, 1979, 1979, 0.700, 4800, 139.7, 450, 50, 8, false},
    {"B200", 2250, 4500, 9000, 0.583, 7700, 178.3, 900, 50, 8, false},
    {"B300", 2250, 4500, 13500, 0.583, 8000, 267.6, 900, 100, 8, true},
    {"GB200", 2500, 5000, 10000, 0.558, 8000, 184.0, 900, 50, 72, false},
    {"GB300", 2500, 5000, 15000, 0.558, 8000, 276.0, 900, 100, 72, true},
};

std::vector<Gpu> make_gpus() {
  std::vector<Gpu> gpus;
  for (const Figures& f : kFigures) {
    Gpu gpu;
    gpu.name = f.name;
    gpu.bf16 = f.bf16 * kTera;
    gpu.fp8 = f.fp8 * kTera;
    gpu.fp4 = f.fp4 * kTera;
    gpu.sustained = f.sustained;
    gpu.bandwidth = f.bandwidth * kGiga;
    gpu.memory = static_cast<Bytes>(f.memory * static_cast<double>(kGiB));
    // c10's default: 32 MiB from Hopper on, 8.125 MiB before.
    gpu.workspace = f.fp8 > f.bf16 ? 32 * kMiB : 65 * kMiB / 8;
    gpu.link = f.link * kGiga;
    gpu.network = f.network * kGiga;
    gpu.domain = f.domain;
    gpu.ultra = f.ultra;
    gpus.push_back(gpu);
  }
  return gpus;
}

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

}  // namespace

std::span<const Gpu> known_gpus() {
  static const std::vector<Gpu> gpus = make_gpus();
  return gpus;
}

const Gpu& known_gpu(const std::string& name) {
  const Gpu* found = nullptr;
  std::string names;
  for (const Gpu& gpu : known_gpus()) {
    names += " " + gpu.name;
    const std::string known = lower(gpu.name);
    const bool begins = lower(name) == known || lower(name).starts_with(known + "-");
    if (begins && (found == nullptr || found->name.size() < gpu.name.size())) found = &gpu;
  }
  if (found == nullptr) fail("no figures for the GPU ", name, "; there are some for", names);
  return *found;
}

double link_named(const std::string& name, const Gpu& gpu) {
  // PCI-SIG: 8, 16 and 32 GT/s, 128 of 130 bits are data.
  constexpr double kLane = 128.0 / 130 / 8 * kGiga;
  constexpr int kLanes = 16;
  if (name == "nvlink") return gpu.link;
  if (name == "pcie3") return 8 * kLane * kLanes;
  if (name == "pcie4") return 16 * kLane * kLanes;
  if (name == "pcie5") return 32 * kLane * kLanes;
  fail("no link is called ", name, "; there are nvlink pcie3 pcie4 pcie5");
}

}  // namespace stweaver
