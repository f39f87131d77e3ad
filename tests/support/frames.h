// What holds of every frame.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <limits>
#include <memory>
#include <optional>

#include "plan/frame.h"
#include "plan/squeaky_wheel.h"
#include "support/checked.h"
#include "support/instances.h"

namespace stweaver {

using FramesOf = std::function<NextFrame(const Instance&, const Classes&, Bytes)>;

inline NextFrame at_the_bound(const FramesOf& frames_of, const Instance& instance) {
  return frames_of(instance, gap_classes(instance, 1), lower_bound_of(instance));
}

/// The best of some sweeps around each of the first frames.
inline Bytes best_peak(const FramesOf& frames_of, const Instance& instance) {
  const Bytes bound = lower_bound_of(instance);
  const auto order = std::make_shared<const BirthOrder>(birth_order(instance, false));
  const NextFrame next = at_the_bound(frames_of, instance);
  Bytes peak = std::numeric_limits<Bytes>::max();
  for (int frames = 0; frames < 40 && peak > bound; ++frames) {
    const std::optional<Placement> frame = next();
    if (!frame) break;
    SqueakyWheel wheel(instance, order, duration_classes(instance, 8, 1), {}, bound, *frame);
    for (int round = 0; round < 6 && peak > bound; ++round) {
      const std::optional<Placement> placement = wheel.step(Budget());
      if (!placement) break;
      expect_sound(instance, *placement);
      peak = std::min(peak, peak_of(instance, *placement));
    }
  }
  return peak;
}

/// Expects of all frames of an instance, whatever is long and whatever the capacity, that they hold nothing
/// in two places at a time, and nothing above the capacity but for 1/`lost` of it. Returns how many there
/// are.
inline std::size_t expect_sound_frames(const FramesOf& frames_of, const Instance& instance, Bytes lost) {
  std::size_t frames = 0;
  const Bytes bound = lower_bound_of(instance);
  for (const std::size_t cuts : {0U, 1U, 3U}) {
    for (const Bytes capacity : {bound, bound + bound / 3, 2 * bound}) {
      const Classes classes = gap_classes(instance, cuts);
      const NextFrame next = frames_of(instance, classes, capacity);
      while (const std::optional<Placement> frame = next()) {
        ++frames;
        for (std::size_t i = 0; i < frame->size(); ++i) {
          if ((*frame)[i] == kNowhere) continue;
          const Item& item = instance.items[i];
          EXPECT_EQ(classes[i], 0);
          EXPECT_GE((*frame)[i], 0);
          EXPECT_LE((*frame)[i] + item.size + item.above, capacity + capacity / lost);
        }
        const std::optional<Placement> all = class_sweep_around(instance, *frame, classes, Budget());
        expect_sound(instance, all);
      }
    }
  }
  return frames;
}

inline void expect_the_same_every_time(const FramesOf& frames_of, const Instance& instance) {
  const NextFrame one = at_the_bound(frames_of, instance);
  const NextFrame other = at_the_bound(frames_of, instance);
  for (int frames = 0; frames < 20; ++frames) EXPECT_EQ(one(), other());
}

inline void expect_all_that_lives_long(const FramesOf& frames_of, const Instance& instance) {
  const Classes classes = gap_classes(instance, 1);
  const std::optional<Placement> frame = at_the_bound(frames_of, instance)();
  ASSERT_TRUE(frame);
  for (std::size_t i = 0; i < classes.size(); ++i) EXPECT_EQ((*frame)[i] != kNowhere, classes[i] == 0) << i;
}

}  // namespace stweaver
