// Collectives of a process whose peers do not exist: they do and hold what this one does and holds.
#pragma once

#include <ATen/ops/cat.h>
#include <algorithm>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <tuple>
#include <vector>

#include "ledger.h"
#include "log.h"
#include "operators.h"

namespace nullcuda {

/// A value for a tensor, on the CPU. Undefined: nobody knows it. With an origin it is presumed.
struct Outcome {
  Tensor tensor;
  Tensor value;
  const std::string* origin = nullptr;
};

/// What is small enough to be followed, and to be made up.
struct Limits {
  bool (*is_small)(const Tensor&);
  bool (*is_tiny)(const Tensor&);
};

class Collective {
 public:
  Collective(const Operator& op, Inputs inputs, Limits limits) : op_(op), inputs_(inputs), limits_(limits) {
    for (const c10::IValue& input : inputs)
      if (input.isObject() && input.type()->str().find("ProcessGroup") != std::string::npos) {
        const auto group = input.toCustomClass<c10d::ProcessGroup>();
        size_ = group->getSize();
        rank_ = group->getRank();
      } else if (input.isObject() && input.type()->str().find("ReduceOp") != std::string::npos) {
        reduction_ = input.toCustomClass<c10d::ReduceOp>()->op_;
      }
  }

  std::vector<Outcome> outcomes() {
    const std::string_view name = std::string_view(op_.name).substr(6);  // behind c10d::
    const auto first = tensors(0);
    if (name == "send") return sent(first);
    if (name == "recv_" || name == "recv_any_source_") return received(first);
    if (begins_with(name, "allreduce") || name == "reduce_") return each(first, first, &Collective::reduced);
    const auto second = inputs_.size() > 1 ? tensors(1) : std::vector<Tensor>();
    if (begins_with(name, "allgather") || begins_with(name, "_allgather") || begins_with(name, "gather_"))
      return each(first, second, &Collective::gathered);
    if (name == "reduce_scatter_" || name == "scatter_" || name == "alltoall_")
      return picked(first, second, name);
    if (begins_with(name, "_reduce_scatter") || begins_with(name, "reduce_scatter"))
      return each(first, second, &Collective::scattered);
    if (name == "alltoall_base_") return each(first, second, &Collective::exchanged);
    return {};  // broadcast_, barrier: everything stays as it is
  }

 private:
  using Rule = Tensor (Collective::*)(const Tensor& to, const Tensor& from) const;

  [[nodiscard]] std::vector<Tensor> tensors(std::size_t argument) const {
    std::vector<Tensor> found;
    for_each_tensor(inputs_[argument], [&found](const Tensor& tensor) { found.push_back(tensor); });
    return found;
  }

  /// Several outputs may belong to one input, in order.
  std::vector<Outcome> each(const std::vector<Tensor>& to, const std::vector<Tensor>& from, Rule rule) const {
    std::vector<Outcome> outcomes;
    for (std::size_t i = 0; i < to.size(); ++i) {
      if (from.empty())
        outcomes.push_back({to[i], {}, nullptr});
      else
        outcomes.push_back(outcome(to[i], from[i * from.size() / to.size()], rule));
    }
    return outcomes;
  }

  /// Of a list with a part for each rank.
  std::vector<Outcome> picked(const std::vector<Tensor>& to, const std::vector<Tensor>& from,
                              std::string_view name) const {
    std::vector<Outcome> outcomes;
    const auto mine = static_cast<std::size_t>(rank_);
    for (const Tensor& tensor : to) {
      if (mine >= from.size())
        outcomes.push_back({tensor, {}, nullptr});
      else
        outcomes.push_back(outcome(tensor, from[mine],
                                   name == "reduce_scatter_" ? &Collective::reduced : &Collective::same));
    }
    return outcomes;
  }

  [[nodiscard]] Outcome outcome(const Tensor& to, const Tensor& from, Rule rule) const {
    if (!is_seen(to) || !is_seen(from) || reduction_ == c10d::ReduceOp::PREMUL_SUM) return {to, {}, nullptr};
    if (!from.is_cuda() || is_known(from)) {
      const Tensor value = from.is_cuda() ? shadow_of(from) : from;
      return {to, (this->*rule)(to, value).clone(), nullptr};
    }
    if (!limits_.is_tiny(to) || !limits_.is_tiny(from)) return {to, {}, nullptr};
    const std::string* origin = &op_.name;
    const Tensor value = presumed(from, origin);
    return {to, (this->*rule)(to, value).clone(), origin};
  }

