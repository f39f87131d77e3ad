#include "plan/plan_file.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <iomanip>
#include <span>
#include <sstream>
#include <string_view>
#include <system_error>

#include "base/base.h"
#include "profile/scale.h"

namespace stweaver {
namespace {

constexpr std::string_view kMagic = "stweaver-plan";
constexpr int kVersion = 6;
/// No page of a device is larger.
constexpr Bytes kMostAlignment = 1024 * kMiB;
/// A plan of a million requests takes about 40 MB; a file beyond this is no plan.
constexpr std::size_t kMostBytes = std::size_t{1} << 28U;

/// Which requests a slot serves, by name.
struct Serves {
  std::string_view name;
  bool varying = false;
  std::uint8_t power = 0;
};
constexpr std::array<Serves, 4> kServes = {
    {{"exact"}, {"upto", true}, {"length", true, 1}, {"square", true, 2}}};

constexpr std::string_view kTiles = "tiles";

std::string what_serves(const Slot& slot) {
  if (!slot.varying) return std::string(kServes.front().name);
  const auto length = static_cast<int>(slot.length);
  if (slot.tile > 0) return text(kTiles, ' ', length, ' ', slot.tile);
  return text(kServes.at(1U + slot.power).name, ' ', length);
}

std::uint32_t crc_of(std::string_view text) {
  return crc32c(std::as_bytes(std::span(text)));
}

std::string hex(std::uint64_t value, int digits) {
  std::ostringstream out = classic_stream();
  out << std::hex << std::setfill('0') << std::setw(digits) << value;
  return out.str();
}

/// A name on one line, whatever it holds.
std::string one_line(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c == '\n' || c == '\r'; }, ' ');
  return text;
}

std::string read_all(const ByteSource& source, const std::string& name) {
  std::string content;
  std::array<std::byte, 1 << 16> buffer{};
  while (const std::size_t count = source(buffer)) {
    if (content.size() + count > kMostBytes) fail(name, ": longer than any plan; is this the right file?");
    content.append(reinterpret_cast<const char*>(buffer.data()), count);
    // Nothing of a foreign file is worth reading.
    const std::size_t known = std::min(content.size(), kMagic.size());
    if (content.compare(0, known, kMagic.substr(0, known)) != 0) break;
  }
  if (!content.starts_with(kMagic))
    fail(name, ": not a plan file; make one with `stweaver plan TRACE -o PLAN`");
  return content;
}

/// Reads a plan line by line.
class Parser {
 public:
  Parser(std::string_view content, const std::string& name) : rest_(content), name_(name) {}

  /// The rest of the next line, which must begin with `key`.
  std::string_view field(std::string_view key) {
    const std::string_view line = next_line();
    if (!line.starts_with(key) || line.size() <= key.size() || line[key.size()] != ' ') {
      refuse("expected `", key, " ...`");
    }
    return line.substr(key.size() + 1);
  }

  template <typename Number>
  Number number_field(std::string_view key, int base = 10) {
    std::string_view value = field(key);
    const auto number = take_number<Number>(value, base);
    if (!value.empty()) refuse("junk behind the number");
    return number;
  }

  /// How many lines follow; each takes as many bytes as `shortest` at least, so a larger number is a lie that
  /// must not cost memory.
  std::size_t count_field(std::string_view key, std::string_view shortest) {
    const auto count = number_field<std::uint32_t>(key);
    if (count > rest_.size() / shortest.size()) refuse("more ", key, " than the file has lines");
    return count;
  }

  std::string_view next_line() {
    ++line_;
    const std::size_t end = rest_.find('\n');
    if (end == std::string_view::npos) refuse("the file ends early");
    const std::string_view line = rest_.substr(0, end);
    rest_.remove_prefix(end + 1);
    return line;
  }

