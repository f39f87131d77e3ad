#include "synthetic_trainer.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace stweaver {
namespace {

constexpr Bytes kHalf = 2;    // a number in bfloat16
constexpr Bytes kSingle = 4;  // in float32
constexpr Bytes kIndex = 8;   // in int64

/// The same numbers from the same seed everywhere: the standard library's distributions differ.
class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}

  /// In [0, 1).
  double share() { return static_cast<double>(engine_() >> 11U) * 0x1p-53; }
  /// In [low, high].
  Bytes between(Bytes low, Bytes high) {
    return low + static_cast<Bytes>(share() * static_cast<double>(high - low + 1));
  }
  bool chance(double probability) { return share() < probability; }
  /// Mean 0, deviation 1.
  double normal() {
    double sum = -6;
    for (int i = 0; i < 12; ++i) sum += share();
    return sum;
  }
  template <typename T>
  T pick(std::initializer_list<T> choices) {
    return *(choices.begin() + between(0, static_cast<Bytes>(choices.size()) - 1));
  }

 private:
  std::mt19937_64 engine_;
};

/// Writes a trace, event by event.
class Tape {
 public:
  RequestId allocate(Bytes size) {
    trace.requests.push_back({.size = size, .life = {trace.end++, kForever}, .dropped = kForever});
    return static_cast<RequestId>(trace.requests.size() - 1);
  }
  void free(RequestId id) { trace.requests[id].life.upper = trace.requests[id].dropped = trace.end++; }
  void mark(std::string label) { trace.marks.push_back({trace.end, std::move(label)}); }
  [[nodiscard]] Bytes size_of(RequestId id) const { return trace.requests[id].size; }

  Trace trace;
};

struct Model {
  Bytes layers = 0;
  Bytes hidden = 0;
  Bytes inner = 0;  ///< of the feed-forward, or of each expert
  Bytes heads = 0;
  Bytes vocabulary = 0;
  Bytes experts = 0;  ///< 0: dense
  Bytes chosen = 0;   ///< experts per token
  bool recompute = false;
};

Model make_model(Random& random, bool experts, bool recompute) {
  Model model;
  model.layers = random.between(8, experts ? 16 : 28);
  model.hidden = random.pick<Bytes>({1024, 1536, 2048, 2560});
  model.heads = model.hidden / 128;
  model.vocabulary = random.pick<Bytes>({32000, 50304, 128256});
  model.inner = model.hidden * random.pick<Bytes>({11, 14, 16}) / 4;
  model.recompute = recompute;
  if (!experts) return model;
  model.experts = random.pick<Bytes>({8, 16, 32, 60});
  model.chosen = random.pick<Bytes>({2, 4});
  model.inner = model.hidden * random.pick<Bytes>({2, 3, 5}) / 4;
  return model;
}

struct Batch {
  Bytes rows = 0;
  Bytes length = 0;
  Bytes source = 0;  ///< length of what the first half of the layers encode; 0 where they do not
  [[nodiscard]] Bytes tokens() const { return rows * length; }
};

using Tensors = std::vector<RequestId>;
using Routes = std::vector<Bytes>;  ///< tokens that each expert of a layer gets

/// What a forward leaves for its backward.
struct Activations {
  Batch batch;
  RequestId input = 0;
  std::vector<Routes> routes;   ///< by layer
  std::vector<Tensors> layers;  ///< in the order in which they were saved
  Tensors head;
};

class Trainer {
 public:
  Trainer(Tape& tape, Random& random, const Model& model) : tape_(tape), random_(random), model_(model) {
    add_weights(model_.vocabulary * model_.hidden);
    for (Bytes layer = 0; layer < model_.layers; ++layer) {
      for (const Bytes width : {3 * model_.hidden, model_.hidden}) add_weights(model_.hidden * width);
      for (Bytes e = 0; e < std::max<Bytes>(model_.experts, 1); ++e) {
        for (int matrix = 0; matrix < 3; ++matrix) add_weights(model_.hidden * model_.inner);
      }
      for (int norm = 0; norm < 2; ++norm) add_weights(model_.hidden);
      popularity_.emplace_back();
      for (Bytes e = 0; e < model_.experts; ++e) popularity_.back().push_back(std::exp(random_.normal() / 3));
    }
    add_weights(model_.vocabulary * model_.hidden);
  }

  Activations forward(const Batch& batch) {
    Activations made;
    made.batch = batch;
    made.input = tape_.allocate(batch.tokens() * kIndex);
    RequestId stream = tape_.allocate(batch.tokens() * model_.hidden * kHalf);
    const RequestId positions = tape_.allocate(batch.length * 128 * kSingle);
    for (Bytes layer = 0; layer < model_.layers; ++layer) {
      Tensors saved = {stream};
      const Batch here = seen_by(layer, batch);
      made.routes.push_back(route(layer, here.tokens() * model_.chosen));
      if (model_.recompute) {
        Tensors thrown_away;
        stream = forward_layer(here, made.routes.back(), thrown_away);
        free_all(thrown_away);
      } else {
        stream = forward_layer(here, made.routes.back(), saved);
      }
      made.layers.push_back(std::move(saved));
    }
    tape_.free(positions);
    const Bytes logits = batch.tokens() * model_.vocabulary;
    made.head = {stream, tape_.allocate(batch.tokens() * model_.hidden * kHalf),
                 tape_.allocate(logits * kHalf), tape_.allocate(logits * kSingle)};
    transient(logits * kSingle);
    transient(kSingle);
    return made;
  }

