#include "report/table.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include <nlohmann/json.hpp>

namespace stweaver {
namespace {

/// Whether a byte of UTF-8 text is the first of its character.
bool begins_character(char byte) {
  constexpr unsigned kMask = 0xC0;
  constexpr unsigned kContinuation = 0x80;
  return (static_cast<unsigned char>(byte) & kMask) != kContinuation;
}

/// Columns that UTF-8 text takes on a screen, near enough: one for each character.
std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), begins_character));
}

}  // namespace

std::string printable(std::string_view text) {
  constexpr unsigned char kDelete = 0x7F;
  // U+0080 to U+009F are control characters, too: some terminals take U+009B for Escape and `[`.
  constexpr unsigned char kLatin = 0xC2;
  constexpr unsigned char kFirstPrintable = 0xA0;
  std::string safe;
  safe.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const bool high = byte == kLatin && i + 1 < text.size() && !begins_character(text[i + 1]) &&
                      static_cast<unsigned char>(text[i + 1]) < kFirstPrintable;
    safe += high || byte < ' ' || byte == kDelete ? '?' : text[i];
    if (high) ++i;
  }
  return safe;
}

std::string valid_utf8(std::string_view text) {
  using nlohmann::json;
  return json::parse(json(text).dump(-1, ' ', false, json::error_handler_t::replace)).get<std::string>();
}

std::string first_columns(const std::string& text, std::size_t columns) {
  std::size_t end = 0;
  for (; end < text.size(); ++end)
    if (begins_character(text[end]) && columns-- == 0) break;
  return text.substr(0, end);
}

Table::Table(std::vector<std::string> header, std::string alignment) : alignment_(std::move(alignment)) {
  rows_.push_back(std::move(header));
}

void Table::add_row(std::vector<std::string> cells) {
  rows_.push_back(std::move(cells));
}

std::string Table::text() const {
  std::vector<std::size_t> width(rows_.front().size(), 0);
  for (const auto& row : rows_) {
    for (std::size_t c = 0; c < row.size(); ++c) width[c] = std::max(width[c], width_of(row[c]));
  }
  std::string text;
  for (const auto& row : rows_) {
    std::string line;
    for (std::size_t c = 0; c < row.size(); ++c) {
      if (c > 0) line += "  ";
      const std::string padding(width[c] - width_of(row[c]), ' ');
      line += alignment_[c] == 'l' ? row[c] + padding : padding + row[c];
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + '\n';
  }
  return text;
}

}  // namespace stweaver
