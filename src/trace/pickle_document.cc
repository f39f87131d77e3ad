#include "trace/pickle_document.h"

#include <algorithm>
#include <utility>

#include "base/base.h"

namespace stweaver {

void PickleBudget::check() const {
  if (used_ > std::min(limit_, kBase + 3 * read_)) {
    fail(name_, ": would take ", used_ >> 20, " MiB of memory after ", read_ >> 20,
         " MiB of input: this is not a memory snapshot of PyTorch");
  }
}

bool PickleDocument::Before::operator()(std::span<const PickleValue> a,
                                        std::span<const PickleValue> b) const {
  return std::ranges::lexicographical_compare(a, b);
}

PickleDocument::PickleDocument(std::string name, std::span<const std::string_view> keys, Collapse collapse)
    : name_(std::move(name)), key_count_(keys.size()), collapse_(std::move(collapse)), budget_(name_) {
  for (const std::string_view key : keys) make_string(key);  // so that the index of a key is its string's
}

PickleKind PickleDocument::kind(PickleValue value) const {
  const bool is_object = value.kind() == PickleKind::kList || value.kind() == PickleKind::kDict;
  return is_object ? objects_[index_of(value)].kind : value.kind();
}

std::span<const PickleValue> PickleDocument::items(PickleValue value) const {
  if (value.kind() == PickleKind::kTuple) return tuples_[index_of(value)];
  const std::uint32_t shelf = objects_[index_of(value)].shelf;
  if (shelf == kNoShelf) return {};
  return shelves_[shelf];
}

PickleValue PickleDocument::get(PickleValue dict, std::size_t key) const {
  const std::span<const PickleValue> pairs = items(dict);
  for (std::size_t i = 0; i < pairs.size(); i += 2) {
    if (index_of(pairs[i]) == key) return pairs[i + 1];
  }
  return {};
}

/// Twice the number, or where it is too large (the handle of a stream may be), twice its index and one. Equal
/// ones become one.
PickleValue PickleDocument::make_integer(std::int64_t number) {
  constexpr std::int64_t kNarrow = std::int64_t{1} << 58;
  if (-kNarrow <= number && number < kNarrow) return {PickleKind::kInt, number * 2};
  const auto [found, is_new] = wide_index_.try_emplace(number, static_cast<std::uint32_t>(wide_.size()));
  if (is_new) {
    budget_.charge(64);  // its node
    budget_.push(wide_, number);
  }
  return {PickleKind::kInt, std::int64_t{found->second} * 2 + 1};
}

PickleValue PickleDocument::make_string(std::string_view text) {
  auto found = string_index_.find(text);
  if (found == string_index_.end()) {
    budget_.charge(text.size() + 80);  // the text, its node
    found = string_index_.emplace(text, static_cast<std::uint32_t>(strings_.size())).first;
    budget_.push(strings_, std::string_view(found->first));
  }
  return {PickleKind::kString, found->second};
}

/// Equal tuples become one: each trace entry brings its own copy of the same few pool ids.
PickleValue PickleDocument::make_tuple(std::span<const PickleValue> items) {
  auto found = tuple_index_.find(items);
  if (found == tuple_index_.end()) {
    budget_.charge(items.size_bytes() + 80);
    found = tuple_index_
                .emplace(std::vector(items.begin(), items.end()), static_cast<std::uint32_t>(tuples_.size()))
                .first;
    budget_.push(tuples_, std::span<const PickleValue>(found->first));
  }
  return {PickleKind::kTuple, found->second};
}

PickleValue PickleDocument::make_object(PickleKind kind) {
  budget_.push(objects_, Object{kind, false, kNoShelf});
  return {kind, static_cast<std::int64_t>(objects_.size() - 1)};
}

PickleValue PickleDocument::make_list() {
  return make_object(PickleKind::kList);
}

PickleValue PickleDocument::make_dict() {
  return make_object(PickleKind::kDict);
}

std::vector<PickleValue>& PickleDocument::shelf_of(Object& object) {
  if (object.shelf == kNoShelf) {
    if (free_shelves_.empty()) {
      free_shelves_.push_back(static_cast<std::uint32_t>(shelves_.size()));
      budget_.push(shelves_, std::vector<PickleValue>{});
    }
    object.shelf = free_shelves_.back();
    free_shelves_.pop_back();
  }
  return shelves_[object.shelf];
}

/// Frees what `object` holds and makes it a `kind`.
void PickleDocument::put_away(Object& object, PickleKind kind) {
  if (object.shelf != kNoShelf) {
    shelves_[object.shelf].clear();
    budget_.push(free_shelves_, object.shelf);
    object.shelf = kNoShelf;
  }
  object.kind = kind;
}

void PickleDocument::skip(PickleValue value) {
  const PickleKind now = kind(value);
  if (now == PickleKind::kList || now == PickleKind::kDict) {
    put_away(objects_[index_of(value)], PickleKind::kSkipped);
  }
}

void PickleDocument::collapse(PickleValue value) {
  if (value.kind() != PickleKind::kDict) return;
  Object& object = objects_[index_of(value)];
  if (object.kind != PickleKind::kDict || std::exchange(object.offered, true)) return;
  const std::optional<std::uint32_t> record = collapse_(*this, value);
  if (!record) return;
  put_away(object, PickleKind::kRecord);
  object.shelf = *record;
}

void PickleDocument::append(PickleValue list, PickleValue item) {
  if (kind(list) != PickleKind::kList) return;
  collapse(item);
  budget_.push(shelf_of(objects_[index_of(list)]), item);
}

void PickleDocument::store(PickleValue dict, PickleValue key, PickleValue value) {
  const bool wanted = key.kind() == PickleKind::kString && index_of(key) < key_count_;
  if (!wanted || kind(dict) != PickleKind::kDict) return skip(value);
  std::vector<PickleValue>& pairs = shelf_of(objects_[index_of(dict)]);
  for (std::size_t i = 0; i < pairs.size(); i += 2) {
    if (pairs[i] == key) {
      pairs[i + 1] = value;
      return;
    }
  }
  budget_.push(pairs, key);
  budget_.push(pairs, value);
}

}  // namespace stweaver
