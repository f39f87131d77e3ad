// An operator from its start to its end: what it reads and writes, and what the CPU made of it.
#pragma once

#include <ATen/ops/empty.h>
#include <ATen/record_function.h>
#include <c10/cuda/CUDAGraphsC10Utils.h>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "collectives.h"
#include "ledger.h"
#include "log.h"
#include "operators.h"
#include "rerun.h"
#include "tensors.h"

namespace nullcuda {

// ---- how large is small ----

/// Up to so many elements operators are run again.
inline int64_t most_floats() {
  static const int64_t most = std::stoll(setting("NULLCUDA_VALUES_LIMIT", "262144"));
  return most;
}

/// Integers and masks steer programs: more of them are worth the time.
inline int64_t most_of(at::ScalarType type) {
  return at::isIntegralType(type, /*includeBool=*/true) ? 16 * most_floats() : most_floats();
}

inline bool is_small(const Tensor& tensor) {
  return tensor.numel() <= most_of(tensor.scalar_type());
}

constexpr int64_t kMostOfHeavy = 1 << 14;

/// Up to so many elements numbers are made up where nobody knows them: norms, losses, flags, counts of
/// experts.
constexpr int64_t kTiny = 512;

inline bool is_tiny(const Tensor& tensor) {
  return tensor.numel() <= kTiny;
}

// ---- what an operator is about to do ----

struct Survey {
  bool is_on_device = false;
  bool is_wrapped = false;
  bool is_known = true;  ///< small, and every byte that is read is known
  bool is_tiny = true;
};

inline void survey(const Operator& op, const Tensor& tensor, bool is_replaced, Survey& survey) {
  survey.is_wrapped = survey.is_wrapped || is_wrapper(tensor);
  if (survey.is_wrapped) return;
  survey.is_on_device = survey.is_on_device || tensor.is_cuda();
  const bool counts =
      is_small(tensor) && is_plain(tensor) && (!op.is_heavy || tensor.numel() <= kMostOfHeavy);
  survey.is_tiny = survey.is_tiny && counts && is_tiny(tensor);
  survey.is_known = survey.is_known && counts && (is_replaced || !tensor.is_cuda() || is_known(tensor));
}

inline Survey survey_of(const Operator& op, Inputs inputs) {
  Survey result;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].isDevice()) result.is_on_device = result.is_on_device || inputs[i].toDevice().is_cuda();
    for_each_tensor(inputs[i], [&](const Tensor& tensor) {
      const bool is_settled = result.is_on_device && !result.is_known && !result.is_tiny;
      if (!is_settled) survey(op, tensor, op.replaces_in(i), result);
    });
  }
  return result;
}

/// From an operator's start to its end.
struct Frame : at::ObserverContext {
  Stack stack;                                     ///< arguments for the CPU, later the outputs
  std::vector<std::pair<Tensor, Tensor>> written;  ///< tensors that it changes, and the CPU's
  std::vector<Outcome> outcomes;                   ///< settled at the start
  const std::string* origin = nullptr;             ///< of what was presumed
  std::optional<std::uint64_t> seed;               ///< of the random numbers that it draws
  bool is_to_run = false;
  bool is_settled = false;  ///< the stack holds outputs
  bool answers = false;
  bool reads = false;
  Tensor chosen;  ///< what a router or a sampler chose, where nobody knows its numbers
};

/// While an operator's hidden copies to the host are answered nobody else answers them, and what it reads is
/// made up once.
inline thread_local int answering = 0;
inline thread_local int reading = 0;

inline void answer(Frame& frame, int64_t value) {
  nullcuda_answer(value);
  frame.answers = true;
  ++answering;
}

inline void guess(const std::string& what) {
  nullcuda_guess(what.c_str());
}

inline bool is_capturing() {
  return c10::cuda::currentStreamCaptureStatusMayInitCtx() != c10::cuda::CaptureStatus::None;
}

// ---- running it on the CPU ----

inline c10::IValue argument_for(const Operator& op, std::size_t i, const c10::IValue& value, Frame& frame,
                                bool is_known) {
  const bool is_out = op.writes_to(i) && op.replaces_in(i);
  return to_cpu(value, [&](const Tensor& tensor) {
    if (!tensor.is_cuda()) return op.writes_to(i) ? tensor.clone() : tensor;
    if (!op.mutates) return is_known ? shadow_of(tensor) : presumed(tensor, frame.origin);
    // What is written must not change what is read; an `out` is given its size by the operator.
    Tensor copy;
    if (is_out) {
      const auto options = at::TensorOptions().dtype(tensor.scalar_type()).device(at::kCPU);
      copy = op.is_in_place ? at::empty(tensor.sizes(), options) : at::empty({0}, options);
    } else {
      copy = (is_known ? shadow_of(tensor) : presumed(tensor, frame.origin)).clone();
    }
    if (op.writes_to(i)) frame.written.emplace_back(tensor, copy);
    return copy;
  });
}

inline bool are_small(const std::vector<c10::IValue>& outputs) {
  bool are = true;
  for (const c10::IValue& output : outputs)
    for_each_tensor(output,
                    [&are](const Tensor& tensor) { are = are && (is_wrapper(tensor) || is_small(tensor)); });
  return are;
}

inline void run(const Operator& op, Frame& frame) {
  frame.is_to_run = false;
  frame.is_settled = rerun(op, frame.stack, frame.seed);
}