  /// Takes a number off the front of `text`, and the one space between it and what follows.
  template <typename Number>
  Number take_number(std::string_view& text, int base = 10) {
    Number number{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
    if (error != std::errc()) refuse("expected a number");
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    if (text.empty()) return number;
    if (text.size() == 1 || !text.starts_with(' ')) refuse("junk behind the number");
    text.remove_prefix(1);
    return number;
  }

  template <typename... Parts>
  [[noreturn]] void refuse(const Parts&... parts) {
    fail(name_, ": line ", line_, ": ", parts..., "; make the plan again");
  }

  [[nodiscard]] std::string_view rest() const { return rest_; }

 private:
  std::string_view rest_;
  const std::string& name_;
  std::size_t line_ = 0;
};

StepShape parse_shape(Parser& parser) {
  const std::string_view name = parser.field("shape");
  for (const StepShape shape : {StepShape::kFixed, StepShape::kVarying, StepShape::kDynamic}) {
    if (name == name_of(shape)) return shape;
  }
  parser.refuse("no steps have such a shape");
}

Run parse_run(Parser& parser) {
  std::string_view line = parser.next_line();
  Run run;
  run.request = parser.take_number<RequestId>(line);
  run.slot = parser.take_number<std::uint32_t>(line);
  run.count = parser.take_number<std::uint32_t>(line);
  if (!line.empty()) parser.refuse("junk behind the numbers");
  return run;
}

void parse_serves(Parser& parser, std::string_view line, Slot& slot) {
  const std::string_view name = line.substr(0, line.find(' '));
  const bool is_alone = line == name;
  line.remove_prefix(std::min(name.size() + 1, line.size()));
  if (name == kTiles) {
    slot.varying = true;
    slot.power = 1;
  } else {
    const auto* const serves = std::ranges::find(kServes, name, &Serves::name);
    if (serves == std::end(kServes))
      parser.refuse("expected `exact`, `upto`, `length`, `square` or `tiles` behind the numbers");
    slot.varying = serves->varying;
    slot.power = serves->power;
  }
  if (!slot.varying) {
    if (!is_alone) parser.refuse("junk behind `", name, '`');
    return;
  }
  slot.length = parser.take_number<std::uint8_t>(line);
  if (slot.length >= kMostLengths) parser.refuse("no step has so many lengths");
  if (name == kTiles) {
    slot.tile = parser.take_number<Bytes>(line);
    if (slot.tile < 1 || slot.tile > slot.size) parser.refuse("no slot has such tiles");
  }
  if (!line.empty()) parser.refuse("junk behind the numbers");
}

Slot parse_slot(Parser& parser) {
  std::string_view line = parser.next_line();
  Slot slot;
  slot.size = parser.take_number<Bytes>(line);
  slot.offset = parser.take_number<Bytes>(line);
  slot.stream = parser.take_number<Stream>(line);
  slot.death = parser.take_number<Time>(line);
  parse_serves(parser, line, slot);
  if (slot.death == -1) slot.death = kForever;
  if (slot.size < 0 || slot.offset < kUnplanned || slot.death < 0) parser.refuse("a number is out of range");
  return slot;
}

/// What the numbers must satisfy for the plan to be followed without looking twice.
void validate_plan(const Plan& plan, const std::string& name) {
  const auto refuse = [&name](const auto&... parts) { fail(name, ": ", parts..., "; make the plan again"); };
  const bool is_in_range = plan.alignment >= 1 && plan.alignment <= kMostAlignment && plan.arena >= 0 &&
                           plan.arena <= kMostMemory && plan.lower_bound >= 0 &&
                           plan.lower_bound <= plan.arena && plan.stream_gap >= 0 &&
                           plan.stream_gap <= 2 * static_cast<Time>(plan.slots.size());
  if (!is_in_range) refuse("a number is out of range");
  if (plan.prologue > plan.slots.size()) refuse("the prologue is longer than the plan");
  if (plan.steps < 1 || (plan.slots.size() - plan.prologue) % plan.steps != 0)
    refuse("what repeats is no whole number of steps");
  Bytes total = 0;
  for (std::size_t i = 0; i < plan.slots.size(); ++i) {
    const Slot& slot = plan.slots[i];
    if (slot.size > kMostMemory - total) refuse("with slot ", i, " they are larger than any memory");
    total += slot.size;
    const bool within_two_steps =
        slot.death > static_cast<Time>(i) && slot.death <= static_cast<Time>(2 * plan.slots.size());
    if (slot.death != kForever && !within_two_steps)
      refuse("slot ", i, " dies at ", slot.death, ", which cannot be");
    if (slot.size == 0) refuse("slot ", i, " is empty");
    if (slot.offset == kUnplanned) continue;
    if (slot.offset % plan.alignment != 0) refuse("slot ", i, " is not aligned");
    if (slot.size > plan.arena || slot.offset > plan.arena - slot.size)
      refuse("slot ", i, " lies outside the arena");
  }
  for (const Run& run : plan.runs) {
    if (run.slot > plan.slots.size() || run.count > plan.slots.size() - run.slot)
      refuse("a run lies outside the plan");
  }
}

}  // namespace