  /// Tensors of the host are exchanged by a backend that does nothing if the peers are absent, else by a real
  /// one.
  [[nodiscard]] bool is_seen(const Tensor& tensor) const {
    static const bool is_alone = !setting("NULLCUDA_WORLD", "").empty();
    if (is_wrapper(tensor) || !is_plain(tensor)) return false;
    return tensor.is_cuda() ? limits_.is_small(tensor) : is_alone && tensor.is_cpu();
  }

  // ---- what becomes of one tensor ----

  [[nodiscard]] Tensor same(const Tensor&, const Tensor& from) const { return from; }

  [[nodiscard]] Tensor reduced(const Tensor&, const Tensor& from) const {
    using c10d::ReduceOp;
    if (reduction_ == ReduceOp::SUM) return from.scalar_type() == at::kBool ? from : from * size_;
    if (reduction_ == ReduceOp::PRODUCT) return from.pow(size_);
    if (reduction_ == ReduceOp::BXOR) return size_ % 2 == 0 ? at::zeros_like(from) : from;
    return from;
  }

  [[nodiscard]] Tensor gathered(const Tensor& to, const Tensor& from) const {
    if (to.numel() == from.numel()) return from.reshape(to.sizes());
    return fill(to.numel(), from).reshape(to.sizes());
  }

  [[nodiscard]] Tensor scattered(const Tensor& to, const Tensor& from) const {
    const Tensor mine = from.reshape({-1}).slice(0, rank_ * to.numel(), (rank_ + 1) * to.numel());
    return reduced(to, mine).reshape(to.sizes());
  }

  /// A peer sends what this process would send to itself.
  [[nodiscard]] Tensor exchanged(const Tensor& to, const Tensor& from) const {
    const std::vector<int64_t> sends = splits(from, 4);
    const std::vector<int64_t> gets = splits(to, 3);
    int64_t start = 0;
    for (int i = 0; i < rank_; ++i) start += sends[static_cast<std::size_t>(i)];
    const Tensor mine = from.slice(0, start, start + sends[static_cast<std::size_t>(rank_)]).reshape({-1});
    const int64_t row = to.numel() / std::max<int64_t>(to.size(0), 1);
    std::vector<Tensor> parts;
    for (const int64_t rows : gets) parts.push_back(fill(rows * row, mine));
    return at::cat(parts).reshape(to.sizes());
  }

  [[nodiscard]] std::vector<int64_t> splits(const Tensor& tensor, std::size_t argument) const {
    std::vector<int64_t> found = inputs_[argument].toIntVector();
    if (found.empty()) found.assign(static_cast<std::size_t>(size_), tensor.size(0) / size_);
    return found;
  }

  /// As many numbers as are wanted, over and over again.
  static Tensor fill(int64_t count, const Tensor& from) {
    if (from.numel() == 0) return at::zeros({count}, from.options());
    return from.reshape({-1}).repeat((count + from.numel() - 1) / from.numel()).slice(0, 0, count);
  }

  // ---- from one to another: what comes is what was sent last ----

  using Shape = std::pair<at::ScalarType, std::vector<int64_t>>;
  struct Mail {
    std::mutex mutex;
    std::map<Shape, Tensor> sent;
  };
  static Mail& mail() {
    static auto& made = *new Mail;
    return made;
  }
  static Shape shape_of(const Tensor& tensor) { return {tensor.scalar_type(), tensor.sizes().vec()}; }

  [[nodiscard]] std::vector<Outcome> sent(const std::vector<Tensor>& tensors) const {
    for (const Tensor& tensor : tensors) {
      if (!is_seen(tensor) || (tensor.is_cuda() && !is_known(tensor))) continue;
      const std::scoped_lock lock(mail().mutex);
      mail().sent[shape_of(tensor)] = (tensor.is_cuda() ? shadow_of(tensor) : tensor).clone();
    }
    return {};
  }

  [[nodiscard]] std::vector<Outcome> received(const std::vector<Tensor>& tensors) const {
    std::vector<Outcome> outcomes;
    const std::scoped_lock lock(mail().mutex);
    for (const Tensor& tensor : tensors) {
      const auto found = mail().sent.find(shape_of(tensor));
      outcomes.push_back({tensor, found == mail().sent.end() ? Tensor() : found->second, nullptr});
    }
    return outcomes;
  }

  const Operator& op_;
  Inputs inputs_;
  Limits limits_;
  int size_ = 1;
  int rank_ = 0;
  c10d::ReduceOp::RedOpType reduction_ = c10d::ReduceOp::MAX;
};

}  // namespace nullcuda
