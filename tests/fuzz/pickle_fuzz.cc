// Whatever a snapshot holds, it is refused with an Error or becomes valid traces, which our own file keeps.
#include <string>

#include "base/base.h"
#include "input.h"
#include "trace/trace.h"

namespace stweaver {
namespace {

void check(const Trace& trace) {
  validate(trace);
  require(events_of(trace).size() == static_cast<std::size_t>(trace.end));
  const Bytes peak = peak_requested(trace);
  require(peak >= 0);
  std::string file;
  write_trace_file(trace, [&](std::span<const std::byte> bytes) {
    file.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  });
  const Trace copy =
      read_trace_file(source_of({reinterpret_cast<const std::uint8_t*>(file.data()), file.size()}), "copy");
  require(copy.requests.size() == trace.requests.size() && copy.end == trace.end);
  require(copy.marks.size() == trace.marks.size() && copy.micros == trace.micros);
  require(peak_requested(copy) == peak);
}

}  // namespace
}  // namespace stweaver

// NOLINTNEXTLINE(readability-identifier-naming): the name is libFuzzer's
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace stweaver;
  std::vector<Trace> traces;
  try {
    traces = read_snapshot(source_of({data, size}), "input");
  } catch (const Error&) {
    return 0;
  }
  for (const Trace& trace : traces) check(trace);
  return 0;
}
