#include "trace/history.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/base.h"

namespace stweaver {
namespace {

using Action = HistoryEntry::Action;

/// Tells the pool of an allocation from the segment it lies in, for entries that do not say.
class PoolFinder {
 public:
  explicit PoolFinder(const DeviceHistory& history) {
    const auto has_pool = [](const HistorySegment& segment) { return segment.pool != 0; };
    if (std::ranges::none_of(history.segments, has_pool)) return;
    std::map<std::int64_t, std::size_t> births;  // ordered: addresses could be made to share a hash
    for (std::size_t i = 0; i < history.entries.size(); ++i) {
      if (history.entries[i].action == Action::kSegmentGrow) births[history.entries[i].address] = i;
    }
    for (const HistorySegment& segment : history.segments) {
      const auto birth = births.find(segment.address);
      segments_[segment.address] = {segment.address + segment.size, segment.pool,
                                    birth == births.end() ? 0 : birth->second};
    }
  }

  /// The pool of the address that entry number `index` speaks of. An older segment may have lain where one
  /// lies at the end; its pool is not known any more.
  [[nodiscard]] Pool find(std::int64_t address, std::size_t index) const {
    auto next = segments_.upper_bound(address);
    if (next == segments_.begin()) return 0;
    const Place& place = std::prev(next)->second;
    return address < place.end && index >= place.birth ? place.pool : 0;
  }

 private:
  struct Place {
    std::int64_t end = 0;
    Pool pool = 0;
    std::size_t birth = 0;  // the entry that made the segment; 0 if that was before recording
  };
  std::map<std::int64_t, Place> segments_;
};

class Reconstruction {
 public:
  explicit Reconstruction(const DeviceHistory& history) : history_(history), pools_(history) {
    const auto has = [&](Action action) {
      return std::ranges::any_of(history.entries, [&](const HistoryEntry& e) { return e.action == action; });
    };
    completes_ = has(Action::kFreeCompleted);
    frees_recorded_ = completes_ || has(Action::kFreeRequested);
  }

  Trace run() {
    place_markers();
    for (index_ = 0; index_ < history_.entries.size(); ++index_) take(history_.entries[index_]);
    settle_blocks();
    return finish();
  }

 private:
  /// Index of a request: those of before recording are counted downwards from -1.
  using Handle = std::int64_t;

  Request& request(Handle handle) {
    return handle >= 0 ? recorded_[static_cast<std::size_t>(handle)]
                       : before_[static_cast<std::size_t>(~handle)];
  }

  Time tick() {
    trace_.micros.push_back(micros_);
    return now_++;
  }

  void take(const HistoryEntry& entry) {
    micros_ = entry.micros;
    place_text(entry.text);
    switch (entry.action) {
      case Action::kAlloc:
        allocate(entry);
        break;
      case Action::kFreeRequested:
        let_go(entry);
        break;
      case Action::kFreeCompleted:
        complete(entry);
        break;
      case Action::kSegmentGrow:
        reserve_changes_.push_back({now_, entry.size});
        break;
      case Action::kSegmentShrink:
        end_overlapping(entry.address, entry.size);
        reserve_changes_.push_back({now_, -entry.size});
        break;
      case Action::kOom:
        trace_.ooms.push_back({now_, entry.size, entry.address});
        break;
      case Action::kOther:
        break;
    }
  }

  void allocate(const HistoryEntry& entry) {
    end_overlapping(entry.address, entry.size);
    ended_early_.erase(entry.address);
    timeless_ = timeless_ || entry.micros == HistoryEntry::kNoMicros;
    live_[entry.address] = static_cast<Handle>(recorded_.size());
    recorded_.push_back({entry.size, {tick(), kForever}, kForever, entry.stream, pool_of(entry), entry.site});
    place_markers();
  }

  void let_go(const HistoryEntry& entry) {
    if (!completes_) return complete(entry);
    Request& gone = request(find(entry));
    if (gone.dropped != kForever) return;
    gone.dropped = tick();
    ++frees_;
    place_markers();
  }

