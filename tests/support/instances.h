// Random planning instances of many shapes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "plan/instance.h"

namespace stweaver {

using Random = std::mt19937_64;

inline std::int64_t pick(Random& random, std::int64_t low, std::int64_t high) {
  return std::uniform_int_distribution<std::int64_t>(low, high)(random);
}

struct Shape {
  std::string name;
  std::function<Instance(Random&)> make;
};

inline Instance random_items(Random& random, std::int64_t count, Bytes largest, Time end, Time longest) {
  Instance instance;
  for (std::int64_t i = 0; i < count; ++i) {
    const Time birth = pick(random, 0, end);
    instance.items.push_back(
        {.size = pick(random, 1, largest), .life = {birth, birth + pick(random, 1, longest)}});
  }
  return instance;
}

/// A rectangle of `capacity` bytes and 2000 events, cut again and again until it is in `count` pieces. They
/// fill it, so the capacity is their lower bound, and enough.
inline Instance tiling(Random& random, std::size_t count, Bytes capacity) {
  struct Piece {
    Lifespan life;
    Interval bytes;
  };
  const auto area = [](const Piece& piece) {
    return static_cast<double>(piece.life.upper - piece.life.lower) *
           static_cast<double>(piece.bytes.upper - piece.bytes.lower);
  };
  const auto cut = [&](std::int64_t lower, std::int64_t upper) {
    const std::int64_t margin = std::max<std::int64_t>(1, (upper - lower) / 5);
    return pick(random, lower + margin, upper - margin);
  };
  std::vector<Piece> pieces = {{{0, 2000}, {0, capacity}}};
  while (pieces.size() < count) {
    const auto any = [&] {
      return static_cast<std::size_t>(pick(random, 0, static_cast<std::int64_t>(pieces.size()) - 1));
    };
    Piece& piece = pieces[std::max({any(), any(), any(), any()}, [&](std::size_t a, std::size_t b) {
      return area(pieces[a]) < area(pieces[b]);
    })];
    Piece rest = piece;
    if (pick(random, 0, 1) == 0 && piece.life.upper - piece.life.lower > 1) {
      piece.life.upper = rest.life.lower = cut(piece.life.lower, piece.life.upper);
    } else if (piece.bytes.upper - piece.bytes.lower > 1) {
      piece.bytes.upper = rest.bytes.lower = cut(piece.bytes.lower, piece.bytes.upper);
    } else {
      continue;
    }
    pieces.push_back(rest);
  }
  std::shuffle(pieces.begin(), pieces.end(), random);
  Instance instance;
  for (const Piece& piece : pieces)
    instance.items.push_back({.size = piece.bytes.upper - piece.bytes.lower, .life = piece.life});
  return instance;
}

/// Many requests alive at once, no two of them alike: what meets their bound, if anything does, is hard to
/// find.
inline Instance crowd(Random& random) {
  return random_items(random, 450, 16384, 600, 100);
}

inline Instance nested(Random& random) {
  Instance instance;
  const Time depth = pick(random, 1, 60);
  for (Time i = 0; i < depth; ++i)
    instance.items.push_back({.size = pick(random, 1, 9), .life = {i, 2 * depth - i}});
  return instance;
}

inline Instance staircase(Random& random) {
  Instance instance;
  const Time width = pick(random, 1, 12);
  for (Time i = 0; i < 80; ++i)
    instance.items.push_back({.size = pick(random, 1, 40), .life = {i, i + width}});
  return instance;
}

/// Activations kept from a forward for its backward, with short-lived tensors all along.
inline Instance training(Random& random) {
  Instance instance;
  const Time layers = pick(random, 2, 24);
  Time now = 0;
  std::vector<std::size_t> kept;
  const auto touch = [&] {
    instance.items.push_back({.size = pick(random, 1, 64) * 512, .life = {now, now + pick(random, 1, 4)}});
    ++now;
  };
  for (Time layer = 0; layer < layers; ++layer) {
    touch();
    kept.push_back(instance.items.size());
    instance.items.push_back({.size = pick(random, 1, 8) * 4096, .life = {now++, 0}, .group = 0});
    touch();
  }
  for (; !kept.empty(); kept.pop_back()) {
    touch();
    instance.items[kept.back()].life.upper = now;
    touch();
  }
  return instance;
}

inline Instance phases(Random& random) {
  Instance instance;
  for (int group = 0; group < 8; ++group) {
    const Time birth = pick(random, 0, 100);
    const Time death = birth + pick(random, 20, 60);
    for (std::int64_t i = 0, count = pick(random, 1, 12); i < count; ++i) {
      instance.items.push_back({.size = pick(random, 1, 99),
                                .life = {birth + pick(random, 0, 9), death + pick(random, 0, 9)},
                                .group = group});
    }
  }
  return instance;
}

inline Instance with_persistent(Random& random) {
  Instance instance = random_items(random, 100, 500, 200, 40);
  std::vector<Time> births(20);
  for (Time& birth : births) birth = pick(random, 0, 240);
  std::sort(births.begin(), births.end());
  for (const Time birth : births) instance.persistent.push_back({birth, pick(random, 1, 800)});
  stack_persistent(instance);
  return instance;
}

inline Instance with_lanes(Random& random, Time gap) {
  Instance instance = random_items(random, 120, 300, 300, 30);
  instance.lanes = 3;
  instance.lane_gap = gap;
  for (Item& item : instance.items) item.lane = static_cast<int>(pick(random, 0, 9)) / 4;
  for (Time birth = 3; birth < 200; birth += 40) instance.persistent.push_back({birth, pick(random, 1, 400)});
  stack_persistent(instance);
  return instance;
}

/// A prologue, and a step after it whose last tensors live on into the next.
inline Instance with_cycle(Random& random, int lanes, Time gap) {
  Instance instance;
  instance.lanes = lanes;
  instance.lane_gap = gap;
  instance.cycle = {40, 160};
  for (int i = 0; i < 160; ++i) {
    Item item{.size = pick(random, 1, 200), .life = {i, i + pick(random, 1, 30)}};
    item.lane = static_cast<int>(pick(random, 0, lanes - 1));
    if (item.life.lower >= 40 && item.life.upper > 160) {
      item.echo = {40, 40 + item.life.upper - 160};
      if (pick(random, 0, 1) == 0) item.echo.lower = pick(random, 10, 39);
      item.life.upper = 160;
    }
    instance.items.push_back(item);
  }
  for (Time birth = 3; birth < 40; birth += 5) instance.persistent.push_back({birth, pick(random, 1, 400)});
  stack_persistent(instance);
  return instance;
}

/// Micro-batches on the first rank of a 1F1B pipeline: each keeps what its layers made until its backward,
/// whose first gradients fit only where the last layer's outputs have just been freed. With several chunks,
/// the schedule is interleaved as Megatron-LM's, and each micro-batch passes here so many times.
class Pipeline {
 public:
  Pipeline(std::size_t depth, std::size_t micro_batches, std::size_t chunks = 1) {
    const std::size_t total = micro_batches * chunks;
    const std::size_t warm_up = chunks == 1 ? depth - 1 : 2 * (depth - 1) + (chunks - 1) * depth;
    const auto unit = [=](std::size_t index, bool backward) {
      const std::size_t within = index % (depth * chunks);
      const std::size_t chunk = within / depth;
      return (index - within + within % depth) * chunks + (backward ? chunks - 1 - chunk : chunk);
    };
    std::map<std::size_t, std::vector<std::size_t>> kept;
    for (std::size_t index = 0; index < total + warm_up; ++index) {
      if (index < total) kept[unit(index, false)] = forward();
      if (index >= warm_up) backward(kept[unit(index - warm_up, true)]);
    }
  }

