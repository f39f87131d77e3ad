#include "trace/snapshot.h"

#include <algorithm>
#include <array>
#include <deque>
#include <limits>
#include <map>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/base.h"
#include "trace/history.h"
#include "trace/pickle.h"

namespace stweaver {
namespace {

/// The keys of a snapshot that matter. What an enumerator is called stands in kKeys, in the same order.
enum Key : std::uint8_t {
  kSegments,
  kDeviceTraces,
  kAllocatorSettings,
  kExternalAnnotations,
  kMarkers,
  kAction,
  kAddr,
  kSize,
  kStream,
  kTimeUs,
  kUserMetadata,
  kPoolId,
  kDeviceFree,
  kDevice,
  kAddress,
  kTotalSize,
  kSegmentPoolId,
  kIsExpandable,
  kBlocks,
  kRequestedSize,
  kState,
  kBlockHistory,
  kRealSize,
  kName,
  kStage,
  kAllocConf,
  kCudaAllocConf,
  kExpandableSegments,
  kMaxRoundThreshold,
  kFrames,
  kFilename,
  kLine,
  kKeyCount,
};

constexpr std::array<std::string_view, kKeyCount> kKeys = {
    "segments",
    "device_traces",
    "allocator_settings",
    "external_annotations",
    "markers",
    "action",
    "addr",
    "size",
    "stream",
    "time_us",
    "user_metadata",
    "pool_id",
    "device_free",
    "device",
    "address",
    "total_size",
    "segment_pool_id",
    "is_expandable",
    "blocks",
    "requested_size",
    "state",
    "history",
    "real_size",
    "name",
    "stage",
    "PYTORCH_ALLOC_CONF",
    "PYTORCH_CUDA_ALLOC_CONF",
    "expandable_segments",
    "max_round_threshold",
    "frames",
    "filename",
    "line",
};

HistoryEntry::Action action_named(std::string_view name) {
  using Action = HistoryEntry::Action;
  if (name == "alloc") return Action::kAlloc;
  if (name == "free_requested") return Action::kFreeRequested;
  if (name == "free_completed" || name == "free") return Action::kFreeCompleted;
  if (name == "segment_alloc" || name == "segment_map") return Action::kSegmentGrow;
  if (name == "segment_free" || name == "segment_unmap") return Action::kSegmentShrink;
  if (name == "oom") return Action::kOom;
  return Action::kOther;
}

/// A block of a segment as the snapshot has it.
struct Block {
  std::optional<std::int64_t> address;  ///< not in old snapshots, where it follows from the block before
  Bytes size = 0;                       ///< rounded
  Bytes requested = 0;
  bool in_use = false;
  bool pending = false;
};

/// A line of code in a stack. What is not of Python (a line of C++) is of no interest here.
struct Frame {
  std::uint32_t file = 0;  ///< numbers of strings
  std::uint32_t function = 0;
  std::int64_t line = 0;
  friend auto operator<=>(const Frame&, const Frame&) = default;
};

/// Of a path the last two names: what tells files apart, and what fits into a table.
std::string_view short_path(std::string_view path) {
  const std::size_t last = path.rfind('/');
  if (last == std::string_view::npos || last == 0) return path;
  const std::size_t before = path.rfind('/', last - 1);
  return before == std::string_view::npos ? path : path.substr(before + 1);
}

/// Turns the document into histories.
///
/// While the document is read, trace entries and blocks become records, in which `text` is the number of a
/// string, `pool` that of a tuple and `site` that of a frame; they are resolved once the device is known.
/// Frames become records too, and stacks are forgotten once their entry is read: a job has as many as
/// allocations.
class SnapshotReader {
 public:
  explicit SnapshotReader(const std::string& name)
      : name_(name),
        document_(name, kKeys, [this](const PickleDocument&, PickleValue dict) { return keep(dict); }) {}

