// Where memory comes from, and what orders the work on it.
//
// Two ways to get memory. *In one piece*: allocate() is cudaMalloc. *Page by page*: reserve() takes addresses
// without memory, map() puts memory behind some of them, unmap() takes it away again. A *stream* is a queue
// of work; work of two streams has no order unless one waits for an *event* that the other recorded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/base.h"
#include "trace/model.h"

namespace stweaver {

/// A point in a stream's queue of work, as the device names it.
using DeviceEvent = std::uintptr_t;
inline constexpr DeviceEvent kNoEvent = 0;

/// A device's memory in bytes, as its driver sees it: everybody's, not only ours.
struct DeviceMemory {
  Bytes free = 0;
  Bytes total = 0;
};

/// Memory as other processes may open it: a file descriptor of the process that it belongs to.
struct SharedPiece {
  int file = -1;
  Bytes size = 0;
};

/// One device. Safe to call from any thread. Nothing here throws: a call that fails says so in its result,
/// and failure() says why.
class Device {
 public:
  Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  Device(Device&&) = delete;
  Device& operator=(Device&&) = delete;
  virtual ~Device() = default;

  /// What it is, for messages: "host" or "NVIDIA H200 (cuda:0)".
  [[nodiscard]] virtual std::string name() const = 0;
  [[nodiscard]] virtual DeviceMemory memory() const = 0;
  /// The last call that failed, in one line: the call, the sizes, the driver's words. Empty when none did.
  [[nodiscard]] virtual std::string failure() const = 0;

  /// New memory of `size` > 0 bytes, aligned to 512 at least; nullptr when out of memory.
  virtual std::byte* allocate(Bytes size) = 0;
  /// Gives back what allocate() returned. Work that still uses it must be over: CUDA waits for it.
  virtual bool free(std::byte* memory) = 0;

  /// The unit of map() in bytes; 0 when the device cannot map.
  [[nodiscard]] virtual Bytes page_size() const = 0;
  /// Takes `size` bytes of addresses, a multiple of the page size; nullptr when there are none.
  virtual std::byte* reserve(Bytes size) = 0;
  /// Gives back what reserve() returned; nothing may be mapped there any more.
  virtual bool release(std::byte* addresses, Bytes size) = 0;
  /// Whether there may be so much memory for map(), in pieces; it may be less, or gone, when it is called.
  [[nodiscard]] virtual bool may_map(Bytes size) const { return size <= memory().free; }
  /// Puts new memory behind [at, at + size), both multiples of the page size; false when out of memory.
  virtual bool map(std::byte* at, Bytes size) = 0;
  /// Takes the memory of exactly one map() away again. Work that still uses it must be over.
  virtual bool unmap(std::byte* at, Bytes size) = 0;
  /// Lets kernels of the device that CUDA counts as `peer` reach all that is mapped here, now and later.
  /// False when they cannot.
  virtual bool let_peer(int /*peer*/) { return false; }

  /// What map() has put behind the addresses from `begin`, where one map() began, up to `end`: in order, for
  /// open_shared() in another process. The files are the caller's to close. Nothing on failure.
  virtual std::vector<SharedPiece> share(std::byte* /*begin*/, const std::byte* /*end*/) { return {}; }
  /// Maps pieces of another process, whose files were made this process's own, one behind the other; nullptr
  /// on failure. To be given to close_shared() with the sum of their sizes.
  virtual std::byte* open_shared(const std::vector<SharedPiece>& /*pieces*/) { return nullptr; }
  virtual bool close_shared(std::byte* /*at*/, Bytes /*size*/) { return false; }

  /// An event behind all work that `stream` has been given so far; kNoEvent on failure.
  virtual DeviceEvent record(Stream stream) = 0;
  /// Makes all later work of `stream` wait for the event; the caller goes on at once.
  virtual bool wait(Stream stream, DeviceEvent event) = 0;
  /// Whether the work before the event is over.
  virtual bool passed(DeviceEvent event) = 0;
  /// Waits until it is. False on failure.
  virtual bool await(DeviceEvent event) = 0;
  /// The event is not needed any more.
  virtual void forget(DeviceEvent event) = 0;
  /// Waits until all work of all streams is over.
  virtual bool synchronize() = 0;

  /// Writes `value` over [at, at + size), in the order of `stream`; both multiples of 4.
  virtual bool fill(std::byte* at, Bytes size, std::uint32_t value, Stream stream) = 0;
  /// How many of the 4-byte words in [at, at + size) are not `value`, in the order of `stream`; waits for the
  /// answer. -1 on failure.
  virtual Bytes count_other(const std::byte* at, Bytes size, std::uint32_t value, Stream stream) = 0;
};

}  // namespace stweaver
