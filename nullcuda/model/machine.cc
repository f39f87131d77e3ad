#include "model/machine.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <sstream>

#include "model/report.h"

namespace nullcuda {
namespace {

constexpr std::uint64_t kAnswerSize = sizeof(std::int64_t);

std::uint64_t number(const void* pointer) {
  return std::bit_cast<std::uint64_t>(pointer);
}

/// Whether the host may touch these bytes of device memory: they exist, and are few enough to bother.
bool tangible(std::uint64_t size) {
  const Machine& m = machine();
  return m.settings.values && (m.settings.checks || size <= m.settings.values_limit);
}

void copy_to_host(void* to, std::uint64_t from, std::uint64_t size) {
  Machine& m = machine();
  const void* bytes = std::bit_cast<const void*>(from);
  if (m.known.holds(from, size)) {
    std::memmove(to, bytes, size);
    return;
  }
  if (answer().given && size <= kAnswerSize) {
    std::memcpy(to, &answer().value, size);
    return;
  }
  count_guess("bytes copied to the host");
  if (m.settings.checks)
    std::memmove(to, bytes, size);  // they exist: use() has seen that they are mapped
  else
    m.host.zero(to, size);
}

}  // namespace

Machine& machine() {
  static Machine* const made = [] {
    report_at_exit();
    return new Machine(settings());
  }();
  return *made;
}

std::uint64_t fresh_handle() {
  static std::atomic<std::uint64_t> next = 0x7200000000000000ULL;
  return next.fetch_add(256);
}

int& current_device() {
  static thread_local int device = 0;
  return device;
}

Answer& answer() {
  static thread_local Answer given;
  return given;
}

namespace {

void submit(const char* what, StreamId stream, const std::vector<Use>& uses, const Effect& effect) {
  Machine& m = machine();
  if (m.settings.checks) {
    for (const Use& each : uses) {
      if (m.memory.usable(each.begin, each.size)) continue;
      std::ostringstream text;
      text << what << ": 0x" << std::hex << each.begin << std::dec << " (" << each.size << " bytes) is "
           << (each.writes ? "written" : "read") << ", but not all of it is mapped";
      stop(text.str());
    }
  }
  if (const std::string wrong = m.streams.work(stream, uses, effect); !wrong.empty())
    stop(std::string(what) + ": " + wrong);
}

bool is_captured(StreamId stream) {
  return machine().streams.capture(stream).id != 0;
}

}  // namespace

void use(const char* what, StreamId stream, const std::vector<Use>& uses) {
  if (!is_captured(stream)) return submit(what, stream, uses, {});
  submit(what, stream, uses, [uses] {
    for (const Use& each : uses)
      if (each.writes) machine().known.remove(each.begin, each.size);
  });
}

void perform(const char* what, StreamId stream, const std::vector<Use>& uses, const Effect& effect) {
  const bool captured = is_captured(stream);
  submit(what, stream, uses, effect);
  if (!captured) effect();
}

void forget(const char* what, std::uint64_t begin, std::uint64_t size) {
  Machine& m = machine();
  m.known.remove(begin, size);
  if (const std::string wrong = m.streams.forget(begin, size); !wrong.empty())
    stop(std::string(what) + ": " + wrong);
}

void know_imported(std::uint64_t begin, std::uint64_t size) {
  if (machine().memory.backing() == Backing::kPhysical) machine().known.add(begin, size);
}

void forget_in_order(std::uint64_t begin, std::uint64_t size) {
  machine().known.remove(begin, size);
  machine().streams.forget_in_order(begin, size);
}

namespace {

void copy_bytes(void* to, const void* from, std::uint64_t size) {
  Machine& m = machine();
  const bool to_device = is_device(number(to));
  const bool from_device = is_device(number(from));
  if (!to_device && !from_device) {
    std::memmove(to, from, size);
  } else if (!to_device) {
    copy_to_host(to, number(from), size);
  } else if (!tangible(size)) {
    m.known.remove(number(to), size);
  } else if (!from_device || m.known.holds(number(from), size)) {
    std::memmove(to, from, size);
    m.known.add(number(to), size);
  } else {
    if (m.settings.checks) std::memmove(to, from, size);
    m.known.remove(number(to), size);
  }
}

void fill_bytes(void* at, int value, std::uint64_t size, int width) {
  Machine& m = machine();
  if (is_device(number(at))) {
    if (!tangible(size)) {
      m.known.remove(number(at), size);
      return;
    }
    m.known.add(number(at), size);
  }
  auto* bytes = static_cast<unsigned char*>(at);
  const auto step = static_cast<std::uint64_t>(width);
  if (width == 1)
    std::memset(bytes, value, size);
  else
    for (std::uint64_t place = 0; place + step <= size; place += step)
      std::memcpy(bytes + place, &value, step);
}

}  // namespace

void copy(const char* what, StreamId stream, void* to, const void* from, std::uint64_t size) {
  if (size == 0) return;
  std::vector<Use> uses;
  if (is_device(number(from))) uses.push_back({.begin = number(from), .size = size, .writes = false});
  if (is_device(number(to))) uses.push_back({.begin = number(to), .size = size, .writes = true});
  perform(what, stream, uses, [=] { copy_bytes(to, from, size); });
}

void fill(const char* what, StreamId stream, void* at, int value, std::uint64_t size, int width) {
  if (size == 0) return;
  std::vector<Use> uses;
  if (is_device(number(at))) uses.push_back({.begin = number(at), .size = size, .writes = true});
  perform(what, stream, uses, [=] { fill_bytes(at, value, size, width); });
}

}  // namespace nullcuda
