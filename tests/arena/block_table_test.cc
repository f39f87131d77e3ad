#include "arena/block_table.h"

#include <cstddef>
#include <cstdint>
#include <random>
#include <unordered_map>
#include <vector>

#include <gtest/gtest.h>

namespace stweaver {
namespace {

/// A block table and a map beside it, told the same.
class TwinTables {
 public:
  explicit TwinTables(unsigned seed, std::size_t expected = 0) : table_(expected), random_(seed) {}

  void insert(std::uintptr_t address) {
    const auto size = static_cast<Bytes>(++made_);
    table_.insert({.address = address, .size = size});
    map_[address] = size;
    addresses_.push_back(address);
  }

  void erase_any() {
    const std::size_t which = any(addresses_.size() - 1);
    std::swap(addresses_[which], addresses_.back());
    erase(addresses_.back());
    addresses_.pop_back();
  }

  [[nodiscard]] bool has(std::uintptr_t address) const { return map_.contains(address); }
  [[nodiscard]] std::size_t size() const { return map_.size(); }
  std::size_t any(std::size_t most) { return std::uniform_int_distribution<std::size_t>(0, most)(random_); }

  void expect_alike() {
    ASSERT_EQ(table_.size(), map_.size());
    for (const auto& [address, size] : map_) {
      const LivingBlock* const block = table_.find(address);
      ASSERT_NE(block, nullptr) << address;
      ASSERT_EQ(block->size, size);
    }
    std::size_t visited = 0;
    table_.for_each([&](const LivingBlock& block) {
      ++visited;
      EXPECT_TRUE(has(block.address));
    });
    EXPECT_EQ(visited, map_.size());
  }

  void expect_absent(std::uintptr_t address) { EXPECT_EQ(table_.find(address), nullptr); }

 private:
  void erase(std::uintptr_t address) {
    LivingBlock* const block = table_.find(address);
    ASSERT_NE(block, nullptr);
    EXPECT_EQ(block->size, map_.at(address));
    table_.erase(block);
    map_.erase(address);
    EXPECT_EQ(table_.find(address), nullptr);
  }

  BlockTable table_;
  std::unordered_map<std::uintptr_t, Bytes> map_;
  std::vector<std::uintptr_t> addresses_;
  std::mt19937 random_;
  std::size_t made_ = 0;
};

/// The spacing of addresses decides who collides with whom.
class Spacings : public testing::TestWithParam<std::uintptr_t> {};

TEST_P(Spacings, FindWhatAMapFinds) {
  TwinTables twins(static_cast<unsigned>(GetParam()));
  for (int i = 0; i < 60000; ++i) {
    const std::uintptr_t address = 0x7f0000000000 + (twins.any(3000) + 1) * GetParam();
    if (twins.has(address) || (twins.size() > 0 && twins.any(9) < 4)) {
      twins.erase_any();
    } else {
      twins.expect_absent(address);
      twins.insert(address);
    }
    if (i % 2000 == 0) twins.expect_alike();
  }
  while (twins.size() > 0) twins.erase_any();
  twins.expect_alike();
}

INSTANTIATE_TEST_SUITE_P(BlockTable, Spacings,
                         testing::Values(1, 512, 4096, 2 << 20, std::uintptr_t{1} << 40));

/// Where the table of 16 cells would like to have an address.
std::size_t home_among_16(std::uintptr_t address) {
  return static_cast<std::size_t>((address * 0x9E3779B97F4A7C15ULL) >> 60U);
}

TEST(BlockTable, ErasesFromChainsThatGoRoundItsEnd) {
  // Eight addresses whose home is one of the last two cells: their chain goes round.
  std::vector<std::uintptr_t> crowd;
  for (std::uintptr_t address = 512; crowd.size() < 8; address += 512) {
    if (home_among_16(address) >= 14) crowd.push_back(address);
  }
  for (unsigned seed = 0; seed < 200; ++seed) {
    TwinTables twins(seed);
    for (const std::uintptr_t address : crowd) twins.insert(address);
    while (twins.size() > 0) {
      twins.erase_any();
      twins.expect_alike();
    }
    // And with some in between that are at home there.
    for (const std::uintptr_t address : crowd) {
      if (twins.size() < 4 || twins.any(1) == 0) twins.insert(address);
      if (twins.any(3) == 0) twins.erase_any();
      twins.expect_alike();
    }
  }
}

TEST(BlockTable, KeepsItsBlocksWhenRoomIsMade) {
  TwinTables twins(1);
  for (std::uintptr_t i = 1; i <= 100; ++i) twins.insert(i * 512);
  twins.expect_alike();
  BlockTable table(0);
  table.insert({.address = 4096, .size = 7});
  table.reserve(10000);
  ASSERT_NE(table.find(4096), nullptr);
  EXPECT_EQ(table.find(4096)->size, 7);
  EXPECT_EQ(table.size(), 1U);
}

TEST(BlockTable, KnowsNoBlockAtNull) {
  BlockTable table;
  EXPECT_EQ(table.find(0), nullptr);
}

TEST(BlockTable, ChangesBlocksInPlace) {
  BlockTable table;
  for (std::uintptr_t i = 1; i <= 50; ++i) table.insert({.address = i * 512});
  table.change_each([](LivingBlock& block) { block.recorded = static_cast<RequestId>(block.address / 512); });
  for (std::uintptr_t i = 1; i <= 50; ++i) EXPECT_EQ(table.find(i * 512)->recorded, i);
}

}  // namespace
}  // namespace stweaver
