// Whatever a trace file holds, it is refused with an Error or becomes a valid trace.
//
// Nearly every change to a file is caught by a checksum. So each input is read twice, as it is and with its
// checksums mended, to get at what lies behind them.
#include <cstring>
#include <vector>

#include "base/base.h"
#include "input.h"
#include "trace/trace_file.h"

namespace stweaver {
namespace {

constexpr std::size_t kFileHead = 12;  // magic and version
constexpr std::size_t kBlockHead = 8;  // length and checksum

void mend_checksums(std::span<std::uint8_t> file) {
  if (file.size() < kFileHead) return;
  file = file.subspan(kFileHead);
  for (std::uint32_t block = 0; file.size() >= kBlockHead; ++block) {
    std::uint32_t length = 0;
    std::memcpy(&length, file.data(), sizeof length);
    if (length > file.size() - kBlockHead) return;
    const auto payload = std::as_bytes(file.subspan(kBlockHead, length));
    const std::uint32_t crc = crc32c(payload, crc32c(std::as_bytes(std::span(&block, 1))));
    std::memcpy(file.data() + sizeof length, &crc, sizeof crc);
    file = file.subspan(kBlockHead + length);
  }
}

void check(std::span<const std::uint8_t> file) {
  try {
    const Trace trace = read_trace_file(source_of(file), "input");
    validate(trace);
    require(peak_requested(trace) >= 0);
  } catch (const Error&) {  // refused
  }
}

}  // namespace
}  // namespace stweaver

// NOLINTNEXTLINE(readability-identifier-naming): the name is libFuzzer's
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::vector<std::uint8_t> file(data, data + size);
  stweaver::check(file);
  stweaver::mend_checksums(file);
  stweaver::check(file);
  return 0;
}
