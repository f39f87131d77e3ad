#include "trace/csv.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <set>
#include <span>
#include <string_view>
#include <utility>

#include "trace/byte_reader.h"

namespace stweaver {
namespace {

constexpr std::size_t kMaxLine = std::size_t{1} << 16;

enum Column : std::uint8_t { kId, kLower, kUpper, kSize, kOffset, kColumnCount };

struct ColumnName {
  std::string_view name;
  Column column;
};

constexpr ColumnName kColumnNames[] = {
    {"id", kId},     {"lower", kLower}, {"start", kLower},   {"upper", kUpper},
    {"end", kUpper}, {"size", kSize},   {"offset", kOffset}, {"buffer_id", kId},
};
constexpr std::string_view kInclusiveEnd = "end";

void split(std::string_view line, std::vector<std::string_view>& fields) {
  fields.clear();
  for (;;) {
    const std::size_t comma = line.find(',');
    fields.push_back(line.substr(0, comma));
    if (comma == std::string_view::npos) return;
    line.remove_prefix(comma + 1);
  }
}

class CsvReader {
 public:
  CsvReader(ByteSource source, const std::string& name, std::uint64_t most)
      : reader_(std::move(source)), name_(name), budget_(name, most) {}

  std::vector<CsvRow> read() {
    if (!next_line()) refuse("is empty: a line that names the columns is expected");
    read_header();
    std::vector<CsvRow> rows;
    while (next_line()) {
      budget_.charge(2 * (sizeof(CsvRow) + line_.size()));  // in a vector that grows; its id twice
      rows.push_back(read_row());
      if (!is_new(rows)) refuse("the id '", rows.back().id, "' is there already");
    }
    return rows;
  }

 private:
  template <typename... Parts>
  [[noreturn]] void refuse(const Parts&... parts) const {
    fail(name_, ", line ", line_number_, ": ", parts...);
  }

  /// Whether the id of the last row is new. Most files number their rows upwards: nothing needs to be looked
  /// up as long as they do.
  bool is_new(const std::vector<CsvRow>& rows) {
    const std::string& id = rows.back().id;
    if (ids_.empty() && (rows.size() == 1 || numbers_before(rows[rows.size() - 2].id, id))) return true;
    if (ids_.empty()) {
      for (const CsvRow& row : std::span(rows).first(rows.size() - 1)) ids_.insert(row.id);
    }
    return ids_.insert(id).second;
  }

  /// Whether both are whole numbers without leading zeros, the first the smaller one.
  static bool numbers_before(std::string_view a, std::string_view b) {
    const auto is_number = [](std::string_view id) {
      return (id.front() != '0' || id.size() == 1) &&
             std::ranges::all_of(id, [](char c) { return c >= '0' && c <= '9'; });
    };
    return is_number(a) && is_number(b) && (a.size() != b.size() ? a.size() < b.size() : a < b);
  }

  /// Reads the next line that is not empty into line_; false at the end.
  bool next_line() {
    while (!reader_.at_end()) {
      line_.clear();
      ++line_number_;
      std::uint8_t byte = 0;
      while (reader_.take(byte) && byte != '\n') {
        if (line_.size() == kMaxLine)
          refuse("is longer than ", kMaxLine, " characters: this is no planning instance");
        line_.push_back(static_cast<char>(byte));
      }
      if (line_.ends_with('\r')) line_.pop_back();
      if (!line_.empty()) return true;
    }
    return false;
  }

