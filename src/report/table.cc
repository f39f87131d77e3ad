#include "report/table.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include <fmt/format.h>

namespace stweaver {

Table::Table(std::vector<std::string> header, std::string alignment) : alignment_(std::move(alignment)) {
  rows_.push_back(std::move(header));
}

void Table::add_row(std::vector<std::string> cells) {
  rows_.push_back(std::move(cells));
}

std::string Table::text() const {
  std::vector<std::size_t> width(rows_.front().size(), 0);
  for (const auto& row : rows_) {
    for (std::size_t c = 0; c < row.size(); ++c) width[c] = std::max(width[c], row[c].size());
  }
  std::string text;
  for (const auto& row : rows_) {
    std::string line;
    for (std::size_t c = 0; c < row.size(); ++c) {
      if (c > 0) line += "  ";
      line += alignment_[c] == 'l' ? fmt::format("{:<{}}", row[c], width[c])
                                   : fmt::format("{:>{}}", row[c], width[c]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + '\n';
  }
  return text;
}

}  // namespace stweaver
