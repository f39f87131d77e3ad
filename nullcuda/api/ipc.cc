// Memory and events of other processes. In checking mode the memory is the other's own; else only its size
// is.

#include <cstring>
#include <fcntl.h>
#include <string>
#include <unistd.h>

#include "api/abi.h"

namespace nullcuda {
namespace {

/// What a handle of memory holds.
struct Handle {
  std::int64_t process;
  std::int64_t file;  ///< a descriptor of that process
  std::uint64_t size;
  std::uint64_t offset;  ///< of the allocation in it
};
static_assert(sizeof(Handle) <= CUDA_IPC_HANDLE_SIZE);

int make(void* handle, std::uint64_t address) {
  const auto mapping = machine().memory.find(address);
  if (mapping == nullptr || !mapping->whole) return cudaErrorInvalidValue;
  const Handle made{.process = getpid(),
                    .file = machine().memory.share(mapping->chunk.get()),
                    .size = mapping->chunk->size,
                    .offset = mapping->offset};
  std::memset(handle, 0, CUDA_IPC_HANDLE_SIZE);
  std::memcpy(handle, &made, sizeof made);
  return 0;
}

int open(void** memory, const void* handle) {
  Handle from{};
  std::memcpy(&from, handle, sizeof from);
  const std::string path = "/proc/" + std::to_string(from.process) + "/fd/" + std::to_string(from.file);
  const int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) return cudaErrorInvalidResourceHandle;
  Chunk* chunk = nullptr;
  std::uint64_t address = 0;
  machine().memory.adopt(current_device(), file, from.size, chunk);
  const Outcome outcome = machine().memory.open(chunk, address);
  machine().memory.release(chunk);  // the mapping holds it from now on
  if (outcome == Outcome::kOk) know_imported(address, from.size);
  *memory = as_pointer<void*>(address + from.offset);
  return error_of(outcome);
}

int close(const char* what, void* memory) {
  const auto mapping = machine().memory.find(address_of(memory));
  if (mapping == nullptr || !mapping->chunk->imported) return cudaErrorInvalidValue;
  machine().streams.synchronize_all();
  forget(what, mapping->begin, mapping->size);
  return error_of(machine().memory.free(mapping->begin));
}

}  // namespace
}  // namespace nullcuda

using namespace nullcuda;  // NOLINT(google-build-using-namespace)

NULLCUDA_API cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* memory) {
  NULLCUDA_RUNTIME_CALL();
  return ended(make(handle, address_of(memory)));
}

NULLCUDA_API cudaError_t cudaIpcOpenMemHandle(void** memory, cudaIpcMemHandle_t handle, unsigned) {
  NULLCUDA_RUNTIME_CALL();
  return ended(nullcuda::open(memory, &handle));
}

NULLCUDA_API cudaError_t cudaIpcCloseMemHandle(void* memory) {
  NULLCUDA_RUNTIME_CALL();
  return ended(nullcuda::close("cudaIpcCloseMemHandle", memory));
}

NULLCUDA_API CUresult cuIpcGetMemHandle(CUipcMemHandle* handle, CUdeviceptr memory) {
  NULLCUDA_DRIVER_CALL();
  return driver(make(handle, memory));
}

NULLCUDA_API CUresult cuIpcOpenMemHandle(CUdeviceptr* memory, CUipcMemHandle handle, unsigned) {
  NULLCUDA_DRIVER_CALL();
  void* pointer = nullptr;
  const int error = nullcuda::open(&pointer, &handle);
  *memory = address_of(pointer);
  return driver(error);
}

NULLCUDA_API CUresult cuIpcCloseMemHandle(CUdeviceptr memory) {
  NULLCUDA_DRIVER_CALL();
  return driver(nullcuda::close("cuIpcCloseMemHandle", as_pointer<void*>(memory)));
}

// An event of another process is one that is done: what it stood for was given to a stream before its handle
// was sent.

NULLCUDA_API cudaError_t cudaIpcGetEventHandle(cudaIpcEventHandle_t* handle, cudaEvent_t) {
  NULLCUDA_RUNTIME_CALL();
  std::memset(handle, 0, sizeof *handle);
  return cudaSuccess;
}

NULLCUDA_API cudaError_t cudaIpcOpenEventHandle(cudaEvent_t* event, cudaIpcEventHandle_t) {
  NULLCUDA_RUNTIME_CALL();
  *event = as_pointer<cudaEvent_t>(address_of(machine().streams.create_event(current_device(), false)));
  return cudaSuccess;
}
