// The contract of Device (device/model.h), which every device must keep.

#include "device/device.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/base.h"
#include "support/refusals.h"

namespace stweaver {
namespace {

constexpr Bytes kWord = 4;
constexpr std::uint32_t kPattern = 0x5eed0001;
constexpr std::uint32_t kOther = 0x07e40002;

/// A FailingDevice together with the host device behind it.
class Wrapped : public FailingDevice {
 public:
  explicit Wrapped(std::unique_ptr<Device> inner) : FailingDevice(*inner), inner_(std::move(inner)) {}

 private:
  std::unique_ptr<Device> inner_;
};

struct Kind {
  std::string name;
  std::unique_ptr<Device> (*open)();
};

std::unique_ptr<Device> open_host() {
  return std::make_unique<HostDevice>(256 * kMiB);
}

std::unique_ptr<Device> open_wrapped() {
  return std::make_unique<Wrapped>(open_host());
}

std::unique_ptr<Device> open_gpu() {
  return open_cuda(0);
}

std::vector<Kind> find_kinds() {
  std::vector<Kind> found = {{"Host", open_host}, {"FailingThatFailsNothing", open_wrapped}};
  try {
    open_gpu();
    found.push_back({"Cuda", open_gpu});
  } catch (const Error& error) {
    std::cerr << "no CUDA device is tested: " << error.what() << "\n";
  }
  return found;
}

/// Looked for once: GoogleTest asks for every test.
const std::vector<Kind>& kinds() {
  static const std::vector<Kind> found = find_kinds();
  return found;
}

class DeviceContract : public testing::TestWithParam<Kind> {
 protected:
  [[nodiscard]] Device& device() const { return *device_; }
  [[nodiscard]] Bytes page() const { return device_->page_size(); }

  void expect_filled(const std::byte* at, Bytes size, std::uint32_t value) const {
    EXPECT_EQ(device_->count_other(at, size, value, 0), 0) << device_->failure();
  }

 private:
  std::unique_ptr<Device> device_ = GetParam().open();
};

INSTANTIATE_TEST_SUITE_P(On, DeviceContract, testing::ValuesIn(kinds()),
                         [](const testing::TestParamInfo<Kind>& kind) { return kind.param.name; });

TEST_P(DeviceContract, IntroducesItself) {
  EXPECT_NE(device().name(), "");
  EXPECT_GT(device().memory().total, 0);
  EXPECT_GT(device().memory().free, 0);
  EXPECT_LE(device().memory().free, device().memory().total);
  EXPECT_EQ(device().failure(), "");
}

TEST_P(DeviceContract, AllocatesAlignedBlocksThatShareNothing) {
  const std::array<Bytes, 5> sizes = {4, 512, 516, 2 * kMiB, 3 * kMiB + 4};
  std::vector<std::byte*> blocks;
  for (const Bytes size : sizes) {
    blocks.push_back(device().allocate(size));
    ASSERT_NE(blocks.back(), nullptr) << device().failure();
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(blocks.back()) % kAlignment, 0U);
    EXPECT_TRUE(device().fill(blocks.back(), size, kPattern + static_cast<std::uint32_t>(size), 0));
  }
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    expect_filled(blocks[i], sizes[i], kPattern + static_cast<std::uint32_t>(sizes[i]));
    EXPECT_TRUE(device().free(blocks[i]));
  }
  EXPECT_EQ(device().failure(), "");
}

TEST_P(DeviceContract, RefusesABlockOfNoSize) {
  EXPECT_EQ(device().allocate(0), nullptr);
  expect_failure(device(), "allocate(0): ");
  EXPECT_EQ(device().allocate(-512), nullptr);
  expect_failure(device(), "allocate(-512): ");
}

TEST_P(DeviceContract, RefusesMoreThanItHasAndGoesOn) {
  const Bytes too_much = device().memory().total + kMiB;
  EXPECT_EQ(device().allocate(too_much), nullptr);
  expect_failure(device(), text("allocate(", too_much, "): "));
  EXPECT_THAT(device().failure(), testing::HasSubstr("out of memory"));
  std::byte* const block = device().allocate(kMiB);
  ASSERT_NE(block, nullptr) << device().failure();
  EXPECT_TRUE(device().free(block));
}

TEST_P(DeviceContract, GivesFreedMemoryOutAgain) {
  const Bytes most = device().memory().free / 2;
  for (int round = 0; round < 4; ++round) {
    std::byte* const block = device().allocate(most);
    ASSERT_NE(block, nullptr) << device().failure();
    EXPECT_TRUE(device().free(block));
  }
}

