#include "device/event_table.h"

#include <gtest/gtest.h>

namespace stweaver {
namespace {

TEST(EventTable, UsesSlotsAgain) {
  EventTable events;
  const DeviceEvent first = events.add();
  const DeviceEvent second = events.add();
  EXPECT_EQ(events.find(first), 0U);
  EXPECT_EQ(events.find(second), 1U);
  EXPECT_TRUE(events.remove(first));
  const DeviceEvent third = events.add();
  EXPECT_EQ(events.find(third), 0U);
  EXPECT_NE(third, first);
}

TEST(EventTable, KnowsNoRemovedEventEvenWhenItsSlotIsUsedAgain) {
  EventTable events;
  const DeviceEvent first = events.add();
  EXPECT_TRUE(events.remove(first));
  EXPECT_EQ(events.find(first), std::nullopt);
  EXPECT_FALSE(events.remove(first));
  events.add();
  EXPECT_EQ(events.find(first), std::nullopt);
  EXPECT_FALSE(events.remove(first));
}

TEST(EventTable, NoEventIsNeverAnEvent) {
  EventTable events;
  EXPECT_EQ(events.find(kNoEvent), std::nullopt);
  EXPECT_NE(events.add(), kNoEvent);
  EXPECT_EQ(events.find(kNoEvent), std::nullopt);
  EXPECT_FALSE(events.remove(kNoEvent));
}

}  // namespace
}  // namespace stweaver
