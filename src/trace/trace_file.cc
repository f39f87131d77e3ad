#include "trace/trace_file.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <string_view>
#include <utility>

#include "base/base.h"
#include "trace/byte_reader.h"

namespace stweaver {
namespace {

constexpr std::array<char, 8> kMagic = {'S', 'T', 'W', 'T', 'R', 'A', 'C', 'E'};
constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kBlockSize = std::size_t{1} << 16;  // a block is written once it has this many bytes
constexpr std::size_t kMaxString = std::size_t{1} << 20;
constexpr std::size_t kMaxBlockSize = std::size_t{1} << 22;  // room for one record of the largest strings

enum RecordKind : std::uint8_t { kAllocate, kDrop, kFree, kOther };
enum OtherRecord : std::uint8_t { kMark, kReserve, kOutOfMemory, kBefore, kBeforeDropped, kEnd };

std::span<const std::byte> bytes_of(const std::uint32_t& number) {
  return std::as_bytes(std::span(&number, 1));
}

std::uint32_t checksum(std::uint32_t block, std::span<const std::byte> payload) {
  return crc32c(payload, crc32c(bytes_of(block)));
}

}  // namespace

// ----------------------------------------------------------------------------------------- the writer

TraceWriter::TraceWriter(ByteSink sink, const Header& header) : sink_(std::move(sink)), timed_(header.timed) {
  put(static_cast<std::uint64_t>(header.device));
  put(header.timed ? 1 : 0);
  put_string(header.settings);
  flush();
}

void TraceWriter::put(std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) payload_.push_back(static_cast<std::byte>(value | 0x80));
  payload_.push_back(static_cast<std::byte>(value));
}

void TraceWriter::put_signed(std::int64_t value) {
  put(static_cast<std::uint64_t>(value) << 1 ^ static_cast<std::uint64_t>(value >> 63));
}

void TraceWriter::put_string(const std::string& string) {
  if (string.size() > kMaxString) fail("a text of ", string.size(), " bytes is too long for a trace file");
  put(string.size());
  const auto bytes = std::as_bytes(std::span(string));
  payload_.insert(payload_.end(), bytes.begin(), bytes.end());
}

std::size_t TraceWriter::ClassHash::operator()(const Class& wanted) const {
  return mix_hash(mix_hash(mix_hash(0, static_cast<std::uint64_t>(wanted.size)), wanted.stream), wanted.pool);
}

/// The number of a class, and whether it is a new one.
std::pair<std::uint64_t, bool> TraceWriter::class_number(const Class& wanted) {
  const auto [found, is_new] = classes_.try_emplace(wanted, classes_.size());
  return {found->second, is_new};
}

void TraceWriter::put_class(const Class& wanted, bool new_one) {
  if (!new_one) return;
  put(static_cast<std::uint64_t>(wanted.size));
  put(wanted.stream);
  put(wanted.pool);
}

RequestId TraceWriter::add_before(Bytes size, Stream stream, Pool pool, bool dropped) {
  const Class wanted = {size, stream, pool};
  const auto [number, is_new] = class_number(wanted);
  put_tag(kOther, dropped ? kBeforeDropped : kBefore);
  put(number);
  put_class(wanted, is_new);
  end_record();
  return requests_++;
}

RequestId TraceWriter::allocate(Bytes size, Stream stream, Pool pool, std::int64_t micros) {
  const Class wanted = {size, stream, pool};
  const auto [number, is_new] = class_number(wanted);
  put_tag(kAllocate, number);
  put_class(wanted, is_new);
  end_event(micros);
  return requests_++;
}

void TraceWriter::drop(RequestId request, std::int64_t micros) {
  put_tag(kDrop, requests_ - 1 - request);
  end_event(micros);
}

void TraceWriter::free(RequestId request, std::int64_t micros) {
  put_tag(kFree, requests_ - 1 - request);
  end_event(micros);
}

void TraceWriter::end_event(std::int64_t micros) {
  if (timed_)
    put_signed(static_cast<std::int64_t>(static_cast<std::uint64_t>(micros) -
                                         static_cast<std::uint64_t>(std::exchange(micros_, micros))));
  end_record();
}

void TraceWriter::mark(const std::string& label) {
  put_tag(kOther, kMark);
  put_string(label);
  end_record();
}

void TraceWriter::reserve(Bytes bytes) {
  put_tag(kOther, kReserve);
  put_signed(bytes - std::exchange(reserve_, bytes));
  end_record();
}

void TraceWriter::out_of_memory(Bytes size, Bytes device_free) {
  put_tag(kOther, kOutOfMemory);
  put(static_cast<std::uint64_t>(size));
  put(static_cast<std::uint64_t>(device_free));
  end_record();
}

