// What is CUDA's own. Where there is no GPU only the refusals are tested.

#include "device/cuda_device.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <dlfcn.h>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/base.h"
#include "device/cuda_driver.h"
#include "support/refusals.h"

namespace stweaver {
namespace {

/// The line of the Error that opening throws; empty when it throws none.
std::string refusal(int ordinal) {
  try {
    open_cuda(ordinal);
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

TEST(OpenCuda, RefusesADeviceThatIsNotThereInOneLine) {
  for (const int ordinal : {-1, 1000}) {
    const std::string line = refusal(ordinal);
    EXPECT_THAT(line, testing::StartsWith(text("cuda:", ordinal, ": ")));
    EXPECT_THAT(line, testing::Not(testing::HasSubstr("\n")));
    EXPECT_THAT(line,
                testing::AnyOf(testing::HasSubstr("no such device"), testing::HasSubstr("NVIDIA driver")));
  }
}

TEST(OpenCuda, OpensTheFirstDeviceOrSaysInOneLineWhatIsMissing) {
  const std::string line = refusal(0);
  if (line.empty()) return;
  EXPECT_THAT(line, testing::StartsWith("cuda:0: "));
  EXPECT_THAT(line, testing::Not(testing::HasSubstr("\n")));
  EXPECT_THAT(line,
              testing::AnyOf(testing::HasSubstr("no such device"), testing::HasSubstr("NVIDIA driver")));
}

// Without it, all tests of CUDA would pass because there are none.
TEST(OpenCuda, OpensTheFirstDeviceWhereNullCudaIsToCheck) {
  const bool is_to_check = std::getenv("NULLCUDA_CHECK") != nullptr;  // NOLINT(concurrency-mt-unsafe)
  EXPECT_TRUE(!is_to_check || refusal(0).empty()) << refusal(0);
}

/// The devices to test. Looked for once: GoogleTest asks for every test.
const std::vector<int>& ordinals() {
  static const std::vector<int> found = refusal(0).empty() ? std::vector{0} : std::vector<int>{};
  return found;
}

/// What the tests need of the driver and CudaDriver does not.
struct Extra {
  CudaResult (*ctx_get_current)(CudaContext** context);
  CudaResult (*ctx_create)(CudaContext** context, unsigned flags, int device);
  CudaResult (*ctx_destroy)(CudaContext* context);
  CudaResult (*stream_create)(Stream* stream, unsigned flags);
  CudaResult (*stream_destroy)(Stream stream);
};

class CudaDeviceTest : public testing::TestWithParam<int> {
 protected:
  CudaDeviceTest() {
    void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NODELETE);
    const auto find = [library]<typename Function>(Function*& function, const char* name) {
      function = reinterpret_cast<Function*>(dlsym(library, name));
      ASSERT_NE(function, nullptr) << name;
    };
    find(extra_.ctx_get_current, "cuCtxGetCurrent");
    find(extra_.ctx_create, "cuCtxCreate_v2");
    find(extra_.ctx_destroy, "cuCtxDestroy_v2");
    find(extra_.stream_create, "cuStreamCreate");
    find(extra_.stream_destroy, "cuStreamDestroy_v2");
  }

  [[nodiscard]] Device& device() const { return *device_; }
  [[nodiscard]] const CudaDriver& driver() const { return driver_; }
  [[nodiscard]] const Extra& extra() const { return extra_; }

  [[nodiscard]] CudaContext* current() const {
    CudaContext* context = nullptr;
    EXPECT_EQ(extra_.ctx_get_current(&context), kCudaSuccess);
    return context;
  }

  /// Runs `work` where the device's primary context is current.
  void in_primary(const std::function<void()>& work) const {
    CudaContext* context = nullptr;
    ASSERT_EQ(driver_.device_primary_ctx_retain(&context, GetParam()), kCudaSuccess);
    ASSERT_EQ(driver_.ctx_push_current(context), kCudaSuccess);
    work();
    EXPECT_EQ(driver_.ctx_pop_current(&context), kCudaSuccess);
    EXPECT_EQ(driver_.device_primary_ctx_release(GetParam()), kCudaSuccess);
  }

  /// A stream that does not wait for the default stream.
  [[nodiscard]] Stream new_stream() const {
    constexpr unsigned kNonBlocking = 1;
    Stream stream = 0;
    in_primary([&] { EXPECT_EQ(extra_.stream_create(&stream, kNonBlocking), kCudaSuccess); });
    return stream;
  }

  void end_stream(Stream stream) const {
    in_primary([&] { EXPECT_EQ(extra_.stream_destroy(stream), kCudaSuccess); });
  }

  /// Work for `stream` that takes a while: gigabytes written again and again.
  void keep_busy(std::byte* at, Bytes size, Stream stream) const {
    for (std::uint32_t round = 0; round < 64; ++round) ASSERT_TRUE(device_->fill(at, size, round, stream));
  }

 private:
  std::unique_ptr<Device> device_ = open_cuda(GetParam());
  CudaDriver driver_ = load_cuda_driver();
  Extra extra_{};
};

INSTANTIATE_TEST_SUITE_P(On, CudaDeviceTest, testing::ValuesIn(ordinals()));
// Where there is no GPU; DeviceContract says on standard error why.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(CudaDeviceTest);

constexpr Bytes kLarge = 4 * kGiB;

/// A call of every kind.
void use(Device& device) {
  const Bytes page = device.page_size();
  std::byte* const block = device.allocate(kMiB);
  std::byte* const range = device.reserve(page);
  EXPECT_TRUE(device.map(range, page));
  EXPECT_TRUE(device.fill(range, page, 1, 0));
  const DeviceEvent event = device.record(0);
  EXPECT_TRUE(device.wait(0, event));
  EXPECT_EQ(device.count_other(range, page, 1, 0), 0);
  EXPECT_TRUE(device.passed(event));
  device.forget(event);
  EXPECT_TRUE(device.synchronize());
  EXPECT_TRUE(device.unmap(range, page));
  EXPECT_TRUE(device.release(range, page));
  EXPECT_TRUE(device.free(block));
  EXPECT_FALSE(device.free(block));
  EXPECT_EQ(device.allocate(2 * device.memory().total), nullptr);
  EXPECT_THAT(device.failure(), testing::HasSubstr("out of memory"));
}

TEST_P(CudaDeviceTest, IsNamedAsTheDriverNamesIt) {
  EXPECT_THAT(device().name(), testing::EndsWith(text(" (cuda:", GetParam(), ")")));
  EXPECT_GT(device().page_size(), 0);
}

TEST_P(CudaDeviceTest, LeavesAThreadWithoutAContextWithoutOne) {
  std::thread([this] {
    EXPECT_EQ(current(), nullptr);
    use(device());
    EXPECT_EQ(current(), nullptr);
  }).join();
}

TEST_P(CudaDeviceTest, LeavesTheContextOfOthersCurrent) {
  CudaContext* other = nullptr;
  ASSERT_EQ(extra().ctx_create(&other, 0, GetParam()), kCudaSuccess);
  EXPECT_EQ(current(), other);
  use(device());
  EXPECT_EQ(current(), other);
  open_cuda(GetParam());
  EXPECT_EQ(current(), other);
  EXPECT_EQ(extra().ctx_destroy(other), kCudaSuccess);
}

TEST_P(CudaDeviceTest, LeavesThePrimaryContextCurrent) {
  in_primary([this] {
    const CudaContext* const before = current();
    use(device());
    EXPECT_EQ(current(), before);
  });
}

TEST_P(CudaDeviceTest, AnEventBehindLongWorkPassesWhenTheWorkIsOver) {
  std::byte* const block = device().allocate(kLarge);
  ASSERT_NE(block, nullptr) << device().failure();
  const Stream stream = new_stream();
  bool was_behind = false;
  for (int attempt = 0; attempt < 10 && !was_behind; ++attempt) {
    keep_busy(block, kLarge, stream);
    const DeviceEvent event = device().record(stream);
    was_behind = !device().passed(event);
    EXPECT_TRUE(device().synchronize());
    EXPECT_TRUE(device().passed(event));
    device().forget(event);
  }
  EXPECT_TRUE(was_behind);
  EXPECT_EQ(device().failure(), "");  // not to have passed yet is none
  end_stream(stream);
  EXPECT_TRUE(device().free(block));
}

TEST_P(CudaDeviceTest, AStreamThatWaitsSeesTheWorkOfTheOther) {
  constexpr std::uint32_t kLast = 0xabcdef01;
  std::byte* const block = device().allocate(kLarge);
  ASSERT_NE(block, nullptr) << device().failure();
  const Stream writer = new_stream();
  const Stream reader = new_stream();
  keep_busy(block, kLarge, writer);
  EXPECT_TRUE(device().fill(block, kLarge, kLast, writer));
  const DeviceEvent event = device().record(writer);
  EXPECT_TRUE(device().wait(reader, event));
  device().forget(event);  // the wait holds all the same
  EXPECT_EQ(device().count_other(block, kLarge, kLast, reader), 0);
  end_stream(writer);
  end_stream(reader);
  EXPECT_TRUE(device().free(block));
}

TEST_P(CudaDeviceTest, CountsMoreWordsThan32BitsOfBytes) {
  const Bytes size = kLarge + 2 * kGiB + 4;
  std::byte* const block = device().allocate(size);
  ASSERT_NE(block, nullptr) << device().failure();
  EXPECT_TRUE(device().fill(block, size, 1, 0));
  EXPECT_EQ(device().count_other(block, size, 2, 0), size / 4);
  EXPECT_TRUE(device().fill(block + size - 4, 4, 2, 0));
  EXPECT_EQ(device().count_other(block, size, 1, 0), 1);
  EXPECT_TRUE(device().free(block));
}

TEST_P(CudaDeviceTest, MapsAndUnmapsForEverWithoutLosingMemory) {
  const Bytes size = align_up(device().memory().free / 2, device().page_size());
  std::byte* const range = device().reserve(size);
  ASSERT_NE(range, nullptr) << device().failure();
  for (int round = 0; round < 10; ++round) {
    const Bytes before = device().memory().free;
    ASSERT_TRUE(device().map(range, size)) << device().failure();
    EXPECT_LE(device().memory().free, before - size);
    ASSERT_TRUE(device().unmap(range, size)) << device().failure();
    EXPECT_GT(device().memory().free, before - size / 2);
  }
  EXPECT_TRUE(device().release(range, size));
}

TEST_P(CudaDeviceTest, GivesTheDriverBackWhatIsLeftWhenItGoes) {
  const Bytes before = device().memory().free;
  {
    const std::unique_ptr<Device> left = open_cuda(GetParam());
    const Bytes size = align_up(kLarge, left->page_size());
    std::byte* const range = left->reserve(2 * size);
    EXPECT_TRUE(left->map(range, size)) << left->failure();
    EXPECT_NE(left->allocate(kLarge), nullptr) << left->failure();
    EXPECT_LE(device().memory().free, before - 2 * kLarge);
  }
  EXPECT_GT(device().memory().free, before - kLarge);
  use(device());  // it shares the context with the one that went
}

TEST_P(CudaDeviceTest, RefusesTheMemoryOfAnotherDeviceObject) {
  const std::unique_ptr<Device> other = open_cuda(GetParam());
  std::byte* const block = other->allocate(kMiB);
  EXPECT_FALSE(device().free(block));
  expect_failure(device(), "free(");
  EXPECT_TRUE(other->free(block));
}

}  // namespace
}  // namespace stweaver
