// Whatever is asked of the memory of an arena, in any order: no page goes that is in use.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "arena/arena.h"
#include "support/clocked_device.h"
#include "support/page.h"

namespace stweaver {
namespace {

/// Knows which pages have memory, which work used them last and which are in use, and minds what is unmapped.
class Model final : public FailingDevice {
 public:
  explicit Model(ClockedDevice& clocked) : FailingDevice(clocked), clocked_(&clocked) {}

  bool map(std::byte* at, Bytes size) override {
    const bool went_well = FailingDevice::map(at, size);
    for (Bytes page = page_of(at); went_well && page < page_of(at + size); ++page)
      EXPECT_TRUE(mapped_.insert(page).second);
    return went_well;
  }
  bool unmap(std::byte* at, Bytes size) override {
    const bool went_well = FailingDevice::unmap(at, size);
    for (Bytes page = page_of(at); went_well && page < page_of(at + size); ++page) {
      EXPECT_EQ(mapped_.erase(page), 1U);
      EXPECT_FALSE(used_.contains(page)) << "a block lives in page " << page;
      const auto work = works_.find(page);
      if (work == works_.end()) continue;
      EXPECT_TRUE(clocked_->is_behind(kAnotherStream, work->second)) << "work still uses page " << page;
      works_.erase(work);
    }
    return went_well;
  }

  void use(const Interval& range) {
    for (Bytes page = range.lower / kPage; page < range.upper / kPage; ++page) used_.insert(page);
  }
  void leave(const Interval& range, const Work& work) {
    for (Bytes page = range.lower / kPage; page < range.upper / kPage; ++page) {
      used_.erase(page);
      works_[page] = work;
    }
  }

  void begin_at(std::uintptr_t base) { base_ = base; }
  /// The memory's end is near.
  void end() {
    used_.clear();
    works_.clear();
  }
  [[nodiscard]] Bytes mapped() const { return static_cast<Bytes>(mapped_.size()) * kPage; }
  [[nodiscard]] Bytes in_use() const { return static_cast<Bytes>(used_.size()) * kPage; }
  [[nodiscard]] bool has_memory_in_use() const {
    return std::includes(mapped_.begin(), mapped_.end(), used_.begin(), used_.end());
  }

 private:
  static constexpr Stream kAnotherStream = 99;  ///< which waits for nothing

  [[nodiscard]] Bytes page_of(const std::byte* at) const {
    return static_cast<Bytes>(reinterpret_cast<std::uintptr_t>(at) - base_) / kPage;
  }

  ClockedDevice* clocked_;
  std::uintptr_t base_ = 0;
  std::set<Bytes> mapped_;
  std::set<Bytes> used_;
  std::map<Bytes, Work> works_;
};

class RandomMemory : public testing::TestWithParam<unsigned> {
 protected:
  static constexpr Bytes kCapacity = 60 * kPage;
  static constexpr Bytes kSlack = 5 * kPage;

  RandomMemory() {
    policy.addresses = 4;
    policy.least_slack = kSlack;
    policy.slack_share = Bytes{1} << 60U;
    policy.most_extent = 6 * kPage;
    EXPECT_EQ(memory.addresses(), 4 * kCapacity);
    device.begin_at(memory.address_of(0));
  }

  void TearDown() override { device.end(); }

  Bytes any(Bytes most) { return std::uniform_int_distribution<Bytes>(0, most)(random); }
  Interval any_range() {
    const Bytes first = any(4 * kCapacity / kPage - 10);
    return pages(first, first + 1 + any(9));
  }

  void back() {
    const Interval range = any_range();
    const Bytes block = any(1) == 0 ? kPage : 4 * kPage;
    if (any(9) == 0) device.fail_nth(DeviceCall::kMap, 1);
    const bool lacks_memory = memory.missing(range) > 0;
    if (!memory.back(range, {0, 4 * kCapacity}, block, any(1) == 0 ? block : ArenaPolicy().most_extent))
      return;
    ASSERT_EQ(memory.missing(range), 0);
    const Bytes allowed = std::max(most_in_use, device.in_use() + range.length()) + kSlack;
    if (lacks_memory && memory.mapped() > allowed) {
      ASSERT_FALSE(has_idle_extent(range)) << memory.mapped() / kPage << " pages, not " << allowed / kPage;
    }
    if (!memory.take_if(range.lower, range.length(), AnyStream{})) return;
    device.use(range);
    blocks.push_back(range);
    most_in_use = std::max(most_in_use, device.in_use());
  }

  [[nodiscard]] bool has_idle_extent(const Interval& keep) const {
    bool found = false;
    memory.visit_extents({0, 4 * kCapacity}, [&](const Interval& extent) {
      found = !overlaps(extent, keep) && memory.free_space.is_idle(extent.lower, extent.length());
      return !found;
    });
    return found;
  }

  void give() {
    if (blocks.empty()) return;
    std::swap(blocks[static_cast<std::size_t>(any(static_cast<Bytes>(blocks.size()) - 1))], blocks.back());
    const Interval range = blocks.back();
    blocks.pop_back();
    const auto stream = static_cast<Stream>(any(2));
    const StreamIndex index = order.index_of(stream);
    device.leave(range, clocked.work(stream));
    order.advance(++now);
    memory.give(range.lower, range.length(), {index, now});
    order.note_free(index, range.length(), now);
  }

  void reclaim() {
    if (any(3) == 0) device.fail_nth(DeviceCall::kAwait, 1);
    if (any(3) == 0) device.fail_nth(DeviceCall::kUnmap, 1);
    if (any(3) == 0) memory.spare(any_range());
    const Interval keep = any_range();
    const Bytes had = memory.missing(keep);
    const Bytes before = memory.mapped();
    const Bytes reclaimed = memory.reclaim(any(20) * kPage, keep);
    ASSERT_EQ(reclaimed, before - memory.mapped());
    ASSERT_EQ(memory.missing(keep), had);
    device.heal();
  }

  void expect_as_in_the_model() {
    ASSERT_EQ(memory.mapped(), device.mapped());
    ASSERT_EQ(memory.mapped(), device.held());
    ASSERT_EQ(memory.in_use(), device.in_use());
    ASSERT_TRUE(device.has_memory_in_use());
  }

  ClockedDevice clocked{kCapacity};
  Model device{clocked};
  ArenaPolicy policy;
  StreamOrder order{device, 3 * kPage};
  Memory memory{device, order, policy};
  std::mt19937 random{GetParam()};
  std::vector<Interval> blocks;
  Bytes most_in_use = 0;
  Tick now = 0;
};

TEST_P(RandomMemory, IsAsInTheModel) {
  for (int i = 0; i < 4000 && !HasFailure(); ++i) {
    const Bytes what = any(9);
    if (what < 5) {
      back();
    } else if (what < 8) {
      give();
    } else if (what == 8) {
      reclaim();
    } else {
      clocked.finish(static_cast<Stream>(any(2)));
    }
    expect_as_in_the_model();
  }
  EXPECT_GT(memory.statistics().unmaps, 100);
  EXPECT_GT(most_in_use, kCapacity / 2);
}
INSTANTIATE_TEST_SUITE_P(Memory, RandomMemory, testing::Range(0U, 6U));

}  // namespace
}  // namespace stweaver
