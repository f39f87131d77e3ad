// Graphs: of what is captured each launch checks the uses of memory, in checking mode, and brings the effects
// that are known.

#include <cstring>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>

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

/// All graphs that programs hold, executable ones too: shared, for a launch may go on while they are
/// destroyed.
class Graphs {
 public:
  const void* add(Graph graph) {
    auto made = std::make_shared<const Graph>(std::move(graph));
    const std::scoped_lock lock(mutex_);
    const void* handle = made.get();
    graphs_.emplace(handle, std::move(made));
    return handle;
  }
  /// Null where there is none.
  std::shared_ptr<const Graph> find(const void* handle) {
    const std::scoped_lock lock(mutex_);
    const auto found = graphs_.find(handle);
    return found == graphs_.end() ? nullptr : found->second;
  }
  bool remove(const void* handle) {
    const std::scoped_lock lock(mutex_);
    return graphs_.erase(handle) != 0;
  }

 private:
  std::mutex mutex_;
  std::unordered_map<const void*, std::shared_ptr<const Graph>> graphs_;
};

Graphs& graphs() {
  static auto* const kAll = new Graphs;
  return *kAll;
}

int end(cudaStream_t stream, cudaGraph_t* graph) {
  std::unique_ptr<Graph> made;
  const int error = machine().streams.end_capture(id_of(stream), made);
  *graph = made == nullptr ? nullptr : std::bit_cast<cudaGraph_t>(graphs().add(std::move(*made)));
  return error;
}

/// An executable graph is a copy of the graph.
int instantiate(cudaGraphExec_t* exec, cudaGraph_t graph) {
  const auto from = graphs().find(graph);
  if (!from) return cudaErrorInvalidValue;
  *exec = std::bit_cast<cudaGraphExec_t>(graphs().add(*from));
  return 0;
}

int launch(const char* what, cudaGraphExec_t exec, cudaStream_t stream) {
  const auto graph = graphs().find(exec);
  if (!graph) return cudaErrorInvalidValue;
  perform(what, id_of(stream), graph->uses, [graph] {
    for (const Effect& effect : graph->effects) effect();
  });
  return 0;
}

int destroy(const void* graph) {
  return graphs().remove(graph) ? 0 : cudaErrorInvalidValue;
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
  const auto found = graphs().find(graph);
  const std::size_t have = found == nullptr ? 0 : found->nodes;
  if (nodes != nullptr)
    for (std::size_t place = 0; place < std::min(*count, have); ++place)
      nodes[place] = as_pointer<cudaGraphNode_t>(fresh_handle());
  *count = have;
  return cudaSuccess;
}

NULLCUDA_API cudaError_t cudaGraphCreate(cudaGraph_t* graph, unsigned) {
  NULLCUDA_RUNTIME_CALL();
  *graph = std::bit_cast<cudaGraph_t>(graphs().add({}));
  return cudaSuccess;
}

#if CUDART_VERSION >= 12000
NULLCUDA_API cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
  NULLCUDA_RUNTIME_CALL();
  return ended(instantiate(exec, graph));
}
#endif

NULLCUDA_API cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* exec, cudaGraph_t graph,
                                                       unsigned long long) {
  NULLCUDA_RUNTIME_CALL();
  return ended(instantiate(exec, graph));
}

NULLCUDA_API cudaError_t cudaGraphInstantiateWithParams(cudaGraphExec_t* exec, cudaGraph_t graph,
                                                        cudaGraphInstantiateParams*) {
  NULLCUDA_RUNTIME_CALL();
  return ended(instantiate(exec, graph));
}

NULLCUDA_API cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  NULLCUDA_RUNTIME_CALL();
  return ended(launch("cudaGraphLaunch", exec, stream));
}

NULLCUDA_API cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  NULLCUDA_RUNTIME_CALL();
  return ended(destroy(graph));
}

NULLCUDA_API cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  NULLCUDA_RUNTIME_CALL();
  return ended(destroy(exec));
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

NULLCUDA_API CUresult cuGraphCreate(CUgraph* graph, unsigned) {
  NULLCUDA_DRIVER_CALL();
  *graph = std::bit_cast<CUgraph>(graphs().add({}));
  return CUDA_SUCCESS;
}

NULLCUDA_API CUresult cuGraphInstantiateWithFlags(CUgraphExec* exec, CUgraph graph, unsigned long long) {
  NULLCUDA_DRIVER_CALL();
  return driver(instantiate(exec, graph));
}

NULLCUDA_API CUresult cuGraphInstantiateWithParams(CUgraphExec* exec, CUgraph graph,
                                                   CUDA_GRAPH_INSTANTIATE_PARAMS*) {
  NULLCUDA_DRIVER_CALL();
  return driver(instantiate(exec, graph));
}

NULLCUDA_API CUresult cuGraphDestroy(CUgraph graph) {
  NULLCUDA_DRIVER_CALL();
  return driver(destroy(graph));
}

NULLCUDA_API CUresult cuGraphExecDestroy(CUgraphExec exec) {
  NULLCUDA_DRIVER_CALL();
  return driver(destroy(exec));
}
