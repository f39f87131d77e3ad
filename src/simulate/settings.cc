#include "simulate/settings.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace stweaver {
namespace {

using Divisions = decltype(AllocatorSettings::roundup_power2_divisions);

// The limits of other settings depend on this one, so it is read before them, wherever it stands.
constexpr std::string_view kSegmentSizeKey = "large_segment_size_mb";

bool is_space(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}

bool is_punctuation(char c) {
  return c == ',' || c == ':' || c == '[' || c == ']';
}

std::vector<std::string> tokens_of(std::string_view text) {
  std::vector<std::string> tokens;
  bool in_word = false;
  for (const char c : text) {
    if (is_space(c)) continue;  // PyTorch drops white space wherever it stands
    if (is_punctuation(c) || !in_word) tokens.emplace_back();
    tokens.back() += c;
    in_word = !is_punctuation(c);
  }
  return tokens;
}

/// Walks over the tokens of a settings string; every refusal names the key it is reading.
class SettingsReader {
 public:
  explicit SettingsReader(std::string_view text) : tokens_(tokens_of(text)) { skip_commas(); }

  [[nodiscard]] bool at_end() const { return next_ == tokens_.size(); }
  [[nodiscard]] bool at(std::string_view token) const { return !at_end() && tokens_[next_] == token; }

  std::string key() {
    key_ = "a key";
    key_ = word();
    expect(":");
    return key_;
  }

  std::string word() {
    if (at_end() || is_punctuation(tokens_[next_].front())) refuse("is missing or has no value");
    return tokens_[next_++];
  }

  void expect(std::string_view token) {
    if (!at(token)) refuse("lacks a '", token, "'");
    ++next_;
  }

  bool boolean() {
    const std::string value = word();
    if (value != "True" && value != "False") refuse("wants True or False, not '", value, "'");
    return value == "True";
  }

  std::int64_t whole_number() {
    const std::string value = word();
    const auto number = number_at_begin<std::int64_t>(value);
    if (!number || *number < 0 || *number > kLargestNumber) refuse("wants a whole number, not '", value, "'");
    return *number;
  }

  double fraction() {
    const std::string value = word();
    const auto number = number_at_begin<double>(value);
    if (!number) refuse("wants a number, not '", value, "'");
    return *number;
  }

  /// A size given in MiB, at least `least`.
  Bytes mebibytes(Bytes least) {
    const Bytes size = whole_number() * kMiB;
    if (size < least) refuse("must be at least ", least / kMiB);
    return size;
  }

  void skip_value() {
    if (!at("[")) {
      word();
      return;
    }
    while (!at_end() && !at("]")) ++next_;
    expect("]");
  }

  void end_of_setting() {
    if (!at_end()) expect(",");
    skip_commas();
  }

  template <typename... Parts>
  [[noreturn]] void refuse(const Parts&... parts) const {
    fail("allocator settings: ", key_, " ", parts...);
  }

 private:
  static constexpr std::int64_t kLargestNumber = std::int64_t{1} << 40U;  // in MiB still a Bytes

  void skip_commas() {
    while (at(",")) ++next_;
  }

  /// What follows the number does not count: to PyTorch, "128MB" is 128.
  template <typename Number>
  static std::optional<Number> number_at_begin(std::string_view word) {
    if (word.starts_with('+')) word.remove_prefix(1);
    Number number = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
    if (error != std::errc{}) return std::nullopt;
    return number;
  }

