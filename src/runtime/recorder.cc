#include "runtime/recorder.h"

#include <chrono>
#include <exception>

#include "trace/file_sink.h"

namespace stweaver {
namespace {

/// Room for the requests of some steps of most jobs; memory that is not written to costs nothing.
constexpr std::size_t kExpectedRequests = std::size_t{1} << 18;

std::int64_t micros_now() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::microseconds>(now).count();
}

}  // namespace

Recorder::Recorder(const Options& options) : timed_(options.timed), most_(options.most) {
  trace_.name = options.path.empty() ? text("the recording of device ", options.device) : options.path;
  trace_.device = options.device;
  trace_.settings = options.settings;
  trace_.complete = false;
  trace_.requests.reserve(kExpectedRequests);
  if (timed_) trace_.micros.reserve(2 * kExpectedRequests);
  if (options.path.empty()) return;
  try {
    file_.emplace(file_sink(options.path),
                  TraceWriter::Header{options.device, options.settings, options.timed});
  } catch (const std::exception& error) {
    failure_ = error.what();
  }
}

/// Hands the same to the file as long as it takes it.
template <typename Write>
void Recorder::to_file(const Write& write) {
  if (!file_) return;
  try {
    write(*file_);
  } catch (const std::exception& error) {
    failure_ = error.what();
    file_.reset();
  }
}

RequestId Recorder::add(const Request& request) {
  trace_.requests.push_back(request);
  return static_cast<RequestId>(trace_.requests.size() - 1);
}

/// Counts the event that was just recorded; its wall clock, 0 if not wanted.
std::int64_t Recorder::end_event() {
  ++trace_.end;
  if (!timed_) return 0;
  trace_.micros.push_back(micros_now());
  return trace_.micros.back();
}

RequestId Recorder::add_before(Bytes size, Stream stream) {
  if (trace_.end > 0) return allocate(size, stream, 0);
  to_file([&](TraceWriter& file) { file.add_before(size, stream, 0, false); });
  return add({size, {kBeforeRecording, kForever}, kForever, stream, 0});
}

RequestId Recorder::allocate(Bytes size, Stream stream, Pool pool) {
  if (trace_.requests.size() == most_) {
    finish();
    trace_ = Trace();
    is_full_ = true;
    return kNotRecorded;
  }
  const RequestId id = add({size, {trace_.end, kForever}, kForever, stream, pool});
  const std::int64_t micros = end_event();
  to_file([&](TraceWriter& file) { file.allocate(size, stream, pool, micros); });
  return id;
}

void Recorder::drop(RequestId id) {
  Request& request = trace_.requests[id];
  if (request.dropped != kForever) return;
  request.dropped = trace_.end;
  const std::int64_t micros = end_event();
  to_file([&](TraceWriter& file) { file.drop(id, micros); });
}

void Recorder::free(RequestId id) {
  Request& request = trace_.requests[id];
  if (request.life.upper != kForever) return;
  request.life.upper = trace_.end;
  if (request.dropped == kForever) request.dropped = trace_.end;
  const std::int64_t micros = end_event();
  to_file([&](TraceWriter& file) { file.free(id, micros); });
}

void Recorder::mark(const std::string& label) {
  trace_.marks.push_back({trace_.end, label});
  to_file([&](TraceWriter& file) {
    file.mark(label);
    file.flush();
  });
}

void Recorder::reserve(Bytes bytes) {
  if (!trace_.reserves.empty() && trace_.reserves.back().bytes == bytes) return;
  trace_.reserves.push_back({trace_.end, bytes});
  to_file([&](TraceWriter& file) { file.reserve(bytes); });
}

void Recorder::out_of_memory(Bytes size, Bytes device_free) {
  trace_.ooms.push_back({trace_.end, size, device_free});
  to_file([&](TraceWriter& file) { file.out_of_memory(size, device_free); });
}

void Recorder::finish() {
  if (trace_.complete) return;
  trace_.complete = true;
  to_file([](TraceWriter& file) { file.finish(); });
  file_.reset();
}

}  // namespace stweaver
