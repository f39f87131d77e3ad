#include "report/perfetto.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>
#include <zlib.h>

#include "report/wording.h"

namespace stweaver {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kCounterPoints = 20'000;
constexpr std::size_t kMostRequests = 1000;

// Rows of a process.
constexpr int kSteps = 1;
constexpr int kPhases = 2;
constexpr int kRequests = 3;

/// When each event was, in microseconds; a clock that goes back stands still. The last entry is the end.
std::vector<std::int64_t> clock_of(const Trace& trace) {
  std::vector<std::int64_t> clock(static_cast<std::size_t>(trace.end) + 1);
  for (std::size_t time = 0; time < clock.size(); ++time) {
    const bool known = time < trace.micros.size();
    const std::int64_t before = time == 0 ? 0 : clock[time - 1];
    clock[time] = known ? std::max(before, trace.micros[time])
                        : (trace.micros.empty() ? static_cast<std::int64_t>(time) : before + 1);
  }
  return clock;
}

class PerfettoWriter {
 public:
  PerfettoWriter(const JobReport& report, int process, Json& events)
      : report_(report), process_(process), clock_(clock_of(report.trace)), events_(events) {}

  void write() {
    name("process_name", 0, job_name(report_.trace.name));
    name("thread_name", kSteps, "steps");
    name("thread_name", kPhases, "phases");
    write_steps();
    write_phases();
    write_counter("asked for", report_.requested);
    constexpr std::array<const char*, kContenders> kNames = {"reserved by default", "reserved, expandable",
                                                             "reserved, STWeaver"};
    for (std::size_t i = 0; i < kContenders; ++i) write_counter(kNames.at(i), report_.reserved.at(i));
    write_requests();
  }

 private:
  void name(const char* what, int row, const std::string& name) {
    events_.push_back(
        {{"ph", "M"}, {"name", what}, {"pid", process_}, {"tid", row}, {"args", {{"name", name}}}});
  }

  [[nodiscard]] std::int64_t micros(Time time) const { return clock_[static_cast<std::size_t>(time)]; }

  Json event(const char* phase, const std::string& name, int row, Time time) const {
    return {{"ph", phase}, {"name", name}, {"pid", process_}, {"tid", row}, {"ts", micros(time)}};
  }

  void write_slice(const std::string& name, int row, const Lifespan& span, Json arguments) {
    Json slice = event("X", name, row, span.lower);
    slice["dur"] = micros(span.upper) - micros(span.lower);
    slice["args"] = std::move(arguments);
    events_.push_back(std::move(slice));
  }

  void write_steps() {
    for (std::size_t i = 0; i < report_.steps.size(); ++i) {
      const StepReport& step = report_.steps[i];
      write_slice(text("step ", i + 1), kSteps, step.span,
                  {{"requests", step.requests}, {"asked for at most", gib_text(step.requested) + " GiB"}});
    }
  }

  /// Numbered in each step.
  void write_phases() {
    const std::vector<Time>& begins = report_.profile.phases.begins;
    auto step = report_.steps.begin();
    std::size_t number = 0;
    for (std::size_t i = 0; i < begins.size(); ++i) {
      ++number;
      for (; step != report_.steps.end() && step->span.lower <= begins[i]; ++step) number = 1;
      const Time end = i + 1 < begins.size() ? begins[i + 1] : report_.trace.end;
      write_slice(text("phase ", number), kPhases, {begins[i], end}, Json::object());
    }
  }

  void write_counter(const char* name, const Curve& curve) {
    for (const Reserve& point : downsample(curve, kCounterPoints)) {
      Json counter = event("C", name, 0, std::min(point.time, report_.trace.end));
      counter["args"] = {{"GiB", to_gib(point.bytes)}};
      events_.push_back(std::move(counter));
    }
  }

  void write_requests() {
    const Trace& trace = report_.trace;
    for (const RequestId id : largest_requests(trace, kMostRequests)) {
      const Request& request = trace.requests[id];
      const std::string name = request.site == 0 ? size_text(request.size) : trace.sites[request.site];
      Json begin = event("b", name, kRequests, std::max<Time>(request.life.lower, 0));
      Json end = event("e", name, kRequests, std::min(request.life.upper, trace.end));
      begin["cat"] = end["cat"] = "memory";
      begin["id"] = end["id"] = text(process_, '.', id);
      begin["args"] = {{"bytes", request.size},
                       {"request", id},
                       {"class", kClassNames.at(static_cast<std::size_t>(report_.profile.classes[id]))},
                       {"stream", std::to_string(request.stream)}};
      events_.push_back(std::move(begin));
      events_.push_back(std::move(end));
    }
  }

  const JobReport& report_;
  const int process_;
  const std::vector<std::int64_t> clock_;
  Json& events_;
};

}  // namespace

std::string perfetto_trace(const std::vector<JobReport>& reports) {
  Json events = Json::array();
  int process = 0;
  for (const JobReport& report : reports) PerfettoWriter(report, ++process, events).write();
  const Json document = {{"displayTimeUnit", "ms"}, {"traceEvents", std::move(events)}};
  return document.dump(-1, ' ', true, Json::error_handler_t::replace);
}

std::string gzipped(const std::string& content) {
  constexpr int kGzip = MAX_WBITS + 16;  // as zlib.h says
  constexpr int kMemory = 8;             // zlib's default
  z_stream stream{};
  if (deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, kGzip, kMemory, Z_DEFAULT_STRATEGY) != Z_OK)
    fail("cannot compress: not enough memory");
  std::string packed(deflateBound(&stream, content.size()), '\0');
  std::string input = content;  // zlib's interface knows no const
  stream.next_in = reinterpret_cast<Bytef*>(input.data());
  stream.avail_in = static_cast<uInt>(input.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  const int status = deflate(&stream, Z_FINISH);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  if (status != Z_STREAM_END) fail("cannot compress ", content.size(), " bytes in one piece");
  return packed;
}

}  // namespace stweaver