void write_plan(const Plan& plan, std::ostream& out) {
  if (!plan.in_gaps.empty())
    fail("a plan with slots in gaps of one process cannot be saved: make one without gaps");
  std::ostringstream body = classic_stream();
  body << kMagic << ' ' << kVersion << '\n'
       << "source " << one_line(plan.source) << '\n'
       << "fingerprint " << hex(plan.fingerprint, 16) << '\n'
       << "alignment " << plan.alignment << '\n'
       << "arena " << plan.arena << '\n'
       << "lower_bound " << plan.lower_bound << '\n'
       << "shape " << name_of(plan.shape) << '\n'
       << "stream_gap " << plan.stream_gap << '\n'
       << "winner " << one_line(plan.winner) << '\n'
       << "prologue " << plan.prologue << '\n'
       << "prologue_steps " << plan.prologue_steps << '\n'
       << "steps " << plan.steps << '\n'
       << "runs " << plan.runs.size() << '\n';
  for (const Run& run : plan.runs) body << run.request << ' ' << run.slot << ' ' << run.count << '\n';
  body << "slots " << plan.slots.size() << '\n';
  for (const Slot& slot : plan.slots) {
    body << slot.size << ' ' << slot.offset << ' ' << slot.stream << ' '
         << (slot.death == kForever ? -1 : slot.death) << ' ' << what_serves(slot) << '\n';
  }
  const std::string content = body.str();
  out << content << "crc32c " << hex(crc_of(content), 8) << '\n';
}

Plan read_plan(const ByteSource& source, const std::string& name) {
  const std::string content = read_all(source, name);
  Parser parser(content, name);
  const auto version = parser.number_field<int>(kMagic);
  if (version != kVersion) {
    fail(name, ": a plan file of version ", version, ", and only version ", kVersion,
         " is known; make the plan again with `stweaver plan`");
  }

  Plan plan;
  plan.source = parser.field("source");
  plan.fingerprint = parser.number_field<std::uint64_t>("fingerprint", 16);
  plan.alignment = parser.number_field<Bytes>("alignment");
  plan.arena = parser.number_field<Bytes>("arena");
  plan.lower_bound = parser.number_field<Bytes>("lower_bound");
  plan.shape = parse_shape(parser);
  plan.stream_gap = parser.number_field<Time>("stream_gap");
  plan.winner = parser.field("winner");
  plan.prologue = parser.number_field<std::uint32_t>("prologue");
  plan.prologue_steps = parser.number_field<std::uint32_t>("prologue_steps");
  plan.steps = parser.number_field<std::uint32_t>("steps");
  plan.runs.resize(parser.count_field("runs", "0 0 0\n"));
  for (Run& run : plan.runs) run = parse_run(parser);
  plan.slots.resize(parser.count_field("slots", "1 0 0 1 exact\n"));
  for (Slot& slot : plan.slots) slot = parse_slot(parser);

  const std::size_t covered = content.size() - parser.rest().size();
  const auto crc = parser.number_field<std::uint32_t>("crc32c", 16);
  if (crc != crc_of(std::string_view(content).substr(0, covered)))
    parser.refuse("the checksum does not match");
  if (!parser.rest().empty()) parser.refuse("something follows the end");
  validate_plan(plan, name);
  return plan;
}

}  // namespace stweaver
