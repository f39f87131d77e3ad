#include "report/pickle_writer.h"

#include <limits>

#include "report/table.h"

namespace stweaver {
namespace {

// Lib/pickletools.py of Python documents each.
enum Opcode : char {
  kProtocol = '\x80',
  kStop = '.',
  kMark = '(',
  kNewTrue = '\x88',
  kNewFalse = '\x89',
  kBinInt1 = 'K',
  kBinInt2 = 'M',
  kBinInt = 'J',
  kLong1 = '\x8a',
  kBinUnicode = 'X',
  kEmptyList = ']',
  kAppends = 'e',
  kEmptyDict = '}',
  kSetItems = 'u',
  kTuple2 = '\x86',
  kMemoize = '\x94',
  kBinGet = 'h',
  kLongBinGet = 'j',
};

constexpr char kVersion = 4;
constexpr int kBitsPerByte = 8;
constexpr std::size_t kBatch = 1000;
constexpr std::size_t kNoList = SIZE_MAX;

template <typename Number>
bool fits(std::int64_t value) {
  return value >= std::numeric_limits<Number>::min() && value <= std::numeric_limits<Number>::max();
}

}  // namespace

PickleWriter::PickleWriter() {
  opcode(kProtocol);
  opcode(kVersion);
}

void PickleWriter::number(std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out_ += static_cast<char>(value >> kBitsPerByte * i);
}

/// Long lists are appended to in parts, as Python does: a reader may put each part on its call stack.
void PickleWriter::begin_value() {
  if (batches_.empty()) return;
  std::size_t& batch = batches_.back();
  if (batch == kBatch) {
    opcode(kAppends);
    opcode(kMark);
    batch = 0;
  }
  if (batch != kNoList) ++batch;
}

void PickleWriter::boolean(bool value) {
  begin_value();
  opcode(value ? kNewTrue : kNewFalse);
}

void PickleWriter::integer(std::int64_t value) {
  begin_value();
  number_value(value);
}

void PickleWriter::pair(std::int64_t first, std::int64_t second) {
  begin_value();
  number_value(first);
  number_value(second);
  opcode(kTuple2);
}

void PickleWriter::number_value(std::int64_t value) {
  const auto bits = static_cast<std::uint64_t>(value);
  if (fits<std::uint8_t>(value)) {
    opcode(kBinInt1);
    number(bits, sizeof(std::uint8_t));
  } else if (fits<std::uint16_t>(value)) {
    opcode(kBinInt2);
    number(bits, sizeof(std::uint16_t));
  } else if (fits<std::int32_t>(value)) {
    opcode(kBinInt);
    number(bits, sizeof(std::int32_t));
  } else {
    opcode(kLong1);
    opcode(sizeof value);
    number(bits, sizeof value);
  }
}

void PickleWriter::string(std::string_view text) {
  const auto [found, is_new] = strings_.try_emplace(std::string(text), remembered_);
  if (!is_new) return recall(found->second);
  begin_value();
  const std::string valid = valid_utf8(text);
  opcode(kBinUnicode);
  number(valid.size(), sizeof(std::uint32_t));
  out_ += valid;
  remember();
}

void PickleWriter::begin_list() {
  begin_value();
  batches_.push_back(0);
  opcode(kEmptyList);
  opcode(kMark);
}

void PickleWriter::end_list() {
  batches_.pop_back();
  opcode(kAppends);
}

void PickleWriter::begin_dict() {
  begin_value();
  batches_.push_back(kNoList);
  opcode(kEmptyDict);
  opcode(kMark);
}

void PickleWriter::end_dict() {
  batches_.pop_back();
  opcode(kSetItems);
}

std::size_t PickleWriter::remember() {
  opcode(kMemoize);
  return remembered_++;
}

void PickleWriter::recall(std::size_t number) {
  begin_value();
  if (number <= std::numeric_limits<std::uint8_t>::max()) {
    opcode(kBinGet);
    this->number(number, sizeof(std::uint8_t));
  } else {
    opcode(kLongBinGet);
    this->number(number, sizeof(std::uint32_t));
  }
}

std::string PickleWriter::take() && {
  opcode(kStop);
  return std::move(out_);
}

}  // namespace stweaver
