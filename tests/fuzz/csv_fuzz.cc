// Whatever a planning instance holds, it is refused with an Error or becomes rows that read back the same.
#include <sstream>

#include "base/base.h"
#include "input.h"
#include "trace/csv.h"

// NOLINTNEXTLINE(readability-identifier-naming): the name is libFuzzer's
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace stweaver;
  std::vector<CsvRow> rows;
  try {
    rows = read_csv(source_of({data, size}), "input");
  } catch (const Error&) {
    return 0;
  }
  std::ostringstream out;
  write_csv(rows, out);
  const std::string written = out.str();
  require(read_csv(source_of({reinterpret_cast<const std::uint8_t*>(written.data()), written.size()}),
                   "copy") == rows);
  return 0;
}
