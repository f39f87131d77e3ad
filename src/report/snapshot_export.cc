#include "report/snapshot_export.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdlib>
#include <iterator>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "report/pickle_writer.h"
#include "simulate/settings.h"
#include "trace/history.h"

namespace stweaver {
namespace {

// ---- addresses ----

constexpr Address kFirstAddress = Address{1} << 46U;
// Between segments that do not meet, and between those that grow and those that do not: no tool joins them.
constexpr Address kApart = 2 * kMiB;

bool grows(const SegmentChange& change) {
  return change.action == SegmentAction::kAlloc || change.action == SegmentAction::kMap;
}

bool is_expandable(const SegmentChange& change) {
  return change.action == SegmentAction::kMap || change.action == SegmentAction::kUnmap;
}

/// Moves addresses to where JavaScript's numbers are exact, and together.
class Addresses {
 public:
  explicit Addresses(const std::vector<SegmentChange>& changes) {
    for (const SegmentChange& change : changes) {
      if (!grows(change)) continue;
      stretches_.push_back(
          {change.address, change.address + static_cast<Address>(change.size), 0, is_expandable(change)});
    }
    join();
    Address next = kFirstAddress;
    for (Stretch& stretch : stretches_) {
      stretch.moved = next;
      next += stretch.end - stretch.begin + kApart;
    }
  }

  [[nodiscard]] Address operator()(Address address) const {
    const auto after = std::ranges::upper_bound(stretches_, address, {}, &Stretch::begin);
    const Stretch& home = *std::prev(after);
    return home.moved + (address - home.begin);
  }

 private:
  struct Stretch {
    Address begin = 0;
    Address end = 0;
    Address moved = 0;  ///< where it begins now
    bool expandable = false;
  };

  void join() {
    std::ranges::sort(stretches_, {}, &Stretch::begin);
    std::vector<Stretch> joined;
    for (const Stretch& next : stretches_) {
      const bool overlaps = !joined.empty() && next.begin < joined.back().end;
      const bool follows =
          !joined.empty() && next.begin == joined.back().end && next.expandable == joined.back().expandable;
      if (overlaps || follows) {
        joined.back().end = std::max(joined.back().end, next.end);
      } else {
        joined.push_back(next);
      }
    }
    stretches_ = std::move(joined);
  }

  std::vector<Stretch> stretches_;
};

// ---- the state at the end ----

struct Segment {
  Bytes size = 0;
  Stream stream = 0;
  Pool pool = 0;
  bool small = false;
  bool expandable = false;
};

/// By address. Pages of expandable segments that meet are one segment.
using Segments = std::map<Address, Segment>;

Address end_of(const Segments::value_type& segment) {
  return segment.first + static_cast<Address>(segment.second.size);
}

void unmap(Address begin, Bytes size, Segments& segments) {
  const auto found = std::prev(segments.upper_bound(begin));
  const Address end = begin + static_cast<Address>(size);
  const Address found_end = end_of(*found);
  Segment rest = found->second;
  found->second.size = static_cast<Bytes>(begin - found->first);
  if (found->second.size == 0) segments.erase(found);
  rest.size = static_cast<Bytes>(found_end - end);
  if (rest.size > 0) segments[end] = rest;
}

void map(Address begin, Segment added, Segments& segments) {
  const auto joins = [](const Segment& a, const Segment& b) {
    return a.expandable && b.expandable && a.stream == b.stream && a.pool == b.pool && a.small == b.small;
  };
  auto next = segments.upper_bound(begin);
  if (next != segments.end() && begin + static_cast<Address>(added.size) == next->first &&
      joins(added, next->second)) {
    added.size += next->second.size;
    next = segments.erase(next);
  }
  if (next != segments.begin() && end_of(*std::prev(next)) == begin &&
      joins(std::prev(next)->second, added)) {
    std::prev(next)->second.size += added.size;
  } else {
    segments[begin] = added;
  }
}

Segments segments_at_end(const std::vector<SegmentChange>& changes) {
  Segments segments;
  for (const SegmentChange& change : changes) {
    if (grows(change)) {
      map(change.address, {change.size, change.stream, change.pool, change.small, is_expandable(change)},
          segments);
    } else {
      unmap(change.address, change.size, segments);
    }
  }
  return segments;
}

/// A stretch of a segment: a request that is alive at the end, or nothing.
struct Block {
  Address address = 0;
  Bytes size = 0;
  std::optional<RequestId> request;
};

/// What fills [begin, end): `alive` has the address of each request that lives there.
std::vector<Block> blocks_of(const Trace& trace, const std::map<Address, RequestId>& alive, Address begin,
                             Address end) {
  std::vector<Block> blocks;
  for (auto next = alive.lower_bound(begin); next != alive.end() && next->first < end; ++next) {
    if (next->first > begin) blocks.push_back({begin, static_cast<Bytes>(next->first - begin), {}});
    const auto after = std::next(next);
    const Address limit = after != alive.end() && after->first < end ? after->first : end;
    const Bytes rounded = align_up(trace.requests[next->second].size, kMinBlockSize);
    const Bytes size = std::min(rounded, static_cast<Bytes>(limit - next->first));
    blocks.push_back({next->first, size, next->second});
    begin = next->first + static_cast<Address>(size);
  }
  if (begin < end) blocks.push_back({begin, static_cast<Bytes>(end - begin), {}});
  return blocks;
}

// ---- the document ----

/// A line of code, as Trace::sites has it: "function (file:line)".
struct Frame {
  std::string_view name;
  std::string_view file;
  std::int64_t line = 0;
};

Frame frame_of(std::string_view site) {
  const std::size_t colon = site.rfind(':');
  const std::size_t bracket = site.rfind(" (", colon);
  if (colon == std::string_view::npos || bracket == std::string_view::npos || !site.ends_with(')'))
    return {.name = site, .file = {}};
  const std::string number(site.substr(colon + 1));
  return {site.substr(0, bracket), site.substr(bracket + 2, colon - bracket - 2),
          std::strtoll(number.c_str(), nullptr, 10)};
}

constexpr std::string_view name_of(SegmentAction action) {
  constexpr std::array<std::string_view, 4> kNames = {"segment_alloc", "segment_free", "segment_map",
                                                      "segment_unmap"};
  return kNames.at(static_cast<std::size_t>(action));
}

/// Whether marks can be what PyTorch calls user_metadata: of each event one text, a mark where that changes.
bool come_one_by_one(const std::vector<Mark>& marks) {
  return std::ranges::adjacent_find(marks, [](const Mark& a, const Mark& b) {
           return a.time == b.time || a.label == b.label;
         }) == marks.end();
}

class SnapshotWriter {
 public:
  SnapshotWriter(const Trace& trace, const ReplayResult& served)
      : trace_(trace),
        served_(served),
        marks_are_metadata_(come_one_by_one(trace.marks)),
        moved_(served.segments),
        stacks_(trace.sites.size()) {}