/// Takes the arguments down. Operators that change them, or that read a count of what they found, run at
/// once: later their memory may have been written by others that they are made of. The rest waits until the
/// size of its outputs is known.
inline std::unique_ptr<Frame> prepare(const Operator& op, Inputs inputs, bool is_known) {
  auto frame = std::make_unique<Frame>();
  if (!is_known) frame->origin = &op.name;
  if (op.is_random) frame->seed = seed_for(inputs);
  frame->stack.reserve(inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i)
    frame->stack.push_back(argument_for(op, i, inputs[i], *frame, is_known));
  frame->is_to_run = true;
  if (op.is_in_place || op.special == Special::count || op.special == Special::equal) run(op, *frame);
  return frame;
}

inline void forget_written(const Operator& op, Inputs inputs) {
  if (!op.mutates) return;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (op.writes_to(i))
      for_each_tensor(inputs[i], [](const Tensor& tensor) {
        if (tensor.is_cuda() && !is_wrapper(tensor)) forget(tensor);
      });
}

// ---- writing what came out ----

inline void write(const Outcome& outcome) {
  const Tensor& tensor = outcome.tensor;
  if (!tensor.is_cuda()) {
    if (outcome.value.defined()) tensor.copy_(outcome.value);
    return;
  }
  if (is_wrapper(tensor) || data_of(tensor) == nullptr) return;
  if (!outcome.value.defined() || !is_plain(tensor) || tensor.sizes() != outcome.value.sizes())
    return forget(tensor);
  Tensor shadow = shadow_of(tensor);
  Tensor value = outcome.value;
  for (int64_t i = 0; i < shadow.dim(); ++i) {  // an expanded tensor has the same element many times
    if (shadow.stride(i) != 0 || shadow.size(i) < 2) continue;
    shadow = shadow.narrow(i, 0, 1);
    value = value.narrow(i, 0, 1);
  }
  shadow.copy_(value);
  if (outcome.origin == nullptr) return know(tensor);
  if (shadow.is_floating_point()) shadow.nan_to_num_(2.0, 2.0, 2.0);
  presume(tensor, outcome.origin);
}

inline void write(const c10::IValue& output, const c10::IValue& result, const std::string* origin) {
  if (output.isTensor() && output.toTensor().defined() && output.toTensor().is_cuda()) {
    write({output.toTensor(), result.isTensor() ? result.toTensor() : Tensor(), origin});
  } else if (output.isTensorList() && result.isTensorList()) {
    const std::vector<Tensor> outputs = output.toTensorVector();
    const std::vector<Tensor> results = result.toTensorVector();
    for (std::size_t i = 0; i < outputs.size() && i < results.size(); ++i)
      write(outputs[i], results[i], origin);
  }
}

/// Nobody knows what it has written. Small results get the rule's number.
inline void write_unknown(const Operator& op, const std::vector<c10::IValue>& outputs) {
  const bool may_stay =
      op.special == Special::copy;  // forgotten at the start; the core follows copies itself
  for (const c10::IValue& output : outputs)
    for_each_tensor(output, [&](const Tensor& tensor) {
      if (!tensor.is_cuda() || is_wrapper(tensor) || may_stay) return;
      forget(tensor);
      if (!is_tiny(tensor) || !is_plain(tensor) || data_of(tensor) == nullptr) return;
      const Unseen unseen;
      const bool is_true = op.presumes_true && tensor.scalar_type() == at::kBool;
      shadow_of(tensor).fill_(is_true ? at::Scalar(true) : number_for(tensor.scalar_type()));
      presume(tensor, &op.name);
    });
}

using WeakTensor = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;

/// What was received, once more: NCCL may be called when a batch of operators ends, and the core forgets then
/// what was there.
struct Late {
  WeakTensor tensor;
  Tensor value;
};
inline thread_local std::vector<Late> late;

inline void write_late() {
  const Unseen unseen;
  for (const Late& one : std::exchange(late, {}))
    if (auto alive = one.tensor.lock(); alive.defined())
      write({Tensor(std::move(alive)), one.value, nullptr});
}

inline void end(const Operator& op, Frame& frame, const std::vector<c10::IValue>& outputs) {
  const Unseen unseen;
  const bool has_failed = outputs.empty() && op.returns > 0;  // it threw: nobody knows how far it came
  if (frame.answers) {
    nullcuda_answer_no_more();
    --answering;
  }
  if (frame.reads) --reading;
  for (const Outcome& outcome : frame.outcomes) {
    write(outcome);
    if (begins_with(op.name, "c10d::recv") && outcome.value.defined())
      late.push_back({WeakTensor(outcome.tensor.getIntrusivePtr()), outcome.value});
  }
  if (frame.is_to_run && !has_failed && are_small(outputs)) run(op, frame);
  if (has_failed) frame.is_settled = false;
  if (!frame.is_settled && !frame.reads && frame.outcomes.empty()) write_unknown(op, outputs);
  if (frame.chosen.defined() && !has_failed) write({outputs.back().toTensor(), frame.chosen, nullptr});
  log(3, op.name, !frame.is_settled ? "not run" : frame.origin == nullptr ? "known" : "presumed");
  for (const auto& [tensor, value] : frame.written)
    write({tensor, frame.is_settled ? value : Tensor(), frame.origin});
  for (std::size_t i = 0; frame.is_settled && i < outputs.size() && i < frame.stack.size(); ++i)
    write(outputs[i], frame.stack[i], frame.origin);
}

}  // namespace nullcuda
