#include "model/memory.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <string>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>

namespace nullcuda {
namespace {

// cudaMalloc packs what is small into one page: blocks of 512 bytes, at most half a page each.
constexpr std::uint64_t kSmallest = 512;
constexpr std::uint64_t kSmall = kPage / 2;
constexpr std::uint64_t kFileSize = 1ULL << 60;  // sparse: nothing is there before it is written

std::uint64_t rounded(std::uint64_t size, std::uint64_t to) {
  return (size + to - 1) / to * to;
}
bool is_multiple(std::uint64_t value, std::uint64_t of) {
  return value % of == 0;
}
void* pointer(std::uint64_t address) {
  return reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr): addresses are numbers here
}

int make_file(std::uint64_t size) {
  const int file = memfd_create("nullcuda", MFD_CLOEXEC);
  if (file < 0 || ftruncate(file, static_cast<off_t>(size)) != 0)
    stop(std::string("no memory file for device memory: ") + std::strerror(errno));
  return file;
}

/// Gives a part of a file back to the host: it is zero from now on.
void punch(int file, std::uint64_t begin, std::uint64_t size) {
  fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(begin),
            static_cast<off_t>(size));
}

/// Copies what there is of a part of a file to the begin of another; holes stay holes.
void copy_file(int from, std::uint64_t begin, std::uint64_t size, int to) {
  std::vector<char> buffer(kPage);
  const auto end = static_cast<off_t>(begin + size);
  for (off_t place = lseek(from, static_cast<off_t>(begin), SEEK_DATA); place >= 0 && place < end;) {
    const auto most = std::min<std::uint64_t>(buffer.size(), static_cast<std::uint64_t>(end - place));
    const ssize_t got = pread(from, buffer.data(), most, place);
    const off_t target = place - static_cast<off_t>(begin);
    if (got <= 0 || pwrite(to, buffer.data(), static_cast<std::size_t>(got), target) != got)
      stop(std::string("cannot copy device memory: ") + std::strerror(errno));
    place = lseek(from, place + got, SEEK_DATA);
  }
}

void map_over(std::uint64_t address, std::uint64_t size, int protection, int flags, int file,
              std::uint64_t offset) {
  void* at = mmap(pointer(address), size, protection, flags | MAP_FIXED | MAP_NORESERVE, file,
                  static_cast<off_t>(offset));
  if (at == MAP_FAILED)
    stop(std::string("cannot map device addresses: ") + std::strerror(errno) +
         "; a limit on addresses (ulimit -v) or on mappings (vm.max_map_count) may be too low");
}

}  // namespace

Memory::Memory(const Settings& settings)
    : settings_(settings),
      backing_(settings.checks   ? Backing::kPhysical
               : settings.values ? Backing::kFlat
                                 : Backing::kNone),
      devices_(kMostDevices) {}

Memory::~Memory() {
  for (auto& [handle, chunk] : chunks_)
    if (chunk->file >= 0) close(std::exchange(chunk->file, -1));
  for (auto& [begin, mapping] : mappings_)
    if (mapping.chunk->file >= 0) close(std::exchange(mapping.chunk->file, -1));
  for (const Device& device : devices_)
    if (device.file >= 0) close(device.file);
  if (next_ != 0) munmap(pointer(kFirstAddress), kSpace);
}

Memory::Device& Memory::device(int number) {
  Device& device = devices_[static_cast<std::size_t>(number)];
  if (device.in_use) return device;
  device.in_use = true;
  device.used = device.peak = settings_.context;
  if (backing_ == Backing::kPhysical) device.file = make_file(kFileSize);
  return device;
}

void Memory::touch(int number) {
  const std::scoped_lock lock(mutex_);
  device(number);
}

bool Memory::in_use(int number) const {
  const std::scoped_lock lock(mutex_);
  return devices_[static_cast<std::size_t>(number)].in_use;
}

// ---- addresses ----

/// Not before they are needed: a process that forks would share the bytes with its children.
void Memory::map_space() {
  if (next_ != 0) return;
  next_ = kFirstAddress + kSpace;
  const bool flat = backing_ == Backing::kFlat;
  // Shared, so that a limit on private memory (ulimit -d) does not count addresses.
  map_over(kFirstAddress, kSpace, flat ? PROT_READ | PROT_WRITE : PROT_NONE,
           MAP_ANONYMOUS | (flat ? MAP_SHARED : MAP_PRIVATE), -1, 0);
}

