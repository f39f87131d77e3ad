// The one exception type of the project, and the text it carries.
#pragma once

#include <locale>
#include <sstream>
#include <stdexcept>
#include <string>

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

/// "40.25 GiB".
inline std::string in_gib(Bytes size) {
  std::ostringstream out = classic_stream();
  out.precision(2);
  out << std::fixed << to_gib(size) << " GiB";
  return out.str();
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