  std::vector<DeviceHistory> read(const ByteSource& source) {
    root_ = read_pickle(source, document_);
    if (document_.kind(root_) != PickleKind::kDict || is_none(document_.get(root_, kDeviceTraces))) {
      refuse(
          "is not a memory snapshot of PyTorch (it has no device_traces): write one with "
          "torch.cuda.memory._dump_snapshot()");
    }
    std::vector<DeviceHistory> histories;
    const std::span<const PickleValue> devices = list(root_, kDeviceTraces);
    if (devices.size() > std::size_t{kMostDevices})
      refuse("is damaged: it is of ", devices.size(), " devices");
    for (std::size_t device = 0; device < devices.size(); ++device) {
      if (has_allocations(devices[device])) histories.push_back(history_of(device, devices[device]));
    }
    if (histories.empty()) {
      refuse(
          "holds no allocations: call torch.cuda.memory._record_memory_history() before the first "
          "allocation, "
          "then train some steps, then torch.cuda.memory._dump_snapshot()");
    }
    if (histories.size() > 1) {
      for (DeviceHistory& history : histories) history.name += text(" (device ", history.device, ')');
    }
    histories.front().markers = read_markers();
    return histories;
  }

 private:
  template <typename... Parts>
  [[noreturn]] void refuse(const Parts&... parts) const {
    fail(name_, ": ", parts...);
  }

  // Access to the document.

  bool is_none(PickleValue value) const { return document_.kind(value) == PickleKind::kNone; }

  std::int64_t integer(PickleValue value, std::string_view what) const {
    const std::int64_t number = whole_integer(value, what);
    if (number < -kRange || number >= kRange) refuse_range(what);
    return number;
  }

  /// One of 64 bits.
  std::int64_t whole_integer(PickleValue value, std::string_view what) const {
    const PickleKind kind = document_.kind(value);
    if (kind == PickleKind::kHuge) refuse_range(what);
    if (kind != PickleKind::kInt) refuse("is damaged: ", what, " is missing or not an integer");
    return document_.integer(value);
  }

  [[noreturn]] void refuse_range(std::string_view what) const {
    refuse("is damaged: ", what, " is out of range");
  }

  /// A handle, of any 64 bits.
  Stream stream_of(PickleValue dict) const {
    const PickleValue stream = document_.get(dict, kStream);
    return is_none(stream) ? 0 : static_cast<Stream>(whole_integer(stream, kKeys[kStream]));
  }

  std::int64_t integer(PickleValue dict, Key key) const {
    return integer(document_.get(dict, key), kKeys[key]);
  }

  std::int64_t integer_or(PickleValue dict, Key key, std::int64_t otherwise) const {
    return is_none(document_.get(dict, key)) ? otherwise : integer(dict, key);
  }

  /// An address or a size: refused when negative.
  std::int64_t amount(PickleValue dict, Key key) const {
    const std::int64_t value = integer(dict, key);
    if (value < 0) refuse("is damaged: ", kKeys[key], " is negative");
    return value;
  }

  void check_range(std::int64_t address, Bytes size) const {
    if (size > std::numeric_limits<std::int64_t>::max() - address) refuse("is damaged: a block has no end");
  }

  std::string_view string_or(PickleValue dict, Key key, std::string_view otherwise) const {
    const PickleValue value = document_.get(dict, key);
    return document_.kind(value) == PickleKind::kString ? document_.string(value) : otherwise;
  }

  bool is_true(PickleValue dict, Key key) const {
    return document_.get(dict, key) == PickleValue{PickleKind::kBool, 1};
  }

  /// The list under `key`; empty when there is none.
  std::span<const PickleValue> list(PickleValue dict, Key key) const {
    const PickleValue value = document_.get(dict, key);
    return is_none(value) ? std::span<const PickleValue>{} : items(value, kKeys[key]);
  }

  std::span<const PickleValue> items(PickleValue value, std::string_view what) const {
    const PickleKind kind = document_.kind(value);
    if (kind != PickleKind::kList && kind != PickleKind::kTuple)
      refuse("is damaged: ", what, " is not a list");
    return document_.items(value);
  }

  // Records, made while the document is read.

  std::optional<std::uint32_t> keep(PickleValue dict) {
    if (is_frame(dict)) return keep_frame(dict);
    site_ = site_of(document_.get(dict, kFrames));
    if (is_none(document_.get(dict, kSize))) return std::nullopt;
    if (!is_none(document_.get(dict, kAction))) return keep_in(entries_, entry_of(dict));
    if (!is_none(document_.get(dict, kState))) return keep_in(blocks_, block_of(dict));
    return std::nullopt;
  }

