// Where a caching allocator's segments come from: numbers, or the memory of a device.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <unordered_map>

#include "device/device.h"
#include "simulate/allocator.h"

namespace stweaver {

/// 4 TiB, more than any device has: for a caller who wants no limit.
inline constexpr Bytes kAmpleCapacity = Bytes{1} << 42U;

/// What the CUDA driver is to PyTorch's allocator: segments in one piece, and addresses to map pages into.
class SegmentSource {
 public:
  SegmentSource(const SegmentSource&) = delete;
  SegmentSource& operator=(const SegmentSource&) = delete;
  SegmentSource(SegmentSource&&) = delete;
  SegmentSource& operator=(SegmentSource&&) = delete;
  virtual ~SegmentSource() = default;

  /// Bytes that the whole device has.
  [[nodiscard]] Bytes capacity() const { return capacity_; }
  /// What pages are a multiple of, in bytes; 0 when none can be mapped.
  [[nodiscard]] Bytes page_size() const { return page_size_; }
  /// Bytes taken from the device and not given back.
  [[nodiscard]] Bytes held() const { return held_; }

  /// `size` bytes in one piece; nothing when out of memory.
  virtual std::optional<Address> allocate(Bytes size) = 0;
  /// Gives back what allocate() returned; false when the device does not take it.
  virtual bool free(Address segment, Bytes size) = 0;

  /// Addresses without memory for `size` bytes, both multiples of `page`; nothing when there are none.
  virtual std::optional<Address> reserve(Bytes size, Bytes page) = 0;
  /// Gives back what reserve() returned; false when the device does not take it, or a page still lies there.
  virtual bool release(Address addresses) = 0;
  /// Puts memory behind [at, at + size), in pages of `page` bytes, all or none; false when out of memory.
  virtual bool map(Address at, Bytes size, Bytes page) = 0;
  /// Takes the pages in [at, at + size) away. A page that the device does not take stays held, and is used
  /// when it is to be mapped again.
  virtual void unmap(Address at, Bytes size) = 0;

 protected:
  SegmentSource(Bytes capacity, Bytes page_size) : capacity_(capacity), page_size_(page_size) {}

  void take(Bytes size) { held_ += size; }
  void give(Bytes size) { held_ -= size; }

 private:
  Bytes capacity_;
  Bytes page_size_;
  Bytes held_ = 0;
};

/// Where cudaMalloc puts a segment of `size` bytes.
using SegmentPlacer = std::function<Address(Bytes size)>;

/// Addresses that are no memory, for at most `capacity` bytes at a time.
class NumberedSegments final : public SegmentSource {
 public:
  /// `capacity`: from 1 to kAmpleCapacity, else Error. Without `place`, each segment lies below all before
  /// it.
  explicit NumberedSegments(Bytes capacity, SegmentPlacer place = {});

  std::optional<Address> allocate(Bytes size) override;
  bool free(Address segment, Bytes size) override;
  std::optional<Address> reserve(Bytes size, Bytes page) override;
  bool release(Address /*addresses*/) override { return true; }
  bool map(Address at, Bytes size, Bytes page) override;
  void unmap(Address at, Bytes size) override;

 private:
  Address take_addresses(Bytes size, Bytes alignment);

  SegmentPlacer place_;
  Address lowest_ = Address{1} << 63U;  ///< of all addresses given out so far
};

/// A device's memory. Gives everything back at its end.
class DeviceSegments final : public SegmentSource {
 public:
  /// `device` must outlive this. Error when it has no memory at all.
  explicit DeviceSegments(Device& device);
  DeviceSegments(const DeviceSegments&) = delete;
  DeviceSegments& operator=(const DeviceSegments&) = delete;
  DeviceSegments(DeviceSegments&&) = delete;
  DeviceSegments& operator=(DeviceSegments&&) = delete;
  ~DeviceSegments() override;

  std::optional<Address> allocate(Bytes size) override;
  bool free(Address segment, Bytes size) override;
  std::optional<Address> reserve(Bytes size, Bytes page) override;
  bool release(Address addresses) override;
  bool map(Address at, Bytes size, Bytes page) override;
  void unmap(Address at, Bytes size) override;

 private:
  struct Range {
    std::byte* memory = nullptr;
    Bytes size = 0;
  };

  Device& device_;
  std::unordered_map<Address, Range> segments_;
  std::unordered_map<Address, Range> reservations_;  ///< by the first address that is given out
  std::map<Address, Range> pages_;
};

}  // namespace stweaver
