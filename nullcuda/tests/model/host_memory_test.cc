#include "model/host_memory.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <sys/mman.h>
#include <vector>

#include <gtest/gtest.h>

#include "model/helpers.h"

namespace nullcuda {
namespace {

constexpr std::uint64_t kHostPage = 4096;

/// How many of the pages take memory of the host.
std::ptrdiff_t resident(void* memory, std::uint64_t pages) {
  std::vector<unsigned char> states(pages);
  EXPECT_EQ(mincore(memory, pages * kHostPage, states.data()), 0);
  return std::ranges::count_if(states, [](unsigned char state) { return (state & 1U) != 0; });
}

TEST(HostMemory, TakesNothingOfTheHostUntilItIsWritten) {
  HostMemory memory;
  auto* bytes = static_cast<char*>(memory.allocate(64ULL << 30, HostKind::kPinned));
  ASSERT_NE(bytes, nullptr);
  EXPECT_EQ(bytes[12345], 0);
  bytes[3 * kHostPage] = 'x';
  EXPECT_EQ(bytes[3 * kHostPage], 'x');
  EXPECT_TRUE(memory.free(bytes, HostKind::kPinned));
}

TEST(HostMemory, GivesBackThePagesThatBecomeZero) {
  HostMemory memory;
  constexpr std::uint64_t kPages = 64;
  for (const HostKind kind : {HostKind::kPinned, HostKind::kManaged}) {
    auto* bytes = static_cast<char*>(memory.allocate(kPages * kHostPage, kind));
    madvise(bytes, kPages * kHostPage, MADV_NOHUGEPAGE);
    std::memset(bytes, 'x', kPages * kHostPage);
    ASSERT_EQ(resident(bytes, kPages), kPages);
    memory.zero(bytes + 10, (kPages - 1) * kHostPage);
    EXPECT_EQ(resident(bytes, kPages), 2);  // those at its ends are written
    const auto is_x = [&](std::uint64_t place) { return bytes[place] == 'x'; };
    for (std::uint64_t place = 0; place < kPages * kHostPage; ++place)
      ASSERT_EQ(is_x(place), place < 10 || place >= 10 + (kPages - 1) * kHostPage) << place;
  }
}

TEST(HostMemory, WritesZerosWhereMemoryIsTheProgramsOwn) {
  HostMemory memory;
  std::vector<char> own(4 * kHostPage, 'x');
  memory.zero(own.data(), 3 * kHostPage);
  ASSERT_FALSE(memory.enlist(own.data() + 3 * kHostPage, kHostPage));
  memory.zero(own.data() + 3 * kHostPage, kHostPage);
  EXPECT_EQ(std::ranges::count(own, '\0'), std::ssize(own));
}

TEST(HostMemory, IsFreedAsItWasMade) {
  HostMemory memory;
  void* pinned = memory.allocate(100, HostKind::kPinned);
  EXPECT_EQ(memory.kind_of(static_cast<char*>(pinned) + 99), HostKind::kPinned);
  EXPECT_FALSE(memory.kind_of(static_cast<char*>(pinned) + 100));
  EXPECT_FALSE(memory.strike(pinned));
  EXPECT_FALSE(memory.free(pinned, HostKind::kManaged));
  EXPECT_TRUE(memory.free(pinned, HostKind::kPinned));
  EXPECT_FALSE(memory.free(pinned, HostKind::kPinned));

  std::array<char, 300> own{};
  EXPECT_FALSE(memory.enlist(own.data() + 100, 100));
  EXPECT_FALSE(memory.free(own.data() + 100, HostKind::kPinned));  // it is not ours to free
  EXPECT_TRUE(memory.strike(own.data() + 100));
  EXPECT_FALSE(memory.strike(own.data() + 100));
}

TEST(HostMemory, IsRegisteredOnce) {
  HostMemory memory;
  std::array<char, 300> own{};
  EXPECT_FALSE(memory.enlist(own.data() + 100, 100));
  for (const int begin : {50, 100, 150, 199})
    EXPECT_EQ(memory.enlist(own.data() + begin, 100), HostKind::kRegistered) << begin;
  EXPECT_FALSE(memory.enlist(own.data() + 200, 100));
  EXPECT_FALSE(memory.enlist(own.data(), 100));
  void* pinned = memory.allocate(kHostPage, HostKind::kPinned);
  EXPECT_EQ(memory.enlist(static_cast<char*>(pinned) + 8, 8), HostKind::kPinned);
}

TEST(HostMemory, HasNoMoreThanThereIs) {
  HostMemory memory;
  EXPECT_EQ(memory.allocate(UINT64_MAX, HostKind::kPinned), nullptr);
  EXPECT_EQ(memory.allocate(1ULL << 60, HostKind::kPinned), nullptr);
}

}  // namespace
}  // namespace nullcuda
