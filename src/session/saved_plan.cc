#include "session/saved_plan.h"

#include <filesystem>
#include <sstream>
#include <system_error>
#include <vector>

#include "plan/plan.h"
#include "runtime/policy.h"
#include "trace/draft.h"
#include "trace/file_source.h"
#include "trace/read.h"

namespace stweaver {
namespace {

/// The plain file that a path names, now or once it is there: what it replaces is no device, and no link.
std::string plain_file(const std::string& path) {
  std::error_code ignored;  // what cannot be looked at: writing says why
  if (std::filesystem::exists(path, ignored) && !std::filesystem::is_regular_file(path, ignored))
    refuse_to_write(path, "it is no plain file");
  return target_of(path).string();
}

}  // namespace

Plan plan_job(const Trace& trace, int threads) {
  const Profile profile = profile_of(trace);
  Plan plan = synthesize(trace, profile, {.threads = threads, .page = kDevicePage}).plan;
  const std::vector<std::string> violations = check_plan(plan, trace);
  if (!violations.empty()) fail("the checker refuses the plan: ", violations.front());
  return plan;
}

Plan frugal(Plan plan) {
  const bool is_followed = plan.shape != StepShape::kDynamic;  // others say that there is none to follow
  if (is_followed && takes_too_much(plan, Policy().slack(plan.lower_bound)))
    fail("it takes ", in_gib(plan.arena), ", and ", in_gib(plan.lower_bound), " may do");
  return plan;
}

void save_plan(const Plan& plan, const std::string& path) {
  std::ostringstream content;
  write_plan(plan, content);
  replace_file(plain_file(path), content.view());
}

Plan plan_file(const std::string& trace_path, const std::string& plan_path, int threads) {
  std::vector<Trace> traces = read_traces(file_source(trace_path), trace_path);
  const auto busiest = busiest_of(traces);
  if (busiest == traces.end()) fail(trace_path, ": no device in it was asked for memory");
  std::error_code ignored;
  if (std::filesystem::equivalent(trace_path, plan_path, ignored))
    fail(plan_path, ": it is the recording itself; name another file for the plan");
  Plan plan = plan_job(*busiest, threads);
  save_plan(plan, plan_path);
  return plan;
}

}  // namespace stweaver
