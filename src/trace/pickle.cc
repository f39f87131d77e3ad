#include "trace/pickle.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/base.h"
#include "trace/byte_reader.h"

namespace stweaver {
namespace {

constexpr std::size_t kMaxMarks = 1000;  // how deep things may nest
constexpr int kHighestProtocol = 5;

enum Opcode : std::uint8_t {
  kProto = 0x80,
  kFrame = 0x95,
  kStop = '.',
  kMark = '(',
  kPop = '0',
  kPopMark = '1',
  kDup = '2',
  kNone = 'N',
  kNewTrue = 0x88,
  kNewFalse = 0x89,
  kBinInt = 'J',
  kBinInt1 = 'K',
  kBinInt2 = 'M',
  kLong1 = 0x8a,
  kLong4 = 0x8b,
  kBinFloat = 'G',
  kBinString = 'T',
  kShortBinString = 'U',
  kBinUnicode = 'X',
  kShortBinUnicode = 0x8c,
  kBinUnicode8 = 0x8d,
  kBinBytes = 'B',
  kShortBinBytes = 'C',
  kBinBytes8 = 0x8e,
  kByteArray8 = 0x96,
  kEmptyTuple = ')',
  kTuple = 't',
  kTuple1 = 0x85,
  kTuple2 = 0x86,
  kTuple3 = 0x87,
  kEmptyList = ']',
  kList = 'l',
  kAppend = 'a',
  kAppends = 'e',
  kEmptyDict = '}',
  kDict = 'd',
  kSetItem = 's',
  kSetItems = 'u',
  kEmptySet = 0x8f,
  kAddItems = 0x90,
  kFrozenSet = 0x91,
  kGet = 'g',
  kBinGet = 'h',
  kLongBinGet = 'j',
  kPut = 'p',
  kBinPut = 'q',
  kLongBinPut = 'r',
  kMemoize = 0x94,
};

struct Refusal {
  std::uint8_t opcode;
  std::string_view name;
};

/// What imports, calls or builds something, or refers to something outside of the file.
constexpr Refusal kRefusals[] = {
    {'c', "GLOBAL"},    {0x93, "STACK_GLOBAL"}, {'R', "REDUCE"},
    {'b', "BUILD"},     {'i', "INST"},          {'o', "OBJ"},
    {0x81, "NEWOBJ"},   {0x92, "NEWOBJ_EX"},    {'P', "PERSID"},
    {'Q', "BINPERSID"}, {0x82, "EXT1"},         {0x83, "EXT2"},
    {0x84, "EXT4"},     {0x97, "NEXT_BUFFER"},  {0x98, "READONLY_BUFFER"},
};

/// The numbers and strings of protocols 0 and 1, which are written as text.
constexpr Refusal kTextual[] = {
    {'I', "INT"}, {'L', "LONG"}, {'F', "FLOAT"}, {'S', "STRING"}, {'V', "UNICODE"},
};

class Machine {
 public:
  Machine(const ByteSource& source, PickleDocument& document) : reader_(source), document_(document) {}

  PickleValue run() {
    start();
    while (step()) {
    }
    if (stack_.size() != 1 || !marks_.empty()) refuse("ends in the middle of an object");
    if (!reader_.at_end()) refuse("goes on after its end: it holds more than one pickle");
    return stack_.back();
  }

 private:
  // Errors. `at_` is the offset of the opcode in hand.

  template <typename... Parts>
  [[noreturn]] void refuse(const Parts&... parts) const {
    fail(document_.name(), ": ", parts...);
  }

  [[noreturn]] void refuse_end() const {
    refuse("ends early, after ", reader_.offset(),
           " bytes: the pickle is incomplete, copy or record it again");
  }

  [[noreturn]] void refuse_damage(std::string_view what) const {
    refuse("is damaged: ", what, " at byte ", at_);
  }

  [[noreturn]] void refuse_opcode(std::uint8_t opcode) const {
    for (const Refusal& refusal : kRefusals) {
      if (refusal.opcode == opcode) {
        refuse("the pickle opcode ", refusal.name, " at byte ", at_,
               " would run code or reach outside of the file: refused, a snapshot holds plain data only");
      }
    }
    for (const Refusal& refusal : kTextual) {
      if (refusal.opcode == opcode) {
        refuse("the pickle opcode ", refusal.name, " at byte ", at_,
               " is of protocol 0: save it with protocol 4");
      }
    }
    refuse("is damaged: byte ", at_, " (", int{opcode}, ") is no pickle opcode");
  }

  // Input.

  template <typename Number>
  Number number() {
    Number value{};
    if (!reader_.take(value)) refuse_end();
    return value;
  }

  std::string_view bytes(std::uint64_t length) {
    text_.clear();
    if (!reader_.append(length, text_)) refuse_end();
    return text_;
  }

  void skip_bytes(std::uint64_t length) {
    if (!reader_.skip(length)) refuse_end();
  }