  void backward(Activations made) {
    const bool first = gradients_.empty();
    std::size_t weight = weights_.size();
    const auto weight_gradients = [&](Bytes count) {
      for (Bytes i = 0; i < count; ++i) {
        --weight;
        const RequestId gradient = tape_.allocate(weights_[weight]);
        if (first) {
          gradients_.push_back(gradient);
        } else {
          tape_.free(gradient);  // added to the one that is there
        }
      }
    };
    RequestId gradient = backward_row(tape_.allocate(kSingle), made.head);
    weight_gradients(1);
    for (Bytes layer = model_.layers - 1; layer >= 0; --layer) {
      Tensors& saved = made.layers[static_cast<std::size_t>(layer)];
      const Routes& routes = made.routes[static_cast<std::size_t>(layer)];
      if (model_.recompute) tape_.free(forward_layer(seen_by(layer, made.batch), routes, saved));
      gradient = backward_row(gradient, saved);
      weight_gradients(4 + 3 * std::max<Bytes>(model_.experts, 1));
    }
    weight_gradients(1);
    tape_.free(gradient);
    tape_.free(made.input);
  }

  void evaluate(const Batch& batch) {
    Activations made = forward(batch);
    for (const Tensors& saved : made.layers) free_all(saved);
    free_all(made.head);
    tape_.free(made.input);
  }

  void update() {
    const bool first = states_.empty();
    transient(static_cast<Bytes>(weights_.size()) * kSingle);
    for (const Bytes weight : weights_) {
      for (int state = 0; state < 2 && first; ++state) states_.push_back(tape_.allocate(2 * weight));
      transient(2 * weight);
    }
    free_all(gradients_);
    gradients_.clear();
    for (std::vector<double>& layer : popularity_) {
      for (double& weight : layer) weight *= std::exp(random_.normal() / 20);  // the router learns
    }
  }

 private:
  void add_weights(Bytes count) {
    weights_.push_back(count * kHalf);
    tape_.allocate(weights_.back());
  }

  void transient(Bytes size) { tape_.free(tape_.allocate(size)); }

  void free_all(const Tensors& tensors) {
    for (const RequestId id : tensors) tape_.free(id);
  }

  /// What a layer works on: one that encodes, on the source alone.
  [[nodiscard]] Batch seen_by(Bytes layer, const Batch& batch) const {
    const bool encodes = batch.source > 0 && layer < model_.layers / 2;
    return encodes ? Batch{batch.rows, batch.source} : batch;
  }

  /// The layer's output; what its backward needs is added to `saved`.
  RequestId forward_layer(const Batch& batch, const Routes& routes, Tensors& saved) {
    const Bytes tokens = batch.tokens();
    const auto save = [&](Bytes size) { saved.push_back(tape_.allocate(size)); };
    save(tokens * kSingle);
    save(tokens * model_.hidden * kHalf);
    save(3 * tokens * model_.hidden * kHalf);
    transient(tokens * model_.hidden * kHalf);
    save(tokens * model_.hidden * kHalf);
    save(tokens * model_.heads * kSingle);
    transient(tokens * model_.hidden * kHalf);
    save(tokens * model_.hidden * kHalf);
    save(tokens * kSingle);
    save(tokens * model_.hidden * kHalf);
    if (batch.source > 0) {  // attention of a decoder to its source
      save(2 * batch.rows * batch.source * model_.hidden * kHalf);
      save(tokens * batch.source * model_.heads * kHalf);
    }
    if (model_.experts > 0) {
      forward_experts(tokens, routes, saved);
    } else {
      for (int i = 0; i < 3; ++i) save(tokens * model_.inner * kHalf);
      transient(tokens * model_.hidden * kHalf);
    }
    return tape_.allocate(tokens * model_.hidden * kHalf);
  }

  void forward_experts(Bytes tokens, const Routes& routes, Tensors& saved) {
    const auto save = [&](Bytes size) { saved.push_back(tape_.allocate(size)); };
    save(tokens * model_.experts * kSingle);
    save(tokens * model_.chosen * kIndex);
    const RequestId sum = tape_.allocate(tokens * model_.hidden * kHalf);
    for (const Bytes routed : routes) {
      if (routed == 0) continue;
      save(routed * kIndex);
      save(routed * model_.hidden * kHalf);
      for (int i = 0; i < 3; ++i) save(routed * model_.inner * kHalf);
      transient(routed * model_.hidden * kHalf);
    }
    saved.push_back(sum);
  }

