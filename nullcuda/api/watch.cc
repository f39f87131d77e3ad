// The functions of values.h.

#include "api/abi.h"
#include "values.h"

using namespace nullcuda;  // NOLINT(google-build-using-namespace)

NULLCUDA_API void nullcuda_know(const void* address, std::size_t size) {
  machine().known.add(address_of(address), size);
}

NULLCUDA_API void nullcuda_forget(const void* address, std::size_t size) {
  machine().known.remove(address_of(address), size);
}

NULLCUDA_API int nullcuda_knows(const void* address, std::size_t size) {
  return static_cast<int>(machine().known.holds(address_of(address), size));
}

NULLCUDA_API void nullcuda_answer(std::int64_t value) {
  answer() = {.given = true, .value = value};
}
NULLCUDA_API void nullcuda_answer_no_more() {
  answer() = {};
}
NULLCUDA_API void nullcuda_guess(const char* what) {
  count_guess(what);
}

NULLCUDA_API void nullcuda_use(const void* address, std::size_t size, const void* stream, int writes) {
  if (machine().settings.checks || machine().streams.capture(address_of(stream)).id != 0)
    use("an operator", address_of(stream),
        {{.begin = address_of(address), .size = size, .writes = writes != 0}});
}

NULLCUDA_API int nullcuda_wants_uses() {
  return static_cast<int>(machine().settings.checks || machine().streams.capturing());
}
