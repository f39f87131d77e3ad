// The allocator that serves what the arena does not: PyTorch's own, or what stands for it.
#pragma once

#include "base/base.h"
#include "trace/model.h"

namespace stweaver {

/// Safe to call from any thread. The run time holds no lock of its own while it calls, so an upstream may
/// call back.
class Upstream {
 public:
  Upstream() = default;
  Upstream(const Upstream&) = delete;
  Upstream& operator=(const Upstream&) = delete;
  Upstream(Upstream&&) = delete;
  Upstream& operator=(Upstream&&) = delete;
  virtual ~Upstream() = default;

  /// A block of at least `size` > 0 bytes for use on `stream`; nullptr when out of memory, after it has tried
  /// what it can itself. `pool` is 0 but for requests of CUDA graphs and MemPools.
  virtual void* allocate(Bytes size, Stream stream, Pool pool) = 0;
  /// Takes back what allocate() returned. Error for anything else.
  virtual void free(void* memory) = 0;
  /// `memory` is used on `stream` too: it may not be reused before that work is over.
  virtual void record_stream(void* memory, Stream stream) = 0;
  /// Gives back to the device all memory that nobody uses.
  virtual void empty_cache() = 0;
  /// Bytes held from the device.
  [[nodiscard]] virtual Bytes reserved() const = 0;
  /// Whether this thread's last allocate() may have changed reserved(), which may cost more than a request.
  [[nodiscard]] virtual bool may_have_grown() const { return true; }
  /// Bytes in blocks that are in use, after rounding.
  [[nodiscard]] virtual Bytes allocated() const = 0;
};

}  // namespace stweaver