  template <typename Record>
  std::uint32_t keep_in(std::deque<Record>& records, const Record& record) {
    if (records.size() == std::numeric_limits<std::uint32_t>::max())
      refuse("has more entries than can be read");
    document_.budget().charge(sizeof(Record));
    records.push_back(record);
    return static_cast<std::uint32_t>(records.size() - 1);
  }

  bool is_frame(PickleValue dict) const {
    return document_.kind(document_.get(dict, kFilename)) == PickleKind::kString &&
           document_.kind(document_.get(dict, kName)) == PickleKind::kString;
  }

  /// Frames that are equal become one.
  std::uint32_t keep_frame(PickleValue dict) {
    const auto string_of = [&](Key key) {
      return number_of(document_.get(dict, key), PickleKind::kString, 0);
    };
    const PickleValue line = document_.get(dict, kLine);
    const Frame frame = {string_of(kFilename), string_of(kName),
                         document_.kind(line) == PickleKind::kInt ? document_.integer(line) : 0};
    const auto [found, is_new] =
        frame_numbers_.try_emplace(frame, static_cast<std::uint32_t>(frames_.size()));
    if (is_new) {
      document_.budget().charge(2 * sizeof(Frame) + 64);  // twice, and a node
      frames_.push_back(frame);
    }
    return found->second;
  }

  /// The frame that says best where a stack, innermost frame first, comes from; kNoSite if there is none. The
  /// stack is forgotten, but not what was found: stacks may be shared.
  std::uint32_t site_of(PickleValue stack) {
    if (stack.kind() != PickleKind::kList) return kNoSite;
    const auto [found, is_new] = sites_of_stacks_.try_emplace(stack.bits(), kNoSite);
    if (!is_new) return found->second;
    document_.budget().charge(64);
    for (const PickleValue& value : document_.items(stack)) {
      if (document_.kind(value) != PickleKind::kRecord || document_.record(value) >= frames_.size()) continue;
      const std::uint32_t number = document_.record(value);
      const std::string_view file = document_.string({PickleKind::kString, frames_[number].file});
      if (!file.ends_with(".py")) continue;
      if (found->second == kNoSite) found->second = number;
      if (file.find("/torch/") != std::string_view::npos) continue;
      found->second = number;
      break;
    }
    document_.skip(stack);
    return found->second;
  }

  HistoryEntry entry_of(PickleValue dict) const {
    HistoryEntry entry;
    entry.action = action_named(string_or(dict, kAction, ""));
    entry.text = number_of(document_.get(dict, kUserMetadata), PickleKind::kString, kNoText);
    entry.pool = number_of(document_.get(dict, kPoolId), PickleKind::kTuple, HistoryEntry::kNoPool);
    entry.micros = integer_or(dict, kTimeUs, HistoryEntry::kNoMicros);
    entry.site = site_;
    if (entry.action == HistoryEntry::Action::kOther) return entry;
    entry.address = amount(dict, entry.action == HistoryEntry::Action::kOom ? kDeviceFree : kAddr);
    entry.size = amount(dict, kSize);
    entry.stream = stream_of(dict);
    check_range(entry.address, entry.size);
    return entry;
  }

  std::uint32_t number_of(PickleValue value, PickleKind kind, std::uint32_t otherwise) const {
    return document_.kind(value) == kind ? static_cast<std::uint32_t>(value.bits()) : otherwise;
  }

  Block block_of(PickleValue dict) const {
    Block block;
    const std::string_view state = string_or(dict, kState, "");
    block.pending = state == "active_pending_free";
    block.in_use = block.pending || state == "active_allocated";
    block.size = amount(dict, kSize);
    block.requested = requested_of(dict);
    if (!is_none(document_.get(dict, kAddress))) block.address = amount(dict, kAddress);
    return block;
  }

  /// Old snapshots have the size only in the block's history, and that only where one was recorded.
  Bytes requested_of(PickleValue block) const {
    if (!is_none(document_.get(block, kRequestedSize))) return amount(block, kRequestedSize);
    const std::span<const PickleValue> history = list(block, kBlockHistory);
    const bool usable = !history.empty() && document_.kind(history.front()) == PickleKind::kDict;
    return usable ? amount(history.front(), kRealSize) : amount(block, kSize);
  }