TEST_P(DeviceContract, FreesOnlyWhatItAllocated) {
  std::byte foreign{};
  std::byte* const block = device().allocate(kMiB);
  std::byte* const range = device().reserve(page());
  for (std::byte* const wrong : {&foreign, block + kAlignment, range, static_cast<std::byte*>(nullptr)}) {
    EXPECT_FALSE(device().free(wrong));
    expect_failure(device(), "free(");
  }
  EXPECT_TRUE(device().free(block));
  EXPECT_FALSE(device().free(block));
  EXPECT_TRUE(device().release(range, page()));
}

TEST_P(DeviceContract, ReservesAddressesWithoutMemory) {
  const Bytes before = device().memory().free;
  const Bytes size = align_up(device().memory().total, page()) * 2;
  std::byte* const range = device().reserve(size);
  ASSERT_NE(range, nullptr) << device().failure();
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(range) % static_cast<std::uintptr_t>(page()), 0U);
  EXPECT_GT(device().memory().free, before / 2);
  EXPECT_TRUE(device().release(range, size));
}

TEST_P(DeviceContract, ReservesWholePagesOnly) {
  for (const Bytes size : {Bytes{0}, -page(), page() - 1, page() + kAlignment}) {
    EXPECT_EQ(device().reserve(size), nullptr);
    expect_failure(device(), text("reserve(", size, "): "));
  }
}

TEST_P(DeviceContract, MapsMemoryAndUnmappingGivesItBack) {
  const Bytes size = 32 * page();
  std::byte* const range = device().reserve(size);
  ASSERT_NE(range, nullptr) << device().failure();
  const Bytes before = device().memory().free;
  ASSERT_TRUE(device().map(range, size)) << device().failure();
  EXPECT_LE(device().memory().free, before - size);
  EXPECT_TRUE(device().fill(range, size, kPattern, 0));
  expect_filled(range, size, kPattern);
  EXPECT_TRUE(device().synchronize());
  const Bytes mapped = device().memory().free;  // the device may have taken more for itself by now
  EXPECT_TRUE(device().unmap(range, size));
  EXPECT_GE(device().memory().free, mapped + size);
  EXPECT_TRUE(device().release(range, size));
}

TEST_P(DeviceContract, MapsPieceByPieceInAnyOrder) {
  std::byte* const range = device().reserve(4 * page());
  ASSERT_TRUE(device().map(range + 2 * page(), 2 * page())) << device().failure();
  ASSERT_TRUE(device().map(range, page())) << device().failure();
  ASSERT_TRUE(device().map(range + page(), page())) << device().failure();
  EXPECT_TRUE(device().fill(range, 4 * page(), kPattern, 0));
  EXPECT_TRUE(device().synchronize());

  EXPECT_TRUE(device().unmap(range + page(), page()));
  ASSERT_TRUE(device().map(range + page(), page())) << device().failure();
  EXPECT_TRUE(device().fill(range + page(), page(), kOther, 0));
  expect_filled(range, page(), kPattern);
  expect_filled(range + page(), page(), kOther);
  expect_filled(range + 2 * page(), 2 * page(), kPattern);

  EXPECT_TRUE(device().unmap(range, page()));
  EXPECT_TRUE(device().unmap(range + page(), page()));
  EXPECT_TRUE(device().unmap(range + 2 * page(), 2 * page()));
  EXPECT_TRUE(device().release(range, 4 * page()));
  EXPECT_EQ(device().failure(), "");
}

TEST_P(DeviceContract, MapsOnlyWholeFreePagesOfARange) {
  std::byte foreign{};
  std::byte* const range = device().reserve(4 * page());
  ASSERT_TRUE(device().map(range + page(), page())) << device().failure();
  const auto refused = [&](std::byte* at, Bytes size) {
    EXPECT_FALSE(device().map(at, size));
    expect_failure(device(), "map(");
  };
  refused(range + page(), page());      // mapped already
  refused(range, 2 * page());           // its end is
  refused(range + page(), 2 * page());  // its beginning is
  refused(range, 4 * page());           // its middle is
  refused(range, 0);
  refused(range, -page());
  refused(range, page() / 2);
  refused(range + 2 * page() + kAlignment, page());
  refused(range + 3 * page(), 2 * page());  // ends outside
  refused(range + 4 * page(), page());
  refused(&foreign, page());
  refused(nullptr, page());
  ASSERT_TRUE(device().map(range, page())) << device().failure();
  EXPECT_TRUE(device().unmap(range, page()));
  EXPECT_TRUE(device().unmap(range + page(), page()));
  EXPECT_TRUE(device().release(range, 4 * page()));
}

