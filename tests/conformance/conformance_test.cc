// What every allocator of the project must do, whatever it is made of (under_test.h lists them).
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/errors.h"
#include "support/ledger.h"
#include "support/under_test.h"

namespace stweaver {
namespace {

constexpr Bytes kLargest = 100 * kMiB;

class Conformance : public testing::TestWithParam<Candidate> {
 protected:
  static bool real_memory() { return GetParam().real_memory; }

  void start(Bytes capacity) {
    allocator_.reset();
    device_.reset();
    real_ = GetParam().open(capacity);
    device_ = std::make_unique<FailingDevice>(*real_);
    device_->limit(capacity);
    allocator_ = GetParam().make(*device_);
  }

  /// Asks for a block, enters it into the ledger and writes its identity into it. False when out of memory.
  bool allocate(Bytes size, Stream stream) {
    const std::optional<Address> address = allocator_->allocate(size, stream);
    if (!address) return false;
    const std::lock_guard lock(mutex_);
    const Tenant tenant{*address, size, stream, static_cast<std::uint32_t>(mix_hash(1, ++blocks_))};
    EXPECT_EQ(*address % kAlignment, 0U) << size << " bytes";
    EXPECT_TRUE(ledger_.add(tenant));
    EXPECT_TRUE(!real_memory() || stamp(*device_, tenant)) << device_->failure();
    return true;
  }

  /// Frees the block that is `number`-th by address, if it is still what it was.
  void free(std::size_t number) {
    Tenant tenant;
    {
      const std::lock_guard lock(mutex_);
      if (ledger_.empty()) return;
      tenant = ledger_.remove(number);
      EXPECT_TRUE(!real_memory() || stamped(*device_, tenant))
          << tenant.size << " bytes at " << tenant.address;
    }
    allocator_->free(tenant.address);
  }

  void free_all() {
    while (!ledger_.empty()) free(0);
  }

  /// No fewer bytes are reserved than live, no more than there are, and just those that the device misses.
  void check_reserved() const {
    const Bytes reserved = allocator_->reserved();
    const DeviceMemory memory = device_->memory();
    ASSERT_GE(reserved, ledger_.bytes());
    ASSERT_LE(reserved, memory.total);
    if (!real_memory()) return;
    ASSERT_EQ(reserved, memory.total - memory.free);
  }

  std::unique_ptr<Device> real_;
  std::unique_ptr<FailingDevice> device_;  ///< as much of the real one as a test wants
  std::unique_ptr<UnderTest> allocator_;
  Ledger ledger_;

 private:
  std::mutex mutex_;
  std::uint64_t blocks_ = 0;
};

TEST_P(Conformance, AlignsEveryBlock) {
  start(kGiB);
  for (const Bytes size : {Bytes{1}, Bytes{511}, Bytes{512}, Bytes{513}, kMiB - 1, kMiB, kMiB + 1, 10 * kMiB,
                           10 * kMiB + 1, kLargest}) {
    for (const Stream stream : {0U, 1U, 0U}) EXPECT_TRUE(allocate(size, stream));
  }
  check_reserved();
  free_all();
}

TEST_P(Conformance, GivesNothingForNothing) {
  start(kGiB);
  const Bytes reserved = allocator_->reserved();
  EXPECT_EQ(allocator_->allocate(0, 0), std::nullopt);
  allocator_->free(0);
  EXPECT_EQ(allocator_->reserved(), reserved);
}

TEST_P(Conformance, SurvivesSizesThatMakeNoSense) {
  using Limits = std::numeric_limits<Bytes>;
  start(256 * kMiB);
  EXPECT_TRUE(allocate(3 * kMiB, 0));
  for (const Bytes size : {Bytes{-1}, Limits::min(), Bytes{1} << 62U, Limits::max(), Limits::max() - 511}) {
    SCOPED_TRACE(size);
    try {
      EXPECT_EQ(allocator_->allocate(size, 0), std::nullopt);
    } catch (const Error& error) {
      EXPECT_LT(size, 0) << error.what();  // too much is out of memory, not a mistake
      EXPECT_THAT(error.what(), testing::Not(testing::HasSubstr("\n")));
    }
    check_reserved();
    EXPECT_TRUE(allocate(3 * kMiB, 0));
  }
  free_all();
}

TEST_P(Conformance, RefusesADoubleFree) {
  start(kGiB);
  EXPECT_TRUE(allocate(3 * kMiB, 0));
  const Address block = allocator_->allocate(3 * kMiB, 0).value();
  allocator_->free(block);
  const Bytes reserved = allocator_->reserved();
  EXPECT_NE(refusal([&] { allocator_->free(block); }), "");
  EXPECT_EQ(allocator_->reserved(), reserved);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(allocate(3 * kMiB, 0));  // twice in a pool it would be given twice
  free_all();
}

TEST_P(Conformance, RefusesAddressesThatItDidNotGive) {
  start(kGiB);
  const Address block = allocator_->allocate(3 * kMiB, 0).value();
  const Bytes reserved = allocator_->reserved();
  const auto elsewhere = std::bit_cast<Address>(&block);
  for (const Address address : {Address{1}, Address{512}, elsewhere, block + 1, block + 512, block - 512,
                                block + 3 * kMiB, std::numeric_limits<Address>::max()}) {
    EXPECT_NE(refusal([&] { allocator_->free(address); }), "");
  }
  EXPECT_EQ(allocator_->reserved(), reserved);
  allocator_->free(block);
}

TEST_P(Conformance, TakesABlockBackFromAnotherThread) {
  start(64 * kMiB);
  for (int round = 0; round < 3; ++round) {  // more than fits at a time
    ASSERT_TRUE(allocate(40 * kMiB, 0));
    std::thread([this] { free_all(); }).join();
  }
}

/// Random requests of all sizes on a few streams.
class Requests {
 public:
  explicit Requests(std::uint64_t seed) : random_(seed) {}

