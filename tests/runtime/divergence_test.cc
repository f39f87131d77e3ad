// What it costs when one step of a real job is not like the plan: the requests next to it, and nothing else.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/plan.h"
#include "support/examples.h"
#include "support/play.h"

namespace stweaver {
namespace {

/// The step that is changed, and how many follow it. The plan's prologue ends before it.
constexpr std::size_t kDiverging = 2;
constexpr std::size_t kStepsInAll = kDiverging + 5;
/// So many requests before and after a change, in the order of its step, are its neighbourhood.
constexpr std::size_t kNeighbours = 16;

/// A recorded job that goes on with its last step, its plan, made without that step, and how it runs
/// undisturbed.
struct PlannedJob {
  explicit PlannedJob(const std::string& name) {
    const Trace& trace = example(name);
    const std::vector<Lifespan> spans = profile_of(trace).steps.spans;
    const Trace known = prefix_of(trace, spans[spans.size() - 2].upper);
    // No time to search: how far that gets depends on what else the machine does, and how tightly the plan is
    // packed does not matter here.
    plan = std::make_shared<PlanIndex>(synthesize(known, profile_of(known), {.timeout = 0}).plan);
    script =
        script_of(trace, spans, std::max(static_cast<int>(kStepsInAll) - static_cast<int>(spans.size()), 0));
    undisturbed = Player(plan).play(script);
  }

  std::shared_ptr<const PlanIndex> plan;
  Script script;
  Played undisturbed;
};

/// A job planned once for all tests of this process.
const PlannedJob& planned_job(const std::string& name) {
  static std::map<std::string, std::unique_ptr<PlannedJob>> jobs;
  std::unique_ptr<PlannedJob>& job = jobs[name];
  if (!job) job = std::make_unique<PlannedJob>(name);
  return *job;
}

/// A changed script, and the requests that the change may cost.
struct Disturbance {
  Script script;
  std::set<RequestId> neighbours;
};

/// Hits of the undisturbed run that are none in the disturbed one.
struct Loss {
  std::int64_t far = 0;       ///< outside the neighbourhood, up to the end of the changed step
  std::int64_t after = 0;     ///< in the steps that follow
  bool reserve_back = false;  ///< whether the fallback holds what it would have held without the change
};

Loss loss_of(const PlannedJob& job, const Disturbance& disturbance, const Played& played,
             std::size_t quiet_from) {
  const Played& undisturbed = job.undisturbed;
  Loss loss;
  for (RequestId id = 0; id < undisturbed.outcomes.size(); ++id) {
    const bool was_hit = undisturbed.outcomes[id].fate != Fate::kMissed;
    const bool is_lost = was_hit && played.outcomes[id].fate == Fate::kMissed;
    if (!is_lost || disturbance.neighbours.contains(id)) continue;
    ++(job.script.requests[id].step <= static_cast<int>(kDiverging) ? loss.far : loss.after);
  }
  loss.reserve_back = true;
  for (std::size_t step = quiet_from + 2; step < undisturbed.fallback_reserved.size(); ++step) {
    loss.reserve_back &= played.fallback_reserved[step] <= undisturbed.fallback_reserved[step];
  }
  return loss;
}

/// Random positions of the changed step; the same ones in every run.
class Positions {
 public:
  Positions(const PlannedJob& job, unsigned seed) : requests_(job.script.steps[kDiverging]), random_(seed) {}

  std::size_t any() { return any_below(requests_.size()); }
  std::size_t any_below(std::size_t end) {
    return std::uniform_int_distribution<std::size_t>(0, end - 1)(random_);
  }

