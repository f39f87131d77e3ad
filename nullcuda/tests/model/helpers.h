// What several tests of the model need.
#pragma once

#include <cstdint>
#include <string>

#include "model/calls.h"
#include "model/gpu.h"
#include "model/settings.h"

namespace nullcuda {

inline constexpr unsigned kNonBlocking = 1;  // CU_STREAM_NON_BLOCKING

/// A small GPU: 64 MiB, of which the context has 4.
inline Settings small_gpu() {
  Settings settings;
  settings.gpu = &gpus().front();
  settings.memory = 64 * kMiB;
  settings.context = 4 * kMiB;
  return settings;
}

/// One in checking mode.
inline Settings checking() {
  Settings settings = small_gpu();
  settings.checks = settings.values = true;
  return settings;
}

inline Settings completing(const std::string& when) {
  Settings settings = small_gpu();
  settings.completion = parse_completion(when);
  return settings;
}

/// Lets the program make calls, which is what time is here.
inline void make_calls(std::uint64_t count) {
  static Call call("nothing", *new std::vector<Failure>);
  for (std::uint64_t made = 0; made < count; ++made) call.happened();
}

}  // namespace nullcuda
