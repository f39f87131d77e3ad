// `replay`: how an allocator served a job, as text for people and as JSON for programs.
#pragma once

#include <cstddef>
#include <string>

#include <nlohmann/json.hpp>

#include "simulate/serving.h"

namespace stweaver {

/// Requested / reserved; 1 when nothing was reserved.
double efficiency_of(const Peaks& peaks);

/// What became of a job, for whoever tells of several.
nlohmann::ordered_json serving_json(const Serving& serving);

/// Of a trace served in `steps` steps.
std::string replay_text(const Trace& trace, std::size_t steps, const Serving& serving);
nlohmann::ordered_json replay_json(const Trace& trace, std::size_t steps, const Serving& serving);

}  // namespace stweaver