 private:
  const std::vector<RequestId>& requests_;
  std::mt19937 random_;
};

std::set<RequestId> neighbours_of(const Script& script, std::size_t step, std::size_t position) {
  const std::vector<RequestId>& requests = script.steps[step];
  const std::size_t begin = position - std::min(position, kNeighbours);
  const std::size_t end = std::min(position + kNeighbours + 1, requests.size());
  return {requests.begin() + static_cast<std::ptrdiff_t>(begin),
          requests.begin() + static_cast<std::ptrdiff_t>(end)};
}

RequestId add_request(Script& script, const Asked& like) {
  script.requests.push_back(like);
  return static_cast<RequestId>(script.requests.size() - 1);
}

Disturbance at_position(const PlannedJob& job, std::size_t position) {
  return {job.script, neighbours_of(job.script, kDiverging, position)};
}

/// One more request before the one at `position`, alive until `later` more requests of the step were made.
Disturbance with_extra(const PlannedJob& job, std::size_t position, Bytes size, std::size_t later) {
  Disturbance changed = at_position(job, position);
  const std::vector<RequestId>& step = job.script.steps[kDiverging];
  Script& script = changed.script;
  const RequestId extra = add_request(script, {size, script.requests[step[position]].stream});
  const std::size_t last = std::min(position + later, step.size() - 1);
  insert_call(script, find_call(script, Call::Kind::kAllocate, step[last]), {Call::Kind::kFree, extra});
  const std::size_t first = last == position ? find_call(script, Call::Kind::kFree, extra)
                                             : find_call(script, Call::Kind::kAllocate, step[position]);
  insert_call(script, first, {Call::Kind::kAllocate, extra});
  return changed;
}

Disturbance without(const PlannedJob& job, std::size_t position) {
  Disturbance changed = at_position(job, position);
  Script& script = changed.script;
  const RequestId missing = job.script.steps[kDiverging][position];
  erase_call(script, find_call(script, Call::Kind::kFree, missing));
  erase_call(script, find_call(script, Call::Kind::kAllocate, missing));
  return changed;
}

Disturbance resized(const PlannedJob& job, std::size_t position, Bytes size) {
  Disturbance changed = at_position(job, position);
  changed.script.requests[job.script.steps[kDiverging][position]].size = size;
  return changed;
}

/// A forward pass, as the first third of a step, between two steps; behind the boundary where it is the end
/// of the optimizer that marks one.
Disturbance with_evaluation(const PlannedJob& job, bool behind_boundary) {
  Disturbance changed{job.script, {}};
  Script& script = changed.script;
  const std::size_t boundary = find_step(script, kDiverging);
  const std::vector<RequestId>& step = job.script.steps[kDiverging];
  std::map<RequestId, RequestId> copies;
  std::set<RequestId> living;
  std::vector<Call> pass;
  for (std::size_t i = boundary + 1; copies.size() < step.size() / 3; ++i) {
    const Call& call = script.calls[i];
    if (call.kind == Call::Kind::kAllocate) {
      const RequestId copy = add_request(script, script.requests[call.request]);
      copies[call.request] = copy;
      living.insert(copy);
      pass.push_back({Call::Kind::kAllocate, copy});
    } else if (const auto own = copies.find(call.request); own != copies.end()) {
      living.erase(own->second);
      pass.push_back({Call::Kind::kFree, own->second});
    }
  }
  for (const RequestId id : living) pass.push_back({Call::Kind::kFree, id});
  script.calls.insert(
      script.calls.begin() + static_cast<std::ptrdiff_t>(boundary + (behind_boundary ? 1 : 0)), pass.begin(),
      pass.end());
  changed.neighbours = neighbours_of(script, kDiverging, 0);
  changed.neighbours.merge(neighbours_of(script, kDiverging - 1, script.steps[kDiverging - 1].size() - 1));
  return changed;
}

/// An exception before the request at `position`: the rest of the step is not made, and what lives and is not
/// to outlive the step is freed.
Disturbance cut_short(const PlannedJob& job, std::size_t position) {
  Disturbance changed = at_position(job, position);
  Script& script = changed.script;
  const std::size_t cut = find_call(script, Call::Kind::kAllocate, job.script.steps[kDiverging][position]);
  const std::size_t end = find_step(script, kDiverging + 1);
  std::set<RequestId> unmade;
  std::vector<Call> calls(script.calls.begin(), script.calls.begin() + static_cast<std::ptrdiff_t>(cut));
  for (std::size_t i = cut; i < script.calls.size(); ++i) {
    const Call& call = script.calls[i];
    if (i < end && call.kind == Call::Kind::kAllocate) unmade.insert(call.request);
    const bool made = call.kind == Call::Kind::kStep || !unmade.contains(call.request);
    if (made) calls.push_back(call);
  }
  script.calls = std::move(calls);
  return changed;
}

/// A tensor of the changed step that lives for two more steps.
Disturbance with_kept(const PlannedJob& job, std::size_t position) {
  Disturbance changed = at_position(job, position);
  Script& script = changed.script;
  const RequestId kept = job.script.steps[kDiverging][position];
  const std::size_t freed = find_call(script, Call::Kind::kFree, kept);
  const std::size_t end = find_step(script, kDiverging + 3);
  const auto begin_of = [&](RequestId id) { return job.undisturbed.outcomes[id].address; };
  const auto end_of = [&](RequestId id) {
    return begin_of(id) + static_cast<std::uintptr_t>(job.script.requests[id].size);
  };
  for (std::size_t i = freed; i < end; ++i) {
    const Call& call = script.calls[i];
    if (call.kind == Call::Kind::kAllocate && begin_of(call.request) < end_of(kept) &&
        begin_of(kept) < end_of(call.request))
      changed.neighbours.insert(call.request);
  }
  insert_call(script, end, {Call::Kind::kFree, kept});
  erase_call(script, freed);
  return changed;
}

/// Whether all steps of the job ask for the same.
bool is_fixed(const std::string& name) {
  return name.find("varlen") == std::string::npos && !name.starts_with("moe");
}

class Divergence : public testing::TestWithParam<std::string> {
 protected:
  /// Whether hits may be lost elsewhere in the changed step too: where steps repeat themselves, requests that
  /// look alike can be taken for each other until something tells them apart.
  enum class Astray : std::uint8_t { kNever, kWhereStepsVary, kSometimes };

