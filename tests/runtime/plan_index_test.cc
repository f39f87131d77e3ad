#include "runtime/plan_index.h"

#include <algorithm>
#include <cstddef>
#include <random>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stweaver {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

Slot slot_on(Bytes size, Bytes offset, Stream stream, Time death, bool varying = false) {
  return {.size = size, .offset = offset, .stream = stream, .death = death, .varying = varying};
}

Plan plan_with(std::vector<Slot> slots, std::size_t prologue = 0) {
  Plan plan;
  plan.prologue = prologue;
  for (const Slot& one : slots) plan.arena = std::max(plan.arena, one.offset + one.size);
  plan.slots = std::move(slots);
  return plan;
}

std::vector<std::uint32_t> slots_of(const PlannedStream& stream) {
  std::vector<std::uint32_t> slots;
  for (const Entry& entry : stream.entries) slots.push_back(entry.slot);
  return slots;
}

TEST(PlanIndex, SortsSlotsByStreamInTheirOrder) {
  const PlanIndex index(
      plan_with({slot_on(512, 0, 0, kForever), slot_on(512, 512, 7, kForever), slot_on(512, 1024, 0, 3),
                 slot_on(512, 1024, 7, 4), slot_on(512, 1536, 0, 5)},
                2));
  ASSERT_THAT(index.streams(), SizeIs(2));
  EXPECT_EQ(index.streams()[0].stream, 0U);
  EXPECT_THAT(slots_of(index.streams()[0]), ElementsAre(0, 2, 4));
  EXPECT_EQ(index.streams()[0].prologue, 1U);
  EXPECT_EQ(index.streams()[1].stream, 7U);
  EXPECT_THAT(slots_of(index.streams()[1]), ElementsAre(1, 3));
  EXPECT_EQ(index.streams()[1].prologue, 1U);
}

TEST(PlanIndex, TellsHowEachSlotIsRecognized) {
  const PlanIndex index(plan_with({slot_on(512, 0, 0, 1), slot_on(kMiB, 0, 0, 2, true),
                                   slot_on(kMiB, kUnplanned, 0, 3, true), slot_on(512, kUnplanned, 0, 4)}));
  const std::vector<Entry>& entries = index.streams().front().entries;
  EXPECT_FALSE(entries[0].of_any_size);
  EXPECT_TRUE(entries[0].planned);
  EXPECT_TRUE(entries[1].of_any_size);
  EXPECT_TRUE(entries[1].planned);
  EXPECT_TRUE(entries[2].of_any_size);
  EXPECT_FALSE(entries[2].planned);
  EXPECT_FALSE(entries[3].of_any_size);
  EXPECT_FALSE(entries[3].planned);
}

TEST(PlanIndex, OfAnEmptyPlanIsEmpty) {
  const PlanIndex index{Plan()};
  EXPECT_THAT(index.streams(), IsEmpty());
  EXPECT_EQ(index.most_alive(), 0);
}

TEST(PlanIndex, HandsOverWhatAnotherStreamHasBytesOf) {
  const PlanIndex index(plan_with({slot_on(1024, 0, 0, 1), slot_on(512, 512, 7, 2), slot_on(512, 1024, 0, 3),
                                   slot_on(512, 1536, 7, 4), slot_on(512, kUnplanned, 7, 5)}));
  std::vector<bool> hands_over;
  for (std::uint32_t i = 0; i < 5; ++i) hands_over.push_back(index.layout().hands_over(i));
  EXPECT_THAT(hands_over, ElementsAre(true, true, false, false, false));
}

TEST(PlanIndex, HandsOverAsComparingAllPairsTells) {
  std::mt19937 random(1);
  const auto any = [&](Bytes most) { return std::uniform_int_distribution<Bytes>(0, most)(random); };
  for (int round = 0; round < 20; ++round) {
    std::vector<Slot> slots;
    for (Time i = 0; i < 40; ++i) {
      slots.push_back(slot_on((any(3) + 1) * 512, any(9) == 0 ? kUnplanned : any(150) * 512,
                              static_cast<Stream>(any(2)), i + 1));
    }
    const PlanIndex index(plan_with(slots));
    for (std::uint32_t i = 0; i < slots.size(); ++i) {
      const bool wanted = std::any_of(slots.begin(), slots.end(), [&](const Slot& other) {
        return other.stream != slots[i].stream && other.offset != kUnplanned &&
               slots[i].offset != kUnplanned &&
               overlaps({other.offset, other.offset + other.size},
                        {slots[i].offset, slots[i].offset + slots[i].size});
      });
      EXPECT_EQ(index.layout().hands_over(i), wanted);
    }
  }
}

TEST(PlanIndex, OfOneStreamHandsNothingOver) {
  const PlanIndex index(plan_with({slot_on(512, 0, 3, 1), slot_on(512, 0, 3, 2)}));
  EXPECT_FALSE(index.layout().hands_over(0) || index.layout().hands_over(1));
}

