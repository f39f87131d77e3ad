// What each call costs that puts memory behind addresses, by the size of its pages: the table that the design
// of src/arena/memory.h rests on (docs/results/driver.md). On a machine with a GPU:
//
//   nvcc -O2 -std=c++20 -o driver_calls bench/gpu/driver_calls.cc -lcuda && ./driver_calls
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cuda.h>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20U;
constexpr std::size_t kMost = 8192 * kMiB;  // mapped at one time

void check(CUresult result, const char* call) {
  if (result == CUDA_SUCCESS) return;
  const char* words = nullptr;
  cuGetErrorString(result, &words);
  std::fprintf(stderr, "%s: %s\n", call, words);
  std::exit(1);
}
#define CHECK(call) check((call), #call)

double microseconds(const std::function<void()>& work) {
  const auto began = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - began).count();
}

CUmemAllocationProp properties() {
  CUmemAllocationProp property = {};
  property.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  property.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  property.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  return property;
}

const CUmemAccessDesc kAccess = {{CU_MEM_LOCATION_TYPE_DEVICE, {0}}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};

// Calls of one kind for pages of one size; what they take each, in microseconds.
struct Costs {
  double create, map, access, access_together, unmap, unmap_together, again, alias, release;
};

Costs measure(std::size_t size, CUdeviceptr at) {
  const std::size_t count = std::clamp<std::size_t>(kMost / size, 4, 256);
  std::vector<CUmemGenericAllocationHandle> pages(count);
  const CUmemAllocationProp property = properties();
  const double n = static_cast<double>(count);
  const auto each = [&](const std::function<void(std::size_t)>& work) {
    return microseconds([&] {
             for (std::size_t i = 0; i < count; ++i) work(i);
           }) /
           n;
  };
  Costs costs = {};
  costs.create = each([&](std::size_t i) { CHECK(cuMemCreate(&pages[i], size, &property, 0)); });
  costs.map = each([&](std::size_t i) { CHECK(cuMemMap(at + i * size, size, 0, pages[i], 0)); });
  costs.access = each([&](std::size_t i) { CHECK(cuMemSetAccess(at + i * size, size, &kAccess, 1)); });
  CHECK(cuMemsetD8(at, 1, count * size));
  CHECK(cuCtxSynchronize());
  const CUdeviceptr other = at + 2 * kMost;
  costs.alias = each([&](std::size_t i) { CHECK(cuMemMap(other + i * size, size, 0, pages[i], 0)); });
  costs.access_together = microseconds([&] { CHECK(cuMemSetAccess(other, count * size, &kAccess, 1)); }) / n;
  unsigned char seen = 0;
  CHECK(cuMemcpyDtoH(&seen, other + (count - 1) * size, 1));
  if (seen != 1) std::fprintf(stderr, "an alias shows other bytes\n");
  costs.unmap_together = microseconds([&] { CHECK(cuMemUnmap(other, count * size)); }) / n;
  costs.unmap = each([&](std::size_t i) { CHECK(cuMemUnmap(at + i * size, size)); });
  costs.again = each([&](std::size_t i) {
    CHECK(cuMemMap(at + i * size, size, 0, pages[i], 0));
    CHECK(cuMemSetAccess(at + i * size, size, &kAccess, 1));
  });
  CHECK(cuMemUnmap(at, count * size));
  costs.release = each([&](std::size_t i) { CHECK(cuMemRelease(pages[i])); });
  return costs;
}

// To put memory behind addresses and to take it away again; microseconds of each call.
using Move = std::array<double, 5>;

Move move_once(CUdeviceptr at, std::size_t bytes) {
  const CUmemAllocationProp property = properties();
  CUmemGenericAllocationHandle page = 0;
  return {microseconds([&] { CHECK(cuMemCreate(&page, bytes, &property, 0)); }),
          microseconds([&] { CHECK(cuMemMap(at, bytes, 0, page, 0)); }),
          microseconds([&] { CHECK(cuMemSetAccess(at, bytes, &kAccess, 1)); }),
          microseconds([&] { CHECK(cuMemUnmap(at, bytes)); }),
          microseconds([&] { CHECK(cuMemRelease(page)); })};
}

