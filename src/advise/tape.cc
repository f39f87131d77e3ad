#include "advise/tape.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace stweaver {
namespace {

constexpr std::size_t kNoBlock = static_cast<std::size_t>(-1);

/// Blocks that several tensors, or gradients, share.
class Shared {
 public:
  Shared(Ledger& ledger, std::size_t tensors) : ledger_(ledger), blocks_(tensors, kNoBlock) {}

  [[nodiscard]] std::size_t of(std::size_t tensor) const { return blocks_[tensor]; }
  void set(std::size_t tensor, std::size_t block) { blocks_[tensor] = block; }
  /// Forgets a tensor; its block is freed with the last that shares it.
  void drop(std::size_t tensor) {
    const std::size_t block = std::exchange(blocks_[tensor], kNoBlock);
    if (block != kNoBlock && std::find(blocks_.begin(), blocks_.end(), block) == blocks_.end())
      ledger_.free(block);
  }

 private:
  Ledger& ledger_;
  std::vector<std::size_t> blocks_;
};

void use_for_a_while(Ledger& ledger, double bytes) {
  if (bytes > 0) ledger.free(ledger.allocate(bytes));
}

}  // namespace

std::size_t Ledger::allocate(double bytes) {
  bytes *= factor_;
  std::size_t block = blocks_.size();
  if (unused_.empty()) {
    blocks_.emplace_back();
  } else {
    block = unused_.back();
    unused_.pop_back();
  }
  blocks_[block].bytes = bytes;
  live_ += bytes;
  peak_ = std::max(peak_, live_);
  if (trace_ != nullptr) {
    // What is shared among many ranks is never nothing.
    const Bytes size = std::max<Bytes>(static_cast<Bytes>(std::llround(bytes)), 1);
    blocks_[block].request = trace_->requests.size();
    trace_->requests.push_back({.size = size, .life = {trace_->end++, kForever}, .dropped = kForever});
  }
  return block;
}

void Ledger::free(std::size_t block) {
  live_ -= blocks_[block].bytes;
  unused_.push_back(block);
  if (trace_ == nullptr) return;
  Request& request = trace_->requests[blocks_[block].request];
  request.life.upper = trace_->end;
  request.dropped = trace_->end++;
}

std::size_t Tape::apply(std::vector<std::size_t> inputs, double output_bytes, OperatorMemory memory) {
  tensors_.push_back({output_bytes, output_bytes > 0 ? output_bytes : memory.gradient});
  operators_.push_back({std::move(inputs), tensors_.size() - 1, std::move(memory)});
  return tensors_.size() - 1;
}

Tape::Kept Tape::forward(Ledger& ledger, std::size_t input, bool keeps, bool owned) const {
  Kept kept;
  kept.blocks.resize(operators_.size());
  std::vector<std::size_t> blocks(tensors_.size(), kNoBlock);
  std::vector<int> uses(tensors_.size(), 0);  // as an input, that are to come
  // The backward pass runs in reverse: what several operators save goes with the first of them.
  std::vector<std::size_t> saver(tensors_.size(), kNoBlock);
  for (std::size_t i = operators_.size(); i-- > 0;) {
    for (const std::size_t tensor : operators_[i].inputs) ++uses[tensor];
    for (const std::size_t tensor : operators_[i].memory.reads) ++uses[tensor];
    for (const std::size_t tensor : operators_[i].memory.saved)
      if (keeps) saver[tensor] = i;
  }
  blocks[0] = input;
  const std::size_t result = operators_.back().output;
  const auto is_callers = [&](std::size_t tensor) { return tensor == result || (tensor == 0 && !owned); };
  const auto may_go = [&](std::size_t tensor) {
    return blocks[tensor] != kNoBlock && saver[tensor] == kNoBlock && !is_callers(tensor);
  };
  for (std::size_t i = 0; i < operators_.size(); ++i) {
    const Operator& op = operators_[i];
    if (tensors_[op.output].bytes > 0) blocks[op.output] = ledger.allocate(tensors_[op.output].bytes);
    if (keeps && op.memory.kept > 0) kept.blocks[i].push_back(ledger.allocate(op.memory.kept));
    use_for_a_while(ledger, op.memory.forward);
    for (const auto* used : {&op.inputs, &op.memory.reads})
      for (const std::size_t tensor : *used)
        if (--uses[tensor] == 0 && may_go(tensor)) ledger.free(blocks[tensor]);
  }
  for (std::size_t tensor = 0; tensor < tensors_.size(); ++tensor)
    if (saver[tensor] != kNoBlock && !is_callers(tensor))
      kept.blocks[saver[tensor]].push_back(blocks[tensor]);
  kept.output = blocks[result];
  return kept;
}

std::size_t Tape::backward(Ledger& ledger, Kept kept, std::size_t gradient) const {
  Shared gradients(ledger, tensors_.size());
  gradients.set(operators_.back().output, gradient);
  for (std::size_t i = operators_.size(); i-- > 0;) {
    const Operator& op = operators_[i];
    std::vector<std::size_t> added;
    for (const std::size_t tensor : op.inputs) {
      const bool is_first = gradients.of(tensor) == kNoBlock;
      if (op.memory.passes && is_first) {
        gradients.set(tensor, gradients.of(op.output));
      } else if (!op.memory.passes) {
        const std::size_t block = ledger.allocate(tensors_[tensor].gradient);
        if (is_first) {
          gradients.set(tensor, block);
        } else {
          added.push_back(block);
        }
      }
    }
    use_for_a_while(ledger, op.memory.backward);
    for (const std::size_t block : added) ledger.free(block);  // added to what is there
    gradients.drop(op.output);
    for (const std::size_t block : kept.blocks[i]) ledger.free(block);
  }
  return gradients.of(0);
}

std::size_t Tape::launches() const {
  const auto makes = [this](const Operator& one) { return tensors_[one.output].bytes > 0; };
  return static_cast<std::size_t>(std::count_if(operators_.begin(), operators_.end(), makes));
}

Traffic Tape::traffic() const {
  Traffic all;
  std::vector<int> uses(tensors_.size(), 0);
  for (const Operator& op : operators_) {
    const OperatorMemory& memory = op.memory;
    // A gradient that is handed on as it is, unless something that was kept turns it in place.
    const bool hands_on = memory.passes && memory.saved.empty();
    double forward = tensors_[op.output].bytes + memory.kept + 2 * memory.forward + memory.narrowing.forward;
    all.backward += memory.kept + 2 * memory.backward + memory.narrowing.backward +
                    (hands_on ? 0 : tensors_[op.output].gradient);
    for (const auto* used : {&op.inputs, &memory.reads})
      for (const std::size_t tensor : *used) forward += tensors_[tensor].bytes;
    all.forward += forward;
    all.cheap += memory.cheap * forward;
    for (const std::size_t tensor : memory.saved) all.backward += tensors_[tensor].bytes;
    for (const std::size_t tensor : op.inputs) {
      if (!hands_on) all.backward += tensors_[tensor].gradient;
      if (++uses[tensor] > 1) all.backward += 3 * tensors_[tensor].gradient;  // two are added to one
    }
  }
  return all;
}

}  // namespace stweaver