void TraceWriter::end_record() {
  if (payload_.size() >= kBlockSize) flush();
}

void TraceWriter::prepend(std::span<const std::byte> bytes) {
  payload_.insert(payload_.begin(), bytes.begin(), bytes.end());
}

void TraceWriter::flush() {
  if (payload_.empty()) return;
  const std::array<std::uint32_t, 2> head = {static_cast<std::uint32_t>(payload_.size()),
                                             checksum(block_, payload_)};
  prepend(std::as_bytes(std::span(head)));
  if (block_++ == 0) {
    prepend(bytes_of(kVersion));
    prepend(std::as_bytes(std::span(kMagic)));
  }
  sink_(payload_);
  payload_.clear();
}

void TraceWriter::finish() {
  put_tag(kOther, kEnd);
  flush();
}

void write_trace_file(const Trace& trace, const ByteSink& sink) {
  const bool timed = !trace.micros.empty();
  TraceWriter writer(sink, {trace.device, trace.settings, timed});
  for (const Request& request : trace.requests) {
    if (request.life.lower != kBeforeRecording) break;
    writer.add_before(request.size, request.stream, request.pool, request.dropped == kBeforeRecording);
  }
  auto mark = trace.marks.begin();
  auto reserve = trace.reserves.begin();
  auto oom = trace.ooms.begin();
  const auto write_until = [&](Time time) {
    for (; mark != trace.marks.end() && mark->time <= time; ++mark) writer.mark(mark->label);
    for (; reserve != trace.reserves.end() && reserve->time <= time; ++reserve)
      writer.reserve(reserve->bytes);
    for (; oom != trace.ooms.end() && oom->time <= time; ++oom)
      writer.out_of_memory(oom->size, oom->device_free);
  };
  Time time = 0;
  for (const Event& event : events_of(trace)) {
    write_until(time);
    const std::int64_t micros = timed ? trace.micros[static_cast<std::size_t>(time)] : 0;
    const Request& request = trace.requests[event.request];
    switch (event.kind) {
      case EventKind::kAllocate:
        writer.allocate(request.size, request.stream, request.pool, micros);
        break;
      case EventKind::kDrop:
        writer.drop(event.request, micros);
        break;
      case EventKind::kFree:
        writer.free(event.request, micros);
        break;
    }
    ++time;
  }
  write_until(time);
  writer.finish();
}

// ----------------------------------------------------------------------------------------- the reader

namespace {

class TraceReader {
 public:
  TraceReader(const ByteSource& source, const std::string& name, std::uint64_t most)
      : reader_(source), budget_(name, most) {
    trace_.name = name;
  }

  Trace read() {
    read_start();
    trace_.complete = false;
    if (next_block()) read_header();
    while (!trace_.complete && next_block()) {
      while (!payload_.empty() && !trace_.complete) read_record();
    }
    if (trace_.complete && (!payload_.empty() || !reader_.at_end())) refuse("goes on after its end");
    validate(trace_);
    return std::move(trace_);
  }

 private:
  template <typename... Parts>
  [[noreturn]] void refuse(const Parts&... parts) const {
    fail(trace_.name, ": ", parts...);
  }

  [[noreturn]] void refuse_damage(std::string_view what) const {
    refuse("is damaged: ", what, " in block ", block_, ", before byte ", reader_.offset());
  }

  void read_start() {
    std::string magic;
    if (!reader_.append(kMagic.size(), magic) || !std::ranges::equal(magic, kMagic)) {
      refuse("is not a trace file of STWeaver");
    }
    std::uint32_t version = 0;
    if (!reader_.take(version)) return;
    if (version != kVersion) {
      refuse("is a trace file of version ", version, ", this program reads version ", kVersion);
    }
  }

  /// Fetches the next whole block into payload_; false when there is none.
  bool next_block() {
    if (!payload_.empty()) refuse_damage("a record too many");
    std::uint32_t length = 0;
    std::uint32_t crc = 0;
    if (!reader_.take(length) || !reader_.take(crc)) return false;
    if (length == 0 || length > kMaxBlockSize) refuse_damage("a wrong length");
    block_bytes_.clear();
    if (!reader_.append(length, block_bytes_)) return false;
    payload_ = std::as_bytes(std::span(block_bytes_));
    if (checksum(block_, payload_) != crc) refuse_damage("a wrong checksum");
    ++block_;
    return true;
  }

  void read_header() {
    trace_.device = static_cast<int>(take_at_most(kMostDevices - 1));
    timed_ = take_at_most(1) != 0;
    trace_.settings = take_string();
  }

