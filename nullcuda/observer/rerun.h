// Runs an operator once more, by the CPU's kernels on the bytes of the device.
#pragma once

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "log.h"
#include "operators.h"
#include "tensors.h"

namespace nullcuda {

using Stack = std::vector<c10::IValue>;

/// Random numbers of the observer's own: the program's generators stay as they are.
class OwnNumbers {
 public:
  OwnNumbers() : lock_(mutex()), theirs_(generator().get_state()) { generator().set_state(ours()); }
  ~OwnNumbers() {
    ours() = generator().get_state();
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
};

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
inline bool rerun(const Operator& op, Stack& stack) {
  try {
    std::optional<OwnNumbers> numbers;
    if (op.is_random) numbers.emplace();
    op.handle->callBoxed(stack);
    return true;
  } catch (const std::exception& error) {
    log(2, op.name, std::string("cannot be run on the CPU: ") + error.what());
    return false;
  }
}

}  // namespace nullcuda
