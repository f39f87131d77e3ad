// cuDNN's recurrent networks: where the weights of each layer lie, and the sizes that PyTorch asks for.

#include <algorithm>
#include <array>
#include <cstring>
#include <cudnn.h>

#include "api/abi.h"
#include "api/cudnn_network.h"
#include "api/sizes.h"

namespace nullcuda {
namespace {

struct Tensor {
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  int rank = 0;
  std::array<int, CUDNN_DIM_MAX> sizes{};
  std::array<int, CUDNN_DIM_MAX> strides{};
};

/// Whether anything is dropped; cuDNN's own is a pointer, and so is this.
struct Dropout {
  bool some = false;
};

Tensor* of(cudnnTensorDescriptor_t descriptor) {
  return std::bit_cast<Tensor*>(descriptor);
}
Tensor* of(cudnnFilterDescriptor_t descriptor) {
  return std::bit_cast<Tensor*>(descriptor);
}
Network* of(cudnnRNNDescriptor_t descriptor) {
  return std::bit_cast<Network*>(descriptor);
}
Sequences* of(cudnnRNNDataDescriptor_t descriptor) {
  return std::bit_cast<Sequences*>(descriptor);
}

Dropout* of(cudnnDropoutDescriptor_t descriptor) {
  return std::bit_cast<Dropout*>(descriptor);
}

std::int64_t width(cudnnDataType_t type) {
  switch (type) {
    case CUDNN_DATA_DOUBLE:
      return 8;
    case CUDNN_DATA_HALF:
    case CUDNN_DATA_BFLOAT16:
      return 2;
    default:
      return 4;
  }
}

std::int64_t gates(const Network& network) {
  return network.mode == CUDNN_LSTM ? 4 : network.mode == CUDNN_GRU ? 3 : 1;
}

std::int64_t output(const Network& network) {
  const bool projects = network.projection > 0 && network.projection != network.hidden;
  return projects ? network.projection : network.hidden;
}

/// Columns of the matrices of a pseudo layer (one for each direction of a layer) that meet its input.
std::int64_t input_of(const Network& network, std::int64_t pseudo_layer) {
  const bool first = pseudo_layer < network.directions;
  return first ? network.input : output(network) * network.directions;
}

/// Elements of all matrices of a pseudo layer.
std::int64_t matrices(const Network& network, std::int64_t pseudo_layer) {
  const std::int64_t recurrent = output(network);
  std::int64_t elements = gates(network) * network.hidden * (input_of(network, pseudo_layer) + recurrent);
  if (recurrent != network.hidden) elements += recurrent * network.hidden;
  return elements;
}

std::int64_t pseudo_layers(const Network& network) {
  return network.layers * network.directions;
}

std::int64_t biases(const Network& network) {
  const int vectors = network.bias == CUDNN_RNN_NO_BIAS ? 0 : network.bias == CUDNN_RNN_DOUBLE_BIAS ? 2 : 1;
  return vectors * gates(network) * network.hidden;
}

std::int64_t all_matrices(const Network& network, std::int64_t until) {
  std::int64_t elements = 0;
  for (std::int64_t layer = 0; layer < until; ++layer) elements += matrices(network, layer);
  return elements;
}

/// A matrix or a vector as PyTorch reads it back: three dimensions, packed.
void describe(Tensor* tensor, cudnnDataType_t type, std::int64_t rows, std::int64_t columns) {
  if (tensor == nullptr) return;
  tensor->type = type;
  tensor->rank = rows == 0 ? 0 : 3;
  tensor->sizes = {1, static_cast<int>(rows), static_cast<int>(columns)};
  tensor->strides = {static_cast<int>(rows * columns), static_cast<int>(columns), 1};
}

}  // namespace
}  // namespace nullcuda

using namespace nullcuda;  // NOLINT(google-build-using-namespace)

// ---- tensors and filters that are read back ----

NULLCUDA_API cudnnStatus_t cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t* descriptor) {
  *descriptor = std::bit_cast<cudnnTensorDescriptor_t>(new Tensor);
  return CUDNN_STATUS_SUCCESS;
}

