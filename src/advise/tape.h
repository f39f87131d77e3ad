// What a piece of a network asks an allocator for, forward and backward: its operators in order, the tensors
// between them, and what each operator keeps for its backward pass, as PyTorch's autograd has it. So it tells
// what goes through memory, too.
#pragma once

#include <cstddef>
#include <vector>

#include "trace/model.h"

namespace stweaver {

/// Serves requests: counts their bytes and, where it is given one, writes them into a trace.
class Ledger {
 public:
  explicit Ledger(Trace* trace = nullptr) : trace_(trace) {}

  std::size_t allocate(double bytes);
  void free(std::size_t block);

  [[nodiscard]] double live() const { return live_; }
  [[nodiscard]] double peak() const { return peak_; }
  /// From here on, the peak is that of what follows.
  void forget_peak() { peak_ = live_; }
  /// From here on, requests are so many times as large.
  void scale(double factor) { factor_ = factor; }

 private:
  struct Block {
    double bytes = 0;
    std::size_t request = 0;  ///< of the trace
  };

  Trace* trace_;
  std::vector<Block> blocks_;
  std::vector<std::size_t> unused_;  ///< numbers of blocks that were freed
  double live_ = 0;
  double peak_ = 0;
  double factor_ = 1;
};

/// Bytes that operators read and write.
struct Traffic {
  double forward = 0;
  double backward = 0;
  double cheap = 0;  ///< of the forward ones, what selective recomputation does once more
};

/// What an operator asks for besides its output.
struct OperatorMemory {
  std::vector<std::size_t> reads = {};  ///< tensors that its inputs are views of
  std::vector<std::size_t> saved = {};  ///< tensors, inputs or its output, that its backward pass needs
  double kept = 0;                      ///< bytes that it keeps besides: masks, statistics
  double forward = 0;                   ///< bytes in use while it runs
  double backward = 0;                  ///< the same backward, the gradient of its weights included
  bool passes = false;                  ///< gradients of its inputs are the gradient of its output
  double cheap = 0;                     ///< share of it that selective recomputation runs once more
  double gradient = 0;                  ///< bytes of its output's gradient, where the output is a view
  Traffic narrowing = {};               ///< bytes that go through memory to make its operands narrow
};

class Tape {
 public:
  /// Of the input. Tensors are numbered in the order of their making; that of the input is 0.
  explicit Tape(double input_bytes) : tensors_{{input_bytes, input_bytes}} {}

  /// The number of the next operator's output.
  [[nodiscard]] std::size_t next() const { return tensors_.size(); }
  /// An operator at the end of the tape; returns its output. A view has no bytes of its own; who saves it
  /// names the tensor that it is a view of.
  std::size_t apply(std::vector<std::size_t> inputs, double output_bytes, OperatorMemory memory = {});

  /// Blocks that wait for the backward pass.
  struct Kept {
    std::vector<std::vector<std::size_t>> blocks;  ///< that go when an operator's backward pass is done
    std::size_t output = 0;
  };

  /// Runs forward from the block of the input. Without `keeps`, as under no_grad. The input is let go when
  /// nothing needs it, if it is `owned`. The caller lets go of the output.
  [[nodiscard]] Kept forward(Ledger& ledger, std::size_t input, bool keeps, bool owned) const;
  /// Runs backward from the gradient of the output, which it lets go; returns the gradient of the input.
  std::size_t backward(Ledger& ledger, Kept kept, std::size_t gradient) const;

  /// How many operators run; views do not.
  [[nodiscard]] std::size_t launches() const;
  /// Of all operators, once: what they take, make and keep, what they use while they run, which is written
  /// and read, and gradients that are added up.
  [[nodiscard]] Traffic traffic() const;

 private:
  struct Operator {
    std::vector<std::size_t> inputs;
    std::size_t output = 0;
    OperatorMemory memory;
  };

  struct Tensor {
    double bytes = 0;
    double gradient = 0;  ///< bytes of that
  };

  std::vector<Tensor> tensors_;
  std::vector<Operator> operators_;
};

}  // namespace stweaver
