#include "model/streams.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <sstream>
#include <thread>
#include <utility>

#include "model/calls.h"

namespace nullcuda {
namespace {

// cudaError_t of what goes wrong around captures.
constexpr int kUnsupported = 900;
constexpr int kInvalidated = 901;
constexpr int kUnmatched = 903;
constexpr int kUnjoined = 904;
constexpr int kIllegalState = 401;

constexpr unsigned kNonBlocking = 1;

thread_local CaptureMode thread_mode = CaptureMode::kGlobal;

std::uint64_t this_thread() { return std::hash<std::thread::id>()(std::this_thread::get_id()); }

bool is_default(StreamId stream) { return stream <= 2; }

void join(Clock& clock, const Clock& other) {
  for (const auto& [stream, pieces] : other) {
    std::uint64_t& own = clock[stream];
    own = std::max(own, pieces);
  }
}

std::uint64_t at(const Clock& clock, StreamId stream) {
  const auto found = clock.find(stream);
  return found == clock.end() ? 0 : found->second;
}

std::string named(StreamId stream) {
  if (is_default(stream)) return "the default stream";
  std::ostringstream text;
  text << "stream 0x" << std::hex << stream;
  return text.str();
}

double milliseconds() {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

Streams::Streams(const Settings& settings) : settings_(settings), random_(settings.completion.seed) {}

StreamId Streams::create(int device, unsigned flags, int priority) {
  const std::scoped_lock lock(mutex_);
  const StreamId id = next_stream_ += 256;
  streams_[id] = {.device = device, .flags = flags, .priority = priority};
  return id;
}

bool Streams::destroy(StreamId id) {
  const std::scoped_lock lock(mutex_);
  const auto found = streams_.find(id);
  if (is_default(id) || found == streams_.end()) return false;
  pass(found->second.due);
  join(gone_, found->second.clock);
  streams_.erase(found);
  return true;
}

bool Streams::exists(StreamId id) const {
  const std::scoped_lock lock(mutex_);
  return is_default(id) || streams_.contains(id);
}

int Streams::priority(StreamId id) const {
  const std::scoped_lock lock(mutex_);
  const auto found = streams_.find(id);
  return found == streams_.end() ? 0 : found->second.priority;
}

unsigned Streams::flags(StreamId id) const {
  const std::scoped_lock lock(mutex_);
  const auto found = streams_.find(id);
  return found == streams_.end() ? 0 : found->second.flags;
}

int Streams::device(StreamId id, int current) const {
  const std::scoped_lock lock(mutex_);
  const auto found = streams_.find(id);
  return is_default(id) || found == streams_.end() ? current : found->second.device;
}

// ---- time ----

std::uint64_t Streams::now() const { return Call::ticks() + passed_; }

std::uint64_t Streams::delay() {
  const Completion& completion = settings_.completion;
  if (!completion.random || completion.calls == 0) return completion.calls;
  return random_() % completion.calls;
}

void Streams::pass(std::uint64_t due) {
  if (due > now()) passed_ += due - now();
}

void Streams::begin_piece(Stream& stream, StreamId id) {
  stream.due = std::max(stream.due, now() + delay());
  if (!settings_.checks) return;
  join(stream.clock, host_);
  // The legacy default stream and the streams that were not created apart from it wait for each other.
  for (auto& [other_id, other] : streams_) {
    const bool ordered = (id == 0 && (other.flags & kNonBlocking) == 0) ||
                         (other_id == 0 && (stream.flags & kNonBlocking) == 0);
    if (ordered && other_id != id) join(stream.clock, other.clock);
  }
  stream.clock[id] = ++stream.pieces;
}

// ---- events ----

Event* Streams::create_event(int device, bool timed) {
  auto event = std::make_unique<Event>();
  event->device = device;
  event->timed = timed;
  const std::scoped_lock lock(mutex_);
  Event* made = event.get();
  events_.emplace(made, std::move(event));
  return made;
}

bool Streams::destroy_event(Event* event) {
  const std::scoped_lock lock(mutex_);
  return events_.erase(event) != 0;
}

bool Streams::exists(const Event* event) const {
  const std::scoped_lock lock(mutex_);
  return events_.contains(event);
}

void Streams::record(Event& event, StreamId id) {
  const std::scoped_lock lock(mutex_);
  Stream& stream = this->stream(id);
  begin_piece(stream, id);
  event.recorded = true;
  event.stream = id;
  event.due = stream.due;
  event.capture = stream.capture;
  event.milliseconds = milliseconds();
  if (settings_.checks) event.clock = stream.clock;
}

void Streams::wait(StreamId id, const Event& event) {
  const std::scoped_lock lock(mutex_);
  if (!event.recorded) return;
  Stream& stream = this->stream(id);
  if (event.capture != 0 && stream.capture == 0) stream.capture = event.capture;  // it joins the capture
  stream.due = std::max(stream.due, event.due);
  if (settings_.checks) join(stream.clock, event.clock);
}

bool Streams::done(const Event& event) {
  const std::scoped_lock lock(mutex_);
  if (event.due > now()) return false;
  if (settings_.checks) join(host_, event.clock);
  return true;
}

bool Streams::done(StreamId id) {
  const std::scoped_lock lock(mutex_);
  const Stream& stream = this->stream(id);
  if (stream.due > now()) return false;
  if (settings_.checks) join(host_, stream.clock);
  return true;
}

void Streams::synchronize(const Event& event) {
  const std::scoped_lock lock(mutex_);
  pass(event.due);
  if (settings_.checks) join(host_, event.clock);
}

void Streams::synchronize(StreamId id) {
  const std::scoped_lock lock(mutex_);
  const Stream& stream = this->stream(id);
  pass(stream.due);
  if (settings_.checks) join(host_, stream.clock);
}

void Streams::synchronize_all() {
  const std::scoped_lock lock(mutex_);
  join(host_, gone_);
  for (const auto& [id, stream] : streams_) {
    pass(stream.due);
    if (settings_.checks) join(host_, stream.clock);
  }
}

// ---- work ----

std::string Streams::work(StreamId id, const std::vector<Use>& uses) {
  const std::scoped_lock lock(mutex_);
  Stream& stream = this->stream(id);
  if (stream.capture != 0) {
    if (const auto capture = captures_.find(stream.capture); capture != captures_.end()) {
      ++capture->second.nodes;
      if (settings_.checks) capture->second.uses.insert(capture->second.uses.end(), uses.begin(), uses.end());
    }
    return {};
  }
  begin_piece(stream, id);
  if (!settings_.checks) return {};
  for (const Use& use : uses)
    if (std::string wrong = check(id, stream, use); !wrong.empty()) return wrong;
  return {};
}

void Streams::split(std::uint64_t at) {
  auto access = accesses_.upper_bound(at);
  if (access == accesses_.begin()) return;
  --access;
  if (access->first == at || access->second.end <= at) return;
  accesses_.emplace(at, access->second);
  access->second.end = at;
}

std::string Streams::check(StreamId id, const Stream& stream, const Use& use) {
  const std::uint64_t end = use.begin + use.size;
  split(use.begin);
  split(end);
  std::uint64_t place = use.begin;
  const auto fresh = [&](std::uint64_t until) {
    Access access{.end = until};
    if (use.writes) {
      access.writer = id;
      access.written = stream.pieces;
    } else {
      access.reads[id] = stream.pieces;
    }
    accesses_.emplace(place, std::move(access));
  };
  for (auto next = accesses_.lower_bound(use.begin); next != accesses_.end() && next->first < end; ++next) {
    if (place < next->first) fresh(next->first);
    Access& access = next->second;
    const auto wrong = [&](StreamId other, const char* what) {
      std::ostringstream text;
      text << std::hex << "0x" << next->first << std::dec << " (" << next->second.end - next->first << " bytes) is "
           << (use.writes ? "written" : "read") << " on " << named(id) << " while it may still be " << what << " on "
           << named(other) << ": nothing orders the two";
      return text.str();
    };
    if (access.written != 0 && access.writer != id && at(stream.clock, access.writer) < access.written)
      return wrong(access.writer, "written");
    if (use.writes) {
      for (const auto& [reader, piece] : access.reads)
        if (reader != id && at(stream.clock, reader) < piece) return wrong(reader, "read");
      access.writer = id;
      access.written = stream.pieces;
      access.reads.clear();
    } else {
      access.reads[id] = stream.pieces;
    }
    place = access.end;
  }
  if (place < end) fresh(end);
  return {};
}

std::string Streams::forget(std::uint64_t begin, std::uint64_t size) {
  if (!settings_.checks) return {};
  const std::scoped_lock lock(mutex_);
  split(begin);
  split(begin + size);
  std::string wrong;
  const auto end = accesses_.lower_bound(begin + size);
  for (auto access = accesses_.lower_bound(begin); access != end; access = accesses_.erase(access)) {
    const auto pending = [&](StreamId stream, std::uint64_t piece) {
      if (piece <= at(host_, stream) || !wrong.empty()) return;
      std::ostringstream text;
      text << std::hex << "0x" << access->first << std::dec << " (" << access->second.end - access->first
           << " bytes) goes away while " << named(stream) << " may still use it: nobody waited for that";
      wrong = text.str();
    };
    pending(access->second.writer, access->second.written);
    for (const auto& [reader, piece] : access->second.reads) pending(reader, piece);
  }
  return wrong;
}

// ---- captures ----

int Streams::begin_capture(StreamId id, CaptureMode mode) {
  const std::scoped_lock lock(mutex_);
  Stream& stream = this->stream(id);
  if (id == 0 || id == 1) return kUnsupported;  // the legacy stream cannot be captured
  if (stream.capture != 0) return kIllegalState;
  const std::uint64_t capture = next_capture_++;
  stream.capture = capture;
  captures_[capture] = {.id = capture, .origin = id, .mode = mode, .thread = this_thread()};
  return 0;
}

int Streams::end_capture(StreamId id, std::unique_ptr<Graph>& graph) {
  const std::scoped_lock lock(mutex_);
  const auto found = captures_.find(stream(id).capture);
  if (found == captures_.end()) return kIllegalState;
  const Capture capture = found->second;
  if (capture.origin != id) return kUnmatched;
  for (auto& [other, state] : streams_)
    if (state.capture == capture.id) state.capture = 0;
  captures_.erase(found);
  if (capture.invalid) return kInvalidated;
  if (capture.unjoined) return kUnjoined;
  graph = std::make_unique<Graph>(Graph{.uses = capture.uses, .nodes = capture.nodes});
  return 0;
}

Capture Streams::capture(StreamId id) const {
  const std::scoped_lock lock(mutex_);
  if (captures_.empty()) return {};
  const auto stream = streams_.find(id);
  if (stream == streams_.end()) return {};
  const auto capture = captures_.find(stream->second.capture);
  return capture == captures_.end() ? Capture{} : capture->second;
}

int Streams::unsafe() {
  const std::scoped_lock lock(mutex_);
  if (captures_.empty() || thread_mode == CaptureMode::kRelaxed) return 0;
  bool spoilt = false;
  for (auto& [id, capture] : captures_) {
    if (capture.mode == CaptureMode::kRelaxed) continue;
    const bool own = capture.thread == this_thread();
    const bool others = thread_mode == CaptureMode::kGlobal && capture.mode == CaptureMode::kGlobal;
    if (own || others) spoilt = capture.invalid = true;
  }
  return spoilt ? kUnsupported : 0;
}

CaptureMode Streams::exchange_mode(CaptureMode mode) { return std::exchange(thread_mode, mode); }

std::string Streams::launch(const Graph& graph, StreamId stream) { return work(stream, graph.uses); }

}  // namespace nullcuda
