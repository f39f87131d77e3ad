// Tables for people.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace stweaver {

/// The text on one line and safe for a terminal: control characters (a file's name may have some) become `?`.
std::string printable(std::string_view text);

/// The text in UTF-8; what is none becomes U+FFFD.
std::string valid_utf8(std::string_view text);

/// The beginning of UTF-8 text that takes so many columns of a screen, near enough: one for each character.
std::string first_columns(const std::string& text, std::size_t columns);

/// Rows of cells in columns, two spaces between them.
class Table {
 public:
  /// `alignment` has one letter per column: l for text, r for numbers.
  Table(std::vector<std::string> header, std::string alignment);

  /// Wants as many cells as the header has.
  void add_row(std::vector<std::string> cells);

  /// Every line ends with a newline.
  [[nodiscard]] std::string text() const;

 private:
  std::vector<std::vector<std::string>> rows_;  // the header first
  std::string alignment_;
};

}  // namespace stweaver