  /// How many of `tokens` each expert gets; together they get all.
  Routes route(Bytes layer, Bytes tokens) {
    const std::vector<double>& popularity = popularity_[static_cast<std::size_t>(layer)];
    double weight = 0;
    for (const double each : popularity) weight += each;
    Routes routed;
    Bytes left = tokens;
    for (const double each : popularity) {
      const double share = each / weight;
      const double mean = static_cast<double>(left) * share;
      const double got = mean + random_.normal() * std::sqrt(mean * (1 - share)) * 2;
      routed.push_back(weight - each < 1e-9 ? left : std::clamp(static_cast<Bytes>(got), Bytes{0}, left));
      left -= routed.back();
      weight -= each;
    }
    return routed;
  }

  /// Goes back through saved tensors, last first; takes and returns the gradient that flows.
  RequestId backward_row(RequestId gradient, Tensors saved) {
    for (; !saved.empty(); saved.pop_back()) {
      const RequestId id = saved.back();
      const RequestId next = tape_.allocate(tape_.size_of(id));
      tape_.free(gradient);
      tape_.free(id);
      gradient = next;
    }
    return gradient;
  }

  Tape& tape_;
  Random& random_;
  Model model_;
  std::vector<Bytes> weights_;
  Tensors gradients_;
  Tensors states_;
  std::vector<std::vector<double>> popularity_;  ///< by layer, of its experts
};

/// Where batches come from.
class Loader {
 public:
  Loader(Random& random, Bytes most_tokens) : random_(random) {
    rows_ = random_.pick<Bytes>({1, 2, 4, 8});
    longest_ = most_tokens / rows_;
    shortest_ = longest_ / random_.pick<Bytes>({2, 4, 16});
    multiple_ = random_.pick<Bytes>({1, 8, 64});
    skewed_ = random_.chance(0.5);
  }

  [[nodiscard]] Batch fixed() const { return {rows_, longest_}; }
  Batch next() {
    const double share = random_.share();
    return of(skewed_ ? share * share : share);
  }
  /// The batch at that share of the way from the shortest to the longest.
  [[nodiscard]] Batch of(double share) const {
    const auto length = shortest_ + static_cast<Bytes>(share * static_cast<double>(longest_ - shortest_));
    return {rows_, align_up(length, multiple_)};
  }
  Batch partial() {
    const Batch whole = next();
    return {random_.between(1, whole.rows), whole.length};
  }

 private:
  Random& random_;
  Bytes rows_ = 0;
  Bytes longest_ = 0;
  Bytes shortest_ = 0;
  Bytes multiple_ = 0;
  bool skewed_ = false;
};

/// Micro-batches with up to `in_flight` of them between their forward and their backward.
template <typename Next>
void train(Trainer& trainer, int micro_batches, std::size_t in_flight, Next next) {
  std::deque<Activations> waiting;
  const auto finish_one = [&] {
    trainer.backward(std::move(waiting.front()));
    waiting.pop_front();
  };
  for (int i = 0; i < micro_batches; ++i) {
    waiting.push_back(trainer.forward(next()));
    if (waiting.size() == in_flight) finish_one();
  }
  while (!waiting.empty()) finish_one();
  trainer.update();
}

}  // namespace

Trace make_job(Family family, std::uint64_t seed, int steps) {
  constexpr std::uint64_t kSeeds = 10;  // other families' jobs stay as they were
  Random random(seed * kSeeds + static_cast<std::uint64_t>(family));
  Tape tape;
  tape.trace.name = text(name_of(family), " ", seed);
  const bool experts = family == Family::kExperts || family == Family::kRecomputed || family == Family::kBoth;
  const Model model = make_model(random, experts, family == Family::kRecomputed || random.chance(0.2));
  Loader loader(random, random.between(2048, 8192));
  Trainer trainer(tape, random, model);
  const bool pipeline = family == Family::kPipeline;
  const int micro_batches =
      family == Family::kAccumulation || pipeline ? static_cast<int>(random.between(2, 6)) : 1;
  const int turn = static_cast<int>(random.between(1, 6));
  for (int step = 0; step < steps; ++step) {
    tape.mark(text("step ", step));
    const bool evaluates = family == Family::kEvaluation && step % 5 == 4;
    const double progress = static_cast<double>(step) / steps;
    train(trainer, micro_batches, pipeline ? static_cast<std::size_t>(micro_batches + 1) / 2 : 1, [&] {
      switch (family) {
        case Family::kExperts:
        case Family::kRecomputed:
          return loader.fixed();
        case Family::kGrowing:
          return loader.of(progress);
        case Family::kAlternating:
          return step / turn % 2 == 0 ? loader.of(0.9)
                                      : Batch{2 * loader.fixed().rows, loader.of(0.2).length};
        case Family::kUnseen:  // multiples of the golden section: spread evenly, never the same
          return loader.of(std::fmod(step * 0.6180339887498949, 1));
        case Family::kTranslation: {
          const Batch target = loader.next();
          return Batch{target.rows, target.length, loader.next().length};
        }
        case Family::kEvaluation:
          return evaluates ? loader.partial() : loader.next();
        default:
          return loader.next();
      }
    });
    for (int i = 0; i < 3 && evaluates; ++i) {
      const Batch batch = loader.next();
      trainer.evaluate({2 * batch.rows, batch.length});
    }
  }
  tape.mark("end");
  return std::move(tape.trace);
}

}  // namespace stweaver
