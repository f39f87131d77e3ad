// What the generated functions (python/nullcuda/stubs.py) call.

#include <cstring>

#include "api/abi.h"

extern "C" {
extern const int nullcuda_stub_count;
extern const char* const nullcuda_stub_names[];

/// A generated function was called.
void nullcuda_count(int number) {
  nullcuda::count_stub(nullcuda_stub_names[number]);
}

/// What a function says that is not supported; the run time's remember it.
int nullcuda_refuse(int of_run_time) {
  return of_run_time == 0 ? cudaErrorNotSupported : nullcuda::ended(cudaErrorNotSupported);
}

/// Sets what an argument points to: zero, or a handle. What points to the device is data, not a result.
void nullcuda_fill(void* at, std::size_t size, int handle) {
  if (at == nullptr || nullcuda::is_device(nullcuda::address_of(at))) return;
  std::memset(at, 0, size);
  if (handle == 0) return;
  const std::uint64_t value = nullcuda::fresh_handle();
  std::memcpy(at, &value, sizeof value);
}
}