  [[nodiscard]] const Instance& instance() const { return instance_; }

 private:
  std::size_t make(Bytes size, Time length) {
    instance_.items.push_back({.size = size, .life = {now_, now_ + length}});
    return instance_.items.size() - 1;
  }

  std::vector<std::size_t> forward() {
    std::vector<std::size_t> kept;
    const auto keep = [&](Bytes size) {
      kept.push_back(make(size, 1));
      ++now_;
    };
    keep(2);
    for (int layer = 0; layer < kLayers; ++layer) {
      for (const Bytes size : {2, 6, 2, 2, 1, 2, 8, 8, 2, 1}) keep(size);
    }
    keep(2);
    return kept;
  }

  void backward(const std::vector<std::size_t>& kept) {
    std::size_t left = kept.size();
    const auto free_one = [&] { instance_.items[kept[--left]].life.upper = now_; };
    make(2, 6);
    ++now_;
    free_one();  // 2: what the layer sent
    make(2, 2);
    ++now_;
    free_one();  // 1 and 2: the last operation's
    free_one();
    make(8, 2);
    make(4, 1);
    ++now_;
    make(8, 2);
    ++now_;
    while (left > 0) {
      free_one();
      make(2, 1);
      ++now_;
    }
  }

  static constexpr int kLayers = 4;

  Instance instance_;
  Time now_ = 0;
};

/// What every constructor understands.
inline std::vector<Shape> plain_shapes() {
  return {
      {"empty", [](Random&) { return Instance(); }},
      {"one item", [](Random& r) { return random_items(r, 1, 9, 9, 9); }},
      {"tiny", [](Random& r) { return random_items(r, pick(r, 2, 6), 5, 5, 5); }},
      {"random", [](Random& r) { return random_items(r, 150, 1000, 300, 60); }},
      {"all at once", [](Random& r) { return random_items(r, 40, 100, 0, 50); }},
      {"equal sizes", [](Random& r) { return random_items(r, 150, 1, 200, 50); }},
      {"huge sizes", [](Random& r) { return random_items(r, 30, Bytes{1} << 57, 40, 20); }},
      {"far times", [](Random& r) { return random_items(r, 60, 100, Time{1} << 60, Time{1} << 60); }},
      {"nested", nested},
      {"staircase", staircase},
      {"training", training},
      {"phases", phases},
      {"persistent", with_persistent},
  };
}

/// What only the sweeps understand.
inline std::vector<Shape> job_shapes() {
  return {
      {"lanes without a gap", [](Random& r) { return with_lanes(r, 0); }},
      {"lanes", [](Random& r) { return with_lanes(r, pick(r, 1, 20)); }},
      {"lanes never shared", [](Random& r) { return with_lanes(r, 1000); }},
      {"cycle", [](Random& r) { return with_cycle(r, 1, 0); }},
      {"cycle with lanes", [](Random& r) { return with_cycle(r, 3, pick(r, 0, 15)); }},
      {"cycle with a gap beyond its length", [](Random& r) { return with_cycle(r, 2, 500); }},
  };
}

inline std::vector<Shape> all_shapes() {
  std::vector<Shape> shapes = plain_shapes();
  for (Shape& shape : job_shapes()) shapes.push_back(std::move(shape));
  return shapes;
}

/// Calls test(instance) for several instances of each shape.
template <typename Test>
void for_each_instance(const std::vector<Shape>& shapes, const Test& test, unsigned seeds = 12) {
  for (const Shape& shape : shapes) {
    for (unsigned seed = 0; seed < seeds; ++seed) {
      SCOPED_TRACE(shape.name + ", seed " + std::to_string(seed));
      Random random(seed);
      test(shape.make(random));
    }
  }
}

}  // namespace stweaver
