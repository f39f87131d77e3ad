// Jobs made up for tests: a program that allocates and frees, and a training loop that it may play.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "trace/model.h"

namespace stweaver {

/// Records what it is told to do.
class Job {
 public:
  Job() { trace_.name = "job"; }

  RequestId before(Bytes size) {
    trace_.requests.push_back({size, {kBeforeRecording, kForever}, kForever, 0, 0});
    return static_cast<RequestId>(trace_.requests.size() - 1);
  }

  RequestId allocate(Bytes size, Stream stream = 0, Pool pool = 0) {
    trace_.requests.push_back({size, {tick(), kForever}, kForever, stream, pool});
    return static_cast<RequestId>(trace_.requests.size() - 1);
  }

  void free(RequestId request) {
    trace_.requests[request].life.upper = tick();
    trace_.requests[request].dropped = trace_.requests[request].life.upper;
  }

  void free_all(std::vector<RequestId>& requests) {
    for (const RequestId request : requests) free(request);
    requests.clear();
  }

  /// Allocates and frees at once.
  void touch(Bytes size, Stream stream = 0) { free(allocate(size, stream)); }

  void mark(std::string label) { trace_.marks.push_back({trace_.end, std::move(label)}); }

  [[nodiscard]] Time now() const { return trace_.end; }

  /// The job so far. Pauses are not recorded: steps must be found without a clock.
  [[nodiscard]] Trace trace() const {
    validate(trace_);
    return trace_;
  }

 private:
  Time tick() { return trace_.end++; }

  Trace trace_;
};

/// A training loop of the usual make: weights, forward, backward, optimizer.
class Training {
 public:
  struct Shape {
    std::size_t layers = 6;
    int micro_batches = 1;
    Bytes unit = 4096;
    bool zero_grad_first = false;  ///< gradients live until the next step has fetched its batch
    Stream side_stream = 0;        ///< where gradients are reduced, as data parallel jobs do
    Bytes keeps = 0;               ///< of a usual step's tensors, until the next has made its own
  };

  explicit Training(const Shape& shape) : shape_(shape), gradients_(shape.layers) {
    for (std::size_t layer = 0; layer < shape.layers; ++layer) {
      weights_.push_back(job.allocate(weight_size(layer)));
      job.allocate(shape.unit);
    }
  }

  /// One optimizer step; `scale` stands for the length of its sequences.
  void step(Bytes scale = 8) {
    begins_.push_back(job.now());
    job.mark(text("iteration ", begins_.size() - 1));
    if (shape_.keeps > 0) {
      const RequestId made = job.allocate(shape_.keeps * scale / 8);
      job.free_all(kept_);
      kept_.push_back(made);
    }
    if (shape_.zero_grad_first) {
      const RequestId fetched = job.allocate(scale * 96);
      drop_gradients();
      job.free(fetched);
    }
    for (int i = 0; i < shape_.micro_batches; ++i) micro_batch(scale);
    optimize();
    if (!shape_.zero_grad_first) drop_gradients();
  }

  /// A pass without gradients or optimizer, as between two epochs.
  void evaluate(Bytes scale = 8) {
    const RequestId batch = job.allocate(scale * 96);
    RequestId hidden = job.allocate(scale * shape_.unit);
    for (std::size_t layer = 0; layer < shape_.layers; ++layer) {
      job.touch(5 * scale * shape_.unit);
      const RequestId next = job.allocate(scale * shape_.unit);
      job.free(hidden);
      hidden = next;
    }
    job.free(hidden);
    job.free(batch);
  }

  /// Where each step began.
  [[nodiscard]] const std::vector<Time>& begins() const { return begins_; }

  Job job;

 private:
  [[nodiscard]] Bytes weight_size(std::size_t layer) const {
    return (layer + 1 == shape_.layers ? 40 : 12) * shape_.unit;
  }

  void micro_batch(Bytes scale) {
    const RequestId batch = job.allocate(scale * 96);
    std::vector<std::vector<RequestId>> kept(shape_.layers);
    for (std::size_t layer = 0; layer < shape_.layers; ++layer) {
      for (const Bytes width : {1, 3, 1, 4}) {
        job.touch(width * scale * shape_.unit + 512);
        kept[layer].push_back(job.allocate(width * scale * shape_.unit));
      }
    }
    const RequestId logits = job.allocate(10 * scale * shape_.unit);
    const RequestId loss = job.allocate(4);
    job.touch(11 * scale * shape_.unit);
    job.free(logits);
    RequestId gradient = job.allocate(scale * shape_.unit);
    for (std::size_t layer = shape_.layers; layer-- > 0;) {
      for (std::size_t i = kept[layer].size(); i-- > 0;) {
        job.touch(2 * scale * shape_.unit);
        job.free(kept[layer][i]);
      }
      const RequestId next = job.allocate(scale * shape_.unit);
      job.free(gradient);
      gradient = next;
      accumulate(layer);
    }
    job.free(gradient);
    job.free(loss);
    job.free(batch);
  }

  void accumulate(std::size_t layer) {
    if (gradients_[layer].empty()) {
      gradients_[layer].push_back(job.allocate(weight_size(layer)));
      if (shape_.side_stream != 0) job.touch(weight_size(layer), shape_.side_stream);
    } else {
      job.touch(weight_size(layer));
    }
  }

  void optimize() {
    job.touch(8);
    for (std::size_t layer = 0; layer < shape_.layers; ++layer) {
      if (states_.size() <= layer) states_.push_back(job.allocate(2 * weight_size(layer)));
      job.touch(weight_size(layer) + 64);
      job.touch(16);
    }
  }

  void drop_gradients() {
    for (std::vector<RequestId>& gradient : gradients_) job.free_all(gradient);
  }

  Shape shape_;
  std::vector<RequestId> weights_;
  std::vector<std::vector<RequestId>> gradients_;
  std::vector<RequestId> states_;
  std::vector<RequestId> kept_;
  std::vector<Time> begins_;
};

}  // namespace stweaver
