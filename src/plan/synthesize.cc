#include "plan/synthesize.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <utility>

#include "plan/fill_gaps.h"
#include "profile/scale.h"

namespace stweaver {
namespace {

/// Where streams that keep their distance need more than so many times what they would need without, that is
/// too wide: a job without a plan holds that much idle memory.
constexpr double kGoodEnough = 1 + 1.0 / static_cast<double>(kSlackShare);

/// The streams that ask for the most bytes, kMostStreams at most; what others ask for is unplanned.
std::set<Stream> planned_streams(const Trace& trace) {
  std::map<Stream, double> asked;  // all requests of a trace may be more than Bytes can count
  for (const Request& request : trace.requests)
    if (request.pool == 0) asked[request.stream] += static_cast<double>(request.size);
  std::vector<std::pair<double, Stream>> by_size;
  by_size.reserve(asked.size());
  for (const auto& [stream, size] : asked) by_size.emplace_back(-size, stream);
  std::sort(by_size.begin(), by_size.end());
  by_size.resize(std::min(by_size.size(), kMostStreams));
  std::set<Stream> streams;
  for (const auto& [_, stream] : by_size) streams.insert(stream);
  return streams;
}

/// The instance of a job, and which slots each item stands for.
struct JobInstance {
  Instance instance;
  std::vector<std::vector<std::uint32_t>> slots_of;  ///< by item
  std::vector<std::uint32_t> persistent;             ///< slots, in the order of instance.persistent
};

/// What repeats.
struct Repeated {
  StepShape shape = StepShape::kFixed;
  std::size_t steps = 1;
};

/// Two steps, where requests that outlive their own, and so have no place in a plan of one, hold more than
/// the slack.
Repeated what_repeats(const Trace& trace, const Pattern& pattern) {
  Repeated found;
  if (steps_differ(trace, pattern))
    found.shape = foretells_steps(trace, pattern) ? StepShape::kVarying : StepShape::kDynamic;
  if (found.shape == StepShape::kDynamic) return found;
  double outlive = 0;
  const auto length = static_cast<Time>(pattern.positions.size());
  for (std::size_t p = 0; p < pattern.positions.size(); ++p) {
    const Position& position = pattern.positions[p];
    const bool outlives = position.death != kForever && position.death - static_cast<Time>(p) > length;
    if (outlives && position.pool == 0) outlive += static_cast<double>(position.size);
  }
  if (outlive * static_cast<double>(kSlackShare) > static_cast<double>(peak_requested(trace)))
    found.steps = 2;
  return found;
}

class JobBuilder {
 public:
  JobBuilder(const Trace& trace, const Profile& profile, const SynthesizeOptions& options, Repeated repeated)
      : trace_(trace),
        profile_(profile),
        steps_(repeated.steps),
        pattern_(steps_ == 2 ? two_steps_of(profile.pattern) : profile.pattern),
        options_(options),
        births_(births_before(trace)),
        streams_(planned_streams(trace)),
        item_of_position_(pattern_.positions.size(), kNoItem) {
    plan_.source = trace.name;
    plan_.fingerprint = fingerprint_of(trace);
    plan_.alignment = options.alignment;
    plan_.shape = repeated.shape;
    plan_.steps = steps_;
    plan_.prologue = options.step_only ? 0 : pattern_.prologue;
    for (const Lifespan& step : profile.steps.spans) {
      if (births_[static_cast<std::size_t>(step.lower)] < plan_.prologue) ++plan_.prologue_steps;
    }
    find_representatives();
  }

  void build() {
    for (std::uint32_t p = 0; p < pattern_.positions.size(); ++p) add_position(p);
    if (!options_.step_only) add_prologue();
    job_.instance.cycle = {prologue(), end()};
    job_.instance.lanes = std::max(1, static_cast<int>(lanes_.size()));
    add_runs();
    refuse_sizes_that_overflow();
  }

  Plan& plan() { return plan_; }
  JobInstance& job() { return job_; }

 private:
  static constexpr std::size_t kNoItem = std::numeric_limits<std::size_t>::max();

  [[nodiscard]] Time prologue() const { return static_cast<Time>(plan_.prologue); }
  [[nodiscard]] Time end() const { return prologue() + static_cast<Time>(pattern_.positions.size()); }

  [[nodiscard]] Bytes slot_size(Bytes size) const {
    return checked_align_up(std::max<Bytes>(size, 1), options_.alignment, "a request's size");
  }