TEST_P(DeviceContract, UnmapsExactlyWhatOneMapMapped) {
  std::byte foreign{};
  std::byte* const range = device().reserve(4 * page());
  ASSERT_TRUE(device().map(range, 2 * page())) << device().failure();
  ASSERT_TRUE(device().map(range + 2 * page(), page())) << device().failure();
  const auto refused = [&](std::byte* at, Bytes size) {
    EXPECT_FALSE(device().unmap(at, size));
    expect_failure(device(), "unmap(");
  };
  refused(range, page());           // part of one
  refused(range + page(), page());  // the rest of it
  refused(range, 3 * page());       // two at once
  refused(range + 3 * page(), page());
  refused(&foreign, page());
  EXPECT_TRUE(device().unmap(range, 2 * page()));
  refused(range, 2 * page());
  EXPECT_TRUE(device().unmap(range + 2 * page(), page()));
  EXPECT_TRUE(device().release(range, 4 * page()));
}

TEST_P(DeviceContract, ReleasesExactlyWhatItReservedAndNotWhileMapped) {
  std::byte foreign{};
  std::byte* const range = device().reserve(2 * page());
  ASSERT_TRUE(device().map(range + page(), page())) << device().failure();
  const auto refused = [&](std::byte* at, Bytes size) {
    EXPECT_FALSE(device().release(at, size));
    expect_failure(device(), "release(");
  };
  refused(range, 2 * page());
  EXPECT_TRUE(device().unmap(range + page(), page()));
  refused(range, page());
  refused(range + page(), page());
  refused(&foreign, page());
  EXPECT_TRUE(device().release(range, 2 * page()));
  refused(range, 2 * page());
}

TEST_P(DeviceContract, RefusesToMapMoreThanItHasAndGoesOn) {
  const Bytes size = align_up(device().memory().total, page()) + page();
  std::byte* const range = device().reserve(size);
  ASSERT_NE(range, nullptr) << device().failure();
  EXPECT_FALSE(device().map(range, size));
  expect_failure(device(), "map(");
  EXPECT_THAT(device().failure(), testing::HasSubstr(text(size)));
  EXPECT_THAT(device().failure(), testing::HasSubstr("out of memory"));
  EXPECT_TRUE(device().map(range, page()));
  EXPECT_TRUE(device().unmap(range, page()));
  EXPECT_TRUE(device().release(range, size));
}

TEST_P(DeviceContract, AnEventHasPassedWhenAllWorkIsOver) {
  std::byte* const block = device().allocate(kMiB);
  EXPECT_TRUE(device().fill(block, kMiB, kPattern, 0));
  const DeviceEvent event = device().record(0);
  ASSERT_NE(event, kNoEvent) << device().failure();
  EXPECT_TRUE(device().wait(0, event));
  EXPECT_TRUE(device().synchronize());
  EXPECT_TRUE(device().passed(event));
  device().forget(event);
  EXPECT_EQ(device().failure(), "");
  EXPECT_TRUE(device().free(block));
}

TEST_P(DeviceContract, KnowsOnlyEventsThatItRecordedAndNobodyForgot) {
  const DeviceEvent forgotten = device().record(0);
  const DeviceEvent kept = device().record(0);
  device().forget(forgotten);
  const DeviceEvent later = device().record(0);  // may use what the forgotten one used
  EXPECT_TRUE(device().synchronize());
  constexpr DeviceEvent kForeign = 0x7fff12345678;
  for (const DeviceEvent wrong : {forgotten, kNoEvent, kForeign}) {
    EXPECT_FALSE(device().wait(0, wrong));
    expect_failure(device(), "wait(");
    EXPECT_FALSE(device().passed(wrong));
    expect_failure(device(), "passed(");
    device().forget(wrong);
    expect_failure(device(), "forget(");
  }
  EXPECT_TRUE(device().passed(kept));
  EXPECT_TRUE(device().passed(later));
}

TEST_P(DeviceContract, ManyEventsAreToldApart) {
  std::set<DeviceEvent> seen;
  for (int round = 0; round < 3; ++round) {
    std::vector<DeviceEvent> events(100);
    for (DeviceEvent& event : events) event = device().record(0);
    seen.insert(events.begin(), events.end());
    for (const DeviceEvent event : events) device().forget(event);
  }
  EXPECT_EQ(seen.size(), 300U);
  EXPECT_EQ(device().failure(), "");
}

