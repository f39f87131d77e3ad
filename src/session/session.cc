#include "session/session.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <system_error>
#include <utility>

#include "trace/draft.h"

namespace stweaver {
namespace {

constexpr std::size_t kLogLines = 200;
constexpr std::int64_t kNone = -1;  // of the plans adopted

/// Later recordings begin with what lives by then.
bool begins_with_the_job(const Trace& trace) {
  return std::none_of(trace.requests.begin(), trace.requests.end(),
                      [](const Request& request) { return request.life.lower == kBeforeRecording; });
}

/// Whether a session that runs is what the other options ask for: how much may be held, and who is told, it
/// can change while it runs.
bool goes_on_with(const SessionOptions& runs, const SessionOptions& asked) {
  return runs.plan_path == asked.plan_path && runs.trace_path == asked.trace_path &&
         runs.save_path == asked.save_path && runs.follows == asked.follows &&
         runs.settings == asked.settings && bool{runs.simulate} == bool{asked.simulate} &&
         runs.finds_steps == asked.finds_steps && runs.record_steps == asked.record_steps;
}

bool is_at_work(const std::future<void>& work) {
  return work.valid() && work.wait_for(std::chrono::seconds(0)) != std::future_status::ready;
}

std::string for_device(std::string path, int device) {
  constexpr std::string_view kMark = "{device}";
  for (std::size_t at = path.find(kMark); at != std::string::npos; at = path.find(kMark, at))
    path.replace(at, kMark.size(), std::to_string(device));
  return path;
}

}  // namespace

Session::Place::Place(int ordinal, const Provider& provider)
    : number(ordinal),
      device(provider.device(ordinal)),
      upstream(provider.upstream(ordinal)),
      allocator(*device, *upstream) {}

Session::~Session() {
  stop();
  for (std::atomic<Place*>& place : places_) delete place.exchange(nullptr);
}

template <typename Visit>
void Session::for_each_place(Visit visit) const {
  for (const std::atomic<Place*>& slot : places_)
    if (Place* const place = slot.load(std::memory_order_acquire)) visit(*place);
}

// ---- life ----

void Session::start(const SessionOptions& options) {
  if (!options.follows && options.trace_path.empty())
    fail("a session that only records needs the path of a trace");
  if (options.finds_steps && !options.plan_path.empty())
    fail(
        "steps=found: a saved plan needs steps that are marked: call stweaver_begin_step(), or leave out "
        "plan=");
  const std::scoped_lock lock(life_mutex_);
  if (goes_on(options)) return;
  end_lives();
  end_service();
  options_ = options;
  runs_ = true;
  finds_steps_ = options.finds_steps;
  for_each_place([&](Place& place) { begin_life(place); });
}

bool Session::goes_on(const SessionOptions& options) {
  if (!runs_ || !goes_on_with(options_, options)) return false;
  options_.hold = options.hold;
  for_each_place([&](Place& place) { place.allocator.hold(options.hold); });
  const std::scoped_lock log_lock(log_mutex_);
  options_.log = options.log;
  return true;
}

void Session::stop() {
  const std::scoped_lock lock(life_mutex_);
  end_lives();
  end_service();
}

void Session::finish() {
  const std::scoped_lock lock(life_mutex_);
  if (!runs_) return;
  end_lives();
  // With its life a place goes out of service, and then what is freed there goes back to the device.
  for_each_place([this](Place& place) { place.allocator.place_unplanned(options_.follows); });
}

void Session::end_lives() {
  runs_ = finds_steps_ = false;
  for_each_place([this](Place& place) {
    if (place.saver.valid()) place.saver.wait();
    save_if_settled(place);  // what had to wait for it
    if (place.life && !place.began_anew) place.files.followed = fate_of(place);
    place.life.reset();
    for (const std::future<void>* const work : {&place.saver, &place.simulator})
      if (work->valid()) work->wait();
  });
}

/// And hands memory back that is in no use.
void Session::end_service() {
  for_each_place([](Place& place) {
    place.allocator.place_unplanned(false);
    place.allocator.drop_plan();
  });
}

/// Of one that begins `anew` the files have been read and written.
void Session::begin_life(Place& place, bool anew) {
  LifeCycleOptions life = {.device = place.number,
                           .settings = options_.settings,
                           .plan_path = anew ? "" : for_device(options_.plan_path, place.number),
                           .trace_path = anew ? "" : for_device(options_.trace_path, place.number),
                           .record_steps = options_.record_steps,
                           .place_unplanned = options_.follows,  // who only records sees the job as it is
                           .plan = {},
                           .log = [this](const std::string& line) { write(line); }};
  if (!options_.follows) {
    life.record_steps = LifeCycleOptions::kAllSteps;
    life.most_recorded = kNotRecorded;
  }
  life.plan = [this, &place](const Trace& trace, const Gaps& gaps) {
    if (options_.simulate && place.begins && begins_with_the_job(trace)) simulate(place, trace);
    return options_.save_path.empty() ? plan_step(trace, gaps) : plan_steps(place, trace, gaps);
  };
  place.allocator.hold(options_.hold);
  const RuntimeStatistics before = place.allocator.statistics();
  place.life = std::make_unique<LifeCycle>(place.allocator, life);
  place.begins = before.served.all() == 0 && place.life->stage() == Stage::kRecording;
  place.began_anew = anew;
  place.saved = 0;
  const bool is_saved = place.life->stage() == Stage::kFollowing || place.life->stage() == Stage::kWaiting;
  place.judged = is_saved ? before.plans + 1 : kNone;
  place.served_before = before.served;
  place.unfit.clear();
  place.files = {};
  place.to_save = nullptr;
}

/// The plan for the steps to come. For the next run the first one is that of the whole job, from the same
/// trace; one for steps with as many requests replaces it where that was not followed, or where sizes follow
/// lengths: they are the same steps, of which more was seen. It is saved once the plan is followed, or, where
/// steps differ, once none is looked for any more, so that the next run need not find that out.
Plan Session::plan_steps(Place& place, const Trace& trace, const Gaps& gaps) {
  Plan step = plan_step(trace, gaps);
  const bool differs = step.shape == StepShape::kDynamic;
  if (step.slots.empty() && !differs) return step;
  const std::size_t slots = step.slots.size() - step.prologue;
  // If there is one of the job's beginning: or it did not fit what came then.
  const bool was_refused = place.allocator.statistics().plans == 0;
  if (place.begins && begins_with_the_job(trace)) {
    place.to_save = [trace] { return plan_job(trace); };
    place.saved = slots;
  } else if (place.saved == slots && (step.shape == StepShape::kVarying || was_refused)) {
    place.to_save = [trace] { return plan_step(trace); };
  } else {
    if (was_refused) place.to_save = nullptr;
    std::error_code ignored;
    const char* const why = place.saved > 0 ? "the job begins with others" : "its beginning was not recorded";
    if (!place.to_save && !std::filesystem::exists(for_device(options_.save_path, place.number), ignored))
      write(text("stweaver[", place.number, "]: no plan of these steps is saved: ", why));
  }
  place.save_in = differs ? Stage::kResting : Stage::kFollowing;
  return step;
}

void Session::save_if_settled(Place& place) {
  if (!place.life) return;
  remove_if_unfit(place);
  // In these stages the planner, which writes what is asked below, is done.
  const Stage stage = place.life->stage();
  if (stage != Stage::kFollowing && stage != Stage::kResting) return;
  if (stage != place.save_in || !place.to_save) return;
  if (!place.unfit.empty() || is_at_work(place.saver)) return;  // the next step asks again
  save(place, std::exchange(place.to_save, nullptr));
  place.begins = false;  // later recordings do not
  const RuntimeStatistics now = place.allocator.statistics();
  place.judged = stage == Stage::kFollowing ? now.plans : kNone;
  place.served_before = now.served;
}

bool Session::follows_judged(const Place& place) {
  return place.allocator.follows_plan() && place.allocator.statistics().plans == place.judged;
}

/// A saved plan that proves unfit goes as soon as it is left: a job that is killed has no end at which to
/// judge it. One that has cost no memory, and has served most of what was asked for while it was followed,
/// stays: it is the job that has changed.
void Session::judge_saved_plan(Place& place) {
  const Served served = place.allocator.statistics().served - place.served_before;
  const bool costs = !place.allocator.follows_plan() && place.life->cost_memory();
  if (!costs && 2 * served.in_plan() >= served.all()) return;
  const std::string why = place.life->why_no_plan();
  place.unfit =
      why.empty() ? text("it had places for ", served.in_plan(), " of ", served.all(), " requests") : why;
}

/// What this run has saved, or what it began with where the next plan is to be. Another's plan is left alone.
void Session::remove_if_unfit(Place& place) {
  if (place.unfit.empty() || is_at_work(place.saver)) return;
  const std::string why = std::exchange(place.unfit, "");
  if (options_.save_path.empty()) return;
  std::error_code error;
  {
    const std::scoped_lock lock(log_mutex_);
    if (!place.files.saved && options_.save_path != options_.plan_path) return;
    const bool was_there =
        std::filesystem::remove(target_of(for_device(options_.save_path, place.number)), error);
    if (!was_there && !error) return;
    place.files.saved = place.files.saved && !was_there;
    if (was_there) place.files.removed = why;
  }
  write(text("stweaver[", place.number, "]: ", error ? "cannot remove the plan: " : "removed the plan: ",
             error ? error.message() : why));
}

/// In another thread.
void Session::save(Place& place, std::function<Plan()> plan) {
  const std::string path = for_device(options_.save_path, place.number);
  const std::string failed = text("stweaver[", place.number, "]: no plan saved: ");
  place.saver = in_thread(failed, [this, &place, path, plan = std::move(plan)] {
    save_plan(frugal(plan()), path);
    {
      const std::scoped_lock lock(log_mutex_);
      place.files.saved = true;
      place.files.removed.clear();
    }
    write(text("stweaver[", place.number, "]: saved a plan for the next run as ", path));
  });
}

/// What goes wrong is a line in the log.
std::future<void> Session::in_thread(const std::string& failed, std::function<void()> work) {
  try {
    return std::async(std::launch::async, [this, failed, work = std::move(work)] {
      try {
        work();
      } catch (const std::exception& error) {
        write(text(failed, error.what()));
      }
    });
  } catch (const std::system_error& error) {  // no more threads
    write(text(failed, error.what()));
    return {};
  }
}

/// In another thread. A recording that was too short is followed by a longer one, which says more.
void Session::simulate(Place& place, const Trace& trace) {
  if (place.simulator.valid()) place.simulator.wait();
  const std::string failed =
      text("stweaver[", place.number, "]: not known what PyTorch's allocator would have reserved: ");
  place.simulator = in_thread(failed, [this, &place, trace] {
    std::unique_lock lock(log_mutex_);
    const std::vector<Time> emptied = place.emptied;
    lock.unlock();
    const Simulated result = {.steps = std::ssize(trace.marks),
                              .requested = peak_requested(trace),
                              .reserved = options_.simulate(trace, emptied)};
    lock.lock();
    place.simulated = result;
  });
}

void Session::begin_step() {
  if (captures()) return;
  release_deferred();
  const std::scoped_lock lock(life_mutex_);
  for_each_place([this](Place& place) {
    if (place.life) {
      const bool was_followed = follows_judged(place);
      place.life->begin_step();
      if (was_followed && !follows_judged(place)) judge_saved_plan(place);
      save_if_settled(place);
    } else {
      place.allocator.begin_step();
    }
  });
}

void Session::restart() {
  if (captures()) return;
  const std::scoped_lock lock(life_mutex_);
  if (!runs_ || !options_.follows) return;
  for_each_place([this](Place& place) {
    if (!place.life) return;
    if (place.saver.valid()) place.saver.wait();
    place.unfit = "steps end elsewhere than it has it";
    remove_if_unfit(place);
    PlanFiles files = place.files;
    files.followed = fate_of(place);
    place.allocator.drop_plan();  // before the place goes out of service, so that no memory goes back
    place.life.reset();
    begin_life(place, true);
    place.files = std::move(files);
  });
}

/// Steps are looked for now and then where nobody marks them.
void Session::count_request() {
  if (!finds_steps_ || ++requests_ % Policy().poll != 0 || captures()) return;
  const std::unique_lock lock(life_mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return;
  for_each_place([this](Place& place) {
    if (place.life) place.life->poll();
    save_if_settled(place);
  });
}

// ---- requests ----

Session::Place* Session::find(int device) const {
  if (device < 0 || device >= kMostDevices) return nullptr;
  return places_[static_cast<std::size_t>(device)].load(std::memory_order_acquire);
}

Session::Place& Session::place(int device) {
  Place* const found = find(device);
  return found != nullptr ? *found : make_place(device);
}

Session::Place& Session::make_place(int device) {
  if (device < 0 || device >= kMostDevices)
    fail("device ", device, " is none: there are 0 to ", kMostDevices - 1);
  const std::scoped_lock lock(life_mutex_);
  if (Place* const made = find(device)) return *made;
  auto place = std::make_unique<Place>(device, provider_);
  if (runs_) begin_life(*place);
  only_.store(devices().empty() ? place.get() : nullptr, std::memory_order_release);
  places_[static_cast<std::size_t>(device)].store(place.get(), std::memory_order_release);
  return *place.release();
}

void* Session::allocate(int device, Bytes size, Stream stream, Pool pool) {
  count_request();
  return place(device).allocator.allocate(size, stream, pool);
}

void Session::free(void* memory) {
  if (captures()) {
    const std::scoped_lock lock(deferred_mutex_);
    deferred_.push_back(memory);
    any_deferred_ = true;
    return;
  }
  release_deferred();  // also those of a capture that failed, of whose end nobody told
  free_now(memory);
}

void Session::release_deferred() {
  if (!any_deferred_ || captures()) return;
  std::vector<void*> deferred;
  {
    const std::scoped_lock lock(deferred_mutex_);
    deferred.swap(deferred_);
    any_deferred_ = false;
  }
  for (void* const memory : deferred) free_now(memory);
}

void Session::free_now(void* memory) const {
  if (provider_.before_free) provider_.before_free(memory);
  if (RuntimeAllocator* const allocator = owner(memory)) return allocator->free(memory);
  if (provider_.free_foreign) provider_.free_foreign(memory);
}

void Session::record_stream(void* memory, Stream stream) const {
  if (RuntimeAllocator* const allocator = owner(memory)) allocator->record_stream(memory, stream);
}

void Session::empty_cache() {
  for_each_place([this](Place& place) {
    const RuntimeStatistics now = place.allocator.statistics();
    if (now.served.all() > static_cast<std::int64_t>(LifeCycleOptions().most_recorded)) return;
    const std::scoped_lock lock(log_mutex_);
    // As a recording counts: each request so far is an event, and so is the end of each that is gone.
    place.emptied.push_back(2 * now.served.all() - now.blocks);
  });
  // To wait for work spoils a graph that is captured.
  if (captures()) return for_each_place([](Place& place) { place.upstream->empty_cache(); });
  release_deferred();
  for_each_place([](Place& place) { place.allocator.empty_cache(); });
}

// ---- what there is ----

std::vector<int> Session::devices() const {
  std::vector<int> numbers;
  for_each_place([&](Place& place) { numbers.push_back(place.number); });
  return numbers;
}

RuntimeAllocator* Session::allocator(int device) const {
  Place* const found = find(device);
  return found != nullptr ? &found->allocator : nullptr;
}

RuntimeAllocator* Session::owner(const void* memory) const {
  // With one device, as in most processes, nobody needs to be asked.
  if (Place* const only = only_.load(std::memory_order_acquire)) return &only->allocator;
  RuntimeAllocator* found = nullptr;
  const auto look = [&](auto is_of) {
    for_each_place([&](Place& place) {
      if (found == nullptr && is_of(place.allocator)) found = &place.allocator;
    });
  };
  // A thread waits for no other device's work: that may wait for what the thread is yet to launch.
  look([&](const RuntimeAllocator& allocator) { return allocator.covers(memory); });
  if (found == nullptr) look([&](RuntimeAllocator& allocator) { return allocator.owns(memory); });
  return found;
}

std::string Session::stage(int device) const {
  const std::scoped_lock lock(life_mutex_);
  const Place* const found = find(device);
  return found != nullptr && found->life ? std::string(name_of(found->life->stage())) : "off";
}

std::string Session::why_no_plan(int device) const {
  const std::scoped_lock lock(life_mutex_);
  const Place* const found = find(device);
  return found != nullptr && found->life ? found->life->why_no_plan() : "";
}

/// Who asks knows the file's name.
SavedPlanFate Session::fate_of(const Place& place) const {
  SavedPlanFate fate = place.life->saved_plan();
  const std::string name = for_device(options_.plan_path, place.number) + ": ";
  if (fate.refused.starts_with(name)) fate.refused.erase(0, name.size());
  return fate;
}

PlanFiles Session::plan_files(int device) const {
  const std::scoped_lock lock(life_mutex_, log_mutex_);
  const Place* const found = find(device);
  if (found == nullptr) return {};
  PlanFiles files = found->files;
  if (found->life && !found->began_anew) files.followed = fate_of(*found);
  return files;
}

std::string Session::explain_shortage(int device, Shortage shortage) const {
  const Place* const found = find(device);
  if (found == nullptr) return "STWeaver holds nothing on this device.";
  shortage.stage = stage(device);
  shortage.why_no_plan = why_no_plan(device);
  shortage.device = found->device->memory();
  return explain(found->allocator, shortage);
}

std::optional<Simulated> Session::simulated(int device) const {
  const Place* const found = find(device);
  if (found == nullptr) return std::nullopt;
  const std::scoped_lock lock(log_mutex_);
  return found->simulated;
}

std::vector<std::string> Session::log() const {
  const std::scoped_lock lock(log_mutex_);
  return {log_.begin(), log_.end()};
}

void Session::write(const std::string& line) {
  const std::scoped_lock lock(log_mutex_);
  log_.push_back(line);
  if (log_.size() > kLogLines) log_.pop_front();
  if (options_.log) options_.log(line);
}

}  // namespace stweaver
