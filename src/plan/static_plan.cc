#include "plan/static_plan.h"

#include "base/base.h"

namespace stweaver {

std::string_view name_of(StepShape shape) {
  switch (shape) {
    case StepShape::kFixed:
      return "fixed";
    case StepShape::kVarying:
      return "varying";
    case StepShape::kDynamic:
      return "dynamic";
  }
  return "";
}

std::uint64_t fingerprint_of(const Trace& trace) {
  std::uint64_t hash = mix_hash(1, static_cast<std::uint64_t>(trace.end));
  for (const Request& request : trace.requests) {
    for (const std::uint64_t value :
         {static_cast<std::uint64_t>(request.size), request.stream,
          static_cast<std::uint64_t>(request.life.lower), static_cast<std::uint64_t>(request.life.upper)}) {
      hash = mix_hash(hash, value);
    }
  }
  return hash;
}

}  // namespace stweaver
