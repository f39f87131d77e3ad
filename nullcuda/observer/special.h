// Operators about which there is more to say: those that steer the program.
#pragma once

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "frame.h"
#include "rerun.h"
#include "routing.h"

namespace nullcuda {

/// A number that the program wants to see. Of what is known the core gives it.
inline std::unique_ptr<Frame> read(const Operator& op, const Tensor& tensor) {
  if (answering > 0 || is_known(tensor) || tensor.nbytes() > sizeof(int64_t)) return nullptr;
  auto frame = std::make_unique<Frame>();
  const std::string* origin = &op.name;
  int64_t bits = 0;
  std::memcpy(&bits, presumed(tensor, origin).const_data_ptr(), tensor.element_size());
  guess(*origin);
  answer(*frame, bits);
  return frame;
}

/// Numbers that the program wants to see. What is large (a checkpoint) is copied as it is.
inline std::unique_ptr<Frame> read_many(const Operator& op, const Tensor& to, const Tensor& from) {
  if (reading > 0 || is_wrapper(from) || !is_plain(from) || is_known(from)) return nullptr;
  auto frame = std::make_unique<Frame>();
  const std::string* origin = &op.name;
  if (is_small(from)) frame->outcomes.push_back({to, presumed(from, origin).clone(), origin});
  guess(*origin);
  frame->reads = true;
  ++reading;
  return frame;
}

/// A share of all elements is not zero: NULLCUDA_NONZERO, half of them if it does not say.
inline int64_t presumed_count(const Tensor& tensor) {
  static const double share = std::stod(setting("NULLCUDA_NONZERO", "0.5"));
  return static_cast<int64_t>(static_cast<double>(tensor.numel()) * share);
}

inline std::unique_ptr<Frame> count(const Operator& op, Inputs inputs, bool is_known) {
  if (!is_known) {
    auto frame = std::make_unique<Frame>();
    guess(op.name);
    answer(*frame, presumed_count(inputs[0].toTensor()));
    return frame;
  }
  auto frame = prepare(op, inputs, is_known);
  if (!frame->is_settled) return frame;
  const Tensor found = frame->stack[0].toTensor();
  const bool has_dimension = op.name == "aten::unique_dim";
  answer(*frame, found.size(has_dimension ? inputs[1].toInt() : 0));
  return frame;
}

inline std::unique_ptr<Frame> compare(const Operator& op, Inputs inputs, const Survey& found) {
  std::unique_ptr<Frame> frame;
  if (found.is_known || found.is_tiny)
    frame = prepare(op, inputs, found.is_known);
  else
    frame = std::make_unique<Frame>();
  if (!found.is_known) guess(frame->origin == nullptr ? op.name : *frame->origin);
  answer(*frame, frame->is_settled ? static_cast<int64_t>(frame->stack[0].toBool()) : 1);
  return frame;
}

/// Gradients that are infinite would be seen here: of those that nobody knows none is.
inline std::unique_ptr<Frame> find_all_finite(const Operator& op, Inputs inputs) {
  for_each_tensor(inputs[0], [](const Tensor& tensor) {
    if (tensor.is_cuda() && !is_wrapper(tensor)) forget(tensor);
  });
  const Tensor& found = inputs[1].toTensor();
  const Unseen unseen;
  const bool has_number = is_known(found) || origin_of(found) != nullptr;
  auto frame = std::make_unique<Frame>();
  frame->outcomes.push_back({found, has_number ? shadow_of(found).clone() : at::zeros({1}), &op.name});
  return frame;
}

/// The choice of a few among some for each of many is that of experts: tokens go where the policy sends them.
inline Tensor routed(Inputs inputs) {
  constexpr int64_t most_experts = 1024;
  const Tensor& scores = inputs[0].toTensor();
  const int64_t choices = inputs[1].toInt();
  const int64_t dim = inputs[2].toInt();
  if (scores.dim() < 2 || (dim != -1 && dim != scores.dim() - 1) || !scores.is_floating_point()) return {};
  const int64_t experts = scores.size(-1);
  if (experts > most_experts || choices < 1 || choices >= experts || scores.numel() == 0) return {};
  const int64_t tokens = scores.numel() / experts;
  if (tokens * choices > most_of(at::kLong)) return {};
  std::vector<int64_t> sizes = scores.sizes().vec();
  sizes.back() = choices;
  return Routing::instance().deal(tokens, choices, experts).reshape(sizes);
}

inline std::unique_ptr<Frame> route(Inputs inputs) {
  const Unseen unseen;
  const Tensor experts = routed(inputs);
  if (!experts.defined()) return nullptr;
  static const std::string name = "routing (" + Routing::instance().how() + ")";
  guess(name);
  auto frame = std::make_unique<Frame>();
  frame->chosen = experts;
  return frame;
}

/// A token, or a class, of those that there are, for each row: any is as likely as another.
inline Tensor sampled(const Operator& op, Inputs inputs) {
  const Tensor& scores = inputs[0].toTensor();
  if (scores.dim() == 0 || scores.size(-1) < 2) return {};
  std::vector<int64_t> sizes = scores.sizes().vec();
  const int64_t classes = sizes.back();
  if (op.name == "aten::multinomial") {
    sizes.back() = inputs[1].toInt();
  } else {
    const bool of_rows =
        inputs[1].isInt() && (inputs[1].toInt() == -1 || inputs[1].toInt() == scores.dim() - 1);
    if (!of_rows) return {};
    if (inputs[2].toBool())
      sizes.back() = 1;
    else
      sizes.pop_back();
  }
  if (c10::multiply_integers(sizes) > most_of(at::kLong)) return {};
  const OwnNumbers numbers;
  return at::randint(classes, sizes, at::TensorOptions().dtype(at::kLong));
}

inline std::unique_ptr<Frame> sample(const Operator& op, Inputs inputs) {
  const Unseen unseen;
  const Tensor chosen = sampled(op, inputs);
  if (!chosen.defined()) return nullptr;
  guess(op.name);
  auto frame = std::make_unique<Frame>();
  frame->chosen = chosen;
  return frame;
}

inline std::unique_ptr<Frame> communicate(const Operator& op, Inputs inputs) {
  const Unseen unseen;
  auto frame = std::make_unique<Frame>();
  frame->outcomes = Collective(op, inputs, {is_small, is_tiny}).outcomes();
  return frame->outcomes.empty() ? nullptr : std::move(frame);
}

/// nullptr: nothing special about it this time.
inline std::unique_ptr<Frame> begin_special(const Operator& op, Inputs inputs, const Survey& found) {
  switch (op.special) {
    case Special::read:
      return read(op, inputs[0].toTensor());
    case Special::copy:
      return inputs[0].toTensor().is_cuda() ? nullptr
                                            : read_many(op, inputs[0].toTensor(), inputs[1].toTensor());
    case Special::count:
      return count(op, inputs, found.is_known);
    case Special::equal:
      return compare(op, inputs, found);
    case Special::router:
      return found.is_known ? nullptr : route(inputs);
    case Special::sample:
      return found.is_known ? nullptr : sample(op, inputs);
    case Special::finite_check:
      return found.is_known ? nullptr : find_all_finite(op, inputs);
    default:
      return nullptr;
  }
}

}  // namespace nullcuda
