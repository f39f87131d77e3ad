// The page of `advise`.
#pragma once

#include <string>

#include "report/recommendation.h"

namespace stweaver {

/// The front over its objectives, and for one choice at a time the memory of its ranks over a step and how it
/// is said to frameworks. Of a large front only the choices that differ most are on it. One HTML file below
/// 2 MB that needs nothing else.
std::string front_page_html(const Recommendation& advice);

}  // namespace stweaver
