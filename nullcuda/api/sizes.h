// The recorded sizes for the cuDNN that this library stands for.
#pragma once

#include <cudnn_version.h>
#include <string>
#include <string_view>

#include "model/calls.h"
#include "model/table.h"

namespace nullcuda {

/// What was recorded; null where it was not: then `guess` is counted among what was made up.
inline const Table::Sizes* recorded(std::string_view kind, std::string_view key, const char* guess) {
  static const std::string version = std::to_string(CUDNN_MAJOR) + "." + std::to_string(CUDNN_MINOR) + "." +
                                     std::to_string(CUDNN_PATCHLEVEL);
  const Table::Sizes* found = table(version).find(kind, key);
  if (found == nullptr && guess != nullptr) count_guess(guess);
  return found;
}

}  // namespace nullcuda
