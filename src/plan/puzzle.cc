#include "plan/puzzle.h"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace stweaver {
namespace {

enum class Kind : std::uint8_t { kDeath, kPersistent, kBirth };  // in this order at one time

struct Event {
  Time time = 0;
  Kind kind = Kind::kBirth;
  std::size_t subject =
      0;  ///< an item, then the echo of an item, then an obstacle; of kPersistent the request
};

std::vector<Event> events_of(const Puzzle& puzzle) {
  std::vector<Event> events;
  const std::size_t items = puzzle.items.size();
  events.reserve(2 * (2 * items + puzzle.obstacles.size()) + puzzle.persistent.size());
  const auto add = [&](const Lifespan& life, std::size_t subject) {
    if (life.empty()) return;
    events.push_back({life.lower, Kind::kBirth, subject});
    events.push_back({life.upper, Kind::kDeath, subject});
  };
  for (std::size_t i = 0; i < items; ++i) {
    add(puzzle.items[i].life, i);
    add(puzzle.items[i].echo, items + i);
  }
  for (std::size_t i = 0; i < puzzle.obstacles.size(); ++i) add(puzzle.obstacles[i].life, 2 * items + i);
  for (std::size_t i = 0; i < puzzle.persistent.size(); ++i)
    events.push_back({puzzle.persistent[i].birth, Kind::kPersistent, i});
  std::sort(events.begin(), events.end(), [](const Event& a, const Event& b) {
    return a.time != b.time ? a.time < b.time : a.kind < b.kind;
  });
  return events;
}

/// Walks over the events and closes a section at each death that follows a birth.
class Cutter {
 public:
  explicit Cutter(const Puzzle& puzzle) : puzzle_(puzzle) {
    sections_.spans.resize(puzzle.items.size());
    sections_.echoes.resize(puzzle.items.size());
  }

  Sections cut() {
    for (const Event& event : events_of(puzzle_)) {
      if (event.kind == Kind::kPersistent) {
        above_ += puzzle_.persistent[event.subject].size;
        is_open_ = true;
      } else if (event.kind == Kind::kBirth) {
        enter(event.subject);
        is_open_ = true;
      } else {
        if (is_open_ && items_alive_ > 0) close();
        is_open_ = false;
        leave(event.subject);
      }
    }
    return std::move(sections_);
  }

 private:
  [[nodiscard]] bool is_item(std::size_t subject) const { return subject < 2 * puzzle_.items.size(); }
  [[nodiscard]] Interval& span_of(std::size_t subject) {
    const std::size_t items = puzzle_.items.size();
    return subject < items ? sections_.spans[subject] : sections_.echoes[subject - items];
  }
  [[nodiscard]] std::int64_t now() const { return static_cast<std::int64_t>(sections_.count()); }

  void enter(std::size_t subject) {
    if (is_item(subject)) {
      span_of(subject).lower = now();
      ++items_alive_;
    } else {
      obstacles_.push_back(subject);
    }
  }

  void leave(std::size_t subject) {
    if (is_item(subject)) {
      span_of(subject).upper = now();
      --items_alive_;
    } else {
      *std::find(obstacles_.begin(), obstacles_.end(), subject) = obstacles_.back();
      obstacles_.pop_back();
    }
  }

  void close() {
    std::vector<Interval> blocked;
    blocked.reserve(obstacles_.size());
    for (const std::size_t subject : obstacles_)
      blocked.push_back(puzzle_.obstacles[subject - 2 * puzzle_.items.size()].bytes);
    join(blocked);
    sections_.sections.push_back({above_, std::move(blocked)});
  }

  const Puzzle& puzzle_;
  Sections sections_;
  Bytes above_ = 0;
  bool is_open_ = false;  ///< something was born since the last death
  std::size_t items_alive_ = 0;
  std::vector<std::size_t> obstacles_;  ///< alive
};

}  // namespace

Sections sections_of(const Puzzle& puzzle) {
  return Cutter(puzzle).cut();
}

}  // namespace stweaver
