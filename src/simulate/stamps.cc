#include "simulate/stamps.h"

#include <bit>
#include <cstddef>
#include <cstring>

namespace stweaver {
namespace {

using Stamp = std::uint64_t;
constexpr Bytes kStamp = sizeof(Stamp);
constexpr Bytes kWord = sizeof(std::uint32_t);

/// Unlike that of any other request, and no byte pattern that memory has by itself.
Stamp stamp_of(RequestId id) {
  return mix_hash(0x5354574D41524B53ULL, id);
}

std::uint32_t word_of(RequestId id) {
  constexpr unsigned kHalf = 32;
  return static_cast<std::uint32_t>(stamp_of(id) >> kHalf);
}

void write_stamps(std::byte* at, Bytes size, Stamp stamp) {
  Bytes done = 0;
  for (; done + kStamp <= size; done += kStamp) std::memcpy(at + done, &stamp, sizeof stamp);
  std::memcpy(at + done, &stamp, static_cast<std::size_t>(size - done));
}

bool verify_stamps(const std::byte* at, Bytes size, Stamp stamp) {
  Bytes done = 0;
  for (; done + kStamp <= size; done += kStamp) {
    if (std::memcmp(at + done, &stamp, sizeof stamp) != 0) return false;
  }
  return std::memcmp(at + done, &stamp, static_cast<std::size_t>(size - done)) == 0;
}

/// Calls visit(memory, size) for each part of a block that is stamped on the host, in the same order each
/// time, until it returns false. Whether it never did.
template <typename Visit>
bool each_part(Address block, Bytes size, Visit visit) {
  auto* const memory = std::bit_cast<std::byte*>(block);
  if (size <= Stamps::kWhole) return visit(memory, size);
  const Bytes last = size - Stamps::kEnd;
  if (!visit(memory, Stamps::kEnd) || !visit(memory + last, Stamps::kEnd)) return false;
  Bytes spacing = Stamps::kNarrowest;
  while (size / spacing >= Stamps::kMostPlaces) spacing *= 2;
  const auto offset = static_cast<Bytes>(block % static_cast<Address>(spacing));
  for (Bytes at = spacing - offset; at + Stamps::kPlace <= last; at += spacing) {
    if (at >= Stamps::kEnd && !visit(memory + at, Stamps::kPlace)) return false;
  }
  return true;
}

}  // namespace

void Stamps::write(RequestId id, Address block, Bytes size, Stream stream) const {
  if (device_ == nullptr) {
    const Stamp stamp = stamp_of(id);
    each_part(block, size, [stamp](std::byte* at, Bytes part) {
      write_stamps(at, part, stamp);
      return true;
    });
    return;
  }
  const Bytes words = size / kWord * kWord;
  if (words > 0 && !device_->fill(std::bit_cast<std::byte*>(block), words, word_of(id), stream))
    fail("request ", id, ": its block of ", size, " bytes cannot be written to: ", device_->failure());
}

bool Stamps::verify(RequestId id, Address block, Bytes size, Stream stream) const {
  if (device_ == nullptr) {
    const Stamp stamp = stamp_of(id);
    return each_part(block, size,
                     [stamp](const std::byte* at, Bytes part) { return verify_stamps(at, part, stamp); });
  }
  const Bytes words = size / kWord * kWord;
  if (words == 0) return true;
  const Bytes others =
      device_->count_other(std::bit_cast<const std::byte*>(block), words, word_of(id), stream);
  if (others < 0)
    fail("request ", id, ": its block of ", size, " bytes cannot be read: ", device_->failure());
  return others == 0;
}

}  // namespace stweaver