  /// Bounding the sum of all slots once lets everything below add sizes and offsets without a thought.
  void refuse_sizes_that_overflow() const {
    Bytes total = 0;
    for (const Slot& slot : plan_.slots) total = checked_add(total, slot.size, "the sum of all slots");
    if (total > kMostMemory) fail("the sum of all slots, ", total, " bytes, is larger than any memory");
  }

  [[nodiscard]] bool may_plan(Pool pool, Stream stream) const {
    return pool == 0 && streams_.contains(stream);
  }

  int lane_of(Stream stream) { return lanes_.emplace(stream, static_cast<int>(lanes_.size())).first->second; }

  /// The HomoPhase group of a request: its birth and death phase if they differ.
  int group_of(const Request& request) {
    if (request.life.upper == kForever) return -1;
    const std::size_t born = phase_at(profile_.phases, request.life.lower);
    const std::size_t died = phase_at(profile_.phases, request.life.upper - 1);
    if (born == died) return -1;
    return groups_.emplace(std::pair(born, died), static_cast<int>(groups_.size())).first->second;
  }

  /// One recorded request for each position of a step, for what a Position does not tell.
  void find_representatives() {
    representative_.resize(pattern_.positions.size() / steps_);
    for (const AlignedStep& step : pattern_.steps) {
      for (std::size_t i = 0; i < step.position_of.size(); ++i) {
        representative_[step.position_of[i] % representative_.size()] =
            step.first + static_cast<RequestId>(i);
      }
    }
  }

  void add_item(const Slot& slot, std::uint32_t id, const Lifespan& life, const Lifespan& echo, int group) {
    job_.instance.items.push_back(
        {.size = slot.size, .life = life, .echo = echo, .group = group, .lane = lane_of(slot.stream)});
    job_.slots_of.push_back({id});
  }

  /// What lives longer than all that repeats would meet itself.
  [[nodiscard]] bool outlives_pattern(std::uint32_t p) const {
    const Time death = pattern_.positions[p].death;
    return death == kForever || death - static_cast<Time>(p) > end() - prologue();
  }

  /// The part of a life in its own step, and the part in the next.
  [[nodiscard]] std::pair<Lifespan, Lifespan> lives_of(Time birth, Time death) const {
    const Lifespan life{birth, std::min(death, end())};
    return {life, death > end() ? Lifespan{prologue(), death - (end() - prologue())} : Lifespan{}};
  }

  void add_position(std::uint32_t p) {
    const Position& position = pattern_.positions[p];
    const Time birth = prologue() + p;
    const Time death = position.death == kForever ? kForever : prologue() + position.death;
    step_slots_.push_back(
        {.size = slot_size(position.size),
         .stream = position.stream,
         .death = death,
         .varying = position.size != position.smallest || position.kind == PositionKind::kDynamic,
         .length = position.length,
         .power = position.power,
         .tile = position.tile});
    if (position.kind == PositionKind::kDynamic || outlives_pattern(p)) return;
    if (!may_plan(position.pool, position.stream)) return;
    const auto [life, echo] = lives_of(birth, death);
    item_of_position_[p] = job_.instance.items.size();
    add_item(step_slots_.back(), static_cast<std::uint32_t>(birth), life, echo,
             group_of(trace_.requests[representative_[p % representative_.size()]]));
  }

  /// When a request of the prologue dies, in slots; kForever when it lives on after the first step.
  [[nodiscard]] Time prologue_death(const Request& request) const {
    if (request.life.upper == kForever) return kForever;
    const RequestId next = death_of(request, births_);
    if (next <= pattern_.prologue) return next;
    if (pattern_.steps.empty()) return next;
    const std::size_t born = next - pattern_.prologue;
    const std::vector<std::uint32_t>& positions = pattern_.steps.front().position_of;
    return born < positions.size() ? prologue() + positions[born - 1] + 1 : kForever;
  }

  /// The position that a request of the last step before the pattern stands for, if any.
  [[nodiscard]] std::uint32_t position_before(RequestId id) const {
    const AlignedStep& before = pattern_.before;
    if (id < before.first || id - before.first >= before.position_of.size()) return kNoPosition;
    return before.position_of[id - before.first];
  }