Move median_of_moves(CUdeviceptr at, std::size_t bytes) {
  constexpr int kTimes = 9;
  std::array<std::vector<double>, 5> times;
  for (int i = 0; i < kTimes; ++i) {
    const Move move = move_once(at, bytes);
    for (std::size_t call = 0; call < move.size(); ++call) times[call].push_back(move[call]);
  }
  Move medians = {};
  for (std::size_t call = 0; call < medians.size(); ++call) {
    std::nth_element(times[call].begin(), times[call].begin() + kTimes / 2, times[call].end());
    medians[call] = times[call][kTimes / 2];
  }
  return medians;
}

void print_head(const char* what) {
  std::printf("\n%s\n%6s %9s %9s %9s %9s %9s\n", what, "MiB", "create", "map", "access", "unmap", "release");
}

void print(std::size_t size, const Move& move) {
  std::printf("%6zu", size);
  for (const double call : move) std::printf(" %9.1f", call);
  std::printf("\n");
}

// What it takes to be told that there is no memory: the median of nine calls.
void refused() {
  std::size_t left = 0;
  std::size_t all = 0;
  CHECK(cuMemGetInfo(&left, &all));
  std::vector<CUdeviceptr> taken;
  for (std::size_t size = left; size >= 2 * kMiB; size /= 2) {
    CUdeviceptr more = 0;
    while (cuMemAlloc(&more, size) == CUDA_SUCCESS) taken.push_back(more);
  }
  std::printf("\na call that creates memory and is refused, microseconds\n");
  const CUmemAllocationProp property = properties();
  for (std::size_t size = 2; size <= 256; size *= 2) {
    std::vector<double> times;
    for (int i = 0; i < 9; ++i) {
      CUmemGenericAllocationHandle page = 0;
      CUresult result = CUDA_SUCCESS;
      times.push_back(microseconds([&] { result = cuMemCreate(&page, size * kMiB, &property, 0); }));
      if (result != CUDA_ERROR_OUT_OF_MEMORY) std::fprintf(stderr, "%zu MiB: was not refused\n", size);
      if (result == CUDA_SUCCESS) CHECK(cuMemRelease(page));
    }
    std::nth_element(times.begin(), times.begin() + 4, times.end());
    std::printf("%6zu %9.1f\n", size, times[4]);
  }
  for (const CUdeviceptr each : taken) CHECK(cuMemFree(each));
}

// A move where hardly any memory is left.
void with_little_left(CUdeviceptr at) {
  std::size_t left = 0;
  std::size_t all = 0;
  CHECK(cuMemGetInfo(&left, &all));
  CUdeviceptr taken = 0;
  CHECK(cuMemAlloc(&taken, left - 1024 * kMiB));
  print_head("with 1 GiB of the device left");
  for (std::size_t size = 2; size <= 256; size *= 2) print(size, median_of_moves(at, size * kMiB));
  CHECK(cuMemFree(taken));
}

// The same calls while the device works, each several times: the median, and whether it waited for the work.
void beside_work(CUdeviceptr at) {
  CUstream stream = nullptr;
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CUdeviceptr work = 0;
  CHECK(cuMemAlloc(&work, kMost / 2));
  CUevent event = nullptr;
  CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  bool waited = false;
  print_head("beside work of the device");
  for (std::size_t size = 2; size <= 256; size *= 2) {
    for (int i = 0; i < 100; ++i) CHECK(cuMemsetD8Async(work, 7, kMost / 2, stream));
    CHECK(cuEventRecord(event, stream));
    const Move move = median_of_moves(at, size * kMiB);
    waited = waited || cuEventQuery(event) == CUDA_SUCCESS;
    CHECK(cuStreamSynchronize(stream));
    print(size, move);
  }
  std::printf("%s\n", waited ? "a call waited for the work" : "no call waited for the work");
  const auto often = [](const std::function<void()>& call) {
    return microseconds([&] {
             for (int i = 0; i < 1000; ++i) call();
           }) /
           1000;
  };
  std::printf("event: record %.2f, query %.2f, wait of a stream %.2f\n",
              often([&] { CHECK(cuEventRecord(event, stream)); }), often([&] { (void)cuEventQuery(event); }),
              often([&] { CHECK(cuStreamWaitEvent(stream, event, 0)); }));
  CHECK(cuStreamSynchronize(stream));
  CHECK(cuMemFree(work));
}

