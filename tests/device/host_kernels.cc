// What null CUDA runs for our kernels (NULLCUDA_KERNELS): count_kernel.h's, in C++.
#include <cstdint>
#include <cstring>

/// count_other(words, count, value, others), as in count_kernel.h; the grid is one thread here.
extern "C" __attribute__((visibility("default"))) void count_other(const unsigned* /*grid*/,
                                                                   const unsigned* /*block*/,
                                                                   void** arguments) {
  const std::uint32_t* words = nullptr;
  std::uint64_t* others = nullptr;
  std::uint64_t count = 0;
  std::uint32_t value = 0;
  std::memcpy(&words, arguments[0], sizeof words);
  std::memcpy(&count, arguments[1], sizeof count);
  std::memcpy(&value, arguments[2], sizeof value);
  std::memcpy(&others, arguments[3], sizeof others);
  for (std::uint64_t number = 0; number < count; ++number) *others += words[number] != value ? 1 : 0;
}
