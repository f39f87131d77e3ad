// Device memory: what is in use of each device, which addresses are whose, and what lies behind them.
//
// Addresses of all devices lie in [kFirstAddress, + kSpace). They are taken from the top downwards, those
// that were given back before others, as the driver of an H200 was seen to do. Only in checking mode none is
// handed out twice before all were: what is used after it was freed shows.
#pragma once

#include <bitset>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "model/settings.h"

namespace nullcuda {

/// What 47 bits of addresses leave between AddressSanitizer's own (up to 0x10007fff8000) and where Linux puts
/// programs (0x555555554000): a segment that can grow reserves more than a device has, for each stream and
/// pool.
inline constexpr std::uint64_t kFirstAddress = 20ULL << 40;
inline constexpr std::uint64_t kSpace = 64ULL << 40;
inline constexpr std::uint64_t kPage = 2ULL << 20;  ///< what a GPU maps at once
inline constexpr int kMostDevices = 16;

/// Whether an address is one of device memory, mapped or not.
inline bool is_device(std::uint64_t address) {
  return address >= kFirstAddress && address < kFirstAddress + kSpace;
}

enum class Outcome : std::uint8_t { kOk, kInvalid, kOutOfMemory, kUnsupported };

/// Physical memory: what cudaMalloc takes, and what cuMemCreate gives a handle of. It goes back to the device
/// when the last of its owners (its handle, each of its mappings) lets go.
struct Chunk {
  std::uint64_t size = 0;
  int device = 0;
  bool on_host = false;      ///< it takes nothing of the device
  bool imported = false;     ///< another process's: its bytes are what that one knows
  std::uint64_t offset = 0;  ///< of the file behind it
  int file = -1;  ///< a file of its own, once it was shown to another process; -1: its device's file
  std::uint64_t handles = 0;   ///< times that the program holds it
  std::uint64_t mappings = 0;  ///< times that it is mapped
};

using Devices = std::bitset<kMostDevices>;
inline constexpr Devices kAllDevices{(1ULL << kMostDevices) - 1};

/// A range of addresses with memory behind it.
struct Mapping {
  std::uint64_t begin = 0;
  std::uint64_t size = 0;
  std::uint64_t offset = 0;  ///< in the chunk
  std::shared_ptr<Chunk> chunk;
  Devices access = {};  ///< that may use it: cuMemSetAccess said so, or need not
  bool whole = false;   ///< made by cudaMalloc and the like: freed as it was made
};

/// How the bytes at device addresses exist for the host.
enum class Backing : std::uint8_t {
  kNone,      ///< they cannot be touched
  kFlat,      ///< every address can be read and written; what is mapped again is zero
  kPhysical,  ///< chunks have their bytes and carry them from mapping to mapping; nothing else can be touched
};

/// The memory of all devices. Any thread may call it.
class Memory {
 public:
  explicit Memory(const Settings& settings);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  // ---- as cudaMalloc and cudaFree ----
  Outcome allocate(int number, std::uint64_t size, std::uint64_t& address);
  /// kInvalid where no allocation begins there.
  Outcome free(std::uint64_t address);

  // ---- as cuMem... ----
  Outcome reserve(std::uint64_t size, std::uint64_t alignment, std::uint64_t wish, std::uint64_t& address);
  Outcome unreserve(std::uint64_t address, std::uint64_t size);
  Outcome create(int number, std::uint64_t size, bool on_host, Chunk*& handle);
  Outcome release(Chunk* handle);
  /// kUnsupported where it is not all of the handle's memory.
  Outcome map(std::uint64_t address, std::uint64_t size, std::uint64_t offset, Chunk* handle);
  /// What a handle is of; nothing where it is none.
  [[nodiscard]] std::optional<Chunk> describe(Chunk* handle) const;
  /// All mappings in the range, which may have holes but cut none of them.
  Outcome unmap(std::uint64_t address, std::uint64_t size);
  Outcome set_access(std::uint64_t address, std::uint64_t size, int number, bool accessible);
  Outcome retain(std::uint64_t address, Chunk*& handle);

  // ---- other processes ----
  /// A descriptor, the chunk's own, of a file of its size with its bytes, where memory has any.
  int share(Chunk* handle);
  /// A chunk of another process, of whose file `file` is a descriptor, taken over.
  Outcome adopt(int number, int file, std::uint64_t size, Chunk*& handle);
  /// Maps a chunk at addresses of its own, as cudaIpcOpenMemHandle does.
  Outcome open(Chunk* handle, std::uint64_t& address);

  // ---- questions ----
  /// The mapping that holds an address; nothing where none does. A copy: it may be gone by then.
  [[nodiscard]] std::unique_ptr<Mapping> find(std::uint64_t address) const;
  /// Whether all of the bytes are mapped and some device may use them.
  [[nodiscard]] bool usable(std::uint64_t address, std::uint64_t size) const;
  [[nodiscard]] std::uint64_t used(int number) const;  ///< bytes, the context's included
  [[nodiscard]] std::uint64_t peak(int number) const;  ///< the most that was ever used
  [[nodiscard]] std::uint64_t total() const { return settings_.memory; }
  [[nodiscard]] Backing backing() const { return backing_; }
  /// Takes a device into use: its context takes memory.
  void touch(int number);
  [[nodiscard]] bool in_use(int number) const;

 private:
  /// A page that small allocations share.
  struct Shared {
    std::shared_ptr<Chunk> chunk;
    std::uint64_t used = 0;
  };
  struct Device {
    bool in_use = false;
    std::uint64_t used = 0;
    std::uint64_t peak = 0;
    int file = -1;                          ///< holds the bytes of its chunks
    std::uint64_t file_end = 0;             ///< of what chunks have had
    std::map<std::uint64_t, Shared> small;  ///< pages, by their begin
  };

  Device& device(int number);
  void map_space();
  Outcome take_addresses(std::uint64_t size, std::uint64_t alignment, std::uint64_t& address);
  void give_addresses(std::uint64_t begin);
  Outcome allocate_small(int number, std::uint64_t size, std::uint64_t& address);
  Outcome charge(int number, std::uint64_t size);
  void let_go(Chunk& chunk);
  void give_back(Chunk& chunk);
  void insert(const Mapping& mapping);
  std::shared_ptr<Chunk> make_chunk(int number, std::uint64_t size, bool on_host);
  void back(const Mapping& mapping);
  void expose(const Mapping& mapping);
  void unback(std::uint64_t address, std::uint64_t size);
  void erase(std::map<std::uint64_t, Mapping>::iterator mapping);
  [[nodiscard]] const Mapping* holder(std::uint64_t address) const;
  /// The first mapping that ends after an address.
  [[nodiscard]] std::map<std::uint64_t, Mapping>::iterator first_from(std::uint64_t address);

  const Settings& settings_;
  Backing backing_;
  mutable std::mutex mutex_;
  std::vector<Device> devices_;
  std::uint64_t next_ = 0;  ///< addresses below it were not handed out in this round; 0: none is mapped yet
  std::map<std::uint64_t, std::uint64_t> taken_;         ///< addresses: begin to end
  std::map<std::uint64_t, std::uint64_t> reservations_;  ///< of cuMemAddressReserve: begin to size
  std::map<std::uint64_t, Mapping> mappings_;            ///< by their begin
  std::map<Chunk*, std::shared_ptr<Chunk>> chunks_;      ///< those that the program holds a handle of
};

}  // namespace nullcuda
