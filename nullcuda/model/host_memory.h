// Host memory that the device can see: what CUDA made for the program, and what the program registered.
//
// Pages are the host's only while the program has written to them: a job that offloads hundreds of GiB of
// what nobody computes fits into a small machine.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>

namespace nullcuda {

enum class HostKind : std::uint8_t {
  kPinned,      ///< cudaHostAlloc
  kManaged,     ///< cudaMallocManaged
  kRegistered,  ///< cudaHostRegister: the program's own
};

/// All such memory of a process. Any thread may call it.
class HostMemory {
 public:
  HostMemory() = default;
  ~HostMemory();
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;

  /// Bytes that are zero, one at least; null where the host has none.
  void* allocate(std::uint64_t size, HostKind kind);
  /// Whether memory of that kind began there.
  bool free(void* memory, HostKind kind);
  /// Registers the program's own memory: nothing, or the kind of what is there already.
  std::optional<HostKind> enlist(void* memory, std::uint64_t size);
  /// Whether memory that was registered began there.
  bool strike(void* memory);
  /// What kind of memory holds an address; nothing where none does.
  [[nodiscard]] std::optional<HostKind> kind_of(const void* address) const;
  /// Makes bytes of the host zero, wherever they are. Whole pages that were made here are given back for
  /// that.
  void zero(void* at, std::uint64_t size) const;

 private:
  struct Range {
    std::uint64_t end = 0;
    HostKind kind = HostKind::kPinned;
  };
  [[nodiscard]] std::map<std::uint64_t, Range>::const_iterator holder(std::uint64_t address) const;

  mutable std::mutex mutex_;
  std::map<std::uint64_t, Range> ranges_;  ///< by their begin; they do not overlap
};

}  // namespace nullcuda
