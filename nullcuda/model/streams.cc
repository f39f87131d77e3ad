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
constexpr int kInvalidValue = 1;
constexpr int kInvalidHandle = 400;
constexpr int kIllegalState = 401;
constexpr int kNotReady = 600;
constexpr int kUnsupported = 900;
constexpr int kInvalidated = 901;
constexpr int kMerge = 902;
constexpr int kUnmatched = 903;
constexpr int kUnjoined = 904;
constexpr int kIsolation = 905;
constexpr int kImplicit = 906;
constexpr int kCapturedEvent = 907;
constexpr int kWrongThread = 908;

constexpr unsigned kNonBlocking = 1;
constexpr StreamId kLegacy = 0;
constexpr StreamId kPerThread = 2;

thread_local CaptureMode thread_mode = CaptureMode::kGlobal;

std::uint64_t this_thread() {
  return std::hash<std::thread::id>()(std::this_thread::get_id());
}

bool is_default(StreamId stream) {
  return stream == kLegacy || stream == kPerThread;
}
bool blocks(unsigned flags) {
  return (flags & kNonBlocking) == 0;
}

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
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

Streams::Streams(const Settings& settings)
    : settings_(settings), legacy_(streams_[kLegacy]), random_(settings.completion.seed) {
  streams_[kPerThread] = {};
}

Streams::Stream* Streams::find(StreamId id) {
  const auto found = streams_.find(id);
  return found == streams_.end() ? nullptr : &found->second;
}

const Streams::Stream* Streams::find(StreamId id) const {
  const auto found = streams_.find(id);
  return found == streams_.end() ? nullptr : &found->second;
}

StreamId Streams::create(int device, unsigned flags, int priority) {
  const std::scoped_lock lock(mutex_);
  const StreamId id = next_stream_ += 256;
  streams_[id] = {.device = device, .flags = flags, .priority = priority};
  return id;
}

bool Streams::destroy(StreamId id) {
  Recording dropped;
  const std::scoped_lock lock(mutex_);
  const auto found = streams_.find(id);
  if (is_default(id) || found == streams_.end()) return false;
  const Stream& stream = found->second;
  if (const Recording* recording = find_recording(stream.capture);
      recording != nullptr && recording->capture.origin == id)
    dropped = drop(stream.capture);
  gone_due_ = std::max(gone_due_, stream.due);
  join(gone_, stream.clock);
  if (blocks(stream.flags)) join(gone_blocking_, stream.clock);
  streams_.erase(found);
  return true;
}

int Streams::priority(StreamId id) const {
  const std::scoped_lock lock(mutex_);
  const Stream* stream = find(id);
  return stream == nullptr ? 0 : stream->priority;
}

unsigned Streams::flags(StreamId id) const {
  const std::scoped_lock lock(mutex_);
  const Stream* stream = find(id);
  return stream == nullptr ? 0 : stream->flags;
}

int Streams::device(StreamId id, int current) const {
  const std::scoped_lock lock(mutex_);
  const Stream* stream = find(id);
  return is_default(id) || stream == nullptr ? current : stream->device;
}

// ---- time ----

std::uint64_t Streams::now() const {
  return Call::ticks() + passed_;
}

std::uint64_t Streams::delay() {
  const Completion& completion = settings_.completion;
  if (!completion.random || completion.calls == 0) return completion.calls;
  return random_() % completion.calls;
}

void Streams::pass(std::uint64_t due) {
  if (due > now()) passed_ += due - now();
}

void Streams::join_blocking(Clock& clock) const {
  join(clock, gone_blocking_);
  for (const auto& [id, stream] : streams_)
    if (blocks(stream.flags)) join(clock, stream.clock);
}

/// The legacy stream and the streams that were not created apart from it wait for each other.
void Streams::begin_piece(Stream& stream, StreamId id) {
  stream.due = std::max(stream.due, now() + delay());
  if (id == kLegacy)
    stream.due = std::max(stream.due, blocking_due_);
  else if (blocks(stream.flags))
    stream.due = std::max(stream.due, legacy_.due);
  note_due(stream, id);
  if (!settings_.checks) return;
  join(stream.clock, host_);
  if (id == kLegacy)
    join_blocking(stream.clock);
  else if (blocks(stream.flags))
    join(stream.clock, legacy_.clock);
  stream.clock[id] = ++stream.pieces;
}

