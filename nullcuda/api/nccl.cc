// NCCL: one rank of as many as it is told. Nothing is sent; what would arrive is unknown, but in a group of
// one.

#include <cstring>
#include <mutex>
#include <nccl.h>

#include "api/abi.h"

namespace nullcuda {
namespace {

struct Communicator {
  int size;
  int rank;
  int device;
};

Communicator* of(ncclComm_t communicator) {
  return std::bit_cast<Communicator*>(communicator);
}

ncclResult_t make(ncclComm_t* communicator, int size, int rank) {
  *communicator = std::bit_cast<ncclComm_t>(new Communicator{size, rank, current_device()});
  return ncclSuccess;
}

std::uint64_t bytes(std::size_t count, ncclDataType_t type) {
  switch (type) {
    case ncclFloat16:
    case ncclBfloat16:
      return count * 2;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32:
      return count * 4;
    case ncclInt64:
    case ncclUint64:
    case ncclFloat64:
      return count * 8;
    default:
      return count;
  }
}

/// What the root has for all ranks where each has `size` bytes; no other rank has any of it.
std::uint64_t at_root(std::uint64_t size, int root, ncclComm_t communicator) {
  const Communicator& own = *of(communicator);
  return own.rank == root ? size * static_cast<std::uint64_t>(own.size) : 0;
}

/// A collective that reads `in` bytes and writes `out`. In a group of one the result is the input.
ncclResult_t collective(const char* what, const void* from, std::uint64_t in, void* to, std::uint64_t out,
                        ncclComm_t communicator, cudaStream_t stream) {
  if (of(communicator)->size == 1 && in == out && from != nullptr && to != nullptr) {
    if (from != to) copy(what, id_of(stream), to, from, in);
    return ncclSuccess;
  }
  std::vector<Use> uses;
  if (in > 0 && from != nullptr) uses.push_back({.begin = address_of(from), .size = in, .writes = false});
  if (out > 0 && to != nullptr) uses.push_back({.begin = address_of(to), .size = out, .writes = true});
  use(what, id_of(stream), uses);
  // An all-reduce in place keeps what is known until whoever watches values says otherwise.
  if (from != to) machine().known.remove(address_of(to), out);
  return ncclSuccess;
}

}  // namespace
}  // namespace nullcuda

using namespace nullcuda;  // NOLINT(google-build-using-namespace)

#define NULLCUDA_NCCL_CALL() \
  if (NULLCUDA_CALLED() != 0) return ncclUnhandledCudaError

NULLCUDA_API ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

NULLCUDA_API const char* ncclGetErrorString(ncclResult_t result) {
  return result == ncclSuccess ? "no error" : "unhandled cuda error (run with NCCL_DEBUG=INFO for details)";
}

NULLCUDA_API const char* ncclGetLastError(ncclComm_t) {
  return "";
}

NULLCUDA_API ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  NULLCUDA_NCCL_CALL();
  std::memset(id, 1, sizeof *id);
  return ncclSuccess;
}

NULLCUDA_API ncclResult_t ncclCommInitRank(ncclComm_t* communicator, int size, ncclUniqueId, int rank) {
  NULLCUDA_NCCL_CALL();
  return make(communicator, size, rank);
}

NULLCUDA_API ncclResult_t ncclCommInitRankConfig(ncclComm_t* communicator, int size, ncclUniqueId, int rank,
                                                 ncclConfig_t*) {
  NULLCUDA_NCCL_CALL();
  return make(communicator, size, rank);
}

NULLCUDA_API ncclResult_t ncclCommInitRankScalable(ncclComm_t* communicator, int size, int rank, int,
                                                   ncclUniqueId*, ncclConfig_t*) {
  NULLCUDA_NCCL_CALL();
  return make(communicator, size, rank);
}

NULLCUDA_API ncclResult_t ncclCommInitAll(ncclComm_t* communicators, int size, const int*) {
  NULLCUDA_NCCL_CALL();
  for (int rank = 0; rank < size; ++rank) make(communicators + rank, size, rank);
  return ncclSuccess;
}

// How many ranks have the same colour only all of them together know: programs that split ask for it by other
// ways.
NULLCUDA_API ncclResult_t ncclCommSplit(ncclComm_t communicator, int, int, ncclComm_t* part, ncclConfig_t*) {
  NULLCUDA_NCCL_CALL();
  return make(part, of(communicator)->size, of(communicator)->rank);
}

NULLCUDA_API ncclResult_t ncclCommDestroy(ncclComm_t communicator) {
  NULLCUDA_NCCL_CALL();
  delete of(communicator);
  return ncclSuccess;
}

NULLCUDA_API ncclResult_t ncclCommAbort(ncclComm_t communicator) {
  NULLCUDA_NCCL_CALL();
  delete of(communicator);
  return ncclSuccess;
}

NULLCUDA_API ncclResult_t ncclCommCount(ncclComm_t communicator, int* count) {
  NULLCUDA_NCCL_CALL();
  *count = of(communicator)->size;
  return ncclSuccess;
}

NULLCUDA_API ncclResult_t ncclCommUserRank(ncclComm_t communicator, int* rank) {
  NULLCUDA_NCCL_CALL();
  *rank = of(communicator)->rank;
  return ncclSuccess;
}

NULLCUDA_API ncclResult_t ncclCommCuDevice(ncclComm_t communicator, int* device) {
  NULLCUDA_NCCL_CALL();
  *device = of(communicator)->device;
  return ncclSuccess;
}

