// cuDNN's graphs: descriptors that remember what was set (cudnn_graph.h), one engine for each graph, and the
// workspace it would ask.

#include <algorithm>
#include <cstring>
#include <cudnn.h>
#include <utility>
#include <vector>

#include "api/abi.h"
#include "api/cudnn_graph.h"
#include "api/sizes.h"

namespace nullcuda {
namespace {

Descriptor* of(cudnnBackendDescriptor_t descriptor) {
  return static_cast<Descriptor*>(descriptor);
}

std::vector<std::int64_t> dimensions(const Descriptor* operation, cudnnBackendAttributeName_t tensor) {
  return elements<std::int64_t>(find(descriptor_in(operation, tensor), CUDNN_ATTR_TENSOR_DIMENSIONS));
}

// Attention, as one operation or as the products it is made of: the forward pass has two, the backward pass
// five. PyTorch's frontend adds what it needs itself; the plan's own part was fitted on an H200 (cuDNN 9.19):
// 256 bytes, and for the backward pass of grouped queries a float for each query head, position and element
// of keys.
constexpr std::int64_t kAttention = 256;
// The numbers of CUDNN_BACKEND_OPERATION_SDPA_FWD_DESCRIPTOR and ..._BWD_..., which older headers lack.
constexpr int kAttentionForward = 41;
constexpr int kAttentionBackward = 43;

std::int64_t attention_backward(const Descriptor* product) {
  const auto queries = dimensions(product, CUDNN_ATTR_OPERATION_MATMUL_ADESC);
  const auto keys = dimensions(product, CUDNN_ATTR_OPERATION_MATMUL_BDESC);
  if (queries.size() != 4 || keys.size() != 4 || queries[1] == keys[1]) return kAttention;
  return kAttention + 4 * queries[0] * queries[1] * queries[3] * keys[3];
}

/// What the graph asks where nobody recorded it: known of attention alone.
std::int64_t rule(const Descriptor* graph) {
  std::vector<const Descriptor*> products;
  for (const Descriptor* operation : operations(graph)) {
    const int type = operation->type;
    if (type == kAttentionForward || type == kAttentionBackward) return kAttention;
    if (operation->type == CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR) products.push_back(operation);
  }
  if (products.size() == 2) return kAttention;
  if (products.size() == 5) return attention_backward(products.front());
  return 0;
}

// Which engine is chosen, and what it needs, only cuDNN knows: recorded on a GPU for some graphs.
std::int64_t workspace(const Descriptor* graph) {
  const bool is_convolution = kind_of(graph) == "conv";
  const auto* found =
      recorded(kind_of(graph), key_of(graph), is_convolution ? "cuDNN workspace of a convolution" : nullptr);
  return found != nullptr ? static_cast<std::int64_t>((*found)[0]) : rule(graph);
}

cudnnStatus_t set(Descriptor* descriptor, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                  std::int64_t count, const void* values) {
  constexpr std::int64_t kMost = 1 << 20;
  if (descriptor == nullptr || count < 0 || count > kMost) return CUDNN_STATUS_BAD_PARAM;
  Value value{.type = type,
              .count = count,
              .bytes = std::vector<char>(width(type) * static_cast<std::size_t>(count))};
  if (values != nullptr) std::memcpy(value.bytes.data(), values, value.bytes.size());
  remember(*descriptor, name, std::move(value));
  return CUDNN_STATUS_SUCCESS;
}

template <typename Number>
void give(Number number, std::int64_t wanted, std::int64_t* count, void* values) {
  if (count != nullptr) *count = 1;
  if (wanted > 0 && values != nullptr) std::memcpy(values, &number, sizeof number);
}

/// Writes into the descriptor that the caller made for the answer.
void give_graph(const Descriptor* from, std::int64_t wanted, std::int64_t* count, void* values) {
  if (count != nullptr) *count = 1;
  if (wanted == 0 || values == nullptr) return;
  Descriptor* answer = nullptr;
  std::memcpy(&answer, values, sizeof answer);
  if (answer != nullptr) answer->graph = from->graph;
}

cudnnStatus_t get(const Descriptor* descriptor, cudnnBackendAttributeName_t name,
                  cudnnBackendAttributeType_t type, std::int64_t wanted, std::int64_t* count, void* values) {
  if (count != nullptr) *count = 0;
  switch (name) {
    case CUDNN_ATTR_ENGINEHEUR_RESULTS:
      give_graph(descriptor, wanted, count, values);
      return CUDNN_STATUS_SUCCESS;
    case CUDNN_ATTR_ENGINECFG_ENGINE:
      if (descriptor->type == CUDNN_BACKEND_ENGINECFG_DESCRIPTOR) {
        give_graph(descriptor, wanted, count, values);
        return CUDNN_STATUS_SUCCESS;
      }
      break;
    case CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE:
      give(workspace(descriptor->graph), wanted, count, values);
      return CUDNN_STATUS_SUCCESS;
    case CUDNN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT:
      give(std::int64_t{1}, wanted, count, values);
      return CUDNN_STATUS_SUCCESS;
    case CUDNN_ATTR_ENGINE_GLOBAL_INDEX:
      give(std::int64_t{0}, wanted, count, values);
      return CUDNN_STATUS_SUCCESS;
    default:
      break;
  }
  if (const Value* value = find(descriptor, name); value != nullptr) {
    if (count != nullptr) *count = value->count;
    const auto have = std::min(wanted, value->count);
    if (values != nullptr && have > 0)
      std::memcpy(values, value->bytes.data(), static_cast<std::size_t>(have) * width(value->type));
  } else if (values != nullptr && wanted > 0 && type != CUDNN_TYPE_BACKEND_DESCRIPTOR) {
    std::memset(values, 0, static_cast<std::size_t>(wanted) * width(type));
  }
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace
}  // namespace nullcuda

using namespace nullcuda;  // NOLINT(google-build-using-namespace)

NULLCUDA_API std::size_t cudnnGetVersion() {
  return CUDNN_VERSION;
}
NULLCUDA_API std::size_t cudnnGetCudartVersion() {
  return CUDART_VERSION;
}

NULLCUDA_API cudnnStatus_t cudnnGetProperty(libraryPropertyType type, int* value) {
  *value = type == MAJOR_VERSION ? CUDNN_MAJOR : type == MINOR_VERSION ? CUDNN_MINOR : CUDNN_PATCHLEVEL;
  return CUDNN_STATUS_SUCCESS;
}

NULLCUDA_API const char* cudnnGetErrorString(cudnnStatus_t status) {
  return status == CUDNN_STATUS_SUCCESS ? "CUDNN_STATUS_SUCCESS" : "CUDNN_STATUS_BAD_PARAM";
}

NULLCUDA_API void cudnnGetLastErrorString(char* text, std::size_t size) {
  if (size > 0) *text = '\0';
}

NULLCUDA_API cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                                        cudnnBackendDescriptor_t* descriptor) {
  *descriptor = new Descriptor{.type = type, .values = {}};
  return CUDNN_STATUS_SUCCESS;
}

// Descriptors are never freed: an engine goes on pointing to a graph that its owner has destroyed.
NULLCUDA_API cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t) {
  return CUDNN_STATUS_SUCCESS;
}
NULLCUDA_API cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t) {
  return CUDNN_STATUS_SUCCESS;
}

NULLCUDA_API cudnnStatus_t cudnnBackendExecute(cudnnHandle_t, cudnnBackendDescriptor_t,
                                               cudnnBackendDescriptor_t) {
  return NULLCUDA_CALLED() == 0 ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_EXECUTION_FAILED;
}

NULLCUDA_API cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor,
                                                    cudnnBackendAttributeName_t name,
                                                    cudnnBackendAttributeType_t type, std::int64_t count,
                                                    const void* values) {
  return set(of(descriptor), name, type, count, values);
}

NULLCUDA_API cudnnStatus_t cudnnBackendGetAttribute(const cudnnBackendDescriptor_t descriptor,
                                                    cudnnBackendAttributeName_t name,
                                                    cudnnBackendAttributeType_t type, std::int64_t wanted,
                                                    std::int64_t* count, void* values) {
  if (descriptor == nullptr) return CUDNN_STATUS_BAD_PARAM;
  return get(of(descriptor), name, type, wanted, count, values);
}