NULLCUDA_API cudnnStatus_t cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t descriptor) {
  delete of(descriptor);
  return CUDNN_STATUS_SUCCESS;
}

NULLCUDA_API cudnnStatus_t cudnnSetTensorNdDescriptor(cudnnTensorDescriptor_t descriptor,
                                                      cudnnDataType_t type, int rank, const int sizes[],
                                                      const int strides[]) {
  Tensor& tensor = *of(descriptor);
  if (rank < 0 || rank > CUDNN_DIM_MAX) return CUDNN_STATUS_BAD_PARAM;
  tensor.type = type;
  tensor.rank = rank;
  std::copy_n(sizes, rank, tensor.sizes.begin());
  std::copy_n(strides, rank, tensor.strides.begin());
  return CUDNN_STATUS_SUCCESS;
}

NULLCUDA_API cudnnStatus_t cudnnGetTensorNdDescriptor(const cudnnTensorDescriptor_t descriptor, int wanted,
                                                      cudnnDataType_t* type, int* rank, int sizes[],
                                                      int strides[]) {
  const Tensor& tensor = *of(descriptor);
  if (type != nullptr) *type = tensor.type;
  if (rank != nullptr) *rank = tensor.rank;
  const int have = std::min(wanted, tensor.rank);
  if (sizes != nullptr) std::copy_n(tensor.sizes.begin(), have, sizes);
  if (strides != nullptr) std::copy_n(tensor.strides.begin(), have, strides);
  return CUDNN_STATUS_SUCCESS;
}

NULLCUDA_API cudnnStatus_t cudnnCreateFilterDescriptor(cudnnFilterDescriptor_t* descriptor) {
  *descriptor = std::bit_cast<cudnnFilterDescriptor_t>(new Tensor);
  return CUDNN_STATUS_SUCCESS;
}

NULLCUDA_API cudnnStatus_t cudnnDestroyFilterDescriptor(cudnnFilterDescriptor_t descriptor) {
  delete of(descriptor);
  return CUDNN_STATUS_SUCCESS;
}

NULLCUDA_API cudnnStatus_t cudnnSetFilterNdDescriptor(cudnnFilterDescriptor_t descriptor,
                                                      cudnnDataType_t type, cudnnTensorFormat_t, int rank,
                                                      const int sizes[]) {
  Tensor& tensor = *of(descriptor);
  if (rank < 0 || rank > CUDNN_DIM_MAX) return CUDNN_STATUS_BAD_PARAM;
  tensor.type = type;
  tensor.rank = rank;
  std::copy_n(sizes, rank, tensor.sizes.begin());
  return CUDNN_STATUS_SUCCESS;
}

NULLCUDA_API cudnnStatus_t cudnnGetFilterNdDescriptor(const cudnnFilterDescriptor_t descriptor, int wanted,
                                                      cudnnDataType_t* type, cudnnTensorFormat_t* format,
                                                      int* rank, int sizes[]) {
  const Tensor& tensor = *of(descriptor);
  if (type != nullptr) *type = tensor.type;
  if (format != nullptr) *format = CUDNN_TENSOR_NCHW;
  if (rank != nullptr) *rank = tensor.rank;
  if (sizes != nullptr) std::copy_n(tensor.sizes.begin(), std::min(wanted, tensor.rank), sizes);
  return CUDNN_STATUS_SUCCESS;
}

// ---- networks ----

NULLCUDA_API cudnnStatus_t cudnnCreateRNNDescriptor(cudnnRNNDescriptor_t* descriptor) {
  *descriptor = std::bit_cast<cudnnRNNDescriptor_t>(new Network{});
  return CUDNN_STATUS_SUCCESS;
}

NULLCUDA_API cudnnStatus_t cudnnDestroyRNNDescriptor(cudnnRNNDescriptor_t descriptor) {
  delete of(descriptor);
  return CUDNN_STATUS_SUCCESS;
}

NULLCUDA_API cudnnStatus_t cudnnCreateDropoutDescriptor(cudnnDropoutDescriptor_t* descriptor) {
  *descriptor = std::bit_cast<cudnnDropoutDescriptor_t>(new Dropout);
  return CUDNN_STATUS_SUCCESS;
}

