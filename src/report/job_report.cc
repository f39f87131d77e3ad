#include "report/job_report.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace stweaver {
namespace {

double seconds_between(const Trace& trace, const Lifespan& span) {
  if (trace.micros.empty() || span.empty()) return 0;
  const auto first = static_cast<std::size_t>(span.lower);
  const auto last = static_cast<std::size_t>(span.upper - 1);
  constexpr double kMicrosPerSecond = 1e6;
  return static_cast<double>(trace.micros[last] - trace.micros[first]) / kMicrosPerSecond;
}

StepReport step_report(const JobReport& report, const Lifespan& span, const std::vector<RequestId>& births) {
  StepReport step{.span = span};
  step.requests = births[static_cast<std::size_t>(span.upper)] - births[static_cast<std::size_t>(span.lower)];
  step.requested = peak_in(report.requested, span);
  for (std::size_t i = 0; i < kContenders; ++i) step.reserved.at(i) = peak_in(report.reserved.at(i), span);
  step.seconds = seconds_between(report.trace, span);
  return step;
}

void serve_by_all(const SynthesizeOptions& options, JobReport& report) {
  const Trace& trace = report.trace;
  report.comparison = compare(trace, options);
  const Comparison& served = report.comparison;
  for (std::size_t i = 0; i < kContenders; ++i)
    report.reserved.at(i) = served_by(report, static_cast<Contender>(i)).reserves;
  if (served.native.measured) report.reserved.at(0) = trace.reserves;
  if (served.expandable.measured) report.reserved.at(1) = trace.reserves;
  for (std::size_t i = 0; i < kContenders; ++i)
    report.maps.at(i) = map_addresses(trace, served_by(report, static_cast<Contender>(i)).addresses);
  report.stranded = stranded_moment(trace, served.native.replay.reserves);
}

}  // namespace

std::string_view name_of(Contender contender) {
  constexpr std::array<std::string_view, kContenders> kNames = {"native", "expandable", "stweaver"};
  return kNames.at(static_cast<std::size_t>(contender));
}

JobReport report_job(Trace trace, const SynthesizeOptions& options) {
  if (trace.end > std::numeric_limits<std::uint32_t>::max()) {
    fail(trace.name, ": ", trace.end, " events are more than a report can show (",
         std::numeric_limits<std::uint32_t>::max(), "); record fewer steps");
  }
  JobReport report;
  report.trace = std::move(trace);
  report.profile = profile_of(report.trace);
  const Profile& profile = report.profile;
  report.summary = summarize(report.trace, profile.steps, profile.classes, profile.pattern);
  report.requested = requested_curve(report.trace);
  report.peak = peak_moment(report.trace, profile.classes);
  serve_by_all(options, report);
  const std::vector<RequestId> births = births_before(report.trace);
  for (const Lifespan& span : profile.steps.spans) report.steps.push_back(step_report(report, span, births));
  return report;
}

const ReplayResult& served_by(const JobReport& report, Contender contender) {
  const Comparison& served = report.comparison;
  if (contender == Contender::kNative) return served.native.replay;
  return contender == Contender::kExpandable ? served.expandable.replay : served.stweaver.replay;
}

double room_to_grow(const JobReport& report, Bytes theirs) {
  const Bytes ours = report.comparison.stweaver.replay.reserved_peak;
  const Bytes fixed = report.summary.peak_by_class.at(static_cast<std::size_t>(LifeClass::kPersistent));
  const Bytes requested = report.comparison.requested_peak;
  const Bytes growing = requested - fixed;
  // Where the reserve goes beyond what was asked for by more than that, it says nothing of what grows.
  if (ours >= theirs || growing <= std::max<Bytes>(ours - requested, 0)) return 1;
  return 1 + static_cast<double>(theirs - ours) / static_cast<double>(growing);
}

}  // namespace stweaver
