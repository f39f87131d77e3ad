// Who lives where, kept apart from every allocator: what it is told is checked against nothing but itself.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>

#include <gtest/gtest.h>

#include "device/device.h"
#include "simulate/allocator.h"

namespace stweaver {

/// A block that is in use, as its user knows it.
struct Tenant {
  Address address = 0;
  Bytes size = 0;
  Stream stream = 0;
  std::uint32_t identity = 0;  ///< hardly that of any other block
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

  void remove(const Tenant& tenant) { (void)remove_at(tenant.address); }

  /// False when no block lives there.
  [[nodiscard]] bool remove_at(Address address) {
    const auto found = living_.find(address);
    if (found == living_.end()) return false;
    bytes_ -= found->second.size;
    living_.erase(found);
    return true;
  }

  [[nodiscard]] bool empty() const { return living_.empty(); }
  [[nodiscard]] std::int64_t count() const { return static_cast<std::int64_t>(living_.size()); }
  [[nodiscard]] Bytes bytes() const { return bytes_; }

 private:
  static testing::AssertionResult sharing(const Tenant& a, const Tenant& b) {
    return testing::AssertionFailure()
           << a.size << " bytes at " << a.address << " share some with " << b.size << " at " << b.address;
  }

  std::map<Address, Tenant> living_;
  Bytes bytes_ = 0;
};

/// The whole words of a block.
inline Bytes words(const Tenant& tenant) {
  return tenant.size / 4 * 4;
}
inline std::byte* memory_of(const Tenant& tenant) {
  return std::bit_cast<std::byte*>(tenant.address);
}

/// Writes the block's identity over all of its memory, in the order of its stream. False on failure.
inline bool stamp(Device& device, const Tenant& tenant) {
  return words(tenant) == 0 || device.fill(memory_of(tenant), words(tenant), tenant.identity, tenant.stream);
}

/// Whether the block's memory is as stamp() left it.
inline bool stamped(Device& device, const Tenant& tenant) {
  return words(tenant) == 0 ||
         device.count_other(memory_of(tenant), words(tenant), tenant.identity, tenant.stream) == 0;
}

}  // namespace stweaver
