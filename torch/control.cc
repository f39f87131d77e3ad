#include "control.h"

#include <array>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include "reported.h"
#include "session/session.h"
#include "simulate/caching_allocator.h"
#include "simulate/replay.h"

namespace stweaver {
namespace {

Session& session_of(void* handle) {
  return *static_cast<Session*>(handle);
}

bool flag_of(std::string_view name, std::string_view value) {
  if (value != "0" && value != "1") fail(name, "=", value, ": must be 0 or 1");
  return value == "1";
}

template <typename Number>
Number count_of(std::string_view name, std::string_view value) {
  Number count = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), count);
  if (error != std::errc() || end != value.data() + value.size() || count < 1)
    fail(name, "=", value, ": must be a number from 1 on");
  return count;
}

void print_line(const std::string& line) {
  std::fprintf(stderr, "%s\n", line.c_str());
}

/// Its cache is emptied wherever a replay says that a step begins.
struct EmptiedAllocator : CachingAllocator {
  using CachingAllocator::CachingAllocator;
  void begin_step() { empty_cache(); }
};

/// Under the settings that the job runs with.
Bytes reserved_by_pytorch(const Trace& trace, const std::vector<Time>& emptied) {
  EmptiedAllocator allocator(parse_settings(trace.settings));
  return replay(trace, allocator, {.steps = emptied}).reserved_peak;
}

void set(SessionOptions& options, std::string_view name, std::string_view value) {
  if (name == "plan") {
    options.plan_path = value;
  } else if (name == "trace") {
    options.trace_path = value;
  } else if (name == "save") {
    options.save_path = value;
  } else if (name == "follow") {
    options.follows = flag_of(name, value);
  } else if (name == "steps") {
    if (value != "marked" && value != "found") fail("steps=", value, ": must be marked or found");
    options.finds_steps = value == "found";
  } else if (name == "record_steps") {
    options.record_steps = count_of<int>(name, value);
  } else if (name == "hold") {
    options.hold = count_of<Bytes>(name, value);
  } else if (name == "settings") {
    options.settings = value;
  } else if (name == "simulate") {
    if (flag_of(name, value)) options.simulate = reserved_by_pytorch;
  } else if (name == "verbose") {
    if (flag_of(name, value)) options.log = print_line;
  } else {
    fail("no option is named ", name);
  }
}

SessionOptions options_in(std::string_view lines) {
  SessionOptions options;
  while (!lines.empty()) {
    const std::string_view line = lines.substr(0, lines.find('\n'));
    lines.remove_prefix(std::min(line.size() + 1, lines.size()));
    if (line.empty()) continue;
    const std::size_t equals = line.find('=');
    if (equals == std::string_view::npos) fail("an option is name=value, not ", line);
    set(options, line.substr(0, equals), line.substr(equals + 1));
  }
  return options;
}

// ---- JSON ----

std::string quoted(std::string_view words) {
  std::string out = "\"";
  for (const char c : words) {
    const auto code = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (code < 0x20) {
      std::array<char, 8> escape = {};
      std::snprintf(escape.data(), escape.size(), "\\u%04x", code);
      out += escape.data();
    } else {
      out += c;
    }
  }
  return out + '"';
}

/// Members of an object as they come.
class Object {
 public:
  Object& add(std::string_view name, std::int64_t value) { return put(name, std::to_string(value)); }
  Object& add(std::string_view name, std::string_view value) { return put(name, quoted(value)); }
  Object& put(std::string_view name, std::string_view json) {
    members_ += text(members_.empty() ? "" : ", ", quoted(name), ": ", json);
    return *this;
  }
  [[nodiscard]] std::string json() const { return "{" + members_ + "}"; }

 private:
  std::string members_;
};

std::string json_of(const Served& served) {
  Object missed;
  for (std::size_t i = 0; i < kUnplannedReasons; ++i)
    missed.add(name_of(static_cast<Unplanned>(i)), served.unplanned[i]);
  return Object()
      .add("planned", served.planned)
      .add("reused", served.reused)
      .add("hits", served.in_plan())
      .add("misses", served.beside_plan())
      .put("missed", missed.json())
      .json();
}

std::string json_of(const Peaks& peaks) {
  return Object()
      .add("requested", peaks.requested)
      .add("reserved", peaks.reserved)
      .add("fallback_reserved", peaks.fallback_reserved)
      .json();
}

std::string json_of(const MappingStatistics& mapping) {
  return Object()
      .add("maps", mapping.maps)
      .add("unmaps", mapping.unmaps)
      .add("idle_waits", mapping.idle_waits)
      .add("nanoseconds", mapping.nanoseconds)
      .json();
}

std::string json_of(const StepStatistics& step) {
  return Object()
      .put("served", json_of(step.served))
      .put("peaks", json_of(step.peaks))
      .add("driver_calls", step.driver_calls)
      .add("nanoseconds", step.nanoseconds)
      .json();
}

std::string json_of(const std::optional<Simulated>& simulated) {
  if (!simulated) return "null";
  return Object()
      .add("steps", simulated->steps)
      .add("requested", simulated->requested)
      .add("reserved", simulated->reserved)
      .json();
}

