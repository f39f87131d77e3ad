// Tables for people.
#pragma once

#include <string>
#include <vector>

namespace stweaver {

/// The text on one line and safe for a terminal: control characters (a file's name may have some) become `?`.
std::string printable(std::string text);

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
