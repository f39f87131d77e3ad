#include "cli/validators.h"

#include <charconv>
#include <string>
#include <system_error>

namespace stweaver {
namespace {

/// A deadline so far ahead still fits into any clock.
constexpr double kMostSeconds = 1e6;

/// Whether all of `text` is one number from `lowest` to `highest`.
template <typename Number>
bool is_number(const std::string& text, Number lowest, Number highest) {
  Number number{};
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && rest == end && number >= lowest && number <= highest;
}

}  // namespace

CLI::Validator file_name() {
  const auto check = [](const std::string& text) { return text.empty() ? "name a file" : std::string(); };
  return {check, "", "file name"};
}

CLI::Validator seconds() {
  const auto check = [](const std::string& text) {
    if (is_number(text, 0.0, kMostSeconds)) return std::string();
    return "give seconds, 0 to 1000000, not '" + text + "'";
  };
  return {check, "", "seconds"};
}

CLI::Validator number(double lowest, double highest) {
  const auto check = [lowest, highest](const std::string& text) {
    if (is_number(text, lowest, highest)) return std::string();
    return stweaver::text("give a number, ", lowest, " to ", highest, ", not '", text, "'");
  };
  return {check, stweaver::text("NUMBER in [", lowest, " - ", highest, "]"), "number"};
}

CLI::Validator bytes(Bytes lowest, Bytes highest) {
  const auto check = [lowest, highest](const std::string& text) {
    if (is_number(text, lowest, highest)) return std::string();
    return "give a whole number of bytes, " + std::to_string(lowest) + " to " + std::to_string(highest) +
           ", not '" + text + "'";
  };
  return {check, "", "bytes"};
}

}  // namespace stweaver
