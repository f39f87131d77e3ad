// Numbers packed for a page: columns of small numbers, byte by byte, compressed, as text.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

namespace stweaver {

/// RFC 4648, with padding.
std::string base64(std::span<const unsigned char> bytes);

/// A column is written as planes: the lowest bytes of all its numbers, then the next
/// ones, as many as its largest number needs. So bytes that are alike lie together, and compress well.
class Columns {
 public:
  /// Numbers below 2^53, which JavaScript can hold. `ascending`: only the differences are written.
  void add(std::string_view name, const std::vector<std::uint64_t>& numbers, bool ascending = false);

  /// For the reader: an array of {name, count, planes, ascending}.
  [[nodiscard]] const nlohmann::ordered_json& description() const { return description_; }
  /// All planes, compressed as zlib does, in base 64.
  [[nodiscard]] std::string packed() const;

 private:
  nlohmann::ordered_json description_ = nlohmann::ordered_json::array();
  std::vector<unsigned char> bytes_;
};

}  // namespace stweaver
