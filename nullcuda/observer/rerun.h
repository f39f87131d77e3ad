// Runs an operator once more, by the CPU's kernels on the bytes of the device.
#pragma once

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <algorithm>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/hash.h>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "log.h"
#include "operators.h"
#include "tensors.h"

namespace nullcuda {

using Stack = std::vector<c10::IValue>;

/// Random numbers for the CPU's kernels: those of a seed, or the next of the observer's own. The program's
/// generators stay as they are.
class OwnNumbers {
 public:
  explicit OwnNumbers(std::optional<std::uint64_t> seed = {})
      : lock_(mutex()), theirs_(generator().get_state()), is_seeded_(seed.has_value()) {
    if (is_seeded_)
      generator().set_current_seed(*seed);
    else
      generator().set_state(ours());
  }
  ~OwnNumbers() {
    if (!is_seeded_) ours() = generator().get_state();
    generator().set_state(theirs_);
  }
  OwnNumbers(const OwnNumbers&) = delete;
  OwnNumbers& operator=(const OwnNumbers&) = delete;

 private:
  static at::Generator generator() { return at::detail::getDefaultCPUGenerator(); }
  static std::mutex& mutex() {
    static auto& made = *new std::mutex;
    return made;
  }
  static Tensor& ours() {
    static auto& made = *new Tensor(at::detail::createCPUGenerator(7).get_state());
    return made;
  }

  std::scoped_lock<std::mutex> lock_;
  Tensor theirs_;
  bool is_seeded_;
};

inline at::DeviceIndex device_of(Inputs inputs) {
  at::DeviceIndex device = -1;  // the current one
  for (const c10::IValue& input : inputs) {
    if (input.isDevice() && input.toDevice().is_cuda()) return input.toDevice().index();
    for_each_tensor(input, [&](const Tensor& tensor) {
      if (tensor.is_cuda()) device = tensor.get_device();
    });
  }
  return device;
}

/// Of where the generator stands that an operator on a GPU is about to draw from: who takes it back to a
/// state gets the same numbers again, as a layer that computes its activations once more does.
inline std::optional<std::uint64_t> seed_for(Inputs inputs) {
  const auto given = std::find_if(inputs.begin(), inputs.end(),
                                  [](const c10::IValue& input) { return input.isGenerator(); });
  try {
    at::Generator generator = given != inputs.end()
                                  ? given->toGenerator()
                                  : at::globalContext().defaultGenerator({at::kCUDA, device_of(inputs)});
    const std::scoped_lock lock(generator.mutex());
    return c10::hash_combine(generator.current_seed(), generator.get_offset());
  } catch (const std::exception&) {  // of the CPU, or of a graph that is captured: neither has an offset
    return std::nullopt;
  }
}

inline bool is_list_of_optional_tensors(const c10::IValue& value) {
  if (!value.isList()) return false;
  const auto* const element = value.toList().elementType()->castRaw<c10::OptionalType>();
  return element != nullptr && element->getElementType()->kind() == c10::TypeKind::TensorType;
}

/// An argument for the CPU: `convert` is applied to each tensor.
template <typename Convert>
c10::IValue to_cpu(const c10::IValue& value, const Convert& convert) {
  const auto tensor = [&convert](const Tensor& t) { return t.defined() ? convert(t) : t; };
  if (value.isTensor()) return tensor(value.toTensor());
  if (value.isTensorList()) {
    c10::List<Tensor> list;
    for (const Tensor& t : value.toTensorVector()) list.push_back(tensor(t));
    return list;
  }
  if (is_list_of_optional_tensors(value)) {
    c10::List<std::optional<Tensor>> list;
    for (const c10::IValue& item : value.toListRef())
      list.push_back(item.isTensor() ? std::optional(tensor(item.toTensor())) : std::nullopt);
    return list;
  }
  if (value.isDevice() && value.toDevice().is_cuda()) return at::Device(at::kCPU);
  if (value.isGenerator()) return {};
  return value;
}

/// What is done while one of these lives nobody sees: no autograd, no modes, no profiler.
class Unseen {
 private:
  at::DisableRecordFunctionGuard unrecorded_;
  at::NoGradGuard no_grad_;
  c10::impl::ForceDispatchKeyGuard no_modes_{
      c10::DispatchKeySet(c10::DispatchKey::BackendSelect),
      c10::autograd_dispatch_keyset_with_ADInplaceOrView | c10::autocast_dispatch_keyset |
          c10::DispatchKeySet({c10::DispatchKey::Python, c10::DispatchKey::PythonTLSSnapshot})};
};

/// Leaves the outputs on the stack. False if the CPU cannot do it.
inline bool rerun(const Operator& op, Stack& stack, std::optional<std::uint64_t> seed) {
  try {
    std::optional<OwnNumbers> numbers;
    if (op.is_random) numbers.emplace(seed);
    op.handle->callBoxed(stack);
    return true;
  } catch (const std::exception& error) {
    log(2, op.name, std::string("cannot be run on the CPU: ") + error.what());
    return false;
  }
}

}  // namespace nullcuda
