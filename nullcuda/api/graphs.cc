// Graphs: what is captured is counted and, in checking mode, checked at each launch; nothing of it is run.

#include <cstring>
#include <memory>

#include "api/abi.h"

namespace nullcuda {
namespace {

CUstreamCaptureStatus status(const Capture& capture) {
  return capture.id == 0   ? CU_STREAM_CAPTURE_STATUS_NONE
         : capture.invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                           : CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

int begin(cudaStream_t stream, int mode) {
  return machine().streams.begin_capture(id_of(stream), static_cast<CaptureMode>(mode));
}

int end(cudaStream_t stream, cudaGraph_t* graph) {
  std::unique_ptr<Graph> made;
  const int error = machine().streams.end_capture(id_of(stream), made);
  *graph = std::bit_cast<cudaGraph_t>(made.release());
  return error;
}

/// An executable graph is a copy of the graph.
cudaGraphExec_t instantiate(cudaGraph_t graph) {
  const auto* from = std::bit_cast<const Graph*>(graph);
  return std::bit_cast<cudaGraphExec_t>(from == nullptr ? new Graph : new Graph(*from));
}

int launch(const char* what, cudaGraphExec_t exec, cudaStream_t stream) {
  const auto* graph = std::bit_cast<const Graph*>(exec);
  if (graph == nullptr) return cudaErrorInvalidValue;
  use(what, id_of(stream), graph->uses);
  return 0;
}

/// As cudaStreamGetCaptureInfo in all its versions: what nobody asked for is a null pointer.
void inform(cudaStream_t stream, CUstreamCaptureStatus* state, unsigned long long* id, cudaGraph_t* graph,
            const cudaGraphNode_t** nodes, std::size_t* count) {
  static const cudaGraphNode_t kNone = nullptr;
  const Capture capture = machine().streams.capture(id_of(stream));
  if (state != nullptr) *state = status(capture);
  if (id != nullptr) *id = capture.id;
  if (graph != nullptr) *graph = as_pointer<cudaGraph_t>(capture.id);
  if (nodes != nullptr) *nodes = &kNone;
  if (count != nullptr) *count = 0;
}

}  // namespace
}  // namespace nullcuda

using namespace nullcuda;  // NOLINT(google-build-using-namespace)

NULLCUDA_API cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  NULLCUDA_RUNTIME_CALL();
  return ended(begin(stream, mode));
}

NULLCUDA_API cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  NULLCUDA_RUNTIME_CALL();
  return ended(end(stream, graph));
}

NULLCUDA_API cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* state) {
  NULLCUDA_RUNTIME_CALL();
  *state = static_cast<cudaStreamCaptureStatus>(status(machine().streams.capture(id_of(stream))));
  return cudaSuccess;
}

NULLCUDA_API cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  NULLCUDA_RUNTIME_CALL();
  *mode =
      static_cast<cudaStreamCaptureMode>(machine().streams.exchange_mode(static_cast<CaptureMode>(*mode)));
  return cudaSuccess;
}

#if CUDART_VERSION >= 13000
NULLCUDA_API cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* state,
                                                  unsigned long long* id, cudaGraph_t* graph,
                                                  const cudaGraphNode_t** nodes,
                                                  const cudaGraphEdgeData** edges, std::size_t* count) {
  NULLCUDA_RUNTIME_CALL();
  if (edges != nullptr) *edges = nullptr;
#else
NULLCUDA_API cudaError_t cudaStreamGetCaptureInfo_v2(cudaStream_t stream, cudaStreamCaptureStatus* state,
                                                     unsigned long long* id, cudaGraph_t* graph,
                                                     const cudaGraphNode_t** nodes, std::size_t* count) {
  NULLCUDA_RUNTIME_CALL();
#endif
  CUstreamCaptureStatus found{};
  inform(stream, &found, id, graph, nodes, count);
  if (state != nullptr) *state = static_cast<cudaStreamCaptureStatus>(found);
  return cudaSuccess;
}

NULLCUDA_API cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, std::size_t* count) {
  NULLCUDA_RUNTIME_CALL();
  const auto* found = std::bit_cast<const Graph*>(graph);
  const std::size_t have = found == nullptr ? 0 : found->nodes;
  if (nodes != nullptr)
    for (std::size_t place = 0; place < std::min(*count, have); ++place)
      nodes[place] = as_pointer<cudaGraphNode_t>(fresh_handle());
  *count = have;
  return cudaSuccess;
}

#if CUDART_VERSION >= 12000
NULLCUDA_API cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
  NULLCUDA_RUNTIME_CALL();
  *exec = instantiate(graph);
  return cudaSuccess;
}
#endif

NULLCUDA_API cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* exec, cudaGraph_t graph,
                                                       unsigned long long) {
  NULLCUDA_RUNTIME_CALL();
  *exec = instantiate(graph);
  return cudaSuccess;
}

NULLCUDA_API cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  NULLCUDA_RUNTIME_CALL();
  return ended(launch("cudaGraphLaunch", exec, stream));
}

NULLCUDA_API cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  NULLCUDA_RUNTIME_CALL();
  delete std::bit_cast<Graph*>(graph);
  return cudaSuccess;
}

NULLCUDA_API cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  NULLCUDA_RUNTIME_CALL();
  delete std::bit_cast<Graph*>(exec);
  return cudaSuccess;
}

NULLCUDA_API CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus* state) {
  NULLCUDA_DRIVER_CALL();
  *state = status(machine().streams.capture(id_of(stream)));
  return CUDA_SUCCESS;
}

NULLCUDA_API CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  NULLCUDA_DRIVER_CALL();
  *mode = static_cast<CUstreamCaptureMode>(machine().streams.exchange_mode(static_cast<CaptureMode>(*mode)));
  return CUDA_SUCCESS;
}

NULLCUDA_API CUresult cuStreamBeginCapture(CUstream stream, CUstreamCaptureMode mode) {
  NULLCUDA_DRIVER_CALL();
  return driver(begin(stream, mode));
}

NULLCUDA_API CUresult cuStreamEndCapture(CUstream stream, CUgraph* graph) {
  NULLCUDA_DRIVER_CALL();
  return driver(end(stream, graph));
}

// CUDA 12.3 added edges to what is told; older callers ask for _v2.
#undef cuStreamGetCaptureInfo
NULLCUDA_API CUresult cuStreamGetCaptureInfo_v2(CUstream stream, CUstreamCaptureStatus* state, cuuint64_t* id,
                                                CUgraph* graph, const CUgraphNode** nodes,
                                                std::size_t* count) {
  NULLCUDA_DRIVER_CALL();
  unsigned long long number = 0;
  inform(stream, state, &number, graph, nodes, count);
  if (id != nullptr) *id = number;
  return CUDA_SUCCESS;
}

NULLCUDA_API CUresult cuStreamGetCaptureInfo_v3(CUstream stream, CUstreamCaptureStatus* state, cuuint64_t* id,
                                                CUgraph* graph, const CUgraphNode** nodes,
                                                const CUgraphEdgeData** edges, std::size_t* count) {
  NULLCUDA_DRIVER_CALL();
  unsigned long long number = 0;
  inform(stream, state, &number, graph, nodes, count);
  if (id != nullptr) *id = number;
  if (edges != nullptr) *edges = nullptr;
  return CUDA_SUCCESS;
}

NULLCUDA_API CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream) {
  NULLCUDA_DRIVER_CALL();
  return driver(launch("cuGraphLaunch", exec, stream));
}
