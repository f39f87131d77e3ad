#include "simulate/stamps.h"

#include <bit>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "device/device.h"
#include "simulate/one_stream.h"

namespace stweaver {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

/// Memory to stamp.
class StampsTest : public testing::Test {
 protected:
  Address take(Bytes size) { return std::bit_cast<Address>(device_.allocate(size)); }
  static std::byte& byte_at(Address address) { return *std::bit_cast<std::byte*>(address); }

  HostDevice device_{Bytes{1} << 40U};
};

TEST_F(StampsTest, HoldUntilTheMemoryIsWrittenTo) {
  for (const Stamps& stamps : {Stamps::on_host(), Stamps::on_device(device_)}) {
    for (const Bytes size : {Bytes{4}, Bytes{512}, Stamps::kWhole, Stamps::kWhole + 4, 3 * kMiB + 20}) {
      SCOPED_TRACE(size);
      const Address block = take(size);
      EXPECT_FALSE(stamps.verify(1, block, size, 0)) << "not stamped yet";
      stamps.write(1, block, size, 0);
      EXPECT_TRUE(stamps.verify(1, block, size, 0));
      EXPECT_FALSE(stamps.verify(2, block, size, 0)) << "the stamp of another";
    }
  }
}

TEST_F(StampsTest, OnTheHostBothEndsAreStampedToTheByte) {
  const Stamps stamps = Stamps::on_host();
  for (const Bytes size :
       {Bytes{1}, Bytes{3}, Bytes{513}, Stamps::kWhole, Stamps::kWhole + 1, kMiB + 3, 100 * kMiB + 5}) {
    const Address block = take(size + 1);
    stamps.write(1, block, size, 0);
    EXPECT_EQ(byte_at(block + static_cast<Address>(size)), std::byte{0}) << size << ": beyond its end";
    for (const Bytes at : {Bytes{0}, size - 1}) {
      byte_at(block + static_cast<Address>(at)) ^= std::byte{1};
      EXPECT_FALSE(stamps.verify(1, block, size, 0)) << size << " bytes, byte " << at;
      byte_at(block + static_cast<Address>(at)) ^= std::byte{1};
    }
  }
}

TEST_F(StampsTest, OnTheHostAnyLargeBlockInALargerOneIsSeen) {
  const Stamps stamps = Stamps::on_host();
  const Bytes size = 100 * kMiB;
  const Bytes inner = 2 * kMiB;  // no less than the spacing of the places in the outer one
  const Address block = take(size);
  for (Bytes at = 512; at + inner < size; at += 7 * kMiB + 512) {
    stamps.write(1, block, size, 0);
    stamps.write(2, block + static_cast<Address>(at), inner, 0);
    EXPECT_FALSE(stamps.verify(1, block, size, 0)) << at;
  }
}

TEST_F(StampsTest, OnTheHostFewPagesAreTouched) {
  constexpr Bytes kHuge = 512 * kGiB;  // more than any machine that runs this has
  const Stamps stamps = Stamps::on_host();
  const Address block = take(kHuge);
  stamps.write(1, block, kHuge, 0);
  EXPECT_TRUE(stamps.verify(1, block, kHuge, 0));
}

TEST_F(StampsTest, OnADeviceEveryWordIsStamped) {
  const Stamps stamps = Stamps::on_device(device_);
  const Bytes size = kMiB + 7;
  const Address block = take(size);
  for (const Bytes at : {Bytes{0}, Bytes{54321}, kMiB + 3}) {
    stamps.write(1, block, size, 0);
    byte_at(block + static_cast<Address>(at)) ^= std::byte{1};
    EXPECT_FALSE(stamps.verify(1, block, size, 0)) << "byte " << at;
  }
  stamps.write(1, block, 3, 0);
  EXPECT_TRUE(stamps.verify(1, block, 3, 0)) << "no word, no stamp";
}

TEST_F(StampsTest, SayWhenTheDeviceFails) {
  FailingDevice failing(device_);
  OneStream one(failing);
  const Stamps stamps = Stamps::on_device(one);
  const Address block = take(4096);
  failing.fail_every(DeviceCall::kFill);
  EXPECT_THAT([&] { stamps.write(7, block, 4096, 3); },
              ThrowsMessage<Error>(AllOf(HasSubstr("request 7"), HasSubstr("4096"), HasSubstr("fill"))));
  failing.fail_every(DeviceCall::kCountOther);
  EXPECT_THAT([&] { return stamps.verify(7, block, 4096, 3); },
              ThrowsMessage<Error>(AllOf(HasSubstr("request 7"), HasSubstr("count_other"))));
}

}  // namespace
}  // namespace stweaver
