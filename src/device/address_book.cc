#include "device/address_book.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <iterator>

namespace stweaver {
namespace {

/// Bytes from `at` to the end of `range`, which contains it.
Bytes left(const AddressRange& range, const std::byte* at) {
  return range.size - (at - range.begin);
}

}  // namespace

std::string_view refuse_words(const std::byte* at, Bytes size) {
  if (size >= 0 && size % kWord == 0 && reinterpret_cast<std::uintptr_t>(at) % kWord == 0) return {};
  return "address and size must be multiples of 4";
}

/// The place that contains `at`.
const AddressRange* AddressBook::find(const Places& places, const std::byte* at) {
  const auto above = places.upper_bound(at);
  if (above == places.begin()) return nullptr;
  const AddressRange& place = std::prev(above)->second;
  return left(place, at) > 0 ? &place : nullptr;
}

bool AddressBook::overlaps(const Places& places, const AddressRange& range) {
  if (find(places, range.begin) != nullptr) return true;
  const auto next = places.lower_bound(range.begin);
  return next != places.end() && next->first < range.begin + range.size;
}

std::vector<AddressRange> AddressBook::list(const Places& places) {
  std::vector<AddressRange> all;
  all.reserve(places.size());
  for (const auto& [begin, place] : places) all.push_back(place);
  return all;
}

bool AddressBook::remove(Places& places, const AddressRange& range) {
  const auto found = places.find(range.begin);
  if (found == places.end() || found->second.size != range.size) return false;
  places.erase(found);
  return true;
}

void AddressBook::add_block(const AddressRange& block) {
  const std::lock_guard lock(mutex_);
  blocks_.emplace(block.begin, block);
}

Bytes AddressBook::remove_block(std::byte* memory) {
  const std::lock_guard lock(mutex_);
  const auto found = blocks_.find(memory);
  if (found == blocks_.end()) return 0;
  const Bytes size = found->second.size;
  blocks_.erase(found);
  return size;
}

std::string_view AddressBook::refuse_size(Bytes size) const {
  if (page_size_ == 0) return "this device cannot map memory";
  if (size <= 0 || size % page_size_ != 0) return "the size must be a positive multiple of the page size";
  return {};
}

void AddressBook::add_range(const AddressRange& range) {
  const std::lock_guard lock(mutex_);
  ranges_.emplace(range.begin, range);
}

std::string_view AddressBook::remove_range(const AddressRange& range) {
  const std::lock_guard lock(mutex_);
  const auto found = ranges_.find(range.begin);
  if (found == ranges_.end() || found->second.size != range.size) return "not what reserve() returned";
  if (overlaps(mappings_, range)) return "memory is still mapped there, unmap it first";
  ranges_.erase(found);
  return {};
}

std::string_view AddressBook::add_mapping(const AddressRange& mapping) {
  if (const auto why = refuse_size(mapping.size); !why.empty()) return why;
  const std::lock_guard lock(mutex_);
  const AddressRange* range = find(ranges_, mapping.begin);
  if (range == nullptr || left(*range, mapping.begin) < mapping.size)
    return "not inside what reserve() returned";
  if ((mapping.begin - range->begin) % page_size_ != 0)
    return "the address must be a multiple of the page size";
  if (overlaps(mappings_, mapping)) return "memory is already mapped there";
  mappings_.emplace(mapping.begin, mapping);
  return {};
}

std::string_view AddressBook::remove_mapping(const AddressRange& mapping) {
  const std::lock_guard lock(mutex_);
  if (!remove(mappings_, mapping)) return "not exactly what one map() mapped";
  return {};
}

bool AddressBook::has_memory(const std::byte* at, Bytes size) const {
  const std::lock_guard lock(mutex_);
  while (size > 0) {
    const AddressRange* place = find(mappings_, at);
    if (place == nullptr) place = find(blocks_, at);
    if (place == nullptr) return false;
    const Bytes step = std::min(left(*place, at), size);
    at += step;
    size -= step;
  }
  return true;
}

std::vector<AddressRange> AddressBook::blocks() const {
  const std::lock_guard lock(mutex_);
  return list(blocks_);
}

std::vector<AddressRange> AddressBook::ranges() const {
  const std::lock_guard lock(mutex_);
  return list(ranges_);
}

std::vector<AddressRange> AddressBook::mappings() const {
  const std::lock_guard lock(mutex_);
  return list(mappings_);
}

}  // namespace stweaver