NULLCUDA_API cudnnStatus_t cudnnDestroyDropoutDescriptor(cudnnDropoutDescriptor_t descriptor) {
  delete of(descriptor);
  return CUDNN_STATUS_SUCCESS;
}

NULLCUDA_API cudnnStatus_t cudnnSetDropoutDescriptor(cudnnDropoutDescriptor_t descriptor, cudnnHandle_t,
                                                     float dropout, void*, std::size_t, unsigned long long) {
  of(descriptor)->some = dropout > 0;
  return CUDNN_STATUS_SUCCESS;
}

NULLCUDA_API cudnnStatus_t cudnnRestoreDropoutDescriptor(cudnnDropoutDescriptor_t descriptor, cudnnHandle_t,
                                                         float dropout, void*, std::size_t,
                                                         unsigned long long) {
  of(descriptor)->some = dropout > 0;
  return CUDNN_STATUS_SUCCESS;
}

NULLCUDA_API cudnnStatus_t cudnnSetRNNDescriptor_v8(
    cudnnRNNDescriptor_t descriptor, cudnnRNNAlgo_t algorithm, cudnnRNNMode_t mode, cudnnRNNBiasMode_t bias,
    cudnnDirectionMode_t direction, cudnnRNNInputMode_t input_mode, cudnnDataType_t type,
    cudnnDataType_t compute, cudnnMathType_t math, std::int32_t input, std::int32_t hidden,
    std::int32_t projection, std::int32_t layers, cudnnDropoutDescriptor_t dropout, std::uint32_t flags) {
  *of(descriptor) = {.algorithm = algorithm,
                     .mode = mode,
                     .bias = bias,
                     .directions = direction == CUDNN_BIDIRECTIONAL ? 2 : 1,
                     .input_mode = input_mode,
                     .type = type,
                     .compute = compute,
                     .math = math,
                     .input = input,
                     .hidden = hidden,
                     .projection = projection,
                     .layers = layers,
                     .dropout = dropout != nullptr && of(dropout)->some,
                     .flags = flags};
  return CUDNN_STATUS_SUCCESS;
}

NULLCUDA_API cudnnStatus_t cudnnCreateRNNDataDescriptor(cudnnRNNDataDescriptor_t* descriptor) {
  *descriptor = std::bit_cast<cudnnRNNDataDescriptor_t>(new Sequences{});
  return CUDNN_STATUS_SUCCESS;
}

NULLCUDA_API cudnnStatus_t cudnnDestroyRNNDataDescriptor(cudnnRNNDataDescriptor_t descriptor) {
  delete of(descriptor);
  return CUDNN_STATUS_SUCCESS;
}

NULLCUDA_API cudnnStatus_t cudnnSetRNNDataDescriptor(cudnnRNNDataDescriptor_t descriptor,
                                                     cudnnDataType_t type, cudnnRNNDataLayout_t layout,
                                                     int length, int batch, int vector, const int[], void*) {
  *of(descriptor) = {.type = type, .layout = layout, .length = length, .batch = batch, .vector = vector};
  return CUDNN_STATUS_SUCCESS;
}

NULLCUDA_API cudnnStatus_t cudnnGetRNNWeightSpaceSize(cudnnHandle_t, cudnnRNNDescriptor_t descriptor,
                                                      std::size_t* size) {
  const Network& network = *of(descriptor);
  if (const auto* found = recorded("weights", key_of(network), nullptr); found != nullptr) {
    *size = (*found)[0];
    return CUDNN_STATUS_SUCCESS;
  }
  const std::int64_t layers = pseudo_layers(network);
  *size = static_cast<std::size_t>((all_matrices(network, layers) + layers * biases(network)) *
                                   width(network.type));
  return CUDNN_STATUS_SUCCESS;
}