Outcome Memory::take_addresses(std::uint64_t size, std::uint64_t alignment, std::uint64_t& address) {
  map_space();
  const std::uint64_t first = kFirstAddress + kPage;
  // Downwards from where the last ones were taken, or given back; once more from the top, over all that is
  // free.
  for (std::uint64_t end : {next_, kFirstAddress + kSpace}) {
    while (end >= first + size) {
      const std::uint64_t begin = (end - size) / alignment * alignment;
      if (begin < first) break;
      auto other = taken_.lower_bound(begin + size);
      if (other == taken_.begin() || std::prev(other)->second <= begin) {
        taken_.emplace(begin, begin + size);
        next_ = begin;
        address = begin;
        return Outcome::kOk;
      }
      end = std::prev(other)->first;
    }
  }
  return Outcome::kOutOfMemory;
}

void Memory::give_addresses(std::uint64_t begin) {
  const auto range = taken_.find(begin);
  if (backing_ != Backing::kPhysical) next_ = std::max(next_, range->second);
  taken_.erase(range);
}

Outcome Memory::reserve(std::uint64_t size, std::uint64_t alignment, std::uint64_t wish,
                        std::uint64_t& address) {
  if (size == 0 || !is_multiple(size, kPage) || (alignment & (alignment - 1)) != 0) return Outcome::kInvalid;
  if (size > kSpace || alignment > kSpace) return Outcome::kOutOfMemory;
  const std::scoped_lock lock(mutex_);
  map_space();
  alignment = std::max(alignment, kPage);
  const auto other = taken_.lower_bound(wish + size);
  const bool granted = is_device(wish) && is_device(wish + size - 1) && is_multiple(wish, alignment) &&
                       (other == taken_.begin() || std::prev(other)->second <= wish);
  if (granted) {
    taken_.emplace(wish, wish + size);
    address = wish;
  } else if (const Outcome outcome = take_addresses(size, alignment, address); outcome != Outcome::kOk) {
    return outcome;
  }
  reservations_.emplace(address, size);
  return Outcome::kOk;
}

Outcome Memory::unreserve(std::uint64_t address, std::uint64_t size) {
  const std::scoped_lock lock(mutex_);
  const auto reservation = reservations_.find(address);
  if (reservation == reservations_.end() || reservation->second != size) return Outcome::kInvalid;
  const auto mapping = first_from(address);
  if (mapping != mappings_.end() && mapping->first < address + size) return Outcome::kInvalid;
  reservations_.erase(reservation);
  give_addresses(address);
  return Outcome::kOk;
}

// ---- physical memory ----

Outcome Memory::charge(int number, std::uint64_t size) {
  Device& device = this->device(number);
  if (size > settings_.memory || device.used + size > settings_.memory) return Outcome::kOutOfMemory;
  device.used += size;
  device.peak = std::max(device.peak, device.used);
  return Outcome::kOk;
}

std::shared_ptr<Chunk> Memory::make_chunk(int number, std::uint64_t size, bool on_host) {
  auto chunk = std::make_shared<Chunk>(Chunk{.size = size, .device = number, .on_host = on_host});
  Device& device = this->device(number);
  if (backing_ == Backing::kPhysical) {
    chunk->offset = device.file_end;  // never the place of another: what is new is zero, what is gone is gone
    device.file_end += rounded(size, kPage);
  }
  return chunk;
}

/// One owner less; the last one gives the memory back.
void Memory::let_go(Chunk& chunk) {
  if (chunk.handles == 0 && chunk.mappings == 0) give_back(chunk);
}

void Memory::give_back(Chunk& chunk) {
  Device& device = this->device(chunk.device);
  if (!chunk.on_host) device.used -= chunk.size;
  if (chunk.file >= 0) {
    close(chunk.file);
  } else if (device.file >= 0) {
    punch(device.file, chunk.offset, rounded(chunk.size, kPage));
  }
}

