#include "report/page_job.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <string_view>
#include <tuple>

#include "report/columns.h"
#include "report/wording.h"

namespace stweaver {
namespace {

using Json = nlohmann::ordered_json;
using Numbers = std::vector<std::uint64_t>;

// Longer lists say no more to a reader; what is left out is summed up.
constexpr std::size_t kMostGroups = 200;
constexpr std::size_t kMostSegments = 200;

/// Numbers the different values in the order in which they come.
template <typename Value>
class Numbering {
 public:
  std::uint64_t operator[](const Value& value) {
    const auto [found, is_new] = numbers_.try_emplace(value, values_.size());
    if (is_new) values_.push_back(value);
    return found->second;
  }
  [[nodiscard]] const std::vector<Value>& values() const { return values_; }

 private:
  std::map<Value, std::size_t> numbers_;
  std::vector<Value> values_;
};

template <typename Value, typename ToNumber>
Numbers numbers_of(const std::vector<Value>& values, const ToNumber& to_number) {
  Numbers numbers;
  numbers.reserve(values.size());
  for (const Value& value : values) numbers.push_back(static_cast<std::uint64_t>(to_number(value)));
  return numbers;
}

/// The label of the last mark before the request's birth; empty where there is none.
std::string_view label_before(const Trace& trace, RequestId id) {
  const Time birth = trace.requests[id].life.lower;
  const auto after = std::ranges::upper_bound(trace.marks, birth, {}, &Mark::time);
  return after == trace.marks.begin() ? std::string_view() : std::prev(after)->label;
}

void add_curve(const std::string& name, const Curve& curve, Columns& columns) {
  const Curve kept = downsample(curve, kCurvePoints);
  columns.add(name + "_time", numbers_of(kept, [](const Reserve& point) { return point.time; }), true);
  columns.add(name + "_bytes", numbers_of(kept, [](const Reserve& point) { return point.bytes; }));
}

/// The drawn requests as columns: births and lifetimes in events, a request from before recording from 0 on;
/// sizes in bytes; offsets in bytes plus one, 0 for a request that was not served. Gives the texts that
/// columns refer to by number.
Json add_blocks(const JobReport& report, const std::vector<RequestId>& drawn, Columns& columns) {
  const Trace& trace = report.trace;
  const auto birth = [&](RequestId id) { return std::max<Time>(trace.requests[id].life.lower, 0); };
  const auto death = [&](RequestId id) { return std::min(trace.requests[id].life.upper, trace.end); };
  Numbering<std::string> streams;  // handles of 64 bits, which JavaScript's numbers cannot hold
  Numbering<std::string_view> sites;
  Numbering<std::string_view> labels;
  columns.add("id", numbers_of(drawn, [](RequestId id) { return id; }), true);
  columns.add("birth", numbers_of(drawn, birth), true);
  columns.add("life", numbers_of(drawn, [&](RequestId id) { return death(id) - birth(id); }));
  columns.add("size", numbers_of(drawn, [&](RequestId id) { return trace.requests[id].size; }));
  columns.add("class", numbers_of(drawn, [&](RequestId id) { return report.profile.classes[id]; }));
  columns.add("stream", numbers_of(drawn, [&](RequestId id) {
                return streams[std::to_string(trace.requests[id].stream)];
              }));
  columns.add("site",
              numbers_of(drawn, [&](RequestId id) { return sites[trace.sites[trace.requests[id].site]]; }));
  columns.add("mark", numbers_of(drawn, [&](RequestId id) { return labels[label_before(trace, id)]; }));
  for (std::size_t i = 0; i < kContenders; ++i) {
    const auto offset = [&](RequestId id) { return report.maps.at(i).offsets[id].value_or(-1) + 1; };
    columns.add(std::string(name_of(static_cast<Contender>(i))) + "_offset", numbers_of(drawn, offset));
  }
  return {{"streams", streams.values()}, {"sites", sites.values()}, {"marks", labels.values()}};
}

/// What is not drawn: how many requests, and their share of bytes times events.
Json left_out(const JobReport& report, const std::vector<RequestId>& drawn) {
  double all = 0;
  double shown = 0;
  std::size_t requests = 0;
  for (RequestId id = 0; id < report.trace.requests.size(); ++id) {
    all += area_of(report.trace, id);
    if (report.trace.requests[id].size > 0) ++requests;
  }
  for (const RequestId id : drawn) shown += area_of(report.trace, id);
  return {{"requests", requests - drawn.size()}, {"share", all > 0 ? 1 - shown / all : 0}};
}

Json peak_json(const JobReport& report) {
  const PeakMoment& peak = report.peak;
  Json groups = Json::array();
  Bytes rest = 0;
  for (const AliveGroup& group : peak.groups) {
    if (groups.size() == kMostGroups) {
      rest += group.bytes;
      continue;
    }
    groups.push_back({{"site", report.trace.sites[group.site]},
                      {"class", group.life},
                      {"stream", std::to_string(group.stream)},
                      {"requests", group.requests},
                      {"bytes", group.bytes},
                      {"largest", group.largest},
                      {"smallest", group.smallest}});
  }
  return {{"time", std::max<Time>(peak.time, 0)},
          {"bytes", peak.bytes},
          {"requests", peak.requests},
          {"groups", groups},
          {"more", peak.groups.size() - groups.size()},
          {"more_bytes", rest}};
}

Bytes free_bytes(const CachedSegment& segment) {
  Bytes free = 0;
  for (const CachedBlock& block : segment.blocks) free += block.in_use ? 0 : block.size;
  return free;
}

/// A segment and the free stretches in it: offset, size, offset, size...
Json segment_json(const CachedSegment& segment) {
  Json free = Json::array();
  for (const CachedBlock& block : segment.blocks) {
    if (block.in_use) continue;
    free.push_back(block.address - segment.address);
    free.push_back(block.size);
  }
  return {{"size", segment.size}, {"free", free}};
}

/// What lies free by kind of segment: only requests of that kind could have used it.
Json kinds_json(const std::vector<CachedSegment>& segments) {
  struct Kind {
    std::size_t segments = 0;
    std::size_t free_blocks = 0;
    Bytes size = 0;
    Bytes free = 0;
    Bytes largest = 0;
    Bytes empty = 0;  ///< in segments with nothing in use
  };
  std::map<std::tuple<Pool, Stream, bool>, Kind> kinds;
  for (const CachedSegment& segment : segments) {
    Kind& kind = kinds[{segment.pool, segment.stream, segment.small}];
    ++kind.segments;
    kind.size += segment.size;
    const Bytes free = free_bytes(segment);
    kind.free += free;
    if (free == segment.size) kind.empty += free;
    for (const CachedBlock& block : segment.blocks) {
      if (block.in_use) continue;
      ++kind.free_blocks;
      kind.largest = std::max(kind.largest, block.size);
    }
  }
  Json list = Json::array();
  for (const auto& [key, kind] : kinds) {
    const auto& [pool, stream, small] = key;
    list.push_back({{"pool", pool},
                    {"stream", std::to_string(stream)},
                    {"small", small},
                    {"segments", kind.segments},
                    {"reserved", kind.size},
                    {"free", kind.free},
                    {"free_blocks", kind.free_blocks},
                    {"largest", kind.largest},
                    {"empty", kind.empty}});
  }
  std::stable_sort(list.begin(), list.end(), [](const Json& a, const Json& b) {
    return a.at("free").get<Bytes>() > b.at("free").get<Bytes>();
  });
  return list;
}

Json stranded_json(const StrandedMoment& moment, Bytes peak) {
  std::vector<CachedSegment> segments = moment.segments;
  std::ranges::stable_sort(segments, std::ranges::greater{}, free_bytes);
  Json drawn = Json::array();
  for (const CachedSegment& segment : segments) {
    if (drawn.size() == kMostSegments || free_bytes(segment) == 0) break;
    drawn.push_back(segment_json(segment));
  }
  Json document = {{"time", moment.time},
                   {"peak", peak},
                   {"reserved", moment.reserved},
                   {"allocated", moment.allocated},
                   {"requested", moment.requested},
                   {"kinds", kinds_json(segments)},
                   {"all_segments", segments.size()},
                   {"segments", drawn},
                   {"request", nullptr}};
  if (moment.request) {
    document["request"] = {{"size", moment.request->size},
                           {"stream", std::to_string(moment.request->stream)},
                           {"pool", moment.request->pool}};
  }
  return document;
}

Json steps_json(const std::vector<StepReport>& steps) {
  Json list = Json::array();
  for (const StepReport& step : steps) {
    list.push_back({{"begin", step.span.lower},
                    {"end", step.span.upper},
                    {"requests", step.requests},
                    {"seconds", step.seconds},
                    {"requested", step.requested},
                    {"reserved", step.reserved}});
  }
  return list;
}

Json numbers_json(const JobReport& report) {
  const Comparison& served = report.comparison;
  const Bytes native = served.native.peak;
  const Bytes expandable = served.expandable.peak;
  const Bytes ours = served.stweaver.replay.reserved_peak;
  return {{"requested", served.requested_peak},
          {"reserved", {native, expandable, ours}},
          {"measured", {served.native.measured, served.expandable.measured}},
          {"planned_steps", served.planned_steps},
          {"plan_seconds", served.stweaver.plan_seconds},
          {"room", {room_to_grow(report, native), room_to_grow(report, expandable)}},
          {"classes", report.summary.by_class},
          {"class_peaks", report.summary.peak_by_class}};
}

}  // namespace

PageJob page_job(const JobReport& report, std::size_t most_blocks) {
  const std::vector<RequestId> drawn = largest_requests(report.trace, most_blocks);
  Columns columns;
  const Json texts = add_blocks(report, drawn, columns);
  add_curve("requested", report.requested, columns);
  Json extents = Json::array();
  for (std::size_t i = 0; i < kContenders; ++i) {
    add_curve(std::string(name_of(static_cast<Contender>(i))), report.reserved.at(i), columns);
    extents.push_back(report.maps.at(i).extent);
  }
  Json facts = {{"name", job_name(report.trace.name)},
                {"device", report.trace.device},
                {"settings", report.trace.settings},
                {"events", report.trace.end},
                {"requests", report.summary.requests},
                {"all_streams", report.summary.streams},
                {"drawn", drawn.size()},
                {"left_out", left_out(report, drawn)},
                {"numbers", numbers_json(report)},
                {"steps", steps_json(report.steps)},
                {"step_note", report.profile.steps.note},
                {"phases", report.profile.phases.begins},
                {"extents", extents},
                {"peak", peak_json(report)},
                {"stranded", stranded_json(report.stranded, report.comparison.native.replay.reserved_peak)},
                {"columns", columns.description()}};
  facts.update(texts);
  return {facts, columns.packed()};
}

}  // namespace stweaver
