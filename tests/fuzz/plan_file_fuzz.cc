// Whatever a plan file holds, it is refused with an Error or becomes a plan that reads back the same and that
// the checker can look at; what it finds sound is so when every pair of slots is compared.
//
// Nearly every change to a file is caught by its checksum. So each input is read twice, as it is and with its
// checksum mended, to get at what lies behind it.
#include <iomanip>
#include <optional>
#include <sstream>
#include <string>

#include "base/base.h"
#include "input.h"
#include "plan/checker.h"
#include "plan/plan_file.h"
#include "support/naive_plan.h"

namespace stweaver {
namespace {

std::optional<Plan> read(const std::string& file) {
  try {
    return read_plan(source_of({reinterpret_cast<const std::uint8_t*>(file.data()), file.size()}), "input");
  } catch (const Error&) {  // refused
    return std::nullopt;
  }
}

std::string written(const Plan& plan) {
  std::ostringstream out;
  write_plan(plan, out);
  return out.str();
}

/// The file with the checksum that belongs to what stands before it.
std::string mended(const std::string& file) {
  const std::string content = file.substr(0, file.rfind("crc32c "));
  std::ostringstream out;
  out << content << "crc32c " << std::hex << crc32c(std::as_bytes(std::span(content))) << '\n';
  return out.str();
}

/// A trace that a plan of unknown origin may be held against: the slots' own sizes, one after the other.
Trace trace_for(const Plan& plan) {
  Trace trace;
  for (const Slot& slot : plan.slots) {
    trace.requests.push_back({slot.size, {trace.end, kForever}, kForever, slot.stream, 0});
    ++trace.end;
  }
  return trace;
}

void check(const std::string& file) {
  std::optional<Plan> plan = read(file);
  if (!plan) return;
  const std::string copy = written(*plan);
  const std::optional<Plan> again = read(copy);
  require(again && written(*again) == copy);
  const Trace trace = trace_for(*plan);
  plan->fingerprint = fingerprint_of(trace);
  check_plan(*plan, trace);
  require(!check_plan(*plan).empty() || naive_clean(*plan));
}

}  // namespace
}  // namespace stweaver

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string file(reinterpret_cast<const char*>(data), size);
  stweaver::check(file);
  stweaver::check(stweaver::mended(file));
  return 0;
}
