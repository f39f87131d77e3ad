// The one exception type of the project, and the text it carries.
#pragma once

#include <locale>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>

#include "base/size.h"

namespace stweaver {

/// A stream to write to, whose numbers look the same in every process: the program that this is loaded into
/// may have set a locale of its own.
inline std::ostringstream classic_stream() {
  std::ostringstream out;
  out.imbue(std::locale::classic());
  return out;
}

/// Joins its arguments into one string, each as `<<` prints it.
template <typename... Parts>
std::string text(const Parts&... parts) {
  std::ostringstream out = classic_stream();
  (out << ... << parts);
  return out.str();
}

/// "40.25 GiB", or "512.00 MiB" by another unit.
inline std::string in_unit(Bytes size, Bytes unit, std::string_view name) {
  std::ostringstream out = classic_stream();
  out.precision(2);
  out << std::fixed << static_cast<double>(size) / static_cast<double>(unit) << ' ' << name;
  return out.str();
}

inline std::string in_gib(Bytes size) {
  return in_unit(size, kGiB, "GiB");
}

/// In the largest unit that it is one of at least.
inline std::string in_units(Bytes size) {
  if (size >= kGiB) return in_gib(size);
  if (size >= kMiB) return in_unit(size, kMiB, "MiB");
  return size >= kKiB ? in_unit(size, kKiB, "KiB") : text(size, " bytes");
}

/// Bad input or a failed system call. `what()` is one line: what was wrong, where, what to do.
/// Never thrown on the run time's hot path.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& line) : std::runtime_error(line) {}
};

/// Throws Error with its arguments joined.
template <typename... Parts>
[[noreturn]] void fail(const Parts&... parts) {
  throw Error(text(parts...));
}

}  // namespace stweaver