std::string json_of(const PlanFiles& files) {
  return Object()
      .add("slots", files.followed.slots)
      .add("refused", files.followed.refused)
      .add("removed", files.removed)
      .add("saved", static_cast<std::int64_t>(files.saved))
      .json();
}

std::string json_of(const Session& session, int device) {
  const RuntimeStatistics now = session.allocator(device)->statistics();
  return Object()
      .add("device", device)
      .add("stage", session.stage(device))
      .add("why_no_plan", session.why_no_plan(device))
      .add("follows_plan", static_cast<std::int64_t>(session.allocator(device)->follows_plan()))
      .put("served", json_of(now.served))
      .put("peaks", json_of(now.peaks))
      .put("step", json_of(now.step))
      .put("last_step", json_of(now.last_step))
      .add("requested", now.requested)
      .add("reserved", now.reserved())
      .add("arena", now.arena)
      .add("idle", now.idle())
      .add("waiting", now.waiting)
      .add("fallback_reserved", now.fallback_reserved)
      .add("planned", now.planned)
      .add("reused", now.reused)
      .add("unplanned", now.unplanned)
      .add("fallback", now.fallback)
      .add("blocks", now.blocks)
      .add("steps", now.steps)
      .add("plans", now.plans)
      .add("waits", now.waits)
      .add("reclaims", now.reclaims)
      .add("refusals", now.refusals)
      .add("ooms", now.ooms)
      .add("nanoseconds", now.nanoseconds)
      .put("mapping", json_of(now.mapping))
      .put("simulated", json_of(session.simulated(device)))
      .put("saved_plan", json_of(session.plan_files(device)))
      .json();
}

std::string json_of(const Session& session) {
  std::string devices;
  for (const int device : session.devices())
    devices += text(devices.empty() ? "" : ", ", json_of(session, device));
  std::string log;
  for (const std::string& line : session.log()) log += text(log.empty() ? "" : ", ", quoted(line));
  return Object().put("devices", "[" + devices + "]").put("log", "[" + log + "]").json();
}

std::string json_of(const Meter& meter) {
  return Object()
      .add("current", meter.current)
      .add("peak", meter.peak)
      .add("allocated", meter.allocated)
      .add("freed", meter.freed)
      .json();
}

std::string json_of(const BlockMeters& meters) {
  return Object()
      .put("blocks", json_of(meters.blocks))
      .put("bytes", json_of(meters.bytes))
      .put("requested", json_of(meters.requested))
      .json();
}

std::string json_of_meters(const RuntimeAllocator& allocator) {
  const Meters meters = allocator.meters();
  const auto kind = [&](SizeClass which) { return json_of(meters.served[static_cast<std::size_t>(which)]); };
  return Object()
      .put(
          "reserved",
          Object().add("current", allocator.statistics().reserved()).add("peak", meters.reserved_peak).json())
      .put("all", kind(SizeClass::kAll))
      .put("small_pool", kind(SizeClass::kSmall))
      .put("large_pool", kind(SizeClass::kLarge))
      .json();
}

/// The device's allocator; nullptr if it was never asked for memory.
RuntimeAllocator* allocator_of(void* session, int device) {
  return session_of(session).allocator(device);
}

}  // namespace
}  // namespace stweaver

using namespace stweaver;  // NOLINT(google-build-using-namespace): what follows is C

const char* stweaver_version() {
  return STWEAVER_VERSION;
}

const char* stweaver_start(void* session, const char* options) {
  return reported([&] { session_of(session).start(options_in(options)); });
}

void stweaver_stop(void* session) {
  reported([&] { session_of(session).stop(); });
}

void stweaver_finish(void* session) {
  reported([&] { session_of(session).finish(); });
}

void stweaver_begin_step(void* session) {
  reported([&] { session_of(session).begin_step(); });
}

void stweaver_restart(void* session) {
  reported([&] { session_of(session).restart(); });
}

char* stweaver_statistics(void* session) {
  char* json = nullptr;
  reported([&] { json = copy_of(json_of(session_of(session))); });
  return json;
}

void stweaver_release(char* text) {
  std::free(text);  // NOLINT(cppcoreguidelines-no-malloc): it comes from copy_of()
}

char* stweaver_meters(void* session, int device) {
  char* json = nullptr;
  reported([&] {
    const RuntimeAllocator* const allocator = allocator_of(session, device);
    json = copy_of(allocator == nullptr ? "{}" : json_of_meters(*allocator));
  });
  return json;
}

void stweaver_reset_peaks(void* session, int device) {
  reported([&] {
    if (RuntimeAllocator* const allocator = allocator_of(session, device)) allocator->reset_peaks();
  });
}

void stweaver_reset_accumulated(void* session, int device) {
  reported([&] {
    if (RuntimeAllocator* const allocator = allocator_of(session, device)) allocator->reset_accumulated();
  });
}

const char* stweaver_plan(const char* trace_path, const char* plan_path, int threads) {
  return reported([&] { plan_file(trace_path, plan_path, threads); });
}