Outcome Memory::create(int number, std::uint64_t size, bool on_host, Chunk*& handle) {
  if (size == 0 || !is_multiple(size, kPage)) return Outcome::kInvalid;
  const std::scoped_lock lock(mutex_);
  if (!on_host)
    if (const Outcome outcome = charge(number, size); outcome != Outcome::kOk) return outcome;
  const auto chunk = make_chunk(number, size, on_host);
  chunk->handles = 1;
  handle = chunk.get();
  chunks_.emplace(handle, chunk);
  return Outcome::kOk;
}

Outcome Memory::release(Chunk* handle) {
  const std::scoped_lock lock(mutex_);
  const auto found = chunks_.find(handle);
  if (found == chunks_.end()) return Outcome::kInvalid;
  if (--handle->handles > 0) return Outcome::kOk;
  let_go(*handle);
  chunks_.erase(found);
  return Outcome::kOk;
}

std::optional<Chunk> Memory::describe(Chunk* handle) const {
  const std::scoped_lock lock(mutex_);
  const auto found = chunks_.find(handle);
  return found == chunks_.end() ? std::nullopt : std::optional(*found->second);
}

Outcome Memory::retain(std::uint64_t address, Chunk*& handle) {
  const std::scoped_lock lock(mutex_);
  const Mapping* mapping = holder(address);
  if (mapping == nullptr || mapping->whole) return Outcome::kInvalid;
  handle = mapping->chunk.get();
  chunks_.emplace(handle, mapping->chunk);
  ++handle->handles;
  return Outcome::kOk;
}

// ---- mappings ----

void Memory::back(const Mapping& mapping) {
  if (backing_ != Backing::kPhysical) return;
  expose(mapping);
}

/// Lets the host see the chunk's bytes where it is mapped, if the program may use them.
void Memory::expose(const Mapping& mapping) {
  const Chunk& chunk = *mapping.chunk;
  const int file = chunk.file >= 0 ? chunk.file : device(chunk.device).file;
  const std::uint64_t before = mapping.begin % kPage;  // not 0 where small allocations share a page
  const std::uint64_t offset = (chunk.file >= 0 ? 0 : chunk.offset) + mapping.offset - before;
  map_over(mapping.begin - before, rounded(before + mapping.size, kPage),
           mapping.access.any() ? PROT_READ | PROT_WRITE : PROT_NONE, MAP_SHARED, file, offset);
}

