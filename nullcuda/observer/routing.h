// How many tokens each expert gets when nobody knows the router's numbers. NULLCUDA_ROUTING is `even`,
// `seed:N` (drawn: some experts are liked better than others, anew at each call), or the name of a file with
// recorded counts, one JSON list per call, used again from the start when they end.
#pragma once

#include <ATen/SequenceNumber.h>
#include <ATen/ops/empty.h>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>
#include <fstream>
#include <mutex>
#include <numeric>
#include <random>
#include <sstream>
#include <string>
#include <torch/csrc/autograd/function.h>
#include <vector>

#include "log.h"
#include "tensors.h"

namespace nullcuda {

using Counts = std::vector<int64_t>;

class Routing {
 public:
  static Routing& instance() {
    static Routing made(setting("NULLCUDA_ROUTING", "even"));
    return made;
  }

  explicit Routing(const std::string& how) : how_(how) {
    if (how.rfind("seed:", 0) == 0) {
      numbers_.seed(std::stoull(how.substr(5)));
      is_drawn_ = true;
    } else if (how != "even") {
      read(how);
    }
  }

  [[nodiscard]] const std::string& how() const { return how_; }

  /// `choices` different experts for each token, as a tensor [tokens, choices] on the CPU.
  Tensor deal(int64_t tokens, int64_t choices, int64_t experts) {
    const Counts counts = counts_for(tokens, choices, experts);
    Tensor dealt = at::empty({tokens, choices}, at::TensorOptions().dtype(at::kLong).device(at::kCPU));
    auto* const out = dealt.mutable_data_ptr<int64_t>();
    // No expert has more than `tokens`: places that lie `tokens` apart belong to different ones.
    int64_t place = 0;
    for (int64_t expert = 0; expert < experts; ++expert)
      for (int64_t i = 0; i < counts[static_cast<std::size_t>(expert)]; ++i, ++place)
        out[place % tokens * choices + place / tokens] = expert;
    return dealt;
  }

 private:
  /// A call of the forward pass.
  struct Call {
    std::uint64_t time;  ///< in nodes of autograd
    int64_t tokens;
    int64_t choices;
    Counts counts;
  };

  /// Anew for each call of the forward pass. In the backward pass activations are computed once more, and the
  /// tokens go where they went: the last call before the node that wants them was the same.
  Counts counts_for(int64_t tokens, int64_t choices, int64_t experts) {
    const std::scoped_lock lock(mutex_);
    const bool is_even = !is_drawn_ && recorded_.empty();
    if (is_even) return fit(weights(experts), tokens, tokens * choices);
    if (const auto node = torch::autograd::get_current_node()) {
      for (auto call = calls_.rbegin(); call != calls_.rend(); ++call)
        if (call->time <= node->sequence_nr() + 1 && call->tokens == tokens && call->choices == choices &&
            static_cast<int64_t>(call->counts.size()) == experts)
          return call->counts;
    }
    calls_.push_back(
        {at::sequence_number::peek(), tokens, choices, fit(weights(experts), tokens, tokens * choices)});
    if (calls_.size() > kMostCalls) calls_.pop_front();
    return calls_.back().counts;
  }

  std::vector<double> weights(int64_t experts) {
    std::vector<double> weights(static_cast<std::size_t>(experts), 1.0);
    if (is_drawn_) {
      std::lognormal_distribution<double> popularity(0, 0.5);
      for (double& weight : weights) weight = popularity(numbers_);
    } else if (!recorded_.empty()) {
      const Counts& counts = recorded_[next_++ % recorded_.size()];
      for (std::size_t i = 0; i < weights.size(); ++i) weights[i] = i < counts.size() ? double(counts[i]) : 0;
    }
    return weights;
  }

  /// Whole numbers of the sum `total`, in proportion to the weights as far as none is above `most`.
  static Counts fit(std::vector<double> weights, int64_t most, int64_t total) {
    Counts counts(weights.size(), 0);
    std::vector<std::size_t> order(weights.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return weights[a] > weights[b]; });
    double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
    int64_t rest = total;
    std::size_t left = order.size();
    for (const std::size_t expert :
         order) {  // the heaviest first: what is too much for it goes to the others
      const double share = sum > 0 ? weights[expert] / sum : 1.0 / static_cast<double>(left);
      // Rounded up at first and down later: the sums of what is dealt stay whole.
      const auto wish = static_cast<int64_t>(std::ceil(static_cast<double>(rest) * share - 1e-9));
      counts[expert] = std::clamp(wish, std::max<int64_t>(0, rest - most * static_cast<int64_t>(left - 1)),
                                  std::min(most, rest));
      rest -= counts[expert];
      sum -= weights[expert];
      --left;
    }
    return counts;
  }

  void read(const std::string& path) {
    std::ifstream file(path);
    std::stringstream text;
    text << file.rdbuf();
    const std::string content = text.str();
    Counts counts;
    for (const char* at = content.c_str(); *at != '\0';) {
      if (*at >= '0' && *at <= '9') {
        char* end = nullptr;
        counts.push_back(std::strtoll(at, &end, 10));
        at = end;
        continue;
      }
      if (*at == ']' && !counts.empty()) recorded_.push_back(std::exchange(counts, {}));
      ++at;
    }
    if (recorded_.empty()) log(0, path, "no recorded routing in it: experts get equally many tokens");
  }

  static constexpr std::size_t kMostCalls = 100000;

  std::string how_;
  std::mutex mutex_;
  std::mt19937_64 numbers_;
  bool is_drawn_ = false;
  std::vector<Counts> recorded_;
  std::size_t next_ = 0;
  std::deque<Call> calls_;
};

}  // namespace nullcuda