  [[nodiscard]] const std::vector<RequestId>& step() const { return job.script.steps[kDiverging]; }
  [[nodiscard]] Bytes size_at(std::size_t position) const {
    return job.script.requests[step()[position]].size;
  }

  /// The ends of the step, and anywhere in it; fewer where a replay takes long.
  [[nodiscard]] std::vector<std::size_t> positions() {
    const std::size_t wanted = step().size() > 20000 ? 2 : is_fixed(GetParam()) ? 8 : 4;
    std::vector<std::size_t> some = {0, step().size() - 1, 1, 2};
    some.resize(std::min(some.size(), wanted / 2));
    while (some.size() < wanted) some.push_back(at.any());
    return some;
  }

  /// Expects no hits lost where there should be none, and all to be back where it was afterwards.
  void expect_contained(const Disturbance& disturbance, Astray astray,
                        std::size_t quiet_from = kDiverging + 1) {
    const Played played = Player(job.plan).play(disturbance.script);
    const Loss loss = loss_of(job, disturbance, played, quiet_from);
    const bool strict = is_fixed(GetParam());
    if (astray == Astray::kNever || (astray == Astray::kWhereStepsVary && strict)) {
      EXPECT_EQ(loss.far, 0);
    } else {
      EXPECT_LE(loss.far, share_of_a_step(strict ? kFewInAFixedStep : kFewInAVaryingStep));
    }
    for (std::size_t number = quiet_from; number < kStepsInAll; ++number) {
      // Step n ends at the boundary behind it; the prologue is counted at the first.
      const std::int64_t hits = played.served[number + 1].in_plan();
      const std::int64_t hits_undisturbed = job.undisturbed.served[number + 1].in_plan();
      if (strict) {
        EXPECT_EQ(hits, hits_undisturbed) << "step " << number;
      } else {
        EXPECT_GE(hits + share_of_a_step(kFewInAVaryingStep), hits_undisturbed) << "step " << number;
      }
    }
    if (!strict) return;
    EXPECT_TRUE(loss.reserve_back);
    EXPECT_EQ(loss.after, 0);
  }