  void read_header() {
    constexpr std::string_view kSpreadsheetsMark = "\xEF\xBB\xBF";
    if (line_.starts_with(kSpreadsheetsMark)) line_.erase(0, kSpreadsheetsMark.size());
    std::array<bool, kColumnCount> seen = {};
    split(line_, fields_);
    for (const std::string_view field : fields_) {
      const auto* const known = std::ranges::find(kColumnNames, field, &ColumnName::name);
      if (known == std::end(kColumnNames)) {
        refuse("the column '", printable(field), "' is unknown: id,lower,upper,size[,offset] are expected");
      }
      if (seen[known->column]) refuse("the column '", field, "' is there twice");
      seen[known->column] = true;
      inclusive_ = inclusive_ || field == kInclusiveEnd;
      columns_.push_back(known->column);
    }
    for (const ColumnName& column : kColumnNames) {
      if (column.column != kOffset && !seen[column.column])
        refuse("the column '", column.name, "' is missing");
    }
    has_offset_ = seen[kOffset];
  }

  CsvRow read_row() {
    split(line_, fields_);
    if (fields_.size() != columns_.size()) {
      refuse("has ", fields_.size(), " fields where the first line names ", columns_.size(), " columns");
    }
    std::array<std::string_view, kColumnCount> values;
    for (std::size_t i = 0; i < fields_.size(); ++i) values[columns_[i]] = fields_[i];
    CsvRow row;
    row.id = values[kId];
    if (row.id.empty()) refuse("the id is empty");
    row.life.lower = number(values[kLower], "lower");
    row.life.upper = sum(number(values[kUpper], "upper"), inclusive_ ? 1 : 0, "upper");
    if (row.life.empty())
      refuse("the lifespan ends at ", row.life.upper, ", not after it begins at ", row.life.lower);
    row.size = number(values[kSize], "size");
    total_ = sum(total_, sum(row.size, kAlignment, "size"), "the sum of sizes, with room to align each,");
    if (has_offset_) {
      row.offset = number(values[kOffset], "offset");
      static_cast<void>(sum(*row.offset, row.size, "offset + size"));
    }
    return row;
  }

  [[nodiscard]] std::int64_t sum(std::int64_t a, std::int64_t b, std::string_view what) const {
    if (a > std::numeric_limits<std::int64_t>::max() - b) refuse(what, " is out of range");
    return a + b;
  }

  [[nodiscard]] std::int64_t number(std::string_view field, std::string_view what) const {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), value);
    if (error == std::errc::result_out_of_range) refuse(what, " is out of range: ", printable(field));
    if (error != std::errc{} || end != field.data() + field.size()) {
      refuse(what, " is not a whole number: '", printable(field), "'");
    }
    if (value < 0) refuse(what, " is negative: ", value);
    return value;
  }

  /// So that a binary file does not end up in somebody's terminal.
  static std::string printable(std::string_view field) {
    std::string shown(field.substr(0, 40));
    std::ranges::replace_if(
        shown, [](char c) { return c < ' ' || c > '~'; }, '?');
    return shown;
  }

  ByteReader reader_;
  std::string name_;
  MemoryBudget budget_;
  std::string line_;
  std::size_t line_number_ = 0;
  std::vector<Column> columns_;
  bool has_offset_ = false;
  bool inclusive_ = false;
  Bytes total_ = 0;
  std::vector<std::string_view> fields_;  // of line_
  std::set<std::string> ids_;             // of all rows, once they no longer count upwards
};

}  // namespace

std::vector<CsvRow> read_csv(const ByteSource& source, const std::string& name, std::uint64_t most) {
  return CsvReader(source, name, most).read();
}

void write_csv(const std::vector<CsvRow>& rows, std::ostream& out) {
  const auto has_offset = [](const CsvRow& row) { return row.offset.has_value(); };
  const bool offsets = std::ranges::any_of(rows, has_offset);
  if (offsets && !std::ranges::all_of(rows, has_offset)) fail("only some of the rows have an offset");
  out << "id,lower,upper,size" << (offsets ? ",offset\n" : "\n");
  for (const CsvRow& row : rows) {
    out << row.id << ',' << row.life.lower << ',' << row.life.upper << ',' << row.size;
    if (offsets) out << ',' << *row.offset;
    out << '\n';
  }
}

}  // namespace stweaver
