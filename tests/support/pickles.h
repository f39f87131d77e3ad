// Writes pickles by hand, opcode by opcode, so that a test can write what Python would not.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"

namespace stweaver::pickles {

inline std::string little_endian(std::uint64_t value, int bytes) {
  std::string out;
  for (int i = 0; i < bytes; ++i) out.push_back(static_cast<char>(value >> 8 * i));
  return out;
}

inline std::string string(const std::string& text) {
  return stweaver::text("X", little_endian(text.size(), 4), text);
}

inline std::string integer(std::int64_t value) {
  return text("\x8a\x08", little_endian(static_cast<std::uint64_t>(value), 8));
}

inline std::string list(const std::vector<std::string>& items) {
  std::string out = "](";
  for (const std::string& item : items) out += item;
  return out + "e";
}

inline std::string tuple(const std::vector<std::string>& items) {
  std::string out = "(";
  for (const std::string& item : items) out += item;
  return out + "t";
}

using Pairs = std::vector<std::pair<std::string, std::string>>;

inline std::string dict(const Pairs& pairs) {
  std::string out = "}(";
  for (const auto& [key, value] : pairs) out += string(key) + value;
  return out + "u";
}

/// A whole pickle around one object.
inline std::string pickle(const std::string& object) {
  return text("\x80\x04", object, ".");
}

/// A trace entry of torch 2.3.
inline std::string entry(const std::string& action, std::int64_t address, std::int64_t size,
                         std::int64_t micros = 0) {
  return dict({{"action", string(action)},
               {"addr", integer(address)},
               {"size", integer(size)},
               {"stream", integer(0)},
               {"time_us", integer(micros)}});
}

/// A snapshot of one device.
inline std::string snapshot(const std::vector<std::string>& entries,
                            const std::vector<std::string>& segments = {}, Pairs more = {}) {
  Pairs pairs = {{"segments", list(segments)}, {"device_traces", list({list(entries)})}};
  pairs.insert(pairs.end(), more.begin(), more.end());
  return pickle(dict(pairs));
}

}  // namespace stweaver::pickles
