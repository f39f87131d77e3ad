// Streams and events.

#include <algorithm>

#include "api/abi.h"

namespace nullcuda {
namespace {

constexpr int kLeastPriority = 0;
constexpr int kGreatestPriority = -5;

int create(cudaStream_t* stream, unsigned flags, int priority) {
  priority = std::clamp(priority, kGreatestPriority, kLeastPriority);
  *stream = as_pointer<cudaStream_t>(machine().streams.create(current_device(), flags, priority));
  return 0;
}

int destroy(cudaStream_t stream) {
  return machine().streams.destroy(id_of(stream)) ? 0 : cudaErrorInvalidResourceHandle;
}

int synchronize_device() {
  if (const int error = machine().streams.forbidden(); error != 0) return error;
  machine().streams.synchronize_all(current_device());
  return 0;
}

Event* of(cudaEvent_t event) {
  return std::bit_cast<Event*>(event);
}

int create_event(cudaEvent_t* event, unsigned flags) {
  const bool timed = (flags & cudaEventDisableTiming) == 0;
  *event = std::bit_cast<cudaEvent_t>(machine().streams.create_event(current_device(), timed));
  return 0;
}

/// Records and waits that a capture takes as nodes, not as its own order.
bool is_node(cudaStream_t stream, unsigned flags) {
  if (flags == 0 || machine().streams.capture(id_of(stream)).id == 0) return false;
  machine().streams.work(id_of(stream), {});
  return true;
}

int record(cudaEvent_t event, cudaStream_t stream, unsigned flags = 0) {
  return is_node(stream, flags) ? 0 : machine().streams.record(of(event), id_of(stream));
}

int wait(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  return is_node(stream, flags) ? 0 : machine().streams.wait(id_of(stream), of(event));
}

int elapsed(float* milliseconds, cudaEvent_t from, cudaEvent_t to) {
  double between = 0;
  const int error = machine().streams.elapsed(of(from), of(to), between);
  // Host time: programs divide by it, so it is never zero.
  if (error == 0) *milliseconds = std::max(1e-3F, static_cast<float>(between));
  return error;
}

/// What is not ready is an answer, not an error that stays.
cudaError_t answered(int error) {
  return error == cudaErrorNotReady ? cudaErrorNotReady : ended(error);
}

}  // namespace
}  // namespace nullcuda

using namespace nullcuda;  // NOLINT(google-build-using-namespace)

NULLCUDA_API cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  NULLCUDA_RUNTIME_CALL();
  return ended(create(stream, cudaStreamDefault, 0));
}

NULLCUDA_API cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  NULLCUDA_RUNTIME_CALL();
  return ended(create(stream, flags, 0));
}

NULLCUDA_API cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  NULLCUDA_RUNTIME_CALL();
  return ended(create(stream, flags, priority));
}

NULLCUDA_API cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  NULLCUDA_RUNTIME_CALL();
  return ended(destroy(stream));
}

NULLCUDA_API cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority) {
  NULLCUDA_RUNTIME_CALL();
  *priority = machine().streams.priority(id_of(stream));
  return cudaSuccess;
}

NULLCUDA_API cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned* flags) {
  NULLCUDA_RUNTIME_CALL();
  *flags = machine().streams.flags(id_of(stream));
  return cudaSuccess;
}

NULLCUDA_API cudaError_t cudaStreamGetId(cudaStream_t stream, unsigned long long* id) {
  NULLCUDA_RUNTIME_CALL();
  *id = id_of(stream);
  return cudaSuccess;
}

NULLCUDA_API cudaError_t cudaStreamQuery(cudaStream_t stream) {
  NULLCUDA_RUNTIME_CALL();
  return answered(machine().streams.query(id_of(stream)));
}

NULLCUDA_API cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  NULLCUDA_RUNTIME_CALL();
  return ended(machine().streams.synchronize(id_of(stream)));
}

NULLCUDA_API cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  NULLCUDA_RUNTIME_CALL();
  return ended(wait(stream, event, flags));
}

NULLCUDA_API cudaError_t cudaDeviceSynchronize() {
  NULLCUDA_RUNTIME_CALL();
  return ended(synchronize_device());
}

NULLCUDA_API cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  NULLCUDA_RUNTIME_CALL();
  if (least != nullptr) *least = kLeastPriority;
  if (greatest != nullptr) *greatest = kGreatestPriority;
  return cudaSuccess;
}

// Functions of the host that wait in a stream run at once: nothing that they wait for takes time.