// Milliseconds that queued work takes on the device while the host calls move() again and again, and how
// often it did.
std::pair<double, int> time_of_work(CUdeviceptr work, CUstream stream, const std::function<void()>& move) {
  CUevent began = nullptr;
  CUevent ended = nullptr;
  CHECK(cuEventCreate(&began, CU_EVENT_DEFAULT));
  CHECK(cuEventCreate(&ended, CU_EVENT_DEFAULT));
  CHECK(cuEventRecord(began, stream));
  for (int i = 0; i < 100; ++i) CHECK(cuMemsetD8Async(work, 7, kMost / 2, stream));
  CHECK(cuEventRecord(ended, stream));
  int moves = 0;
  while (cuEventQuery(ended) != CUDA_SUCCESS) {
    move();
    ++moves;
  }
  float milliseconds = 0;
  CHECK(cuEventElapsedTime(&milliseconds, began, ended));
  return {milliseconds, moves};
}

// What the work of the device loses while memory moves beside it: how much longer it takes for each move.
void what_work_loses(CUdeviceptr at) {
  const CUmemAllocationProp property = properties();
  CUstream stream = nullptr;
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CUdeviceptr work = 0;
  CHECK(cuMemAlloc(&work, kMost / 2));
  (void)time_of_work(work, stream, [] {});
  std::printf("\nwhat work of the device loses for each move, in microseconds\n%6s %14s %14s %9s\n", "MiB",
              "new memory", "same memory", "moves");
  for (std::size_t size = 2; size <= 256; size *= 4) {
    const std::size_t bytes = size * kMiB;
    CUmemGenericAllocationHandle kept = 0;
    CHECK(cuMemCreate(&kept, bytes, &property, 0));
    const auto show = [&](CUmemGenericAllocationHandle page) {
      CHECK(cuMemMap(at, bytes, 0, page, 0));
      CHECK(cuMemSetAccess(at, bytes, &kAccess, 1));
      CHECK(cuMemUnmap(at, bytes));
    };
    const double alone = time_of_work(work, stream, [] {}).first;
    const auto [renewed, often] = time_of_work(work, stream, [&] {
      CUmemGenericAllocationHandle page = 0;
      CHECK(cuMemCreate(&page, bytes, &property, 0));
      show(page);
      CHECK(cuMemRelease(page));
    });
    const auto [remapped, again] = time_of_work(work, stream, [&] { show(kept); });
    CHECK(cuMemRelease(kept));
    std::printf("%6zu %14.1f %14.1f %9d\n", size, 1e3 * (renewed - alone) / often,
                1e3 * (remapped - alone) / again, often);
  }
  CHECK(cuMemFree(work));
}

// What the driver lets one do with part of a page.
void parts(CUdeviceptr at) {
  CUmemGenericAllocationHandle page = 0;
  const CUmemAllocationProp property = properties();
  CHECK(cuMemCreate(&page, 64 * kMiB, &property, 0));
  const auto tell = [](const char* name, CUresult result) { std::printf("%-44s %d\n", name, result); };
  std::printf("\nparts of 64 MiB (0: allowed)\n");
  tell("map the first 32 MiB", cuMemMap(at, 32 * kMiB, 0, page, 0));
  tell("map the last 32 MiB (an offset)", cuMemMap(at + 128 * kMiB, 32 * kMiB, 32 * kMiB, page, 0));
  tell("map all", cuMemMap(at + 256 * kMiB, 64 * kMiB, 0, page, 0));
  tell("unmap the first half of what was mapped", cuMemUnmap(at + 256 * kMiB, 32 * kMiB));
  cuMemUnmap(at, 512 * kMiB);
  for (const std::size_t offset : {0U, 128U, 256U, 288U}) {
    cuMemUnmap(at + offset * kMiB, 32 * kMiB);
    cuMemUnmap(at + offset * kMiB, 64 * kMiB);
  }
  cuMemRelease(page);
}

// One extent comes behind addresses, or goes.
void map_extent(CUdeviceptr at, std::size_t bytes) {
  const CUmemAllocationProp property = properties();
  CUmemGenericAllocationHandle page = 0;
  CHECK(cuMemCreate(&page, bytes, &property, 0));
  CHECK(cuMemMap(at, bytes, 0, page, 0));
  CHECK(cuMemRelease(page));
  CHECK(cuMemSetAccess(at, bytes, &kAccess, 1));
}