  void complete(const HistoryEntry& entry) {
    const Handle handle = find(entry);
    end(handle);
    if (!completes_) ended_early_[entry.address] = handle;
    live_.erase(entry.address);
  }

  /// What a free speaks of; if nobody saw it allocated, it was there before recording.
  Handle find(const HistoryEntry& entry) {
    timeless_ = timeless_ || entry.micros == HistoryEntry::kNoMicros;
    const auto found = live_.find(entry.address);
    if (found != live_.end()) return found->second;
    end_overlapping(entry.address, entry.size);
    return live_[entry.address] = add_before(entry.size, kForever, entry.stream, pool_of(entry));
  }

  Handle add_before(Bytes size, Time dropped, Stream stream, Pool pool) {
    before_.push_back({size, {kBeforeRecording, kForever}, dropped, stream, pool, 0});
    return ~static_cast<Handle>(before_.size() - 1);
  }

  /// The memory of a request may be used again now.
  void end(Handle handle) {
    Request& gone = request(handle);
    const bool drop_is_last_event = gone.dropped == now_ - 1 && gone.dropped != kBeforeRecording;
    gone.life.upper = drop_is_last_event ? gone.dropped : tick();
    if (gone.dropped == kForever) {
      gone.dropped = gone.life.upper;
      ++frees_;
    }
    place_markers();
  }

  void end_unseen(Handle handle, std::int64_t address) {
    if (!frees_recorded_) {
      fail(history_.name, ": the memory at ", address,
           " is used again or given back, but the snapshot holds no frees: record without skip_actions");
    }
    end(handle);
  }

  /// Ends what lies in [address, address + size), because something else is there now.
  void end_overlapping(std::int64_t address, Bytes size) {
    const std::int64_t upper = address + std::max<Bytes>(size, 1);
    auto next = live_.lower_bound(address);
    if (next != live_.begin()) {
      const auto previous = std::prev(next);
      if (previous->first + request(previous->second).size > address) next = previous;
    }
    while (next != live_.end() && next->first < upper) {
      end_unseen(next->second, next->first);
      next = live_.erase(next);
    }
  }

  [[nodiscard]] Pool pool_of(const HistoryEntry& entry) const {
    return entry.pool != HistoryEntry::kNoPool ? entry.pool : pools_.find(entry.address, index_);
  }

  void place_text(std::uint32_t text) {
    if (text == text_) return;
    text_ = text;
    if (!history_.texts[text].empty()) trace_.marks.push_back({now_, history_.texts[text]});
  }

  void place_markers() {
    const std::vector<HistoryMarker>& markers = history_.markers;
    for (; next_marker_ < markers.size(); ++next_marker_) {
      const HistoryMarker& marker = markers[next_marker_];
      if (marker.allocations > std::ssize(recorded_) || marker.frees > frees_) return;
      trace_.marks.push_back({now_, marker.label});
    }
  }

  /// Compares what should be alive at the end with the blocks that are.
  void settle_blocks() {
    for (const HistorySegment& segment : history_.segments) {
      end_idle(segment);
      for (const HistoryBlock& block : segment.blocks) {
        if (live_.contains(block.address)) continue;
        const auto ended = ended_early_.find(block.address);
        if (block.pending && ended != ended_early_.end() && request(ended->second).size == block.size) {
          request(ended->second).life.upper = kForever;
          continue;
        }
        end_overlapping(block.address, block.size);
        const Time dropped = block.pending ? kBeforeRecording : kForever;
        live_[block.address] = add_before(block.size, dropped, segment.stream, segment.pool);
      }
    }
  }

  /// Ends what should be alive in `segment` where it has no block in use.
  void end_idle(const HistorySegment& segment) {
    auto next = live_.lower_bound(segment.address);
    for (const HistoryBlock& block : segment.blocks) {
      next = end_until(next, block.address);
      if (next != live_.end() && next->first == block.address) ++next;
    }
    end_until(next, segment.address + segment.size);
  }

