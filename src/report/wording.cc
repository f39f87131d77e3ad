#include "report/wording.h"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "report/table.h"

namespace stweaver {

std::string job_name(const std::string& path) {
  std::string name = printable(std::filesystem::path(path).filename().string());
  for (bool cut = true; cut;) {
    cut = false;
    for (const std::string_view ending : {".gz", ".xz", ".zst", ".pickle", ".pkl"}) {
      if (!name.ends_with(ending) || name.size() == ending.size()) continue;
      name.resize(name.size() - ending.size());
      cut = true;
    }
  }
  return name;
}

std::string gib_text(Bytes bytes) {
  return fmt::format("{:.2f}", to_gib(bytes));
}

std::string size_text(Bytes size) {
  return size % kMiB == 0 ? text(size / kMiB, " MiB") : text(size, " bytes");
}

std::string percent_text(double share) {
  return fmt::format("{:.1f} %", 100 * share);
}

std::string efficiency_text(double efficiency) {
  return fmt::format("{:.2f} %", std::min(100 * efficiency, efficiency < 1 ? 99.99 : 100.0));
}

std::string counted(std::size_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

}  // namespace stweaver