void unmap_extent(CUdeviceptr at, std::size_t bytes) {
  CHECK(cuMemUnmap(at, bytes));
}

// Calls work(i) in a thread of its own, as often as `times` says at most, while main_work() runs; how often
// it did and how long each took, in microseconds.
std::pair<int, double> in_a_thread(int times, const std::function<void(int)>& work,
                                   const std::function<void()>& main_work) {
  CUcontext context = nullptr;
  CHECK(cuCtxGetCurrent(&context));
  std::atomic<bool> ends = false;
  std::atomic<int> calls = 0;
  double took = 0;
  std::thread thread([&] {
    CHECK(cuCtxSetCurrent(context));
    took = microseconds([&] {
      for (; calls < times && !ends; ++calls) work(calls);
    });
  });
  main_work();
  ends = true;
  thread.join();
  return {calls, took / std::max<int>(calls, 1)};
}

// A kernel that does nothing.
CUfunction empty_kernel() {
  constexpr const char* kCode =
      ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry nothing() { ret; }";
  CUmodule module = nullptr;
  CUfunction kernel = nullptr;
  CHECK(cuModuleLoadData(&module, kCode));
  CHECK(cuModuleGetFunction(&kernel, module, "nothing"));
  return kernel;
}

// What launches and maps of one thread lose while another unmaps extents that were mapped before.
void beside_a_thread(CUdeviceptr at) {
  constexpr int kLaunches = 20000;
  constexpr int kMaps = 50;
  const CUfunction kernel = empty_kernel();
  CUstream stream = nullptr;
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  const auto launch = [&] {
    for (int i = 0; i < kLaunches; ++i)
      CHECK(cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, stream, nullptr, nullptr));
  };
  // How often the other thread unmapped beside main_work(), and how long that took.
  const auto unmap_beside = [&](std::size_t bytes, const std::function<void()>& main_work) {
    const int extents = static_cast<int>(std::min<std::size_t>(kMost / bytes, 1024));
    for (int i = 0; i < extents; ++i) map_extent(at + static_cast<std::size_t>(i) * bytes, bytes);
    CHECK(cuCtxSynchronize());
    const auto unmap = [&](int i) { unmap_extent(at + static_cast<std::size_t>(i) * bytes, bytes); };
    const std::pair<int, double> unmaps = in_a_thread(extents, unmap, main_work);
    for (int i = unmaps.first; i < extents; ++i) unmap(i);
    CHECK(cuCtxSynchronize());
    return unmaps;
  };
  launch();
  CHECK(cuCtxSynchronize());
  std::printf(
      "\nbeside another thread that unmaps extents, in microseconds\n%6s %9s %9s %9s | %9s %9s %9s %9s\n",
      "MiB", "launch", "beside", "loses", "map", "beside", "unmap", "beside");
  for (std::size_t size = 2; size <= 128; size *= 4) {
    const std::size_t bytes = size * kMiB;
    const CUdeviceptr other = at + 2 * kMost;
    const double alone = microseconds(launch);
    CHECK(cuCtxSynchronize());
    double beside = 0;
    const int calls = unmap_beside(bytes, [&] { beside = microseconds(launch); }).first;
    const auto map_many = [&] {
      for (int i = 0; i < kMaps; ++i) map_extent(other + static_cast<std::size_t>(i) * bytes, bytes);
    };
    const auto unmap_many = [&] {
      for (int i = 0; i < kMaps; ++i) unmap_extent(other + static_cast<std::size_t>(i) * bytes, bytes);
    };
    const double maps = microseconds(map_many) / kMaps;
    const double unmaps = microseconds(unmap_many) / kMaps;
    double maps_beside = 0;
    const double unmaps_beside =
        unmap_beside(bytes, [&] { maps_beside = microseconds(map_many) / kMaps; }).second;
    unmap_many();
    std::printf("%6zu %9.2f %9.2f %9.1f | %9.1f %9.1f %9.1f %9.1f\n", size, alone / kLaunches,
                beside / kLaunches, (beside - alone) / std::max(calls, 1), maps, maps_beside, unmaps,
                unmaps_beside);
  }
}