  std::string write(const std::string& settings) && {
    out_.begin_dict();
    out_.string("segments");
    write_segments();
    out_.string("device_traces");
    out_.begin_list();
    for (int device = 0; device < trace_.device; ++device) {
      out_.begin_list();
      out_.end_list();
    }
    write_events();
    out_.end_list();
    if (!markers_.empty()) write_markers();
    out_.string("allocator_settings");
    out_.begin_dict();
    write("PYTORCH_CUDA_ALLOC_CONF", std::string_view(settings));
    out_.string("expandable_segments");
    out_.boolean(parse_settings(settings).expandable_segments);
    out_.end_dict();
    out_.end_dict();
    return std::move(out_).take();
  }

 private:
  void write(std::string_view key, std::string_view value) {
    out_.string(key);
    out_.string(value);
  }

  void write(std::string_view key, std::int64_t value) {
    out_.string(key);
    out_.integer(value);
  }

  void write_address(std::string_view key, Address address) {
    write(key, static_cast<std::int64_t>(moved_(address)));
  }

  void write_pool(std::string_view key, Pool pool) {
    out_.string(key);
    out_.pair(0, pool);
  }

  /// The stack of a line of code, one for all requests that were made there. Where none is known, none is
  /// written.
  void write_frames(std::uint32_t site) {
    if (site == 0) return;
    out_.string("frames");
    std::optional<std::size_t>& stack = stacks_[site];
    if (stack) return out_.recall(*stack);
    const Frame frame = frame_of(trace_.sites[site]);
    out_.begin_list();
    out_.begin_dict();
    write("name", frame.name);
    write("filename", frame.file);
    write("line", frame.line);
    out_.end_dict();
    out_.end_list();
    stack = out_.remember();
  }

  // ---- segments ----

  void write_segments() {
    const Segments segments = segments_at_end(served_.segments);
    std::map<Address, RequestId> alive;
    for (RequestId id = 0; id < trace_.requests.size(); ++id) {
      if (trace_.requests[id].life.upper == kForever && is_served(id)) alive[*served_.addresses[id]] = id;
    }
    out_.begin_list();
    for (const auto& entry : segments)
      write_segment(entry.first, entry.second, blocks_of(trace_, alive, entry.first, end_of(entry)));
    out_.end_list();
  }

  void write_segment(Address address, const Segment& segment, const std::vector<Block>& blocks) {
    Bytes allocated = 0;
    Bytes active = 0;
    Bytes requested = 0;
    for (const Block& block : blocks) {
      if (!block.request) continue;
      active += block.size;
      requested += request(block).size;
      if (!is_pending(block)) allocated += block.size;
    }
    out_.begin_dict();
    write("device", trace_.device);
    write_address("address", address);
    write("total_size", segment.size);
    write("allocated_size", allocated);
    write("active_size", active);
    write("requested_size", requested);
    write("stream", static_cast<std::int64_t>(segment.stream));
    write("segment_type", segment.small ? "small" : "large");
    write_pool("segment_pool_id", segment.pool);
    out_.string("is_expandable");
    out_.boolean(segment.expandable);
    out_.string("blocks");
    out_.begin_list();
    for (const Block& block : blocks) write_block(block);
    out_.end_list();
    out_.end_dict();
  }