  /// The decimal argument of GET and PUT, ended by a newline.
  std::uint64_t line_number() {
    std::uint64_t value = 0;
    for (int digits = 0; digits <= 10; ++digits) {
      const auto byte = number<std::uint8_t>();
      if (byte == '\n' && digits > 0) return value;
      if (byte < '0' || byte > '9') break;
      value = value * 10 + (byte - '0');
    }
    refuse_damage("a memo number is expected");
  }

  // Stack.

  [[nodiscard]] std::size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }

  void need(std::size_t count) const {
    if (stack_.size() - floor() < count) refuse_damage("an operand is missing");
  }

  void push(PickleValue value) { document_.budget().push(stack_, value); }

  PickleValue pop() {
    need(1);
    const PickleValue value = stack_.back();
    stack_.pop_back();
    return value;
  }

  void push_mark() {
    if (marks_.size() == kMaxMarks) refuse("nests more than ", kMaxMarks, " levels deep at byte ", at_);
    marks_.push_back(stack_.size());
  }

  /// Takes the topmost mark away; what lies above it are the operands of the opcode in hand.
  std::size_t pop_mark() {
    if (marks_.empty()) refuse_damage("a mark is missing");
    const std::size_t mark = marks_.back();
    marks_.pop_back();
    return mark;
  }

  [[nodiscard]] std::span<const PickleValue> above(std::size_t mark) const {
    return std::span(stack_).subspan(mark);
  }

  [[nodiscard]] PickleValue container_below(std::size_t position, PickleKind kind) const {
    if (position <= floor() || stack_[position - 1].kind() != kind) refuse_damage("a container is missing");
    return stack_[position - 1];
  }

  // Opcodes.

  void start() {
    if (reader_.at_end()) refuse("is empty");
    const auto opcode = number<std::uint8_t>();
    if (opcode != kProto) refuse("is not a pickle of protocol 2 to 5");
    read_protocol();
  }

  void read_protocol() {
    const auto protocol = number<std::uint8_t>();
    if (protocol < 2 || protocol > kHighestProtocol) {
      refuse("is a pickle of protocol ", int{protocol}, "; 2 to ", kHighestProtocol, " can be read");
    }
  }

  void append_from(std::size_t mark) {
    const PickleValue list = container_below(mark, PickleKind::kList);
    for (const PickleValue& item : above(mark)) document_.append(list, item);
    stack_.resize(mark);
  }

  void store_from(std::size_t mark) {
    const PickleValue dict = container_below(mark, PickleKind::kDict);
    const std::span<const PickleValue> pairs = above(mark);
    if (pairs.size() % 2 != 0) refuse_damage("a key has no value");
    for (std::size_t i = 0; i < pairs.size(); i += 2) document_.store(dict, pairs[i], pairs[i + 1]);
    stack_.resize(mark);
  }

  /// Makes `container` from what lies above the mark, for the opcodes that do so in one go.
  template <typename Fill>
  void build(PickleValue container, const Fill& fill) {
    const std::size_t mark = pop_mark();
    push({});  // makes room below the operands
    std::rotate(stack_.begin() + static_cast<std::ptrdiff_t>(mark), stack_.end() - 1, stack_.end());
    stack_[mark] = container;
    fill(mark + 1);
  }

  void push_tuple(std::size_t mark) {
    const PickleValue tuple = document_.make_tuple(above(mark));
    stack_.resize(mark);
    push(tuple);
  }

  void push_tuple_of(std::size_t count) {
    need(count);
    push_tuple(stack_.size() - count);
  }

  void push_skipped() { push({PickleKind::kSkipped, 0}); }

  void push_long(std::uint64_t length) {
    if (length > sizeof(std::int64_t)) {
      skip_bytes(length);
      return push({PickleKind::kHuge, 0});
    }
    const std::string_view digits = bytes(length);
    const bool negative = !digits.empty() && static_cast<std::uint8_t>(digits.back()) >= 0x80;
    std::int64_t value = negative ? -1 : 0;
    std::memcpy(&value, digits.data(), digits.size());
    push(document_.make_integer(value));
  }

  std::uint64_t long_length() {
    const auto length = number<std::int32_t>();
    if (length < 0) refuse_damage("a negative length");
    return static_cast<std::uint64_t>(length);
  }

  void push_float() {
    skip_bytes(sizeof(double));
    push({PickleKind::kFloat, 0});
  }

  void push_string(std::uint64_t length) { push(document_.make_string(bytes(length))); }

  void push_bytes(std::uint64_t length) {
    skip_bytes(length);
    push_skipped();
  }

  void get(std::uint64_t index) {
    if (index >= memo_.size() || memo_[index] == kUnknown) refuse_damage("a reference to nothing");
    push(memo_[index]);
  }

  void put(std::uint64_t index) {
    need(1);
    if (index > memo_.size()) {
      document_.budget().charge((index - memo_.size()) * sizeof(PickleValue));
      memo_.resize(index, kUnknown);
    }
    if (index == memo_.size()) return document_.budget().push(memo_, stack_.back());
    memo_[index] = stack_.back();
  }

