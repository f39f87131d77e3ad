// Our own trace file: a trace as it happens, block by block.
//
// Layout. All numbers are little-endian; a *varint* has 7 bits per byte, the lowest first, and the top bit
// set on all bytes but the last; a *zigzag* is a varint of 0, -1, 1, -2, ...
//
//   file    := "STWTRACE" version:u32 block*
//   block   := length:u32 crc:u32 payload    CRC-32C of the block's number (u32, from 0) and the payload
//   payload of block 0 := device:varint timed:varint settings:string
//   payload of others  := record*            a string is its length as a varint and its bytes
//   record  := tag:varint ...                the two lowest bits of the tag say what it is, the rest is its
//   number n:
//     0  an allocation of class n; if class n is new, its size, stream and pool follow as varints
//     1  a drop, 2 a free, of the request that is the n-th last one, counted from 0
//     3  n = 0 a mark (string), 1 a reserve (zigzag, what it grew by), 2 a failed allocation (size, free:
//     varint),
//        3 a request from before recording (class: varint, and the class if it is new), 4 such a one that was
//        dropped then already, 5 the end
//   In a timed file the record of an event (0, 1, 2) ends with a zigzag, the microseconds since the event
//   before.
//
// A file without the end record is what a killed writer left: it is good up to its last whole block.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "trace/memory_budget.h"
#include "trace/model.h"
#include "trace/source.h"

namespace stweaver {

/// Takes all of `bytes` or throws Error. The writer hands it whole blocks, the file's start with the first;
/// once it has thrown, the writer is of no more use.
using ByteSink = std::function<void(std::span<const std::byte> bytes)>;

/// Writes one device's trace while it happens. What the last flush() wrote survives the process.
class TraceWriter {
 public:
  struct Header {
    int device = 0;
    std::string settings;  ///< Trace::settings
    bool timed = false;    ///< whether the micros of events are meant
  };

  TraceWriter(ByteSink sink, const Header& header);

  /// Adds a request that is alive before recording, `dropped` if other streams still used it only. To be
  /// called before the first event. Returns its id.
  RequestId add_before(Bytes size, Stream stream, Pool pool, bool dropped);

  /// Each of these is one event, at `micros` on the wall clock. allocate() returns the new request's id.
  RequestId allocate(Bytes size, Stream stream, Pool pool, std::int64_t micros = 0);
  void drop(RequestId request, std::int64_t micros = 0);
  void free(RequestId request, std::int64_t micros = 0);

  /// These hold from the next event on.
  void mark(const std::string& label);
  void reserve(Bytes bytes);
  void out_of_memory(Bytes size, Bytes device_free);

  /// Hands everything so far to the sink; happens by itself every 64 KiB.
  void flush();

  /// Ends the file. Without it the reader takes the writer for killed.
  void finish();

 private:
  struct Class {
    Bytes size = 0;
    Stream stream = 0;
    Pool pool = 0;
    bool operator==(const Class&) const = default;
  };
  struct ClassHash {
    std::size_t operator()(const Class& wanted) const;
  };

  void put(std::uint64_t value);
  void put_signed(std::int64_t value);
  void put_string(const std::string& string);
  void put_tag(unsigned kind, std::uint64_t number) { put(number << 2 | kind); }
  void put_class(const Class& wanted, bool new_one);
  std::pair<std::uint64_t, bool> class_number(const Class& wanted);
  void end_event(std::int64_t micros);
  void end_record();
  void prepend(std::span<const std::byte> bytes);

  ByteSink sink_;
  bool timed_;
  std::vector<std::byte> payload_;
  std::uint32_t block_ = 0;
  std::unordered_map<Class, std::uint64_t, ClassHash> classes_;
  RequestId requests_ = 0;
  Bytes reserve_ = 0;
  std::int64_t micros_ = 0;
};

/// Writes a trace, which must be valid, as a complete one; sites are left out.
void write_trace_file(const Trace& trace, const ByteSink& sink);

/// Whether `begin`, the first bytes of a file, are those of a trace file.
bool is_trace_file(std::span<const std::byte> begin);

/// Reads a trace file; the trace is valid (validate()) and called `name`. `complete` is false when the file
/// stops without its end record. Error, with `name` in front, when it is of another kind or version, damaged,
/// or would take more than `most` bytes of memory.
Trace read_trace_file(const ByteSource& source, const std::string& name,
                      std::uint64_t most = memory_for_reading());

}  // namespace stweaver