  template <typename Record>
  const Record& record(const std::deque<Record>& records, PickleValue value, std::string_view what) const {
    if (document_.kind(value) == PickleKind::kRecord) {
      const std::uint32_t number = document_.record(value);
      if (number < records.size()) return records[number];
    }
    refuse("is damaged: ", what);
  }

  const HistoryEntry& entry(PickleValue value) const {
    return record(entries_, value, "a trace entry lacks its action or size");
  }

  // Histories, made from the complete document.

  bool has_allocations(PickleValue trace) const {
    return std::ranges::any_of(items(trace, "a device's trace"), [this](PickleValue value) {
      return entry(value).action <= HistoryEntry::Action::kFreeCompleted;
    });
  }

  DeviceHistory history_of(std::size_t device, PickleValue trace) {
    DeviceHistory history;
    history.name = name_;
    history.device = static_cast<int>(device);
    history.settings = read_settings();
    texts_.clear();
    sites_.clear();
    pools_.clear();
    const std::span<const PickleValue> values = items(trace, "a device's trace");
    history.entries.reserve(values.size());
    for (const PickleValue& value : values) {
      HistoryEntry resolved = entry(value);
      resolved.text = text_number(resolved.text, history.texts);
      resolved.site = site_number(resolved.site, history.sites);
      if (resolved.pool != HistoryEntry::kNoPool)
        resolved.pool = pool_number({PickleKind::kTuple, resolved.pool});
      history.entries.push_back(resolved);
    }
    for (const PickleValue& value : list(root_, kSegments)) add_segment(value, history);
    history.annotations = read_annotations(history.device);
    return history;
  }

  std::uint32_t text_number(std::uint32_t string, std::vector<std::string>& texts) {
    if (string == kNoText) return 0;
    const auto [found, is_new] = texts_.try_emplace(string, static_cast<std::uint32_t>(texts.size()));
    if (is_new) texts.emplace_back(document_.string({PickleKind::kString, string}));
    return found->second;
  }

  std::uint32_t site_number(std::uint32_t frame, std::vector<std::string>& sites) {
    if (frame == kNoSite) return 0;
    const auto [found, is_new] = sites_.try_emplace(frame, static_cast<std::uint32_t>(sites.size()));
    if (is_new) {
      const auto [file, function, line] = frames_[frame];
      sites.push_back(text(document_.string({PickleKind::kString, function}), " (",
                           short_path(document_.string({PickleKind::kString, file})), ':', line, ')'));
    }
    return found->second;
  }

  /// Pools are numbered as they come; (0, 0) is PyTorch's own.
  Pool pool_number(PickleValue id) {
    if (document_.kind(id) != PickleKind::kTuple || document_.items(id).size() != 2)
      refuse("is damaged: a pool's id");
    const std::int64_t first = integer(document_.items(id)[0], "a pool's id");
    const std::int64_t second = integer(document_.items(id)[1], "a pool's id");
    if (first == 0 && second == 0) return 0;
    return pools_.try_emplace({first, second}, static_cast<Pool>(pools_.size() + 1)).first->second;
  }

  void add_segment(PickleValue value, DeviceHistory& history) {
    if (document_.kind(value) != PickleKind::kDict) refuse("is damaged: a segment is not a dict");
    if (integer_or(value, kDevice, 0) != history.device) return;
    HistorySegment segment;
    segment.address = amount(value, kAddress);
    segment.size = amount(value, kTotalSize);
    check_range(segment.address, segment.size);
    segment.stream = stream_of(value);
    if (!is_none(document_.get(value, kSegmentPoolId)))
      segment.pool = pool_number(document_.get(value, kSegmentPoolId));
    add_blocks(value, segment);
    history.segments.push_back(std::move(segment));
  }

  void add_blocks(PickleValue dict, HistorySegment& segment) const {
    std::int64_t next = segment.address;
    for (const PickleValue& value : list(dict, kBlocks)) {
      const Block& block = record(blocks_, value, "a block lacks its state or size");
      const std::int64_t address = block.address.value_or(next);
      check_range(address, std::max(block.size, block.requested));
      next = address + block.size;
      if (block.in_use) segment.blocks.push_back({address, block.requested, block.pending});
    }
    std::ranges::sort(segment.blocks, {}, &HistoryBlock::address);
  }

