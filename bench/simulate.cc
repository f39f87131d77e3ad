// simulate TRACE...: what PyTorch's allocator reserved in each job, and what the simulator says it reserves.
// The measurements with expandable segments come from a manifest.json beside the trace, if there is one.
#include "simulate/simulate.h"

#include <chrono>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "archive/archive.h"
#include "trace/trace.h"

namespace stweaver {
namespace {

namespace fs = std::filesystem;

struct Timed {
  Bytes reserved_peak = 0;
  double seconds = 0;
};

Timed timed_simulation(const Trace& trace, const AllocatorSettings& settings) {
  const auto begin = std::chrono::steady_clock::now();
  CachingAllocator allocator(settings);
  const Bytes peak = replay(trace, allocator).reserved_peak;
  return {peak, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count()};
}

std::optional<double> measured_expandable_gib(const fs::path& path, const std::string& job) {
  std::ifstream file(path.parent_path() / "manifest.json");
  if (!file) return std::nullopt;
  const auto manifest = nlohmann::json::parse(file);
  const auto entry = manifest.find(job);
  if (entry == manifest.end()) return std::nullopt;
  return entry->at("expandable").at("reserved_gib").get<double>();
}

std::string cell(std::optional<double> gib) {
  return gib ? fmt::format("{:.4f}", *gib) : "-";
}

std::string error_of(double simulated, std::optional<double> measured) {
  return measured ? fmt::format("{:+.3f} %", (simulated / *measured - 1) * 100) : "-";
}

void print_row(const Trace& trace, const std::string& job, std::optional<double> measured_expandable) {
  const Timed native = timed_simulation(trace, parse_settings(trace.settings));
  const Timed expandable = timed_simulation(trace, parse_settings("expandable_segments:True"));
  const std::optional<Bytes> peak = measured_reserve_peak(trace);
  const std::optional<double> measured = peak ? std::optional(to_gib(*peak)) : std::nullopt;
  const double native_gib = to_gib(native.reserved_peak);
  const double expandable_gib = to_gib(expandable.reserved_peak);
  fmt::print("{:<20}{:>10}{:>11}{:>11.4f}{:>10}{:>11}{:>11.4f}{:>10}{:>9.0f}\n", job, trace.requests.size(),
             cell(measured), native_gib, error_of(native_gib, measured), cell(measured_expandable),
             expandable_gib, error_of(expandable_gib, measured_expandable),
             (native.seconds + expandable.seconds) / 2 * 1000);
}

void print_table(int count, char** paths) {
  fmt::print("{:<20}{:>10}{:>11}{:>11}{:>10}{:>11}{:>11}{:>10}{:>9}\n", "GiB reserved", "requests",
             "recorded", "simulated", "error", "expandable", "simulated", "error", "ms");
  for (int i = 0; i < count; ++i) {
    const fs::path path = paths[i];
    const std::string job = path.filename().string().substr(0, path.filename().string().find('.'));
    for (const Trace& trace : read_traces(open_archive(path), path.string())) {
      print_row(trace, job, measured_expandable_gib(path, job));
    }
  }
}

}  // namespace
}  // namespace stweaver

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "usage: simulate TRACE...\n");
    return 2;
  }
  try {
    stweaver::print_table(argc - 1, argv + 1);
  } catch (const std::exception& error) {
    fmt::print(stderr, "simulate: {}\n", error.what());
    return 2;
  }
  return 0;
}
