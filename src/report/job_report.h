// All that the page of `report` shows of one job.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "report/address_map.h"
#include "report/curve.h"
#include "report/moments.h"
#include "simulate/comparison.h"

namespace stweaver {

/// The allocators side by side, in this order everywhere.
enum class Contender : std::uint8_t { kNative, kExpandable, kStweaver };
inline constexpr std::size_t kContenders = 3;
std::string_view name_of(Contender contender);

/// What one step needed.
struct StepReport {
  Lifespan span;
  std::size_t requests = 0;
  Bytes requested = 0;                        ///< the most that lived at one time
  std::array<Bytes, kContenders> reserved{};  ///< the most at one time
  double seconds = 0;                         ///< on the wall clock; 0 when unknown
};

struct JobReport {
  Trace trace;
  Profile profile;
  Summary summary;
  Comparison comparison;
  Curve requested;                           ///< exact
  std::array<Curve, kContenders> reserved;   ///< exact
  std::array<AddressMap, kContenders> maps;  ///< of PyTorch's allocators as simulated
  PeakMoment peak;
  StrandedMoment stranded;
  std::vector<StepReport> steps;
};

/// Works everything out, serving the job by each allocator as compare() does. Errors as of compare(), and for
/// a trace of 2^32 events or more.
JobReport report_job(Trace trace, const SynthesizeOptions& options);

/// What the allocator did with the trace; of PyTorch's allocators the simulation.
const ReplayResult& served_by(const JobReport& report, Contender contender);

/// By which factor memory that grows with the batch or the sequence (all but persistent requests) could grow
/// until STWeaver reserves as much as `theirs` does now; 1 when it reserves no less, or when less grows than
/// it reserves for nothing.
double room_to_grow(const JobReport& report, Bytes theirs);

}  // namespace stweaver
