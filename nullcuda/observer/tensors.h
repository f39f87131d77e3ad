// Tensors on the device, seen as bytes.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>
#include <algorithm>
#include <array>
#include <c10/util/SmallVector.h>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace nullcuda {

using at::Tensor;
using Inputs = c10::ArrayRef<const c10::IValue>;

struct Range {
  const char* begin = nullptr;
  std::size_t size = 0;
};

/// Fakes and what stands around other tensors: the operators on those are seen, too.
inline bool is_wrapper(const Tensor& tensor) {
  static const c10::DispatchKeySet keys({c10::DispatchKey::Python, c10::DispatchKey::Functionalize,
                                         c10::DispatchKey::FuncTorchBatched,
                                         c10::DispatchKey::FuncTorchGradWrapper});
  return tensor.key_set().has_any(keys);
}

/// Its memory holds its elements. What is conjugated or negated lazily is not what memory holds.
inline bool is_plain(const Tensor& tensor) {
  static const c10::DispatchKeySet keys(
      {c10::DispatchKey::ZeroTensor, c10::DispatchKey::Conjugate, c10::DispatchKey::Negative});
  return tensor.layout() == at::kStrided && tensor.has_storage() && !tensor.is_nested() &&
         !tensor.key_set().has_any(keys);
}

/// Null where a tensor has no memory of its own, as one that consists of others or stands for zeros.
inline char* data_of(const Tensor& tensor) {
  if (!tensor.has_storage()) return nullptr;
  c10::StorageImpl* const storage = tensor.storage().unsafeGetStorageImpl();
  auto* const base = static_cast<char*>(storage->_mutable_data_ptr_no_checks().get());
  const auto element = static_cast<int64_t>(tensor.element_size());
  return base == nullptr ? nullptr : base + tensor.storage_offset() * element;
}

/// From the first byte to the last, with whatever lies between.
inline Range extent_of(const Tensor& tensor) {
  if (!tensor.has_storage() || tensor.layout() != at::kStrided || tensor.numel() == 0) return {};
  int64_t last = 0;
  for (int64_t i = 0; i < tensor.dim(); ++i) last += (tensor.size(i) - 1) * tensor.stride(i);
  return {data_of(tensor), static_cast<std::size_t>(last + 1) * tensor.element_size()};
}

/// A view that is in more pieces is taken as a whole.
constexpr int64_t kMostPieces = 4096;

/// Calls `each` with the pieces of memory that the elements fill, until it returns false; false then. `whole`
/// is called instead for what is in too many pieces.
template <typename Each, typename Whole>
bool for_each_piece(const Tensor& tensor, Each each, Whole whole) {
  if (tensor.numel() == 0) return true;
  if (tensor.is_contiguous()) return each(extent_of(tensor));
  c10::SmallVector<std::pair<int64_t, int64_t>, 6> dims;  // stride, size
  for (int64_t i = 0; i < tensor.dim(); ++i)
    if (tensor.size(i) > 1 && tensor.stride(i) != 0) dims.emplace_back(tensor.stride(i), tensor.size(i));
  std::sort(dims.begin(), dims.end());
  int64_t run = 1;
  std::size_t inner = 0;
  while (inner < dims.size() && dims[inner].first == run) run *= dims[inner++].second;
  int64_t pieces = 1;
  for (std::size_t i = inner; i < dims.size(); ++i) pieces *= dims[i].second;
  if (pieces > kMostPieces) return whole(extent_of(tensor));
  const auto element = static_cast<int64_t>(tensor.element_size());
  const char* const base = data_of(tensor);
  for (int64_t piece = 0; piece < pieces; ++piece) {
    int64_t rest = piece;
    int64_t offset = 0;
    for (std::size_t i = inner; i < dims.size(); ++i) {
      offset += rest % dims[i].second * dims[i].first;
      rest /= dims[i].second;
    }
    if (!each(Range{base + offset * element, static_cast<std::size_t>(run * element)})) return false;
  }
  return true;
}

/// A tensor of the CPU over the same bytes.
inline Tensor shadow_of(const Tensor& tensor) {
  return at::from_blob(data_of(tensor), tensor.sizes(), tensor.strides(),
                       at::TensorOptions().dtype(tensor.scalar_type()).device(at::kCPU));
}

/// Applies `each` to the tensors of an argument: a tensor, a list of them, or a list of lists.
template <typename Each>
void for_each_tensor(const c10::IValue& value, Each&& each) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) each(value.toTensor());
  } else if (value.isTensorList() || value.isList()) {
    for (const c10::IValue& item : value.toListRef()) for_each_tensor(item, each);
  }
}

}  // namespace nullcuda