  const PlannedJob& job = planned_job(GetParam());
  Positions at{job, 1};

 private:
  // Parts of a step.
  static constexpr std::int64_t kFewInAFixedStep = 200;
  static constexpr std::int64_t kFewInAVaryingStep = 40;

  [[nodiscard]] std::int64_t share_of_a_step(std::int64_t part) const {
    return static_cast<std::int64_t>(step().size()) / part;
  }
};

TEST_P(Divergence, AnExtraRequestOfANewSizeCostsItsNeighboursAtMost) {
  for (const std::size_t position : positions()) {
    SCOPED_TRACE(position);
    expect_contained(with_extra(job, position, 1000, 0), Astray::kWhereStepsVary);
  }
}

TEST_P(Divergence, AnExtraRequestLikeTheNextIsForgottenAfterTheStep) {
  for (const std::size_t position : positions()) {
    SCOPED_TRACE(position);
    expect_contained(with_extra(job, position, size_at(position), 0), Astray::kSometimes);
  }
}

TEST_P(Divergence, AnExtraRequestLikeAnotherThatLivesForAWhileIsForgottenAfterTheStep) {
  for (const std::size_t position : positions()) {
    SCOPED_TRACE(position);
    expect_contained(with_extra(job, position, size_at(at.any()), 50), Astray::kSometimes);
  }
}

TEST_P(Divergence, AMissingRequestIsForgottenAfterTheStep) {
  for (const std::size_t position : positions()) {
    SCOPED_TRACE(position);
    expect_contained(without(job, position), Astray::kSometimes);
  }
}

TEST_P(Divergence, ALargerRequestIsForgottenAfterTheStep) {
  for (const std::size_t position : positions()) {
    SCOPED_TRACE(position);
    expect_contained(resized(job, position, size_at(position) * 2 + 4096), Astray::kSometimes);
  }
}

TEST_P(Divergence, ASmallerRequestIsForgottenAfterTheStep) {
  for (const std::size_t position : positions()) {
    SCOPED_TRACE(position);
    expect_contained(resized(job, position, std::max<Bytes>(size_at(position) / 2, 1)), Astray::kSometimes);
  }
}

TEST_P(Divergence, AnEvaluationBeforeTheBoundaryCostsItsNeighboursAtMost) {
  expect_contained(with_evaluation(job, false), Astray::kWhereStepsVary);
}

TEST_P(Divergence, AnEvaluationBehindTheBoundaryIsForgottenAfterTheStep) {
  expect_contained(with_evaluation(job, true), Astray::kSometimes);
}

TEST_P(Divergence, AStepCutShortCostsTheNextOneNothing) {
  for (const std::size_t position : positions()) {
    SCOPED_TRACE(position);
    expect_contained(cut_short(job, position), Astray::kWhereStepsVary);
  }
}

TEST_P(Divergence, AKeptTensorCostsOnlyWhatWouldHaveItsPlace) {
  std::size_t kept = 0;
  for (int tries = 0; kept < positions().size() && tries < 1000; ++tries) {
    const std::size_t position = at.any();
    const std::size_t freed = find_call(job.script, Call::Kind::kFree, step()[position]);
    if (size_at(position) < kMiB || freed >= find_step(job.script, kDiverging + 1)) continue;
    ++kept;
    SCOPED_TRACE(position);
    expect_contained(with_kept(job, position), Astray::kWhereStepsVary, kDiverging + 3);
  }
  EXPECT_GT(kept, 0U);
}

INSTANTIATE_TEST_SUITE_P(Divergence, Divergence, testing::ValuesIn(example_jobs()),
                         [](const auto& name) { return name.param; });

}  // namespace
}  // namespace stweaver
