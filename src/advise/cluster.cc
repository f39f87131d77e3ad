#include "advise/cluster.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <iterator>
#include <string_view>
#include <system_error>
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
  const char* kind;       // of its memory
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
    {"A100", 312, 312, 312, 0.757, 2039, 79.1, "HBM2e", 300, 25, 8, false},
    {"A100-40GB", 312, 312, 312, 0.757, 1555, 39.4, "HBM2", 300, 25, 8, false},
    {"A800", 312, 312, 312, 0.757, 2039, 79.1, "HBM2e", 200, 25, 8, false},
    {"H100", 989, 1979, 1979, 0.700, 3350, 79.1, "HBM3", 450, 50, 8, false},
    {"H100-96GB-HBM2e-500W", 989, 1979, 1979, 0.626, 2400, 94.9, "HBM2e", 450, 50, 8, false},
    {"H800", 989, 1979, 1979, 0.700, 3350, 79.1, "HBM3", 200, 50, 8, false},
    {"H200", 989, 1979, 1979, 0.700, 4800, 139.7, "HBM3e", 450, 50, 8, false},
    {"B200", 2250, 4500, 9000, 0.583, 7700, 178.3, "HBM3e", 900, 50, 8, false},
    {"B300", 2250, 4500, 13500, 0.583, 8000, 267.6, "HBM3e", 900, 100, 8, true},
    {"GB200", 2500, 5000, 10000, 0.558, 8000, 184.0, "HBM3e", 900, 50, 72, false},
    {"GB300", 2500, 5000, 15000, 0.558, 8000, 276.0, "HBM3e", 900, 100, 72, true},
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
    gpu.rack = f.domain > 8;
    gpus.push_back(gpu);
  }
  return gpus;
}

/// The words of a GPU's name, which is written in many ways: "NVIDIA A100-SXM4-80GB", "HGX H100 80GB HBM3".
std::vector<std::string> words_of(const std::string& name) {
  std::vector<std::string> words(1);
  for (const char c : name) {
    if (c == '-' || c == '_' || c == ' ') {
      words.emplace_back();
    } else {
      words.back() += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
  }
  std::erase(words, "");
  if (!words.empty() && words.front() == "nvidia") words.erase(words.begin());
  return words;
}

/// Whether a word says of a GPU what is so anyway: its socket, how many are joined, and its memory, as its
/// maker counts that. Those for PCIe and pairs (NVL) are other GPUs.
bool is_so_anyway(const std::string& word, const Figures& gpu) {
  static constexpr std::string_view kSockets[] = {"sxm",  "sxm2", "sxm3", "sxm4",
                                                  "sxm5", "sxm6", "hgx",  "dgx"};
  if (std::ranges::count(kSockets, word) > 0 || word == text("nvl", gpu.domain)) return true;
  if (words_of(gpu.kind).front() == word) return true;
  int size = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), size);
  return error == std::errc() && std::string_view(end) == "gb" &&
         std::abs(size - gpu.memory) <= 0.1 * gpu.memory;
}

/// Whether a name has all words of a known one, and besides only what is so anyway.
bool names(std::vector<std::string> words, const Figures& gpu) {
  for (const std::string& word : words_of(gpu.name)) {
    const auto found = std::ranges::find(words, word);
    if (found == words.end()) return false;
    words.erase(found);
  }
  return std::ranges::all_of(words, [&](const std::string& word) { return is_so_anyway(word, gpu); });
}

}  // namespace

std::span<const Gpu> known_gpus() {
  static const std::vector<Gpu> gpus = make_gpus();
  return gpus;
}

const Gpu& known_gpu(const std::string& name) {
  const std::vector<std::string> words = words_of(name);
  std::string all;
  for (std::size_t i = 0; i < std::size(kFigures); ++i) {
    if (names(words, kFigures[i])) return known_gpus()[i];
    all += text(" ", kFigures[i].name);
  }
  fail("no figures for the GPU ", name, "; there are some for", all);
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
