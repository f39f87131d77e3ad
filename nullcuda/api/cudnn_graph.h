// The memory of cuDNN's backend descriptors, and the text that tells one operation graph from another: the
// same for null CUDA, which looks it up in a table, and for recorder/, which writes the table on a GPU.
#pragma once

#include <cstdint>
#include <cstring>
#include <cudnn.h>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace nullcuda {

struct Value {
  cudnnBackendAttributeType_t type;
  std::int64_t count;
  std::vector<char> bytes;
};

/// What was set in a descriptor. A value that is a descriptor is kept as a pointer to this.
struct Descriptor {
  cudnnBackendDescriptorType_t type;
  std::map<cudnnBackendAttributeName_t, Value> values;
  const Descriptor* graph =
      nullptr;  ///< the operation graph that an engine, a configuration or a plan is for
};

inline std::size_t width(cudnnBackendAttributeType_t type) {
  switch (type) {
    case CUDNN_TYPE_BOOLEAN:
    case CUDNN_TYPE_CHAR:
      return 1;
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_DOUBLE:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_BACKEND_DESCRIPTOR:
    case CUDNN_TYPE_FRACTION:
      return 8;
    default:
      return 4;
  }
}

inline const Value* find(const Descriptor* descriptor, cudnnBackendAttributeName_t name) {
  if (descriptor == nullptr) return nullptr;
  const auto found = descriptor->values.find(name);
  return found == descriptor->values.end() ? nullptr : &found->second;
}

/// The elements of a value: `Element` is as wide as its type.
template <typename Element>
std::vector<Element> elements(const Value* value) {
  if (value == nullptr || value->bytes.size() != sizeof(Element) * static_cast<std::size_t>(value->count))
    return {};
  std::vector<Element> found(static_cast<std::size_t>(value->count));
  if (!found.empty()) std::memcpy(found.data(), value->bytes.data(), value->bytes.size());
  return found;
}

inline const Descriptor* descriptor_in(const Descriptor* descriptor, cudnnBackendAttributeName_t name) {
  const auto inner = elements<const Descriptor*>(find(descriptor, name));
  return inner.empty() ? nullptr : inner.front();
}

inline std::vector<const Descriptor*> operations(const Descriptor* graph) {
  return elements<const Descriptor*>(find(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS));
}

/// Remembers what is set, and the graph of whatever is made from one.
inline void remember(Descriptor& descriptor, cudnnBackendAttributeName_t name, Value value) {
  descriptor.values[name] = std::move(value);
  const Descriptor* inner = nullptr;
  switch (name) {
    case CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH:
    case CUDNN_ATTR_ENGINE_OPERATION_GRAPH:
      descriptor.graph = descriptor_in(&descriptor, name);
      break;
    case CUDNN_ATTR_ENGINECFG_ENGINE:
    case CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG:
      inner = descriptor_in(&descriptor, name);
      if (inner != nullptr) descriptor.graph = inner->graph;
      break;
    default:
      break;
  }
}

inline bool is_convolution(const Descriptor* operation) {
  switch (operation->type) {
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR:
      return true;
    default:
      return false;
  }
}

// ---- keys ----

inline std::string name_of(cudnnDataType_t type) {
  switch (type) {
    case CUDNN_DATA_FLOAT:
      return "f32";
    case CUDNN_DATA_DOUBLE:
      return "f64";
    case CUDNN_DATA_HALF:
      return "f16";
    case CUDNN_DATA_BFLOAT16:
      return "bf16";
    default:
      return "type" + std::to_string(static_cast<int>(type));
  }
}

inline std::string name_of(cudnnBackendDescriptorType_t type) {
  switch (type) {
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
      return "forward";
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
      return "backward_data";
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR:
      return "backward_filter";
    case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
      return "pointwise";
    case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
      return "matmul";
    case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
      return "reduction";
    case CUDNN_BACKEND_TENSOR_DESCRIPTOR:
      return "";
    case CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR:
      return "conv";
    default:
      return "d" + std::to_string(static_cast<int>(type));
  }
}

/// What stands before a value: a letter for those of convolutions and tensors, else the attribute's number.
inline std::string label(cudnnBackendAttributeName_t name) {
  switch (name) {
    case CUDNN_ATTR_CONVOLUTION_COMP_TYPE:
    case CUDNN_ATTR_TENSOR_DATA_TYPE:
    case CUDNN_ATTR_TENSOR_DIMENSIONS:
    case CUDNN_ATTR_TENSOR_STRIDES:
      return "";
    case CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT:
      return "align";
    case CUDNN_ATTR_TENSOR_IS_VIRTUAL:
      return "virtual";
    case CUDNN_ATTR_CONVOLUTION_CONV_MODE:
      return "mode";
    case CUDNN_ATTR_CONVOLUTION_DILATIONS:
      return "dilation";
    case CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES:
      return "stride";
    case CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS:
      return "pad";
    case CUDNN_ATTR_CONVOLUTION_POST_PADDINGS:
      return "post";
    case CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X:
    case CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X:
      return "x";
    case CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W:
    case CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W:
      return "w";
    case CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y:
      return "y";
    case CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX:
      return "dx";
    case CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY:
    case CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY:
      return "dy";
    case CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW:
      return "dw";
    case CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC:
    case CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC:
    case CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC:
      return "";
    default:
      return std::to_string(static_cast<int>(name)) + "=";
  }
}

