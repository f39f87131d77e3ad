#include "report/wording.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include <fmt/format.h>

#include "report/table.h"

namespace stweaver {
namespace {

constexpr std::array<std::pair<Bytes, std::string_view>, 3> kUnits = {
    {{kGiB, "GiB"}, {kMiB, "MiB"}, {kKiB, "KiB"}}};

}  // namespace

std::string job_name(const std::string& path) {
  std::string name = printable(std::filesystem::path(path).filename().string());
  const std::size_t end = std::min(name.ends_with(')') ? name.rfind(" (device ") : name.size(), name.size());
  const std::string device = name.substr(end);
  name.resize(end);
  for (bool cut = true; cut;) {
    cut = false;
    for (const std::string_view ending : {".gz", ".xz", ".zst", ".pickle", ".pkl"}) {
      if (!name.ends_with(ending) || name.size() == ending.size()) continue;
      name.resize(name.size() - ending.size());
      cut = true;
    }
  }
  return name + device;
}

std::string gib_text(Bytes bytes) {
  return fmt::format("{:.2f}", to_gib(bytes));
}

std::string size_text(Bytes size) {
  for (const auto& [unit, name] : kUnits)
    if (size % unit == 0 && size >= unit) return text(size / unit, ' ', name);
  return text(size, " bytes");
}

std::string amount_text(Bytes bytes) {
  const Bytes amount = std::abs(bytes);
  if (amount >= kGiB / 10) return fmt::format("{:.3f} GiB", to_gib(bytes));
  for (const auto& [unit, name] : kUnits)
    if (amount >= unit)
      return fmt::format("{:.1f} {}", static_cast<double>(bytes) / static_cast<double>(unit), name);
  return text(bytes, " bytes");
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