  std::uint64_t take() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      if (payload_.empty()) refuse_damage("half a number");
      const auto byte = std::to_integer<std::uint64_t>(payload_.front());
      payload_ = payload_.subspan(1);
      value |= (byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    refuse_damage("an endless number");
  }

  std::uint64_t take_at_most(std::uint64_t limit) {
    const std::uint64_t value = take();
    if (value > limit) refuse_damage("a number out of range");
    return value;
  }

  Bytes take_bytes() { return static_cast<Bytes>(take_at_most(std::numeric_limits<Bytes>::max())); }

  std::int64_t take_signed() {
    const std::uint64_t value = take();
    return static_cast<std::int64_t>(value >> 1 ^ (~(value & 1) + 1));
  }

  std::string take_string() {
    const std::uint64_t length = take();
    if (length > payload_.size()) refuse_damage("half a text");
    budget_.charge(length);
    std::string string(reinterpret_cast<const char*>(payload_.data()), length);
    payload_ = payload_.subspan(length);
    return string;
  }

  void read_record() {
    budget_.charge(2 * sizeof(Request));  // the largest of what a record becomes, in a vector that grows
    const std::uint64_t tag = take();
    const std::uint64_t number = tag >> 2;
    switch (static_cast<RecordKind>(tag & 3)) {
      case kAllocate:
        add(number, {now(), kForever}, kForever);
        end_event();
        break;
      case kDrop:
        drop(request(number));
        end_event();
        break;
      case kFree:
        free(request(number));
        end_event();
        break;
      case kOther:
        read_other(number);
        break;
    }
  }

  void read_other(std::uint64_t kind) {
    switch (kind) {
      case kMark:
        trace_.marks.push_back({now(), take_string()});
        break;
      case kReserve:
        reserve_ = checked_add(reserve_, take_signed(), text(trace_.name, ": is damaged: a reserve"));
        trace_.reserves.push_back({now(), reserve_});
        break;
      case kOutOfMemory: {
        const Bytes size = take_bytes();
        trace_.ooms.push_back({now(), size, take_bytes()});
        break;
      }
      case kBefore:
        add(take(), {kBeforeRecording, kForever}, kForever);
        break;
      case kBeforeDropped:
        add(take(), {kBeforeRecording, kForever}, kBeforeRecording);
        break;
      case kEnd:
        trace_.complete = true;
        break;
      default:
        refuse_damage("an unknown record");
    }
  }

  [[nodiscard]] Time now() const { return trace_.end; }

  void add(std::uint64_t class_number, Lifespan life, Time dropped) {
    if (class_number == classes_.size()) {
      const Bytes size = take_bytes();
      const Stream stream = take();
      classes_.push_back(
          {size, {}, 0, stream, static_cast<Pool>(take_at_most(std::numeric_limits<Pool>::max()))});
    }
    if (class_number >= classes_.size()) refuse_damage("an unknown class");
    Request request = classes_[class_number];
    request.life = life;
    request.dropped = dropped;
    trace_.requests.push_back(request);
  }

  /// The request that is the n-th last one and still alive.
  Request& request(std::uint64_t n) {
    if (n >= trace_.requests.size()) refuse_damage("an unknown request");
    Request& found = trace_.requests[trace_.requests.size() - 1 - n];
    if (found.life.upper != kForever) refuse_damage("a second free");
    return found;
  }

  void drop(Request& request) {
    if (request.dropped != kForever) refuse_damage("a second drop");
    request.dropped = now();
  }

  void free(Request& request) {
    request.life.upper = now();
    if (request.dropped == kForever) request.dropped = now();
  }

  void end_event() {
    ++trace_.end;
    if (!timed_) return;
    micros_ += static_cast<std::uint64_t>(take_signed());  // may wrap, as the writer's difference may
    trace_.micros.push_back(static_cast<std::int64_t>(micros_));
  }

  ByteReader reader_;
  MemoryBudget budget_;
  Trace trace_;
  std::string block_bytes_;
  std::span<const std::byte> payload_;  // what is left of block_bytes_
  std::uint32_t block_ = 0;
  bool timed_ = false;
  std::vector<Request> classes_;
  Bytes reserve_ = 0;
  std::uint64_t micros_ = 0;
};

}  // namespace

bool is_trace_file(std::span<const std::byte> begin) {
  return begin.size() >= kMagic.size() && std::memcmp(begin.data(), kMagic.data(), kMagic.size()) == 0;
}

Trace read_trace_file(const ByteSource& source, const std::string& name, std::uint64_t most) {
  return TraceReader(source, name, most).read();
}

}  // namespace stweaver