  void add_prologue() {
    for (RequestId id = 0; id < pattern_.prologue; ++id) {
      const Request& request = trace_.requests[id];
      Slot slot{.size = slot_size(request.size), .stream = request.stream, .death = prologue_death(request)};
      const std::uint32_t p = position_before(id);
      bool planned = may_plan(request.pool, request.stream);
      if (p != kNoPosition) {
        const Position& position = pattern_.positions[p];
        planned = planned && position.kind != PositionKind::kDynamic;
        // The next run of the job may draw other lengths for this step too.
        slot.varying = position.size != position.smallest;
        slot.length = position.length;
        slot.power = position.power;
        slot.tile = position.tile;
        if (slot.varying) slot.size = std::max(slot.size, slot_size(position.size));
      }
      plan_.slots.push_back(slot);
      if (!planned) continue;
      if (slot.death == kForever) {
        lane_of(slot.stream);
        job_.instance.persistent.push_back({static_cast<Time>(id), slot.size});
        job_.persistent.push_back(id);
      } else if (!joins_echo(id, p, plan_.slots.back())) {
        const Time death = std::max<Time>(slot.death, id + 1);
        add_item(slot, id, {static_cast<Time>(id), death}, {}, group_of(request));
      }
    }
  }

  /// A tensor that the last step before the pattern leaves to the first one of it, as every step does: it
  /// takes the place that its position has, which is taken then anyway.
  bool joins_echo(RequestId id, std::uint32_t p, Slot& slot) {
    if (p == kNoPosition || slot.death <= prologue() || item_of_position_[p] == kNoItem) return false;
    Item& item = job_.instance.items[item_of_position_[p]];
    // Its size tells the length of a step: as a share of the largest of those that repeat.
    if (step_slots_[p].power > 0 && slot.size > item.size) return false;
    if (item.echo.empty() || slot.death > item.life.lower || slot.stream != pattern_.positions[p].stream)
      return false;
    item.echo.lower = static_cast<Time>(id);
    item.echo.upper = std::max(item.echo.upper, slot.death);
    if (slot.size != item.size) slot.varying = step_slots_[p].varying = true;
    item.size = std::max(item.size, slot.size);
    slot.size = item.size;
    step_slots_[p].size = item.size;
    job_.slots_of[item_of_position_[p]].push_back(id);
    return true;
  }

  void add_runs() {
    if (!options_.step_only && pattern_.prologue > 0) plan_.runs.push_back({0, 0, pattern_.prologue});
    for (const AlignedStep& step : pattern_.steps) {
      for (std::size_t i = 0; i < step.position_of.size(); ++i) {
        const auto slot = static_cast<std::uint32_t>(plan_.prologue + step.position_of[i]);
        const auto request = step.first + static_cast<RequestId>(i);
        const bool joins = i > 0 && plan_.runs.back().slot + plan_.runs.back().count == slot;
        if (joins) {
          ++plan_.runs.back().count;
        } else {
          plan_.runs.push_back({request, slot, 1});
        }
      }
    }
    plan_.slots.insert(plan_.slots.end(), step_slots_.begin(), step_slots_.end());
  }