void Memory::unback(std::uint64_t address, std::uint64_t size) {
  size = rounded(size, kPage);
  if (backing_ == Backing::kPhysical) map_over(address, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  // The pages of a flat space are given back to the host; the bytes there read as zero from now on.
  if (backing_ == Backing::kFlat) madvise(pointer(address), size, MADV_REMOVE);
}

void Memory::erase(std::map<std::uint64_t, Mapping>::iterator mapping) {
  unback(mapping->second.begin, mapping->second.size);
  const std::shared_ptr<Chunk> chunk = mapping->second.chunk;
  mappings_.erase(mapping);
  --chunk->mappings;
  let_go(*chunk);
}

void Memory::insert(const Mapping& mapping) {
  ++mapping.chunk->mappings;
  mappings_.emplace(mapping.begin, mapping);
}

// What is refused here, and how, is what driver 580 was seen to refuse.

Outcome Memory::map(std::uint64_t address, std::uint64_t size, std::uint64_t offset, Chunk* handle) {
  const std::scoped_lock lock(mutex_);
  const auto found = chunks_.find(handle);
  if (found == chunks_.end() || size == 0 || !is_multiple(size, kPage) || !is_multiple(address, kPage))
    return Outcome::kInvalid;
  if (offset != 0 || size != handle->size) return Outcome::kUnsupported;
  auto reservation = reservations_.upper_bound(address);
  if (reservation == reservations_.begin()) return Outcome::kInvalid;
  --reservation;
  if (address + size > reservation->first + reservation->second) return Outcome::kInvalid;
  const auto next = first_from(address);
  if (next != mappings_.end() && next->first < address + size) return Outcome::kInvalid;
  const Mapping mapping{.begin = address, .size = size, .offset = offset, .chunk = found->second};
  insert(mapping);
  back(mapping);
  return Outcome::kOk;
}

Outcome Memory::unmap(std::uint64_t address, std::uint64_t size) {
  const std::scoped_lock lock(mutex_);
  if (size == 0 || size > kSpace || !is_multiple(size, kPage) || !is_multiple(address, kPage))
    return Outcome::kInvalid;
  const auto reservation = reservations_.upper_bound(address);
  if (reservation == reservations_.begin() ||
      address >= std::prev(reservation)->first + std::prev(reservation)->second)
    return Outcome::kInvalid;
  const std::uint64_t end = address + size;
  const auto first = first_from(address);
  for (auto mapping = first; mapping != mappings_.end() && mapping->first < end; ++mapping)
    if (mapping->second.whole || mapping->first < address || mapping->first + mapping->second.size > end)
      return Outcome::kInvalid;
  for (auto mapping = first; mapping != mappings_.end() && mapping->first < end;) erase(mapping++);
  return Outcome::kOk;
}

Outcome Memory::set_access(std::uint64_t address, std::uint64_t size, int number, bool accessible) {
  const std::scoped_lock lock(mutex_);
  if (size == 0) return Outcome::kInvalid;
  // A range of whole mappings, one beside the other.
  const auto first = mappings_.find(address);
  std::uint64_t end = address;
  for (auto mapping = first; end < address + size; ++mapping) {
    if (mapping == mappings_.end() || mapping->first != end || mapping->second.whole)
      return Outcome::kInvalid;
    end += mapping->second.size;
  }
  if (end != address + size) return Outcome::kInvalid;
  for (auto mapping = first; mapping != mappings_.end() && mapping->first < end; ++mapping) {
    mapping->second.access[static_cast<std::size_t>(number)] = accessible;
    back(mapping->second);
  }
  return Outcome::kOk;
}

// ---- allocations ----

Outcome Memory::allocate(int number, std::uint64_t size, std::uint64_t& address) {
  const std::scoped_lock lock(mutex_);
  if (size > settings_.memory) return Outcome::kOutOfMemory;
  if (size <= kSmall)
    return allocate_small(number, rounded(std::max<std::uint64_t>(size, 1), kSmallest), address);
  size = rounded(size, kPage);
  if (const Outcome outcome = charge(number, size); outcome != Outcome::kOk) return outcome;
  if (take_addresses(size, kPage, address) != Outcome::kOk) {
    device(number).used -= size;
    return Outcome::kOutOfMemory;
  }
  const Mapping mapping{.begin = address,
                        .size = size,
                        .chunk = make_chunk(number, size, false),
                        .access = kAllDevices,
                        .whole = true};
  insert(mapping);
  back(mapping);
  return Outcome::kOk;
}

/// Small allocations are cut from pages, from the bottom up, and a page goes back when none of it is in use.
Outcome Memory::allocate_small(int number, std::uint64_t size, std::uint64_t& address) {
  Device& device = this->device(number);
  for (auto& [page, shared] : device.small) {
    if (shared.used + size > kPage) continue;
    std::uint64_t place = page;
    auto mapping = mappings_.lower_bound(page);
    while (mapping != mappings_.end() && mapping->first < page + kPage && mapping->first < place + size) {
      place = mapping->first + mapping->second.size;
      ++mapping;
    }
    if (place + size > page + kPage) continue;
    insert({.begin = place,
            .size = size,
            .offset = place - page,
            .chunk = shared.chunk,
            .access = kAllDevices,
            .whole = true});
    shared.used += size;
    address = place;
    return Outcome::kOk;
  }
  if (const Outcome outcome = charge(number, kPage); outcome != Outcome::kOk) return outcome;
  if (take_addresses(kPage, kPage, address) != Outcome::kOk) {
    device.used -= kPage;
    return Outcome::kOutOfMemory;
  }
  const Mapping page{.begin = address,
                     .size = kPage,
                     .chunk = make_chunk(number, kPage, false),
                     .access = kAllDevices,
                     .whole = true};
  back(page);
  device.small.emplace(address, Shared{.chunk = page.chunk, .used = size});
  Mapping block = page;
  block.size = size;
  insert(block);
  return Outcome::kOk;
}

Outcome Memory::free(std::uint64_t address) {
  const std::scoped_lock lock(mutex_);
  const auto mapping = mappings_.find(address);
  if (mapping == mappings_.end() || !mapping->second.whole) return Outcome::kInvalid;
  Device& device = this->device(mapping->second.chunk->device);
  const std::uint64_t page = address / kPage * kPage;
  if (const auto shared = device.small.find(page); shared != device.small.end()) {
    const std::shared_ptr<Chunk> chunk = mapping->second.chunk;
    shared->second.used -= mapping->second.size;
    mappings_.erase(mapping);
    if (--chunk->mappings > 0) return Outcome::kOk;
    device.small.erase(shared);
    unback(page, kPage);
    give_addresses(page);
    give_back(*chunk);
    return Outcome::kOk;
  }
  give_addresses(address);
  erase(mapping);
  return Outcome::kOk;
}

// ---- other processes ----

int Memory::share(Chunk* handle) {
  const std::scoped_lock lock(mutex_);
  if (handle->file >= 0) return handle->file;
  const int own = make_file(handle->size);
  if (backing_ == Backing::kPhysical) {
    // Its bytes move to the file, which holds nothing else, and all mappings with them.
    const Device& device = this->device(handle->device);
    copy_file(device.file, handle->offset, handle->size, own);
    punch(device.file, handle->offset, handle->size);
  }
  handle->file = own;
  for (const auto& [begin, mapping] : mappings_)
    if (mapping.chunk.get() == handle) back(mapping);
  return own;
}

Outcome Memory::adopt(int number, int file, std::uint64_t size, Chunk*& handle) {
  const std::scoped_lock lock(mutex_);
  const auto chunk = make_chunk(number, size, true);
  chunk->imported = true;
  chunk->file = file;
  chunk->handles = 1;
  handle = chunk.get();
  chunks_.emplace(handle, chunk);
  return Outcome::kOk;
}

Outcome Memory::open(Chunk* handle, std::uint64_t& address) {
  const std::scoped_lock lock(mutex_);
  const auto found = chunks_.find(handle);
  if (found == chunks_.end()) return Outcome::kInvalid;
  const Outcome outcome = take_addresses(rounded(handle->size, kPage), kPage, address);
  if (outcome != Outcome::kOk) return outcome;
  const Mapping mapping{
      .begin = address, .size = handle->size, .chunk = found->second, .access = kAllDevices, .whole = true};
  insert(mapping);
  back(mapping);
  return Outcome::kOk;
}

// ---- questions ----

const Mapping* Memory::holder(std::uint64_t address) const {
  auto mapping = mappings_.upper_bound(address);
  if (mapping == mappings_.begin()) return nullptr;
  --mapping;
  return address < mapping->first + mapping->second.size ? &mapping->second : nullptr;
}

std::map<std::uint64_t, Mapping>::iterator Memory::first_from(std::uint64_t address) {
  const auto next = mappings_.upper_bound(address);
  if (next == mappings_.begin()) return next;
  const auto before = std::prev(next);
  return before->first + before->second.size > address ? before : next;
}

std::unique_ptr<Mapping> Memory::find(std::uint64_t address) const {
  const std::scoped_lock lock(mutex_);
  const Mapping* mapping = holder(address);
  return mapping == nullptr ? nullptr : std::make_unique<Mapping>(*mapping);
}

bool Memory::usable(std::uint64_t address, std::uint64_t size) const {
  const std::scoped_lock lock(mutex_);
  const std::uint64_t end = address + size;
  if (end < address) return false;
  for (const Mapping* mapping = nullptr; address < end; address = mapping->begin + mapping->size) {
    mapping = holder(address);
    if (mapping == nullptr || mapping->access.none()) return false;
  }
  return true;
}

std::uint64_t Memory::used(int number) const {
  const std::scoped_lock lock(mutex_);
  return devices_[static_cast<std::size_t>(number)].used;
}

std::uint64_t Memory::peak(int number) const {
  const std::scoped_lock lock(mutex_);
  return devices_[static_cast<std::size_t>(number)].peak;
}

}  // namespace nullcuda