NULLCUDA_API cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  NULLCUDA_RUNTIME_CALL();
  perform("cudaLaunchHostFunc", id_of(stream), {}, [=] { function(data); });
  return cudaSuccess;
}

NULLCUDA_API cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t function, void* data,
                                               unsigned) {
  NULLCUDA_RUNTIME_CALL();
  function(stream, cudaSuccess, data);
  return cudaSuccess;
}

// ---- events ----

NULLCUDA_API cudaError_t cudaEventCreate(cudaEvent_t* event) {
  NULLCUDA_RUNTIME_CALL();
  return ended(create_event(event, 0));
}

NULLCUDA_API cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  NULLCUDA_RUNTIME_CALL();
  return ended(create_event(event, flags));
}

NULLCUDA_API cudaError_t cudaEventDestroy(cudaEvent_t event) {
  NULLCUDA_RUNTIME_CALL();
  return ended(
      machine().streams.destroy_event(std::bit_cast<Event*>(event)) ? 0 : cudaErrorInvalidResourceHandle);
}

NULLCUDA_API cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  NULLCUDA_RUNTIME_CALL();
  return ended(record(event, stream));
}

NULLCUDA_API cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags) {
  NULLCUDA_RUNTIME_CALL();
  return ended(record(event, stream, flags));
}

NULLCUDA_API cudaError_t cudaEventQuery(cudaEvent_t event) {
  NULLCUDA_RUNTIME_CALL();
  return answered(machine().streams.query(of(event)));
}

NULLCUDA_API cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  NULLCUDA_RUNTIME_CALL();
  return ended(machine().streams.synchronize(of(event)));
}

NULLCUDA_API cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to) {
  NULLCUDA_RUNTIME_CALL();
  return answered(elapsed(milliseconds, from, to));
}

// ---- the driver's names for the same ----

NULLCUDA_API CUresult cuStreamCreate(CUstream* stream, unsigned flags) {
  NULLCUDA_DRIVER_CALL();
  return driver(create(stream, flags, 0));
}

NULLCUDA_API CUresult cuStreamCreateWithPriority(CUstream* stream, unsigned flags, int priority) {
  NULLCUDA_DRIVER_CALL();
  return driver(create(stream, flags, priority));
}

NULLCUDA_API CUresult cuStreamDestroy(CUstream stream) {
  NULLCUDA_DRIVER_CALL();
  return driver(destroy(stream));
}

NULLCUDA_API CUresult cuStreamQuery(CUstream stream) {
  NULLCUDA_DRIVER_CALL();
  return driver(machine().streams.query(id_of(stream)));
}

NULLCUDA_API CUresult cuStreamSynchronize(CUstream stream) {
  NULLCUDA_DRIVER_CALL();
  return driver(machine().streams.synchronize(id_of(stream)));
}

NULLCUDA_API CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags) {
  NULLCUDA_DRIVER_CALL();
  return driver(wait(stream, event, flags));
}

NULLCUDA_API CUresult cuStreamGetPriority(CUstream stream, int* priority) {
  NULLCUDA_DRIVER_CALL();
  *priority = machine().streams.priority(id_of(stream));
  return CUDA_SUCCESS;
}

NULLCUDA_API CUresult cuCtxSynchronize() {
  NULLCUDA_DRIVER_CALL();
  return driver(synchronize_device());
}

NULLCUDA_API CUresult cuEventCreate(CUevent* event, unsigned flags) {
  NULLCUDA_DRIVER_CALL();
  return driver(create_event(event, flags));
}

NULLCUDA_API CUresult cuEventDestroy(CUevent event) {
  NULLCUDA_DRIVER_CALL();
  return driver(machine().streams.destroy_event(std::bit_cast<Event*>(event)) ? 0
                                                                              : CUDA_ERROR_INVALID_HANDLE);
}

NULLCUDA_API CUresult cuEventRecord(CUevent event, CUstream stream) {
  NULLCUDA_DRIVER_CALL();
  return driver(record(event, stream));
}

NULLCUDA_API CUresult cuEventQuery(CUevent event) {
  NULLCUDA_DRIVER_CALL();
  return driver(machine().streams.query(of(event)));
}

NULLCUDA_API CUresult cuEventSynchronize(CUevent event) {
  NULLCUDA_DRIVER_CALL();
  return driver(machine().streams.synchronize(of(event)));
}

NULLCUDA_API CUresult cuEventElapsedTime(float* milliseconds, CUevent from, CUevent to) {
  NULLCUDA_DRIVER_CALL();
  return driver(elapsed(milliseconds, from, to));
}