  std::vector<std::string> tokens_;
  std::size_t next_ = 0;
  std::string key_;
};

bool is_power_of_two(std::int64_t value) {
  return value > 0 && std::has_single_bit(static_cast<std::uint64_t>(value));
}

std::int64_t power_of_two(SettingsReader& reader) {
  const std::int64_t value = reader.whole_number();
  if (!is_power_of_two(value)) reader.refuse("wants powers of two, not ", value);
  return value;
}

std::int64_t divisions(SettingsReader& reader) {
  const std::int64_t value = reader.whole_number();
  if (value != 0 && !is_power_of_two(value)) reader.refuse("wants powers of two or 0, not ", value);
  return value;
}

/// "[256:1,512:2,>:4]", by interval in MiB: what is below the first is treated like the first, '>' stands for
/// all that is above the last.
void read_division_list(SettingsReader& reader, Divisions& table) {
  reader.expect("[");
  std::size_t last = 0;
  bool first = true;
  while (!reader.at("]")) {
    if (reader.at(">")) {
      reader.word();
      reader.expect(":");
      std::fill(table.begin() + static_cast<std::ptrdiff_t>(last) + 1, table.end(), divisions(reader));
    } else {
      const auto interval = static_cast<std::uint64_t>(power_of_two(reader));
      reader.expect(":");
      last = std::min(static_cast<std::size_t>(std::countr_zero(interval)), table.size() - 1);
      table.at(last) = divisions(reader);
      if (first) std::fill_n(table.begin(), last, table.at(last));
      first = false;
    }
    if (!reader.at("]")) reader.expect(",");
  }
  reader.expect("]");
}

void read_divisions(SettingsReader& reader, Divisions& table) {
  if (reader.at("[")) {
    read_division_list(reader, table);
  } else {
    table.fill(power_of_two(reader));
  }
}

void read_setting(SettingsReader& reader, const std::string& key, AllocatorSettings& settings) {
  if (key == "max_split_size_mb") {
    settings.max_split_size = reader.mebibytes(settings.large_segment_size);
  } else if (key == "max_non_split_rounding_mb") {
    settings.max_non_split_rounding = reader.mebibytes(settings.large_segment_size);
  } else if (key == "roundup_power2_divisions") {
    read_divisions(reader, settings.roundup_power2_divisions);
  } else if (key == "garbage_collection_threshold") {
    settings.garbage_collection_threshold = reader.fraction();
    if (!(settings.garbage_collection_threshold > 0 && settings.garbage_collection_threshold < 1)) {
      reader.refuse("must lie between 0 and 1");
    }
  } else if (key == "expandable_segments") {
    settings.expandable_segments = reader.boolean();
  } else if (key == "oldest_first") {
    settings.oldest_first = reader.boolean();
  } else if (key == "per_process_memory_fraction") {
    settings.memory_fraction = reader.fraction();
    if (!(settings.memory_fraction >= 0 && settings.memory_fraction <= 1)) {
      reader.refuse("must lie between 0 and 1");
    }
  } else if (key == "backend") {
    const std::string backend = reader.word();
    if (backend != "native") reader.refuse("'", backend, "' is not simulated, only 'native' is");
  } else {
    reader.skip_value();  // the segment size, which was read before, or nothing that is known here
  }
}

Bytes read_large_segment_size(std::string_view text) {
  Bytes size = kLargeSegmentSize;
  for (SettingsReader reader(text); !reader.at_end(); reader.end_of_setting()) {
    // A smaller one would not hold the requests below kMinLargeAlloc that it is made for.
    if (reader.key() == kSegmentSizeKey) {
      size = reader.mebibytes(kMinLargeAlloc + kMiB);
    } else {
      reader.skip_value();
    }
  }
  return size;
}

}  // namespace

AllocatorSettings parse_settings(std::string_view text) {
  AllocatorSettings settings;
  settings.large_segment_size = read_large_segment_size(text);
  settings.max_non_split_rounding = settings.large_segment_size;
  for (SettingsReader reader(text); !reader.at_end(); reader.end_of_setting()) {
    read_setting(reader, reader.key(), settings);
  }
  return settings;
}

Bytes round_size(const AllocatorSettings& settings, Bytes size) {
  const auto& table = settings.roundup_power2_divisions;
  const auto bits = std::bit_width(static_cast<std::uint64_t>(size) / static_cast<std::uint64_t>(kMiB));
  const auto row = std::clamp<std::size_t>(static_cast<std::size_t>(bits), 1, table.size()) - 1;
  const Bytes parts = table.at(row);
  if (parts > 1 && size > kMinBlockSize * parts) {
    return align_up(size, static_cast<Bytes>(std::bit_floor(static_cast<std::uint64_t>(size))) / parts);
  }
  return align_up(size, kMinBlockSize);
}

Bytes allocation_size(const AllocatorSettings& settings, Bytes rounded) {
  if (rounded <= kSmallSize) return kSmallBuffer;
  if (rounded < kMinLargeAlloc) return settings.large_segment_size;
  return align_up(rounded, kRoundLarge);
}

}  // namespace stweaver
