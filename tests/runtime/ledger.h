// Who lives where, kept apart from the allocator that is watched.
#pragma once

#include <cstdint>
#include <iterator>
#include <map>

#include "base/base.h"

namespace stweaver {

/// Living blocks by address.
class LivingBlocks {
 public:
  /// False when the block shares a byte with one that lives.
  [[nodiscard]] bool add(const void* memory, Bytes size) {
    const auto address = reinterpret_cast<std::uintptr_t>(memory);
    const auto after = living_.lower_bound(address);
    if (after != living_.end() && after->first < address + static_cast<std::uintptr_t>(size)) return false;
    if (after != living_.begin()) {
      const auto before = std::prev(after);
      if (before->first + static_cast<std::uintptr_t>(before->second) > address) return false;
    }
    living_.emplace_hint(after, address, size);
    bytes_ += size;
    return true;
  }

  /// False when no such block lives.
  bool remove(const void* memory) {
    const auto found = living_.find(reinterpret_cast<std::uintptr_t>(memory));
    if (found == living_.end()) return false;
    bytes_ -= found->second;
    living_.erase(found);
    return true;
  }

  [[nodiscard]] Bytes bytes() const { return bytes_; }
  [[nodiscard]] std::int64_t count() const { return static_cast<std::int64_t>(living_.size()); }

 private:
  std::map<std::uintptr_t, Bytes> living_;
  Bytes bytes_ = 0;
};

}  // namespace stweaver