  void write_block(const Block& block) {
    out_.begin_dict();
    write_address("address", block.address);
    write("size", block.size);
    write("requested_size", block.request ? request(block).size : 0);
    write("state", !block.request      ? "inactive"
                   : is_pending(block) ? "active_pending_free"
                                       : "active_allocated");
    write_frames(block.request ? request(block).site : 0);
    out_.end_dict();
  }

  [[nodiscard]] const Request& request(const Block& block) const { return trace_.requests[*block.request]; }
  [[nodiscard]] bool is_pending(const Block& block) const { return request(block).dropped != kForever; }
  [[nodiscard]] bool is_served(RequestId id) const {
    return trace_.requests[id].size > 0 && served_.addresses[id].has_value();
  }

  // ---- events ----

  void write_events() {
    out_.begin_list();
    for (const Event& event : events_of(trace_)) {
      write_segment_changes();
      if (is_served(event.request)) write_event(event);
      ++now_;
    }
    write_segment_changes();
    begin_event("snapshot");  // PyTorch writes one too
    write("addr", 0);
    write("size", 0);
    end_event(0);
    out_.end_list();
  }

  void write_event(const Event& event) {
    const Request& request = trace_.requests[event.request];
    if (event.kind == EventKind::kAllocate) {
      write_event("alloc", event.request);
      ++allocations_;
      return;
    }
    if (request.dropped == now_) {
      write_event("free_requested", event.request);
      ++frees_;
    }
    if (event.kind == EventKind::kFree) write_event("free_completed", event.request);
  }

  void write_event(std::string_view action, RequestId id) {
    const Request& request = trace_.requests[id];
    begin_event(action);
    write_address("addr", *served_.addresses[id]);
    write("size", request.size);
    write_pool("pool_id", request.pool);
    write_frames(request.site);
    end_event(request.stream);
  }

  /// Those that come before the event in hand. What there was before recording is no event.
  void write_segment_changes() {
    const std::vector<SegmentChange>& changes = served_.segments;
    for (; next_change_ < changes.size() && changes[next_change_].time <= now_; ++next_change_) {
      const SegmentChange& change = changes[next_change_];
      if (change.time == kBeforeRecording) continue;
      begin_event(name_of(change.action));
      write_address("addr", change.address);
      write("size", change.size);
      write_pool("pool_id", change.pool);
      end_event(change.stream);
    }
  }

  void begin_event(std::string_view action) {
    pass_marks();
    out_.begin_dict();
    write("action", action);
  }

  void end_event(Stream stream) {
    write("stream", static_cast<std::int64_t>(stream));
    if (!trace_.micros.empty()) {
      const Time last = trace_.end - 1;
      write("time_us", trace_.micros[static_cast<std::size_t>(std::min(now_, last))]);
    }
    write("user_metadata", mark_);
    out_.end_dict();
  }

  // ---- marks ----

  /// Marks that come before the event in hand.
  void pass_marks() {
    const std::vector<Mark>& marks = trace_.marks;
    for (; next_mark_ < marks.size() && marks[next_mark_].time <= now_; ++next_mark_) {
      if (marks_are_metadata_) {
        mark_ = marks[next_mark_].label;
      } else {
        markers_.push_back({allocations_, frees_, marks[next_mark_].label});
      }
    }
  }

  void write_markers() {
    out_.string("markers");
    out_.begin_list();
    for (const HistoryMarker& marker : markers_) {
      out_.begin_list();
      out_.integer(marker.allocations);
      out_.integer(marker.frees);
      out_.string(marker.label);
      out_.end_list();
    }
    out_.end_list();
  }

  const Trace& trace_;
  const ReplayResult& served_;
  const bool marks_are_metadata_;
  Addresses moved_;
  PickleWriter out_;
  std::vector<std::optional<std::size_t>> stacks_;  ///< by site: the number it is remembered under
  Time now_ = 0;                                    ///< events that are over
  std::size_t next_change_ = 0;
  std::size_t next_mark_ = 0;
  std::string_view mark_;  ///< the last one
  std::vector<HistoryMarker> markers_;
  std::int64_t allocations_ = 0;
  std::int64_t frees_ = 0;
};

}  // namespace

std::string snapshot_of(const Trace& trace, const ReplayResult& served, const std::string& settings) {
  return SnapshotWriter(trace, served).write(settings);
}

std::string snapshot_of(const JobReport& report, Contender contender) {
  const AllocatorKind kind =
      contender == Contender::kNative ? AllocatorKind::kNative : AllocatorKind::kExpandable;
  return snapshot_of(report.trace, served_by(report, contender), settings_text_of(report.trace, kind));
}

}  // namespace stweaver