  const Trace& trace_;
  const Profile& profile_;
  const std::size_t steps_;
  const Pattern pattern_;
  const SynthesizeOptions& options_;
  std::vector<RequestId> births_;
  std::set<Stream> streams_;
  std::vector<RequestId> representative_;      // by position in its step
  std::vector<std::size_t> item_of_position_;  // kNoItem where unplanned
  std::vector<Slot> step_slots_;
  std::map<Stream, int> lanes_;
  std::map<std::pair<std::size_t, std::size_t>, int> groups_;
  Plan plan_;
  JobInstance job_;
};

/// The widest gap between streams that is tried, as a share of the step.
constexpr Time kWidestGap = 16;

/// Sets the widest lane gap that need not cost more than it is worth.
void choose_stream_gap(Instance& instance, const Plan& plan) {
  instance.lane_gap = 0;
  const auto least = static_cast<double>(lower_bound_of(instance));
  const auto is_too_wide = [&] {
    return static_cast<double>(lower_bound_of(instance)) > kGoodEnough * least;
  };
  instance.lane_gap = static_cast<Time>(plan.slots.size() - plan.prologue) / kWidestGap;
  while (instance.lane_gap > 0 && is_too_wide()) instance.lane_gap /= 2;
}

/// What is to be packed.
Instance& finished(JobBuilder& builder, const std::optional<Time>& stream_gap) {
  Instance& instance = builder.job().instance;
  if (stream_gap) {
    instance.lane_gap = *stream_gap;
  } else if (instance.lanes > 1) {
    choose_stream_gap(instance, builder.plan());
  }
  stack_persistent(instance);
  return instance;
}

/// Puts what lowers the arena into gaps, and leaves the rest of the job to be packed.
void move_into_gaps(JobInstance& job, Plan& plan, const Gaps& gaps) {
  std::vector<Item>& items = job.instance.items;
  std::vector<bool> may;
  may.reserve(items.size());
  for (const auto& slots : job.slots_of) {
    may.push_back(std::ranges::none_of(slots, [&](std::uint32_t slot) { return plan.slots[slot].varying; }));
  }
  const std::vector<Interval> places = fill_gaps(job.instance, may, gaps);
  std::size_t kept = 0;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (places[i].empty()) {
      items[kept] = items[i];
      job.slots_of[kept++] = job.slots_of[i];
      continue;
    }
    for (const std::uint32_t slot : job.slots_of[i]) plan.in_gaps.push_back({slot, places[i]});
  }
  items.resize(kept);
  job.slots_of.resize(kept);
  std::ranges::sort(plan.in_gaps, {}, &GapPlace::slot);
}

/// Turns the arena, as if it were a circle, so that what lives for ever lies at its beginning and not at its
/// end. What was freed in the prologue and would be cut in two loses its place.
void put_persistent_below(Plan& plan, Bytes persistent) {
  for (Slot& slot : plan.slots) {
    if (slot.offset == kUnplanned) continue;
    const Bytes turned = (slot.offset + persistent) % plan.arena;
    slot.offset = turned + slot.size <= plan.arena ? turned : kUnplanned;
  }
}

/// A place that only some steps took was taken by too few to tell whether its size varies.
void let_rare_slots_vary(Plan& plan, const Pattern& pattern) {
  const std::vector<std::size_t> steps = steps_with_each(pattern);
  for (std::size_t i = plan.prologue; i < plan.slots.size(); ++i) {
    if (steps[(i - plan.prologue) % steps.size()] < pattern.steps.size()) plan.slots[i].varying = true;
  }
}

Synthesis plan_of(const Trace& trace, const Profile& profile, const SynthesizeOptions& options,
                  Repeated repeated) {
  const Clock::time_point start = Clock::now();
  JobBuilder builder(trace, profile, options, repeated);
  builder.build();
  JobInstance& job = builder.job();
  Plan& plan = builder.plan();

  const Instance& instance = finished(builder, options.stream_gap);
  if (!options.gaps.empty()) move_into_gaps(job, plan, options.gaps);
  const SearchResult result = search(instance, {.threads = options.threads,
                                                .timeout = options.timeout,
                                                .anytime = options.anytime,
                                                .page = options.page,
                                                .stop = options.stop,
                                                .improved = options.improved});
  plan.arena = result.peak;
  plan.lower_bound = result.lower_bound;
  plan.winner = result.winner;
  plan.stream_gap = job.instance.lane_gap;
  for (std::size_t i = 0; i < result.placement.size(); ++i) {
    for (const std::uint32_t slot : job.slots_of[i]) plan.slots[slot].offset = result.placement[i];
  }
  Bytes top = plan.arena;
  for (const std::uint32_t slot : job.persistent) {
    top -= plan.slots[slot].size;
    plan.slots[slot].offset = top;
  }
  if (plan.shape == StepShape::kVarying) {
    put_persistent_below(plan, plan.arena - top);
    let_rare_slots_vary(plan, profile.pattern);
  }
  return {std::move(plan), std::chrono::duration<double>(Clock::now() - start).count(), result.threads};
}

/// As the run time judges it, with the slack that it has unless it is told otherwise.
bool takes_too_much(const Plan& plan) {
  return takes_too_much(plan, std::max(plan.lower_bound / kSlackShare, kLeastSlack));
}

double ratio_of(const Plan& plan) {
  return static_cast<double>(plan.arena) / static_cast<double>(std::max<Bytes>(plan.lower_bound, 1));
}

}  // namespace

Instance job_instance(const Trace& trace, const Profile& profile, const SynthesizeOptions& options) {
  JobBuilder builder(trace, profile, options, what_repeats(trace, profile.pattern));
  builder.build();
  return std::move(finished(builder, options.stream_gap));
}

Synthesis synthesize(const Trace& trace, const Profile& profile, const SynthesizeOptions& options) {
  if (options.alignment < 1)
    fail("an alignment of ", options.alignment, " bytes makes no sense: give 1 or more");
  Repeated repeated = what_repeats(trace, profile.pattern);
  Synthesis made = plan_of(trace, profile, options, repeated);
  if (repeated.steps == 1 || !takes_too_much(made.plan) || options.stop.stop_requested()) return made;
  repeated.steps = 1;
  Synthesis of_one = plan_of(trace, profile, options, repeated);
  of_one.seconds += made.seconds;
  return takes_too_much(of_one.plan) && ratio_of(of_one.plan) >= ratio_of(made.plan) ? made : of_one;
}

}  // namespace stweaver
