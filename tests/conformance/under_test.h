// What the conformance suite asks of an allocator, and the allocators it asks.
#pragma once

#include <bit>
#include <functional>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "device/device.h"
#include "simulate/caching_upstream.h"
#include "simulate/settings.h"

namespace stweaver {

/// An allocator behind one interface, whatever its own is. Any thread may call it.
class UnderTest {
 public:
  UnderTest() = default;
  UnderTest(const UnderTest&) = delete;
  UnderTest& operator=(const UnderTest&) = delete;
  UnderTest(UnderTest&&) = delete;
  UnderTest& operator=(UnderTest&&) = delete;
  virtual ~UnderTest() = default;

  /// The address of a block; nothing for no bytes and when out of memory.
  virtual std::optional<Address> allocate(Bytes size, Stream stream) = 0;
  virtual void free(Address address) = 0;
  virtual void empty_cache() = 0;
  [[nodiscard]] virtual Bytes reserved() const = 0;
};

/// One allocator, and what it promises.
struct Candidate {
  std::string name;                                         ///< letters only: part of the tests' names
  std::function<std::unique_ptr<UnderTest>(Device&)> make;  ///< a fresh one, on all of this device
  bool real_memory = false;  ///< it serves the device's memory; else numbers, and knows only its capacity
  Bytes keeps = 0;           ///< bytes reserved when nothing is in use and the cache is empty
};

inline std::ostream& operator<<(std::ostream& out, const Candidate& candidate) {
  return out << candidate.name;
}

/// PyTorch's caching allocator, on numbers or on memory.
class CachingUnderTest final : public UnderTest {
 public:
  explicit CachingUnderTest(std::unique_ptr<CachingUpstream> allocator) : allocator_(std::move(allocator)) {}

  std::optional<Address> allocate(Bytes size, Stream stream) override {
    void* block = allocator_->allocate(size, stream, 0);
    return block == nullptr ? std::nullopt : std::optional(std::bit_cast<Address>(block));
  }
  void free(Address address) override { allocator_->free(std::bit_cast<void*>(address)); }
  void empty_cache() override { allocator_->empty_cache(); }
  [[nodiscard]] Bytes reserved() const override { return allocator_->reserved(); }

 private:
  std::unique_ptr<CachingUpstream> allocator_;
};

inline Candidate simulated(std::string name, const std::string& settings) {
  const auto make = [settings](const Device& device) {
    return std::make_unique<CachingUnderTest>(
        std::make_unique<CachingUpstream>(parse_settings(settings), device.memory().total));
  };
  return {.name = std::move(name), .make = make, .real_memory = false, .keeps = 0};
}

inline Candidate on_host(std::string name, const std::string& settings) {
  const auto make = [settings](Device& device) {
    return std::make_unique<CachingUnderTest>(
        std::make_unique<CachingUpstream>(parse_settings(settings), device));
  };
  return {.name = std::move(name), .make = make, .real_memory = true, .keeps = 0};
}

/// Every allocator of the project.
inline std::vector<Candidate> candidates() {
  return {
      simulated("SimulatedNative", ""),
      simulated("SimulatedExpandable", "expandable_segments:True"),
      on_host("HostNative", ""),
      on_host("HostExpandable", "expandable_segments:True"),
  };
}

}  // namespace stweaver
