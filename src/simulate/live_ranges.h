// Which addresses belong to a living block.
#pragma once

#include <map>
#include <vector>

#include "simulate/allocator.h"

namespace stweaver {

/// The living blocks of one allocator, exact to the byte. What lives here shares nothing.
class LiveRanges {
 public:
  /// Enters a block of `size` > 0 bytes, unless it has bytes in common with some that live: it is left out
  /// then, and those are returned.
  std::vector<RequestId> add(RequestId id, Address address, Bytes size);

  /// The block that `id` got at `address` lives no longer. Nothing happens if it was left out.
  void remove(RequestId id, Address address);

 private:
  struct Range {
    Address end = 0;
    RequestId id = 0;
  };

  std::map<Address, Range> ranges_;
};

}  // namespace stweaver
