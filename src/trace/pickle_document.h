// What a Python pickle held: plain data, in as little memory as it takes.
//
// Made for documents much larger than what one wants from them. The caller names the keys whose values
// matter; the values of all other keys are dropped as they arrive. And a dict that is complete may be
// *collapsed* by the caller into a record of his own, of which the document keeps only the number.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trace/memory_budget.h"

namespace stweaver {

enum class PickleKind : std::uint8_t {
  kNone,  ///< None, or nothing under that key
  kBool,
  kInt,   ///< an integer that fits into 64 bits
  kHuge,  ///< an integer that does not
  kFloat,
  kString,  ///< both kinds of Python 2 and Python 3
  kTuple,
  kList,
  kDict,
  kRecord,   ///< a dict that was collapsed
  kSkipped,  ///< bytes, a set, or something under a key that nobody asked for
};

/// A handle to a value; means something only together with its PickleDocument. One word, because a document
/// has many.
class PickleValue {
 public:
  constexpr PickleValue() = default;
  constexpr PickleValue(PickleKind kind, std::int64_t bits)
      : word_(static_cast<std::uint64_t>(bits) << kKindBits | static_cast<std::uint64_t>(kind)) {}

  /// What it was when it was made; PickleDocument::kind knows what it is now.
  [[nodiscard]] constexpr PickleKind kind() const {
    return static_cast<PickleKind>(word_ & ((1U << kKindBits) - 1));
  }
  /// A truth value itself, or an index.
  [[nodiscard]] constexpr std::int64_t bits() const { return static_cast<std::int64_t>(word_) >> kKindBits; }

  friend auto operator<=>(const PickleValue&, const PickleValue&) = default;

 private:
  static constexpr unsigned kKindBits = 4;
  std::uint64_t word_ = 0;
};

/// The host memory a document may take: 64 MiB and thrice the bytes read so far, at most what
/// memory_for_reading() gives. So a small file cannot ask for much, whatever lengths and repetitions it
/// claims.
class PickleBudget {
 public:
  explicit PickleBudget(std::string name) : name_(std::move(name)) {}

  /// Tells how many bytes of the input were read.
  void read(std::uint64_t bytes) { read_ = bytes; }

  /// Takes `bytes` of the budget; Error when it is spent.
  void charge(std::uint64_t bytes) {
    used_ += bytes;
    if (used_ > std::min(kBase, limit_)) check();
  }

  /// Appends to a vector, charging for its growth.
  template <typename T>
  void push(std::vector<T>& vector, T value) {
    if (vector.size() == vector.capacity()) charge((vector.size() + 1) * sizeof(T));
    vector.push_back(std::move(value));
  }

 private:
  static constexpr std::uint64_t kBase = std::uint64_t{64} << 20;

  void check() const;

  std::string name_;
  std::uint64_t limit_ = memory_for_reading();
  std::uint64_t read_ = 0;
  std::uint64_t used_ = 0;
};

/// What a pickle held.
class PickleDocument {
 public:
  /// Turns a complete dict into a record of the caller's and returns its number, or leaves it as it is.
  using Collapse = std::function<std::optional<std::uint32_t>(const PickleDocument&, PickleValue dict)>;

  /// `keys` are the dict keys that matter, in the order by which get() names them.
  PickleDocument(std::string name, std::span<const std::string_view> keys, Collapse collapse);

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] PickleKind kind(PickleValue value) const;
  /// The number of a kInt.
  [[nodiscard]] std::int64_t integer(PickleValue value) const {
    const std::int64_t half = value.bits() >> 1;
    return (value.bits() & 1) == 0 ? half : wide_[static_cast<std::size_t>(half)];
  }
  /// The text of a kString.
  [[nodiscard]] std::string_view string(PickleValue value) const { return strings_[index_of(value)]; }
  /// The elements of a kList or a kTuple.
  [[nodiscard]] std::span<const PickleValue> items(PickleValue value) const;
  /// The number of a kRecord.
  [[nodiscard]] std::uint32_t record(PickleValue value) const { return objects_[index_of(value)].shelf; }
  /// What a kDict holds under keys[key]; kNone when there is nothing.
  [[nodiscard]] PickleValue get(PickleValue dict, std::size_t key) const;

  /// Forgets what `value` holds, if it is a list or a dict: it is kSkipped from now on.
  void skip(PickleValue value);

  // What follows is for read_pickle(), which fills the document.

  PickleBudget& budget() { return budget_; }
  PickleValue make_integer(std::int64_t number);
  PickleValue make_string(std::string_view text);
  PickleValue make_tuple(std::span<const PickleValue> items);
  PickleValue make_list();
  PickleValue make_dict();
  /// Appends to a list; to one that is skipped, nothing happens. A dict is offered to the caller's Collapse.
  void append(PickleValue list, PickleValue item);
  /// Stores dict[key] = value if somebody asked for the key, else skips the value.
  void store(PickleValue dict, PickleValue key, PickleValue value);

 private:
  /// A list or dict. Its elements (of a dict: key, value, key, value...) are in a shelf, which goes to the
  /// next list or dict once it is not needed any more.
  struct Object {
    PickleKind kind = PickleKind::kSkipped;
    bool offered = false;            // to the caller's Collapse, who does not want it
    std::uint32_t shelf = kNoShelf;  // of a kRecord: its number
  };
  static constexpr std::uint32_t kNoShelf = UINT32_MAX;

  struct Before {
    using is_transparent = void;
    bool operator()(std::span<const PickleValue> a, std::span<const PickleValue> b) const;
  };

  static std::size_t index_of(PickleValue value) { return static_cast<std::size_t>(value.bits()); }
  PickleValue make_object(PickleKind kind);
  std::vector<PickleValue>& shelf_of(Object& object);
  void put_away(Object& object, PickleKind kind);
  void collapse(PickleValue value);

  std::string name_;
  std::size_t key_count_;
  Collapse collapse_;
  PickleBudget budget_;
  // What is looked up is ordered: a file could be made such that all of it has one hash.
  std::vector<std::int64_t> wide_;  // integers that do not fit into a handle, each a key of wide_index_
  std::map<std::int64_t, std::uint32_t> wide_index_;
  std::vector<std::string_view> strings_;  // each a key of string_index_
  std::map<std::string, std::uint32_t, std::less<>> string_index_;
  std::vector<std::span<const PickleValue>> tuples_;  // each a key of tuple_index_
  std::map<std::vector<PickleValue>, std::uint32_t, Before> tuple_index_;
  std::vector<Object> objects_;
  std::vector<std::vector<PickleValue>> shelves_;
  std::vector<std::uint32_t> free_shelves_;
};

}  // namespace stweaver