  bool step() {
    at_ = reader_.offset();
    document_.budget().read(at_);
    const auto opcode = number<std::uint8_t>();
    switch (opcode) {
      case kProto:
        read_protocol();
        break;
      case kFrame:
        number<std::uint64_t>();
        break;  // frames only help a reader to read ahead
      case kStop:
        return false;
      default:
        if (!step_stack(opcode) && !step_scalar(opcode) && !step_container(opcode)) refuse_opcode(opcode);
    }
    return true;
  }

  bool step_stack(std::uint8_t opcode) {
    switch (opcode) {
      case kMark:
        push_mark();
        break;
      case kPop:
        pop_value_or_mark();
        break;
      case kPopMark:
        stack_.resize(pop_mark());
        break;
      case kDup:
        need(1);
        push(stack_.back());
        break;
      case kGet:
        get(line_number());
        break;
      case kBinGet:
        get(number<std::uint8_t>());
        break;
      case kLongBinGet:
        get(number<std::uint32_t>());
        break;
      case kPut:
        put(line_number());
        break;
      case kBinPut:
        put(number<std::uint8_t>());
        break;
      case kLongBinPut:
        put(number<std::uint32_t>());
        break;
      case kMemoize:
        put(memo_.size());
        break;
      default:
        return false;
    }
    return true;
  }

  /// POP takes the topmost mark when nothing lies above it, as Python does.
  void pop_value_or_mark() {
    if (!marks_.empty() && stack_.size() == marks_.back()) {
      marks_.pop_back();
    } else {
      pop();
    }
  }

  bool step_scalar(std::uint8_t opcode) {
    switch (opcode) {
      case kNone:
        push({});
        break;
      case kNewTrue:
        push({PickleKind::kBool, 1});
        break;
      case kNewFalse:
        push({PickleKind::kBool, 0});
        break;
      case kBinInt:
        push(document_.make_integer(number<std::int32_t>()));
        break;
      case kBinInt1:
        push(document_.make_integer(number<std::uint8_t>()));
        break;
      case kBinInt2:
        push(document_.make_integer(number<std::uint16_t>()));
        break;
      case kLong1:
        push_long(number<std::uint8_t>());
        break;
      case kLong4:
        push_long(long_length());
        break;
      case kBinFloat:
        push_float();
        break;
      case kShortBinString:
      case kShortBinUnicode:
        push_string(number<std::uint8_t>());
        break;
      case kBinString:
        push_string(long_length());
        break;
      case kBinUnicode:
        push_string(number<std::uint32_t>());
        break;
      case kBinUnicode8:
        push_string(number<std::uint64_t>());
        break;
      case kShortBinBytes:
        push_bytes(number<std::uint8_t>());
        break;
      case kBinBytes:
        push_bytes(number<std::uint32_t>());
        break;
      case kBinBytes8:
      case kByteArray8:
        push_bytes(number<std::uint64_t>());
        break;
      default:
        return false;
    }
    return true;
  }

  bool step_container(std::uint8_t opcode) {
    switch (opcode) {
      case kEmptyTuple:
        push_tuple(stack_.size());
        break;
      case kTuple1:
        push_tuple_of(1);
        break;
      case kTuple2:
        push_tuple_of(2);
        break;
      case kTuple3:
        push_tuple_of(3);
        break;
      case kTuple:
        push_tuple(pop_mark());
        break;
      case kEmptyList:
        push(document_.make_list());
        break;
      case kList:
        build(document_.make_list(), [this](std::size_t mark) { append_from(mark); });
        break;
      case kAppend:
        need(2);
        append_from(stack_.size() - 1);
        break;
      case kAppends:
        append_from(pop_mark());
        break;
      case kEmptyDict:
        push(document_.make_dict());
        break;
      case kDict:
        build(document_.make_dict(), [this](std::size_t mark) { store_from(mark); });
        break;
      case kSetItem:
        need(3);
        store_from(stack_.size() - 2);
        break;
      case kSetItems:
        store_from(pop_mark());
        break;
      case kEmptySet:
        push_skipped();
        break;
      case kAddItems:
        add_to_set();
        break;
      case kFrozenSet:
        stack_.resize(pop_mark());
        push_skipped();
        break;
      default:
        return false;
    }
    return true;
  }

  void add_to_set() {
    const std::size_t mark = pop_mark();
    static_cast<void>(container_below(mark, PickleKind::kSkipped));
    stack_.resize(mark);
  }

  static constexpr PickleValue kUnknown = {PickleKind::kSkipped, -1};  // a gap in the memo

  ByteReader reader_;
  PickleDocument& document_;
  std::uint64_t at_ = 0;
  std::vector<PickleValue> stack_;
  std::vector<std::size_t> marks_;  // sizes of the stack
  std::vector<PickleValue> memo_;
  std::string text_;
};

}  // namespace

PickleValue read_pickle(const ByteSource& source, PickleDocument& document) {
  return Machine(source, document).run();
}

}  // namespace stweaver