template <typename Number>
std::string joined(const Value& value) {
  std::string text;
  for (const Number number : elements<Number>(&value))
    text += (text.empty() ? "" : "x") + std::to_string(number);
  return text;
}

std::string text_of(const Descriptor* descriptor);

/// A value as text; "" for what the choice of an engine does not depend on: factors, addresses and names.
inline std::string text_of(const Value& value) {
  std::string text;
  switch (value.type) {
    case CUDNN_TYPE_BACKEND_DESCRIPTOR:
      for (const auto* inner : elements<const Descriptor*>(&value)) text += text_of(inner);
      return text;
    case CUDNN_TYPE_DATA_TYPE:
      for (const auto type : elements<cudnnDataType_t>(&value)) text += name_of(type);
      return text;
    case CUDNN_TYPE_INT64:
      return joined<std::int64_t>(value);
    case CUDNN_TYPE_BOOLEAN:
      return joined<signed char>(value);
    case CUDNN_TYPE_FLOAT:
    case CUDNN_TYPE_DOUBLE:
    case CUDNN_TYPE_CHAR:
    case CUDNN_TYPE_FRACTION:
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_VOID_PTR:
      return "";
    default:
      return joined<std::int32_t>(value);
  }
}

/// Strides as text: "" for rows that follow each other, "nhwc" where the second dimension is the innermost.
inline std::string strides_of(const Descriptor* tensor) {
  const auto sizes = elements<std::int64_t>(find(tensor, CUDNN_ATTR_TENSOR_DIMENSIONS));
  const Value* value = find(tensor, CUDNN_ATTR_TENSOR_STRIDES);
  const auto strides = elements<std::int64_t>(value);
  const std::size_t rank = sizes.size();
  if (strides.size() != rank || rank < 3) return value == nullptr ? "" : joined<std::int64_t>(*value);
  std::vector<std::int64_t> rows(rank, 1);
  for (std::size_t place = rank - 1; place > 0; --place) rows[place - 1] = rows[place] * sizes[place];
  if (strides == rows) return "";
  std::vector<std::int64_t> channels(rank, sizes[1]);
  channels[1] = 1;
  for (std::size_t place = rank - 1; place > 2; --place) channels[place - 1] = channels[place] * sizes[place];
  channels[0] = channels[2] * sizes[2];
  return strides == channels ? "nhwc" : "by" + joined<std::int64_t>(*value);
}

/// Whether a key says nothing of a value: what a tensor is numbered, and what is so nearly everywhere.
inline bool is_usual(const Descriptor* descriptor, cudnnBackendAttributeName_t name,
                     const std::string& text) {
  switch (name) {
    case CUDNN_ATTR_TENSOR_UNIQUE_ID:
    case CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS:
      return true;
    case CUDNN_ATTR_TENSOR_VECTOR_COUNT:
      return text == "1";
    case CUDNN_ATTR_TENSOR_VECTORIZED_DIMENSION:
      return text == "-1";
    case CUDNN_ATTR_TENSOR_IS_VIRTUAL:
    case CUDNN_ATTR_TENSOR_IS_BY_VALUE:
    case CUDNN_ATTR_TENSOR_REORDERING_MODE:
      return text == "0";
    case CUDNN_ATTR_CONVOLUTION_POST_PADDINGS: {
      const Value* before = find(descriptor, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS);
      return before != nullptr && text == text_of(*before);
    }
    default:
      return text.empty();
  }
}

/// `name{value,value}`.
inline std::string text_of(const Descriptor* descriptor) {
  if (descriptor == nullptr) return "none";
  std::string inside;
  for (const auto& [name, value] : descriptor->values) {
    const bool is_strides = name == CUDNN_ATTR_TENSOR_STRIDES;
    const std::string text = is_strides ? strides_of(descriptor) : text_of(value);
    if (text.empty() || is_usual(descriptor, name, text)) continue;
    inside += (inside.empty() ? "" : ",") + label(name) + text;
  }
  return name_of(descriptor->type) + "{" + inside + "}";
}

/// "conv" for a graph with a convolution, else "graph": what a line of the table begins with.
inline std::string_view kind_of(const Descriptor* graph) {
  for (const Descriptor* operation : operations(graph))
    if (is_convolution(operation)) return "conv";
  return "graph";
}

/// The operations of a graph with all that they were given.
inline std::string key_of(const Descriptor* graph) {
  std::string key;
  for (const Descriptor* operation : operations(graph)) key += (key.empty() ? "" : "+") + text_of(operation);
  return key;
}

}  // namespace nullcuda