// All matrices of all layers, then all biases; in a layer those of the input before the recurrent ones.
NULLCUDA_API cudnnStatus_t cudnnGetRNNWeightParams(cudnnHandle_t, cudnnRNNDescriptor_t descriptor,
                                                   std::int32_t pseudo_layer, std::size_t, const void* space,
                                                   std::int32_t part, cudnnTensorDescriptor_t matrix,
                                                   void** matrix_address, cudnnTensorDescriptor_t vector,
                                                   void** vector_address) {
  const Network& network = *of(descriptor);
  const std::int64_t each = gates(network);
  const std::int64_t columns = part < each ? input_of(network, pseudo_layer) : output(network);
  const bool is_projection = part == 2 * each;
  const std::int64_t rows = is_projection ? output(network) : network.hidden;
  std::int64_t place = all_matrices(network, pseudo_layer);
  place += std::min<std::int64_t>(part, each) * network.hidden * input_of(network, pseudo_layer);
  place += std::max<std::int64_t>(part - each, 0) * network.hidden * output(network);
  const std::uint64_t base = address_of(space);
  const auto at = [&](std::int64_t element) {
    return as_pointer<void*>(base + static_cast<std::uint64_t>(element * width(network.type)));
  };
  describe(of(matrix), network.type, rows, is_projection ? network.hidden : columns);
  if (matrix_address != nullptr) *matrix_address = at(place);
  const bool has_vector = !is_projection && network.bias != CUDNN_RNN_NO_BIAS;
  const std::int64_t first_vector = all_matrices(network, pseudo_layers(network));
  describe(of(vector), network.type, has_vector ? network.hidden : 0, 1);
  if (vector_address != nullptr)
    *vector_address =
        has_vector ? at(first_vector + pseudo_layer * biases(network) + part * network.hidden) : nullptr;
  return CUDNN_STATUS_SUCCESS;
}

namespace nullcuda {
namespace {

// What a layer keeps for the backward pass, in hidden states of all positions; between two layers lies one
// more. Fitted to what an H200 answered (the sweep of `bench/gpu/library_sizes.py`): within 1 % for all 435
// networks there without dropout and projections, not for those with them. What they work in follows no
// simple rule.
std::int64_t kept_states(const Network& network) {
  const std::int64_t each = network.mode == CUDNN_LSTM ? 5 : network.mode == CUDNN_GRU ? 6 : 1;
  return network.layers * each + network.layers - 1;
}

Table::Sizes sizes_of(const Network& network, cudnnForwardMode_t mode, const Sequences& sequences) {
  const std::string key = key_of(network, mode, sequences);
  if (const auto* found = recorded("rnn", key, "cuDNN spaces of a recurrent network"); found != nullptr)
    return *found;
  const std::int64_t state =
      sequences.length * sequences.batch * network.directions * network.hidden * width(network.type);
  const std::int64_t work = state * network.layers * gates(network);
  const std::int64_t kept = mode == CUDNN_FWD_MODE_TRAINING ? state * kept_states(network) : 0;
  return {static_cast<std::uint64_t>(work), static_cast<std::uint64_t>(kept)};
}

}  // namespace
}  // namespace nullcuda

NULLCUDA_API cudnnStatus_t cudnnGetRNNTempSpaceSizes(cudnnHandle_t, cudnnRNNDescriptor_t descriptor,
                                                     cudnnForwardMode_t mode, cudnnRNNDataDescriptor_t data,
                                                     std::size_t* workspace, std::size_t* reserve) {
  const Table::Sizes sizes = sizes_of(*of(descriptor), mode, *of(data));
  if (workspace != nullptr) *workspace = sizes[0];
  if (reserve != nullptr) *reserve = sizes[1];
  return CUDNN_STATUS_SUCCESS;
}

NULLCUDA_API cudnnStatus_t cudnnDropoutGetStatesSize(cudnnHandle_t, std::size_t* size) {
  // An H200 answers 6,488,064 (cuDNN 9.19): cuRAND's states of 48 bytes, 1024 for each of its 132
  // multiprocessors.
  *size = std::size_t{48} * 1024 * static_cast<std::size_t>(machine().settings.gpu->multiprocessors);
  return CUDNN_STATUS_SUCCESS;
}
