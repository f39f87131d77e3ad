#include "arena/stream_order.h"

#include <algorithm>
#include <iterator>

namespace stweaver {

StreamOrder::~StreamOrder() {
  for (const StreamState& stream : streams_) {
    for (const Recorded& recorded : stream.events) device_->forget(recorded.event);
  }
}

StreamIndex StreamOrder::find_index(Stream stream) {
  const auto found = std::find_if(streams_.begin(), streams_.end(),
                                  [stream](const StreamState& known) { return known.stream == stream; });
  if (found == streams_.end()) {
    if (streams_.size() == kMostStreams) return kNoStream;
    streams_.emplace_back().stream = stream;
    streams_.back().events.reserve(kKept);
    for (StreamState& state : streams_) state.known.resize(streams_.size(), 0);
    last_stream_ = stream;
    return last_ = static_cast<StreamIndex>(streams_.size() - 1);
  }
  last_stream_ = stream;
  return last_ = static_cast<StreamIndex>(found - streams_.begin());
}

void StreamOrder::learn(StreamState& taker, StreamIndex other, Tick time) {
  taker.known[other] = time;
  taker.latest_known = std::max(taker.latest_known, time);
}

bool StreamOrder::order(StreamIndex taker, const LastUse& last, Tick now) {
  if (ordered(taker, last)) return true;
  StreamState& giver = streams_[last.stream];
  if (is_over(last)) {
    learn(streams_[taker], last.stream, giver.over);
    return true;
  }
  const Recorded* found = find_behind(giver, last.freed);
  if (found == nullptr) {
    found = record(giver, now);
    ++events_;
  }
  if (found == nullptr || !device_->wait(streams_[taker].stream, found->event)) return false;
  ++waits_;
  learn(streams_[taker], last.stream, found->time);
  return true;
}

void StreamOrder::hand_over(StreamIndex stream, Tick now) {
  Tick& due = streams_[stream].due;
  if (due != kNever) return;
  due = now + spacing_;
  next_due_ = std::min(next_due_, due);
}

void StreamOrder::settle(Tick now) {
  for (StreamState& state : streams_) {
    for (StreamIndex other = 0; other < streams_.size(); ++other) learn(state, other, now);
    state.over = now;
  }
}

bool StreamOrder::await(const LastUse& last) {
  if (is_over(last)) return true;
  StreamState& state = streams_[last.stream];
  const Recorded* found = find_behind(state, last.freed);
  if (found == nullptr) found = record(state, now_);
  if (found == nullptr || !device_->await(found->event)) return false;
  note_over(state, static_cast<std::size_t>(found - state.events.data()) + 1);
  return true;
}

/// Events of a stream pass in order, so a few questions tell how many have.
void StreamOrder::find_what_is_over() {
  for (StreamState& state : streams_) {
    const auto end =
        std::partition_point(state.events.begin(), state.events.end(),
                             [this](const Recorded& recorded) { return device_->passed(recorded.event); });
    note_over(state, static_cast<std::size_t>(end - state.events.begin()));
  }
}

/// So many of the stream's events have passed.
void StreamOrder::note_over(StreamState& stream, std::size_t passed) {
  if (passed == 0) return;
  const auto end = stream.events.begin() + static_cast<std::ptrdiff_t>(passed);
  stream.over = std::max(stream.over, std::prev(end)->time);
  for (auto at = stream.events.begin(); at != end; ++at) device_->forget(at->event);
  stream.events.erase(stream.events.begin(), end);
}

void StreamOrder::record_due(Tick now) {
  next_due_ = kNever;
  for (StreamState& state : streams_) {
    if (state.due <= now) {
      record(state, now);
      ++events_;
      state.due = kNever;
    }
    next_due_ = std::min(next_due_, state.due);
  }
}

const StreamOrder::Recorded* StreamOrder::find_behind(const StreamState& stream, Tick freed) {
  const auto found =
      std::partition_point(stream.events.begin(), stream.events.end(),
                           [freed](const Recorded& recorded) { return recorded.time < freed; });
  return found == stream.events.end() ? nullptr : &*found;
}

const StreamOrder::Recorded* StreamOrder::record(StreamState& stream, Tick now) {
  const DeviceEvent event = device_->record(stream.stream);
  if (event == kNoEvent) return nullptr;
  stream.freed_since = 0;
  if (stream.events.size() == kKept) thin_out(stream);
  return &stream.events.emplace_back(Recorded{now, event});
}

/// A later event tells the same of what was freed before it, only later.
void StreamOrder::thin_out(StreamState& stream) {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < stream.events.size(); ++i) {
    if (i % 2 == 0) {
      device_->forget(stream.events[i].event);
    } else {
      stream.events[kept++] = stream.events[i];
    }
  }
  stream.events.resize(kept);
}

}  // namespace stweaver