  std::uint64_t up_to(std::uint64_t limit) { return random_() % limit; }

  /// 1 byte to 100 MiB, small ones as often as large ones.
  Bytes size() {
    const auto limit = std::uint64_t{2} << up_to(27);
    return static_cast<Bytes>(1 + up_to(std::min(limit, static_cast<std::uint64_t>(kLargest))));
  }

  Stream stream() { return up_to(3); }

 private:
  std::mt19937_64 random_;
};

TEST_P(Conformance, NeverLetsBlocksShareAByte) {
  constexpr int kCalls = 800;
  for (const std::uint64_t seed : {1U, 2U, 3U}) {
    SCOPED_TRACE(seed);
    start(256 * kMiB);
    Requests requests(seed);
    int failed = 0;
    for (int call = 0; call < kCalls && !HasFailure(); ++call) {
      const std::uint64_t kind = requests.up_to(100);
      if (kind == 0) {
        allocator_->empty_cache();
      } else if (kind < 40) {
        free(requests.up_to(1000));
      } else if (!allocate(requests.size(), requests.stream())) {
        ++failed;
      }
      check_reserved();
    }
    EXPECT_GT(failed, 0);  // else the memory was too ample to test anything
    EXPECT_LT(failed, kCalls / 4);
    free_all();
  }
}

TEST_P(Conformance, ServesManyThreadsAtOnce) {
  start(256 * kMiB);
  const auto work = [this](std::uint64_t seed) {
    Requests requests(seed);
    for (int call = 0; call < 1000; ++call) {
      if (requests.up_to(2) == 0) {
        free(requests.up_to(1000));  // anybody's
      } else {
        allocate(std::min(requests.size(), kMiB), requests.stream());
      }
      if (requests.up_to(100) == 0) allocator_->empty_cache();
    }
  };
  std::vector<std::thread> threads;
  for (std::uint64_t seed = 1; seed <= 4; ++seed) threads.emplace_back(work, seed);
  for (std::thread& thread : threads) thread.join();
  check_reserved();
  free_all();
}

TEST_P(Conformance, RecoversFromExhaustion) {
  start(100 * kMiB);
  const auto fill = [this](Stream stream) {
    int blocks = 0;
    while (allocate(3 * kMiB, stream)) ++blocks;
    check_reserved();
    return blocks;
  };
  const int blocks = fill(0);
  EXPECT_GE(blocks, 25);
  EXPECT_FALSE(allocate(3 * kMiB, 0));  // and it stays so
  free_all();
  EXPECT_EQ(fill(0), blocks);
  free_all();
  EXPECT_GE(fill(1), blocks);  // what one stream left is there for the next
  free_all();
  EXPECT_TRUE(allocate(60 * kMiB, 2));  // in larger pieces, too
  free_all();
}

TEST_P(Conformance, FindsRoomForOneWhereOneWasFreed) {
  start(100 * kMiB);
  while (allocate(3 * kMiB, 0)) continue;
  for (std::size_t number = 0; number < 10; ++number) {
    free(number);
    EXPECT_TRUE(allocate(3 * kMiB, 0));
  }
  free_all();
}

TEST_P(Conformance, GivesBackWhatNobodyUses) {
  start(kGiB);
  Requests requests(4);
  for (int i = 0; i < 50; ++i) allocate(requests.size(), requests.stream());
  free_all();
  allocator_->empty_cache();
  EXPECT_LE(allocator_->reserved(), GetParam().keeps);
  check_reserved();
}

TEST_P(Conformance, LeavesNothingBehind) {
  start(kGiB);
  Requests requests(5);
  for (int i = 0; i < 50; ++i) allocate(requests.size(), requests.stream());
  free_all();
  allocator_.reset();
  EXPECT_EQ(device_->memory().free, kGiB);
  EXPECT_EQ(device_->failure(), "");
}

INSTANTIATE_TEST_SUITE_P(Every, Conformance, testing::ValuesIn(candidates(has_cuda())),
                         [](const auto& candidate) { return candidate.param.name; });

}  // namespace
}  // namespace stweaver