void Streams::note_due(const Stream& stream, StreamId id) {
  if (id != kLegacy && blocks(stream.flags)) blocking_due_ = std::max(blocking_due_, stream.due);
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

int Streams::record(Event* event, StreamId id) {
  const std::scoped_lock lock(mutex_);
  Stream* stream = find(id);
  if (stream == nullptr || !events_.contains(event)) return kInvalidHandle;
  if (!is_default(id) && stream->device != event->device) return kInvalidHandle;  // of another context
  if (const Recording* recording = find_recording(stream->capture); recording != nullptr) {
    if (recording->capture.invalid) return kInvalidated;
    event->due = 0;
    event->clock = stream->captured;
  } else {
    if (spoil_by_legacy(id)) return kImplicit;
    begin_piece(*stream, id);
    event->due = stream->due;
    if (settings_.checks || event->capture != 0) event->clock = stream->clock;
  }
  event->recorded = true;
  event->stream = id;
  event->capture = stream->capture;
  if (event->timed) event->milliseconds = milliseconds();
  return 0;
}

int Streams::wait(StreamId id, const Event* event) {
  const std::scoped_lock lock(mutex_);
  Stream* stream = find(id);
  if (stream == nullptr || !events_.contains(event)) return kInvalidHandle;
  if (!event->recorded) return 0;
  if (event->capture != 0) return join_capture(*stream, id, *event);
  if (stream->capture != 0) return spoil(stream->capture, kIsolation);
  stream->due = std::max(stream->due, event->due);
  note_due(*stream, id);
  if (settings_.checks) join(stream->clock, event->clock);
  return 0;
}

int Streams::elapsed(const Event* from, const Event* to, double& milliseconds) const {
  const std::scoped_lock lock(mutex_);
  if (!events_.contains(from) || !events_.contains(to) || !from->timed || !to->timed || !from->recorded ||
      !to->recorded)
    return kInvalidHandle;
  if (from->capture != 0 || to->capture != 0) return kInvalidValue;
  if (std::max(from->due, to->due) > now()) return kNotReady;
  milliseconds = to->milliseconds - from->milliseconds;
  return 0;
}

/// Whether the host may ask for an event or wait for it now.
int Streams::look_at(const Event* event) {
  if (!events_.contains(event)) return kInvalidHandle;
  if (event->capture != 0)
    return find_recording(event->capture) == nullptr ? kInvalidValue : spoil(event->capture, kCapturedEvent);
  return unsafe_now();
}

int Streams::look_at(StreamId id) {
  const Stream* stream = find(id);
  if (stream == nullptr) return kInvalidHandle;
  if (stream->capture != 0) return spoil(stream->capture, kUnsupported);
  if (spoil_by_legacy(id)) return kImplicit;
  return unsafe_now();
}

/// What the host knows when all on a stream is done.
Clock Streams::done_with(const Stream& stream, StreamId id) const {
  Clock clock = stream.clock;
  if (id == kLegacy) join_blocking(clock);
  return clock;
}

int Streams::query(const Event* event) {
  const std::scoped_lock lock(mutex_);
  if (const int error = look_at(event); error != 0) return error;
  if (event->due > now()) return kNotReady;
  if (settings_.checks) join(host_, event->clock);
  return 0;
}

int Streams::query(StreamId id) {
  const std::scoped_lock lock(mutex_);
  if (const int error = look_at(id); error != 0) return error;
  const Stream& stream = *find(id);
  if (std::max(stream.due, id == kLegacy ? blocking_due_ : 0) > now()) return kNotReady;
  if (settings_.checks) join(host_, done_with(stream, id));
  return 0;
}

int Streams::synchronize(const Event* event) {
  const std::scoped_lock lock(mutex_);
  if (const int error = look_at(event); error != 0) return error;
  pass(event->due);
  if (settings_.checks) join(host_, event->clock);
  return 0;
}

int Streams::synchronize(StreamId id) {
  {
    const std::scoped_lock lock(mutex_);
    if (const int error = look_at(id); error != 0) return error;
  }
  finish(id);
  return 0;
}

void Streams::finish(StreamId id) {
  const std::scoped_lock lock(mutex_);
  const Stream* stream = find(id);
  if (stream == nullptr) return;
  pass(std::max(stream->due, id == kLegacy ? blocking_due_ : 0));
  if (settings_.checks) join(host_, done_with(*stream, id));
}

void Streams::synchronize_all(std::optional<int> device) {
  const std::scoped_lock lock(mutex_);
  pass(gone_due_);
  join(host_, gone_);
  gone_.clear();
  gone_blocking_.clear();
  for (const auto& [id, stream] : streams_) {
    if (device && !is_default(id) && stream.device != *device) continue;
    pass(stream.due);
    if (settings_.checks) join(host_, stream.clock);
  }
}

// ---- work ----

std::string Streams::work(StreamId id, const std::vector<Use>& uses, const Effect& effect) {
  // Most of what a program does: nothing is checked, nothing takes time, nothing is captured.
  if (!settings_.checks && settings_.completion.calls == 0 && !capturing()) return {};
  const std::scoped_lock lock(mutex_);
  Stream* stream = find(id);
  if (stream == nullptr) return settings_.checks ? named(id) + " does not exist" : "";
  if (Recording* recording = find_recording(stream->capture); recording != nullptr) {
    ++recording->graph.nodes;
    stream->captured[id] = ++recording->pieces[id];
    Graph& graph = recording->graph;
    graph.uses.insert(graph.uses.end(), uses.begin(), uses.end());
    if (effect) graph.effects.push_back(effect);
    return {};
  }
  spoil_by_legacy(id);
  begin_piece(*stream, id);
  if (!settings_.checks) return {};
  for (const Use& use : uses)
    if (std::string wrong = check(id, *stream, use); !wrong.empty()) return wrong;
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
  if (use.size == 0) return {};
  const std::uint64_t end = use.begin + use.size;
  split(use.begin);
  split(end);
  const auto first = accesses_.lower_bound(use.begin);
  for (auto next = first; next != accesses_.end() && next->first < end; ++next) {
    const Access& access = next->second;
    const auto wrong = [&](StreamId other, const char* what) {
      std::ostringstream text;
      text << std::hex << "0x" << next->first << std::dec << " (" << next->second.end - next->first
           << " bytes) is " << (use.writes ? "written" : "read") << " on " << named(id)
           << " while it may still be " << what << " on " << named(other) << ": nothing orders the two";
      return text.str();
    };
    if (access.written != 0 && access.writer != id && at(stream.clock, access.writer) < access.written)
      return wrong(access.writer, "written");
    if (!use.writes) continue;
    for (const auto& [reader, piece] : access.reads)
      if (reader != id && at(stream.clock, reader) < piece) return wrong(reader, "read");
  }
  if (use.writes) {  // one range again, however many there were: else they would only ever become more
    accesses_.erase(first, accesses_.lower_bound(end));
    accesses_.emplace(use.begin, Access{.end = end, .writer = id, .written = stream.pieces});
    return {};
  }
  std::uint64_t place = use.begin;
  for (auto next = first; place < end; ++next) {
    const std::uint64_t begin = next == accesses_.end() ? end : std::min(next->first, end);
    if (place < begin) next = accesses_.emplace(place, Access{.end = begin}).first;
    next->second.reads[id] = stream.pieces;
    place = next->second.end;
  }
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

void Streams::forget_in_order(std::uint64_t begin, std::uint64_t size) {
  if (!settings_.checks) return;
  const std::scoped_lock lock(mutex_);
  split(begin);
  split(begin + size);
  accesses_.erase(accesses_.lower_bound(begin), accesses_.lower_bound(begin + size));
}

// ---- captures ----

Streams::Recording* Streams::find_recording(std::uint64_t capture) {
  if (capture == 0) return nullptr;
  const auto found = captures_.find(capture);
  return found == captures_.end() ? nullptr : &found->second;
}

int Streams::spoil(std::uint64_t capture, int error) {
  if (Recording* recording = find_recording(capture); recording != nullptr) recording->capture.invalid = true;
  return error;
}

/// Whether the legacy stream would wait for one that is captured, which spoils that capture.
bool Streams::spoil_by_legacy(StreamId id) {
  if (id != kLegacy || captures_.empty()) return false;
  bool spoilt = false;
  for (const auto& [other, stream] : streams_)
    if (stream.capture != 0 && blocks(stream.flags)) spoilt = spoil(stream.capture, kImplicit) != 0;
  return spoilt;
}

/// A stream waits for an event of a capture: it becomes part of it.
int Streams::join_capture(Stream& stream, StreamId id, const Event& event) {
  const Recording* recording = find_recording(event.capture);
  if (recording == nullptr) return kInvalidValue;
  if (recording->capture.invalid) return kInvalidated;
  if (id == kLegacy) return spoil(event.capture, kImplicit);
  if (stream.capture != 0 && stream.capture != event.capture) {
    spoil(stream.capture, kMerge);
    return spoil(event.capture, kMerge);
  }
  stream.capture = event.capture;
  join(stream.captured, event.clock);
  return 0;
}

/// What is dropped must outlive the lock: memory that goes with its graph asks for that, too.
Streams::Recording Streams::drop(std::uint64_t capture) {
  for (auto& [id, stream] : streams_) {
    if (stream.capture != capture) continue;
    stream.capture = 0;
    stream.captured.clear();
  }
  Recording dropped = std::move(captures_.at(capture));
  captures_.erase(capture);
  capturing_.store(captures_.size(), std::memory_order_release);
  return dropped;
}

int Streams::begin_capture(StreamId id, CaptureMode mode) {
  const std::scoped_lock lock(mutex_);
  Stream* stream = find(id);
  if (stream == nullptr) return kInvalidHandle;
  if (id == kLegacy) return kUnsupported;
  if (stream->capture != 0) return kIllegalState;
  const std::uint64_t capture = next_capture_++;
  stream->capture = capture;
  captures_[capture] = {.capture = {.id = capture, .origin = id, .mode = mode, .thread = this_thread()}};
  capturing_.store(captures_.size(), std::memory_order_release);
  return 0;
}

int Streams::end_capture(StreamId id, std::unique_ptr<Graph>& graph) {
  Recording recording;
  const std::scoped_lock lock(mutex_);
  const Stream* stream = find(id);
  if (stream == nullptr) return kInvalidHandle;
  Recording* found = find_recording(stream->capture);
  if (found == nullptr) return kIllegalState;
  if (found->capture.origin != id) return spoil(stream->capture, kUnmatched);
  const bool joined = std::ranges::all_of(
      found->pieces, [&](const auto& part) { return at(stream->captured, part.first) >= part.second; });
  recording = drop(stream->capture);
  if (recording.capture.mode != CaptureMode::kRelaxed && recording.capture.thread != this_thread())
    return kWrongThread;
  if (recording.capture.invalid) return kInvalidated;
  if (!joined) return kUnjoined;
  graph = std::make_unique<Graph>(std::move(recording.graph));
  return 0;
}

Capture Streams::capture(StreamId id) const {
  if (!capturing()) return {};
  const std::scoped_lock lock(mutex_);
  const Stream* stream = find(id);
  if (stream == nullptr) return {};
  const auto found = captures_.find(stream->capture);
  return found == captures_.end() ? Capture{} : found->second.capture;
}

int Streams::unsafe() {
  if (!capturing()) return 0;
  const std::scoped_lock lock(mutex_);
  return unsafe_now();
}

int Streams::unsafe_now() {
  if (captures_.empty() || thread_mode == CaptureMode::kRelaxed) return 0;
  bool spoilt = false;
  for (auto& [id, recording] : captures_) {
    Capture& capture = recording.capture;
    if (capture.mode == CaptureMode::kRelaxed) continue;
    const bool own = capture.thread == this_thread();
    const bool others = thread_mode == CaptureMode::kGlobal && capture.mode == CaptureMode::kGlobal;
    if (own || others) spoilt = capture.invalid = true;
  }
  return spoilt ? kUnsupported : 0;
}

int Streams::forbidden() {
  if (!capturing()) return 0;
  const std::scoped_lock lock(mutex_);
  for (auto& [id, recording] : captures_) recording.capture.invalid = true;
  return captures_.empty() ? 0 : kUnsupported;
}

CaptureMode Streams::exchange_mode(CaptureMode mode) {
  return std::exchange(thread_mode, mode);
}

}  // namespace nullcuda