  using Live = std::map<std::int64_t, Handle>;

  Live::iterator end_until(Live::iterator next, std::int64_t address) {
    while (next != live_.end() && next->first < address) {
      end_unseen(next->second, next->first);
      next = live_.erase(next);
    }
    return next;
  }

  Trace finish() {
    trace_.name = history_.name;
    trace_.device = history_.device;
    trace_.settings = history_.settings;
    trace_.sites = history_.sites;
    trace_.end = now_;
    trace_.requests = std::move(before_);
    trace_.requests.insert(trace_.requests.end(), recorded_.begin(), recorded_.end());
    if (timeless_) trace_.micros.clear();
    sum_up_reserve();
    place_rest();
    place_annotations();
    return std::move(trace_);
  }

  /// Only the total at the end and the changes are known, so the sum begins at the difference.
  void sum_up_reserve() {
    const std::string what = text(history_.name, ": the sum of segment sizes");
    Bytes total = 0;
    for (const HistorySegment& segment : history_.segments) total = checked_add(total, segment.size, what);
    for (const Reserve& change : reserve_changes_) total = checked_add(total, -change.bytes, what);
    total = std::max<Bytes>(total, 0);
    if (total > 0 || !reserve_changes_.empty()) trace_.reserves.push_back({0, total});
    for (const Reserve& change : reserve_changes_) {
      total = std::max<Bytes>(checked_add(total, change.bytes, what), 0);
      trace_.reserves.push_back({change.time, total});
    }
  }

  /// Markers of counts that were never reached.
  void place_rest() {
    for (; next_marker_ < history_.markers.size(); ++next_marker_) {
      trace_.marks.push_back({now_, history_.markers[next_marker_].label});
    }
  }

  /// Marks where ranges of a profiler begin. Of those from before the first event only the ones that are
  /// still open then say anything about it.
  void place_annotations() {
    if (trace_.micros.empty()) return;
    std::vector<HistoryAnnotation> ranges = history_.annotations;
    std::ranges::stable_sort(ranges, {}, &HistoryAnnotation::micros);
    std::vector<Mark> marks;
    std::map<std::string, std::vector<std::size_t>> open;  // indices into marks
    Time time = 0;
    for (const HistoryAnnotation& range : ranges) {
      while (time < now_ && trace_.micros[static_cast<std::size_t>(time)] < range.micros) ++time;
      std::vector<std::size_t>& same = open[range.label];
      if (range.start) {
        same.push_back(marks.size());
        marks.push_back({time, range.label});
      } else if (time == 0 && !same.empty()) {
        marks[same.back()].time = kForever;
        same.pop_back();
      }
    }
    std::erase_if(marks, [](const Mark& mark) { return mark.time == kForever; });
    trace_.marks.insert(trace_.marks.end(), marks.begin(), marks.end());
    std::ranges::stable_sort(trace_.marks, {}, &Mark::time);
  }

  const DeviceHistory& history_;
  PoolFinder pools_;
  bool completes_ = false;       // free_completed is recorded at all
  bool frees_recorded_ = false;  // any free is
  Trace trace_;
  std::vector<Request> before_;
  std::vector<Request> recorded_;
  std::vector<Reserve> reserve_changes_;
  Live live_;         // by address
  Live ended_early_;  // likewise the last of those that may be pending still: nobody tells
  Time now_ = 0;
  std::int64_t frees_ = 0;
  std::int64_t micros_ = 0;  // of the entry in hand
  bool timeless_ = false;    // some event has no clock time
  std::size_t index_ = 0;    // of the entry in hand
  std::uint32_t text_ = 0;
  std::size_t next_marker_ = 0;
};

}  // namespace

Trace reconstruct(const DeviceHistory& history) {
  return Reconstruction(history).run();
}

}  // namespace stweaver
