// Who lives where, kept apart from every allocator: what it is told is checked against nothing but itself.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <map>

#include <gtest/gtest.h>

#include "simulate/allocator.h"

namespace stweaver {

/// A block that is in use, as its user knows it.
struct Tenant {
  Address address = 0;
  Bytes size = 0;
  std::uint64_t identity = 0;  ///< unlike that of any other block
};

/// Living blocks by address.
class Ledger {
 public:
  /// Failure when the block shares a byte with one that lives.
  testing::AssertionResult add(const Tenant& tenant) {
    const Address end = tenant.address + static_cast<Address>(tenant.size);
    const auto after = living_.lower_bound(tenant.address);
    if (after != living_.end() && after->first < end) return sharing(tenant, after->second);
    if (after != living_.begin()) {
      const Tenant& before = std::prev(after)->second;
      if (before.address + static_cast<Address>(before.size) > tenant.address) return sharing(tenant, before);
    }
    living_.emplace(tenant.address, tenant);
    bytes_ += tenant.size;
    return testing::AssertionSuccess();
  }

  /// Takes out the block that is `number`-th by address, going round.
  Tenant remove(std::size_t number) {
    const auto found = std::next(living_.begin(), static_cast<std::ptrdiff_t>(number % living_.size()));
    const Tenant tenant = found->second;
    remove(tenant);
    return tenant;
  }

  void remove(const Tenant& tenant) {
    living_.erase(tenant.address);
    bytes_ -= tenant.size;
  }

  [[nodiscard]] bool empty() const { return living_.empty(); }
  [[nodiscard]] Bytes bytes() const { return bytes_; }

 private:
  static testing::AssertionResult sharing(const Tenant& a, const Tenant& b) {
    return testing::AssertionFailure()
           << a.size << " bytes at " << a.address << " share some with " << b.size << " at " << b.address;
  }

  std::map<Address, Tenant> living_;
  Bytes bytes_ = 0;
};

/// Writes the block's identity over all of its memory.
inline void stamp(const Tenant& tenant) {
  auto* memory = std::bit_cast<std::byte*>(tenant.address);
  const auto size = static_cast<std::size_t>(tenant.size);
  constexpr std::size_t kWord = sizeof tenant.identity;
  for (std::size_t at = 0; at + kWord <= size; at += kWord) std::memcpy(memory + at, &tenant.identity, kWord);
  std::memcpy(memory + size / kWord * kWord, &tenant.identity, size % kWord);
}

/// Whether the block's memory is as stamp() left it.
inline bool stamped(const Tenant& tenant) {
  const auto* memory = std::bit_cast<const std::byte*>(tenant.address);
  const auto size = static_cast<std::size_t>(tenant.size);
  constexpr std::size_t kWord = sizeof tenant.identity;
  std::uint64_t difference = 0;
  for (std::size_t at = 0; at + kWord <= size; at += kWord) {
    std::uint64_t word = 0;
    std::memcpy(&word, memory + at, kWord);
    difference |= word ^ tenant.identity;
  }
  return difference == 0 && std::memcmp(memory + size / kWord * kWord, &tenant.identity, size % kWord) == 0;
}

}  // namespace stweaver
