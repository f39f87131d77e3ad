#include "trace/read.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>

#include "base/base.h"
#include "trace/snapshot.h"
#include "trace/trace_file.h"

namespace stweaver {
namespace {

constexpr std::byte kPickleBegin{0x80};  // the opcode PROTO, with which protocols 2 and up begin

/// The first bytes of a source, up to `size`.
std::vector<std::byte> take_begin(const ByteSource& source, std::size_t size) {
  std::vector<std::byte> begin(size);
  std::size_t filled = 0;
  while (filled < size) {
    const std::size_t more = source(std::span(begin).subspan(filled));
    if (more == 0) break;
    filled += more;
  }
  begin.resize(filled);
  return begin;
}

/// Gives `begin` and then what `rest` has.
ByteSource put_back(std::vector<std::byte> begin, ByteSource rest) {
  struct State {
    std::vector<std::byte> begin;
    std::size_t used = 0;
  };
  auto state = std::make_shared<State>(State{std::move(begin)});
  return [state, rest = std::move(rest)](std::span<std::byte> buffer) {
    const std::size_t size = std::min(buffer.size(), state->begin.size() - state->used);
    if (size == 0) return rest(buffer);
    std::memcpy(buffer.data(), state->begin.data() + state->used, size);
    state->used += size;
    return size;
  };
}

}  // namespace

std::vector<Trace> read_traces(const ByteSource& source, const std::string& name) {
  std::vector<std::byte> begin = take_begin(source, 8);
  if (begin.empty()) fail(name, ": is empty");
  const bool ours = is_trace_file(begin);
  if (!ours && begin.front() != kPickleBegin) {
    fail(name,
         ": is neither a memory snapshot of PyTorch nor a trace file of STWeaver (an instance to plan "
         "is told by its name: *.csv)");
  }
  const ByteSource whole = put_back(std::move(begin), source);
  if (ours) return {read_trace_file(whole, name)};
  return read_snapshot(whole, name);
}

std::vector<Trace>::iterator busiest_of(std::vector<Trace>& traces) {
  return std::max_element(traces.begin(), traces.end(), [](const Trace& a, const Trace& b) {
    return a.requests.size() < b.requests.size();
  });
}

}  // namespace stweaver
