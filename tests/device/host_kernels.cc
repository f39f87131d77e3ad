// What null CUDA runs for our kernels (NULLCUDA_KERNELS): count_kernel.h's, in C++.
#include <cstdint>

/// count_other(words, count, value, others), as in count_kernel.h; the grid is one thread here.
extern "C" __attribute__((visibility("default"))) void count_other(const unsigned* /*grid*/,
                                                                   const unsigned* /*block*/,
                                                                   void** arguments) {
  const auto* words = *static_cast<const std::uint32_t* const*>(arguments[0]);
  const auto count = *static_cast<const std::uint64_t*>(arguments[1]);
  const auto value = *static_cast<const std::uint32_t*>(arguments[2]);
  auto* others = *static_cast<std::uint64_t* const*>(arguments[3]);
  for (std::uint64_t number = 0; number < count; ++number) *others += words[number] != value ? 1 : 0;
}