TEST(PlanIndex, CountsTheMostThatLiveAtOnce) {
  // A prologue of one, and a step of three of which the last lives on into the next step.
  const PlanIndex index(plan_with({slot_on(512, 0, 0, kForever), slot_on(512, 512, 0, 2),
                                   slot_on(512, 1024, 0, 4), slot_on(512, 1536, 0, 5)},
                                  1));
  EXPECT_EQ(index.most_alive(), 3);
}

TEST(PlanIndex, CountsAsListingAllLivesTells) {
  std::mt19937 random(2);
  const auto any = [&](std::size_t most) {
    return std::uniform_int_distribution<std::size_t>(0, most)(random);
  };
  for (int round = 0; round < 50; ++round) {
    const std::size_t prologue = any(10);
    const std::size_t step = any(20) + 1;
    std::vector<Slot> slots;
    for (std::size_t i = 0; i < prologue + step; ++i) {
      const bool forever = i < prologue && any(1) == 0;
      slots.push_back(slot_on(512 * static_cast<Bytes>(any(3) + 1), 0, 0,
                              forever ? kForever : static_cast<Time>(i + 1 + any(step - 1))));
    }
    const PlanIndex index(plan_with(slots, prologue));
    std::int64_t most = 0;
    for (std::size_t now = 0; now < prologue + 3 * step; ++now) {
      std::int64_t alive = 0;
      Bytes bytes = 0;
      for (std::size_t i = 0; i < slots.size(); ++i) {
        for (std::size_t turn = 0; turn < (i < prologue ? 1U : 3U); ++turn) {
          const Time shift = static_cast<Time>(turn * step);
          const bool born = i + turn * step <= now;
          const bool dead = slots[i].death != kForever && slots[i].death + shift <= static_cast<Time>(now);
          if (!born || dead) continue;
          ++alive;
          bytes += slots[i].size;
        }
      }
      most = std::max(most, alive);
      const bool comes_again = now >= prologue + step;
      const std::size_t slot = now < prologue ? now : prologue + (now - prologue) % step;
      if (slot < prologue || comes_again) {
        EXPECT_EQ(index.alive_before(slot), bytes - slots[slot].size);
      }
    }
    EXPECT_EQ(index.most_alive(), most);
  }
}

std::uint64_t hash_of(const std::vector<Bytes>& sizes) {
  SizeTrail trail;
  for (const Bytes size : sizes) trail.add(size);
  return trail.hash(kAlignment).value();
}

TEST(SizeTrail, SaysNothingBeforeItHasSizesEnough) {
  SizeTrail trail;
  for (std::size_t i = 1; i < kAnchor; ++i) {
    trail.add(512);
    EXPECT_EQ(trail.hash(kAlignment), std::nullopt);
  }
  trail.add(512);
  EXPECT_TRUE(trail.hash(kAlignment).has_value());
  trail.clear();
  EXPECT_EQ(trail.hash(kAlignment), std::nullopt);
}

TEST(SizeTrail, KnowsTheLastSizesAndTheirOrderOnly) {
  const std::vector<Bytes> sizes = {1, 2000, 3000, 4000, 5000, 6000, 7000, 8000};
  ASSERT_EQ(sizes.size(), kAnchor);
  std::vector<Bytes> longer = {77, 7777, 777777};
  longer.insert(longer.end(), sizes.begin(), sizes.end());
  EXPECT_EQ(hash_of(sizes), hash_of(longer));
  std::vector<Bytes> swapped = sizes;
  std::swap(swapped[2], swapped[3]);
  EXPECT_NE(hash_of(sizes), hash_of(swapped));
  std::vector<Bytes> other = sizes;
  other.front() = 513;
  EXPECT_NE(hash_of(sizes), hash_of(other));
  other.front() = 512;
  EXPECT_EQ(hash_of(sizes), hash_of(other)) << "rounded up to the alignment";
}

TEST(PlanIndex, FindsAnchorsByHashWhereverTheSizesAreKnown) {
  std::vector<Slot> slots;
  for (Bytes i = 0; i < 30; ++i)
    slots.push_back(slot_on((i % 10 + 1) * 512, i * 8192, 0, static_cast<Time>(i) + 1));
  slots[20].varying = true;
  const PlanIndex index(plan_with(slots));
  const std::vector<PlannedStream::Anchor>& anchors = index.streams().front().anchors;
  EXPECT_THAT(anchors, SizeIs(13 + 2)) << "7 to 19, and 28 and 29 behind the one that varies";
  EXPECT_TRUE(std::is_sorted(anchors.begin(), anchors.end(), [](const auto& a, const auto& b) {
    return std::pair(a.hash, a.entry) < std::pair(b.hash, b.entry);
  }));
  for (const PlannedStream::Anchor& anchor : anchors) {
    std::vector<Bytes> sizes;
    for (std::size_t i = anchor.entry + 1 - kAnchor; i <= anchor.entry; ++i) sizes.push_back(slots[i].size);
    EXPECT_EQ(anchor.hash, hash_of(sizes));
  }
}

}  // namespace
}  // namespace stweaver