NULLCUDA_API ncclResult_t ncclCommGetAsyncError(ncclComm_t, ncclResult_t* error) {
  NULLCUDA_NCCL_CALL();
  *error = ncclSuccess;
  return ncclSuccess;
}

NULLCUDA_API ncclResult_t ncclMemAlloc(void** memory, std::size_t size) {
  NULLCUDA_NCCL_CALL();
  return cudaMalloc(memory, size) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

NULLCUDA_API ncclResult_t ncclMemFree(void* memory) {
  NULLCUDA_NCCL_CALL();
  return cudaFree(memory) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

NULLCUDA_API ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t* op, void*, ncclDataType_t,
                                                   ncclScalarResidence_t, ncclComm_t) {
  NULLCUDA_NCCL_CALL();
  *op = ncclNumOps;  // the first number that is no built-in operation's
  return ncclSuccess;
}

// ---- collectives ----

NULLCUDA_API ncclResult_t ncclAllReduce(const void* from, void* to, std::size_t count, ncclDataType_t type,
                                        ncclRedOp_t, ncclComm_t communicator, cudaStream_t stream) {
  NULLCUDA_NCCL_CALL();
  const std::uint64_t size = bytes(count, type);
  return collective("ncclAllReduce", from, size, to, size, communicator, stream);
}

NULLCUDA_API ncclResult_t ncclReduce(const void* from, void* to, std::size_t count, ncclDataType_t type,
                                     ncclRedOp_t, int, ncclComm_t communicator, cudaStream_t stream) {
  NULLCUDA_NCCL_CALL();
  const std::uint64_t size = bytes(count, type);
  return collective("ncclReduce", from, size, to, size, communicator, stream);
}

NULLCUDA_API ncclResult_t ncclBroadcast(const void* from, void* to, std::size_t count, ncclDataType_t type,
                                        int, ncclComm_t communicator, cudaStream_t stream) {
  NULLCUDA_NCCL_CALL();
  const std::uint64_t size = bytes(count, type);
  return collective("ncclBroadcast", from, size, to, size, communicator, stream);
}

NULLCUDA_API ncclResult_t ncclBcast(void* buffer, std::size_t count, ncclDataType_t type, int,
                                    ncclComm_t communicator, cudaStream_t stream) {
  NULLCUDA_NCCL_CALL();
  const std::uint64_t size = bytes(count, type);
  return collective("ncclBcast", buffer, size, buffer, size, communicator, stream);
}

NULLCUDA_API ncclResult_t ncclAllGather(const void* from, void* to, std::size_t count, ncclDataType_t type,
                                        ncclComm_t communicator, cudaStream_t stream) {
  NULLCUDA_NCCL_CALL();
  const std::uint64_t size = bytes(count, type);
  const auto ranks = static_cast<std::uint64_t>(of(communicator)->size);
  return collective("ncclAllGather", from, size, to, size * ranks, communicator, stream);
}

NULLCUDA_API ncclResult_t ncclReduceScatter(const void* from, void* to, std::size_t count,
                                            ncclDataType_t type, ncclRedOp_t, ncclComm_t communicator,
                                            cudaStream_t stream) {
  NULLCUDA_NCCL_CALL();
  const std::uint64_t size = bytes(count, type);
  const auto ranks = static_cast<std::uint64_t>(of(communicator)->size);
  return collective("ncclReduceScatter", from, size * ranks, to, size, communicator, stream);
}

NULLCUDA_API ncclResult_t ncclAlltoAll(const void* from, void* to, std::size_t count, ncclDataType_t type,
                                       ncclComm_t communicator, cudaStream_t stream) {
  NULLCUDA_NCCL_CALL();
  const std::uint64_t size = bytes(count, type) * static_cast<std::uint64_t>(of(communicator)->size);
  return collective("ncclAlltoAll", from, size, to, size, communicator, stream);
}

NULLCUDA_API ncclResult_t ncclGather(const void* from, void* to, std::size_t count, ncclDataType_t type,
                                     int root, ncclComm_t communicator, cudaStream_t stream) {
  NULLCUDA_NCCL_CALL();
  const std::uint64_t size = bytes(count, type);
  return collective("ncclGather", from, size, to, at_root(size, root, communicator), communicator, stream);
}

NULLCUDA_API ncclResult_t ncclScatter(const void* from, void* to, std::size_t count, ncclDataType_t type,
                                      int root, ncclComm_t communicator, cudaStream_t stream) {
  NULLCUDA_NCCL_CALL();
  const std::uint64_t size = bytes(count, type);
  return collective("ncclScatter", from, at_root(size, root, communicator), to, size, communicator, stream);
}

NULLCUDA_API ncclResult_t ncclSend(const void* from, std::size_t count, ncclDataType_t type, int,
                                   ncclComm_t communicator, cudaStream_t stream) {
  NULLCUDA_NCCL_CALL();
  return collective("ncclSend", from, bytes(count, type), nullptr, 0, communicator, stream);
}

NULLCUDA_API ncclResult_t ncclRecv(void* to, std::size_t count, ncclDataType_t type, int,
                                   ncclComm_t communicator, cudaStream_t stream) {
  NULLCUDA_NCCL_CALL();
  return collective("ncclRecv", nullptr, 0, to, bytes(count, type), communicator, stream);
}