  /// The settings string. Expandable segments can be switched on without it, but leave their own traces; what
  /// later releases do otherwise is told by a setting that they write beside it.
  std::string read_settings() const {
    const PickleValue settings = document_.get(root_, kAllocatorSettings);
    const bool known = document_.kind(settings) == PickleKind::kDict;
    std::string conf(known ? string_or(settings, kAllocConf, string_or(settings, kCudaAllocConf, "")) : "");
    constexpr std::string_view kExpandable = "expandable_segments:";
    const std::size_t last = conf.rfind(kExpandable);  // the one that counts
    const bool told = last != std::string::npos && conf.compare(last + kExpandable.size(), 4, "True") == 0;
    const bool has_switch = known && !is_none(document_.get(settings, kExpandableSegments));
    const bool expandable =
        has_switch ? is_true(settings, kExpandableSegments) : told || has_expandable_segment();
    if (expandable != told) add_setting(text(kExpandable, expandable ? "True" : "False"), conf);
    if (known && !is_none(document_.get(settings, kMaxRoundThreshold)))  // from torch 2.13 on
      add_setting("oldest_first:True", conf);
    return conf;
  }

  static void add_setting(std::string_view setting, std::string& conf) {
    if (!conf.empty()) conf += ',';
    conf += setting;
  }

  bool has_expandable_segment() const {
    return std::ranges::any_of(list(root_, kSegments), [this](PickleValue segment) {
      return document_.kind(segment) == PickleKind::kDict && is_true(segment, kIsExpandable);
    });
  }

  std::vector<HistoryAnnotation> read_annotations(int device) const {
    std::vector<HistoryAnnotation> annotations;
    for (const PickleValue& value : list(root_, kExternalAnnotations)) {
      if (document_.kind(value) != PickleKind::kDict) refuse("is damaged: an annotation is not a dict");
      if (integer_or(value, kDevice, device) != device) continue;
      const std::string_view label = string_or(value, kName, "");
      const std::string_view stage = string_or(value, kStage, "");
      if (label.empty() || (stage != "START" && stage != "END")) continue;
      annotations.push_back({std::string(label), stage == "START", integer(value, kTimeUs)});
    }
    return annotations;
  }

  std::vector<HistoryMarker> read_markers() const {
    std::vector<HistoryMarker> markers;
    for (const PickleValue& value : list(root_, kMarkers)) {
      const std::span<const PickleValue> parts = items(value, "a marker");
      if (parts.size() != 3 || document_.kind(parts[2]) != PickleKind::kString)
        refuse("is damaged: a marker");
      markers.push_back({integer(parts[0], "a marker's count"), integer(parts[1], "a marker's count"),
                         std::string(document_.string(parts[2]))});
    }
    return markers;
  }

  /// Room for every address, size and clock time, and for the sum of a few.
  static constexpr std::int64_t kRange = kMostMemory;
  static constexpr std::uint32_t kNoText = UINT32_MAX;
  static constexpr std::uint32_t kNoSite = UINT32_MAX;

  std::string name_;
  PickleDocument document_;
  PickleValue root_;
  std::deque<HistoryEntry> entries_;  // a vector would take twice the memory whenever it grows
  std::deque<Block> blocks_;
  std::vector<Frame> frames_;
  std::map<Frame, std::uint32_t> frame_numbers_;
  std::unordered_map<std::int64_t, std::uint32_t> sites_of_stacks_;  // by the number of the stack's list
  std::uint32_t site_ = kNoSite;                                     // of the dict in hand
  std::unordered_map<std::uint32_t, std::uint32_t> texts_;  // string of the document -> text of the device
  std::unordered_map<std::uint32_t, std::uint32_t> sites_;  // frame of the document -> site of the device
  std::map<std::pair<std::int64_t, std::int64_t>, Pool> pools_;
};

}  // namespace

std::vector<Trace> read_snapshot(const ByteSource& source, const std::string& name) {
  const std::vector<DeviceHistory> histories = SnapshotReader(name).read(source);
  std::vector<Trace> traces;
  for (const DeviceHistory& history : histories) {
    traces.push_back(reconstruct(history));
    validate(traces.back());
  }
  return traces;
}

}  // namespace stweaver
