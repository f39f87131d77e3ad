// Errors that are planted under the run time, and that null CUDA must find: without this nobody knows whether
// the silence of its checking mode means anything. On a GPU such errors show by chance or never, so it is not
// asked.
#include <cstdint>
#include <cstdlib>
#include <dlfcn.h>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "device/cuda_driver.h"
#include "support/under_test.h"

namespace stweaver {
namespace {

constexpr int kStopped = 70;  // how null CUDA ends a process that uses memory wrongly

/// It says of every event that it has passed, and of all work that it is over.
class CarelessDevice final : public FailingDevice {
 public:
  using FailingDevice::FailingDevice;

  bool wait(Stream /*stream*/, DeviceEvent /*event*/) override { return true; }
  bool passed(DeviceEvent /*event*/) override { return true; }
  bool await(DeviceEvent /*event*/) override { return true; }
  bool synchronize() override { return true; }
};

/// Whether this machine's CUDA is to stop what is wrong. Only null CUDA does, in checking mode.
bool is_to_check() {
  return std::getenv("NULLCUDA_CHECK") != nullptr;  // NOLINT(concurrency-mt-unsafe): before any thread
}

std::vector<bool> checked() {
  return is_to_check() && has_cuda() ? std::vector{true} : std::vector<bool>{};
}

// Without it, all tests of CUDA would pass because there are none.
TEST(NullCudaForPlantedErrors, IsThereWhereItIsToCheck) {
  EXPECT_TRUE(has_cuda() || !is_to_check());
}

Stream new_stream() {
  constexpr unsigned kNonBlocking = 1;
  using Create = CudaResult (*)(Stream*, unsigned);
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW);
  const auto create = reinterpret_cast<Create>(dlsym(driver, "cuStreamCreate"));
  Stream stream = 0;
  if (create(&stream, kNonBlocking) != kCudaSuccess) fail("no stream");
  return stream;
}

/// Streams take turns with blocks that they write.
template <typename AnyDevice>
void take_turns(bool hand_on) {
  const auto cuda = open_first_cuda(0);
  AnyDevice device(*cuda);
  PlannedUnderTest allocator(device, {}, /*place_unplanned=*/true);
  const std::vector<Stream> streams = {new_stream(), new_stream()};
  constexpr Bytes kBlock = 8 * kMiB;
  for (int turn = 0; turn < 20; ++turn) {
    const Stream stream = streams[static_cast<std::size_t>(hand_on ? turn % 2 : 0)];
    const Address block = allocator.allocate(kBlock, stream).value();
    if (!device.fill(std::bit_cast<std::byte*>(block), kBlock, 1, stream)) fail(device.failure());
    allocator.free(block);
  }
  allocator.empty_cache();
}

class PlantedErrors : public testing::TestWithParam<bool> {
 protected:
  /// A fork of a process that uses CUDA cannot: what is to end begins anew.
  PlantedErrors() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_P(PlantedErrors, WithoutAnyTheStreamsTakeTurnsInOrder) {
  take_turns<FailingDevice>(true);
}

// Handed on as it is, or page by page.
TEST_P(PlantedErrors, MemoryThatIsHandedToAnotherStreamTooEarlyIsFound) {
  EXPECT_EXIT(take_turns<CarelessDevice>(true), testing::ExitedWithCode(kStopped),
              "nullcuda: .*(nothing orders the two|nobody waited for that)");
}

TEST_P(PlantedErrors, MemoryThatIsUnmappedWhileItIsStillUsedIsFound) {
  EXPECT_EXIT(take_turns<CarelessDevice>(false), testing::ExitedWithCode(kStopped),
              "nullcuda: cuMemUnmap: .*nobody waited for that");
}

TEST_P(PlantedErrors, AUseOfMemoryThatIsNotMappedIsFound) {
  const auto cuda = open_first_cuda(0);
  std::byte* const range = cuda->reserve(cuda->page_size());
  EXPECT_EXIT(cuda->fill(range, cuda->page_size(), 1, 0), testing::ExitedWithCode(kStopped),
              "not all of it is mapped");
}

INSTANTIATE_TEST_SUITE_P(Checked, PlantedErrors, testing::ValuesIn(checked()));
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(PlantedErrors);

}  // namespace
}  // namespace stweaver