TEST_P(DeviceContract, CountsEveryWordThatIsAnother) {
  const Bytes words = 5 * kMiB / kWord + 7;  // not a round number of anything
  const Bytes size = words * kWord;
  std::byte* const block = device().allocate(size);
  ASSERT_TRUE(device().fill(block, size, kPattern, 0)) << device().failure();
  EXPECT_EQ(device().count_other(block, size, kPattern, 0), 0);
  EXPECT_EQ(device().count_other(block, size, kOther, 0), words);
  for (const Bytes word : {Bytes{0}, Bytes{1}, words / 2, words - 1}) {
    EXPECT_TRUE(device().fill(block + word * kWord, kWord, kOther, 0));
    EXPECT_EQ(device().count_other(block, size, kPattern, 0), 1) << "word " << word;
    EXPECT_TRUE(device().fill(block + word * kWord, kWord, kPattern, 0));
  }
  EXPECT_TRUE(device().free(block));
}

TEST_P(DeviceContract, CountsInsideTheRangeOnly) {
  std::byte* const block = device().allocate(4096);
  EXPECT_TRUE(device().fill(block, 4096, kOther, 0));
  EXPECT_TRUE(device().fill(block + 1028, 1004, kPattern, 0));
  EXPECT_EQ(device().count_other(block + 1028, 1004, kPattern, 0), 0);
  EXPECT_EQ(device().count_other(block + 1024, 1012, kPattern, 0), 2);
  EXPECT_TRUE(device().fill(block, 0, kPattern, 0));
  EXPECT_EQ(device().count_other(block, 0, kPattern, 0), 0);
  EXPECT_EQ(device().count_other(block, 1028, kOther, 0), 0);
  EXPECT_TRUE(device().free(block));
}

TEST_P(DeviceContract, FillsAndCountsWholeWordsOnly) {
  std::byte* const block = device().allocate(4096);
  const auto refused = [&](std::byte* at, Bytes size) {
    EXPECT_FALSE(device().fill(at, size, kPattern, 0));
    expect_failure(device(), "fill(");
    EXPECT_EQ(device().count_other(at, size, kPattern, 0), -1);
    expect_failure(device(), "count_other(");
  };
  refused(block, 6);
  refused(block, -4);
  refused(block + 2, 8);
  EXPECT_TRUE(device().free(block));
}

/// One thread's turn: its own memory of both sorts, which nobody else may touch.
void use_alone(Device& device, std::uint32_t value) {
  const Bytes page = device.page_size();
  std::byte* const block = device.allocate(kMiB);
  std::byte* const range = device.reserve(2 * page);
  ASSERT_NE(block, nullptr) << device.failure();
  ASSERT_NE(range, nullptr) << device.failure();
  ASSERT_TRUE(device.map(range, 2 * page)) << device.failure();
  EXPECT_TRUE(device.fill(block, kMiB, value, 0));
  EXPECT_TRUE(device.fill(range, 2 * page, value, 0));
  const DeviceEvent event = device.record(0);
  EXPECT_TRUE(device.wait(0, event));
  EXPECT_EQ(device.count_other(block, kMiB, value, 0), 0);
  EXPECT_EQ(device.count_other(range, 2 * page, value, 0), 0);
  EXPECT_TRUE(device.synchronize());
  EXPECT_TRUE(device.passed(event));
  device.forget(event);
  EXPECT_TRUE(device.unmap(range, 2 * page));
  EXPECT_TRUE(device.release(range, 2 * page));
  EXPECT_TRUE(device.free(block));
}

TEST_P(DeviceContract, ServesManyThreads) {
  std::vector<std::thread> threads;
  for (std::uint32_t thread = 0; thread < 4; ++thread) {
    threads.emplace_back([this, thread] {
      for (std::uint32_t round = 0; round < 10; ++round) use_alone(device(), 100 * thread + round);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(device().failure(), "");
}

TEST_P(DeviceContract, FreesInAnotherThread) {
  std::byte* const block = device().allocate(kMiB);
  bool freed = false;
  std::thread([&] { freed = device().free(block); }).join();
  EXPECT_TRUE(freed);
}

TEST_P(DeviceContract, CanGoWhileMemoryIsStillOut) {
  const std::unique_ptr<Device> watch = GetParam().open();
  for (int round = 0; round < 3; ++round) {
    const std::unique_ptr<Device> left = GetParam().open();
    std::byte* const range = left->reserve(4 * left->page_size());
    EXPECT_NE(left->allocate(kMiB), nullptr);
    EXPECT_TRUE(left->map(range, 2 * left->page_size()));
    EXPECT_TRUE(left->fill(range, 2 * left->page_size(), kPattern, 0));
    EXPECT_NE(left->record(0), kNoEvent);
  }
  std::byte* const block = watch->allocate(kMiB);
  EXPECT_NE(block, nullptr) << watch->failure();
  EXPECT_TRUE(watch->free(block));
}

}  // namespace
}  // namespace stweaver