// Gigabytes that the device reads or writes in a second, by the median of some times.
double rate_of(CUstream stream, std::size_t bytes, const std::function<void()>& work) {
  constexpr int kTimes = 15;
  CUevent began = nullptr;
  CUevent ended = nullptr;
  CHECK(cuEventCreate(&began, CU_EVENT_DEFAULT));
  CHECK(cuEventCreate(&ended, CU_EVENT_DEFAULT));
  std::vector<float> times(kTimes);
  for (float& time : times) {
    CHECK(cuEventRecord(began, stream));
    work();
    CHECK(cuEventRecord(ended, stream));
    CHECK(cuEventSynchronize(ended));
    CHECK(cuEventElapsedTime(&time, began, ended));
  }
  CHECK(cuEventDestroy(began));
  CHECK(cuEventDestroy(ended));
  std::nth_element(times.begin(), times.begin() + kTimes / 2, times.end());
  return static_cast<double>(bytes) / 1e6 / static_cast<double>(times[kTimes / 2]);
}

// How fast memory is that was mapped in extents of one size, or allocated whole: filled, and copied to a
// place 3 GiB and a little further on.
void rates(CUdeviceptr at) {
  constexpr std::size_t kCopied = 3072 * kMiB;
  constexpr std::size_t kFurther = 3278 * kMiB;
  CUstream stream = nullptr;
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  const auto show = [&](const char* name, CUdeviceptr memory) {
    const double fill = rate_of(stream, kMost, [&] { CHECK(cuMemsetD8Async(memory, 1, kMost, stream)); });
    const double copy = rate_of(
        stream, 2 * kCopied, [&] { CHECK(cuMemcpyDtoDAsync(memory + kFurther, memory, kCopied, stream)); });
    std::printf("%6s %9.0f %9.0f\n", name, fill, copy);
  };
  std::printf("\nrates in GB/s, read and written, by the MiB of an extent\n%6s %9s %9s\n", "MiB", "fill",
              "copy");
  for (int round = 0; round < 2; ++round) {
    for (const std::size_t size : {2, 4, 8, 16, 22, 32, 44, 64, 128, 256, 1024}) {
      const std::size_t bytes = size * kMiB;
      std::vector<CUdeviceptr> extents;
      for (std::size_t offset = 0; offset < kMost; offset += bytes) extents.push_back(at + offset);
      for (const CUdeviceptr extent : extents) map_extent(extent, bytes);
      show(std::to_string(size).c_str(), at);
      for (const CUdeviceptr extent : extents) unmap_extent(extent, bytes);
    }
    CUdeviceptr whole = 0;
    CHECK(cuMemAlloc(&whole, kMost));
    show("whole", whole);
    CHECK(cuMemFree(whole));
  }
}

}  // namespace

int main() {
  CHECK(cuInit(0));
  CUdevice device = 0;
  CUcontext context = nullptr;
  CHECK(cuDeviceGet(&device, 0));
  CHECK(cuDevicePrimaryCtxRetain(&context, device));
  CHECK(cuCtxSetCurrent(context));
  char name[256] = {};
  CHECK(cuDeviceGetName(name, sizeof(name), device));
  int version = 0;
  CHECK(cuDriverGetVersion(&version));
  CUdeviceptr at = 0;
  CHECK(cuMemAddressReserve(&at, 4 * kMost, 0, 0, 0));
  std::printf("%s, driver %d; microseconds for each call, by pages in MiB\n", name, version);
  std::printf("%6s %9s %9s %9s %9s %9s %9s %9s %9s %9s\n", "MiB", "create", "map", "access", "a. joined",
              "alias", "unmap", "u. joined", "map again", "release");
  (void)measure(2 * kMiB, at);
  for (std::size_t size = 2; size <= 256; size *= 2) {
    const Costs c = measure(size * kMiB, at);
    std::printf("%6zu %9.1f %9.1f %9.1f %9.1f %9.1f %9.1f %9.1f %9.1f %9.1f\n", size, c.create, c.map,
                c.access, c.access_together, c.alias, c.unmap, c.unmap_together, c.again, c.release);
  }
  beside_work(at);
  beside_a_thread(at);
  rates(at);
  with_little_left(at);
  refused();
  what_work_loses(at);
  parts(at);
  return 0;
}
