// Writes Python pickles of plain data, in the opcodes of protocol 4 that Python's own pickler writes most:
// those that every reader of memory snapshots knows, PyTorch's page in JavaScript too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace stweaver {

/// Values come one after the other; those between begin_list() and end_list() are in the list, those between
/// begin_dict() and end_dict(), key, value, key, value, in the dict.
class PickleWriter {
 public:
  PickleWriter();

  void boolean(bool value);
  void integer(std::int64_t value);
  /// In UTF-8; what is none becomes U+FFFD. A text that comes again is written once.
  void string(std::string_view text);
  /// A tuple of two integers.
  void pair(std::int64_t first, std::int64_t second);

  void begin_list();
  void end_list();
  void begin_dict();
  void end_dict();
  /// Remembers the last value, a complete list, dict or tuple, under the number that is returned.
  std::size_t remember();
  void recall(std::size_t number);

  /// The pickle of the one value that was written.
  [[nodiscard]] std::string take() &&;

 private:
  void opcode(char code) { out_ += code; }
  void number(std::uint64_t value, int bytes);
  void number_value(std::int64_t value);
  void begin_value();

  std::string out_;
  std::vector<std::size_t> batches_;  ///< of each open list: values since the last opcode that appends them
  std::size_t remembered_ = 0;
  std::map<std::string, std::size_t> strings_;
};

}  // namespace stweaver
