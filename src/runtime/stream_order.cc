#include "runtime/stream_order.h"

#include <algorithm>

namespace stweaver {

StreamOrder::~StreamOrder() {
  for (const StreamState& stream : streams_) {
    for (const Recorded& recorded : stream.events) {
      if (recorded.event != kNoEvent) device_->forget(recorded.event);
    }
  }
}

StreamIndex StreamOrder::find_index(Stream stream) {
  const auto found = std::find_if(streams_.begin(), streams_.end(),
                                  [stream](const StreamState& known) { return known.stream == stream; });
  if (found == streams_.end()) {
    if (streams_.size() == kMostStreams) return kNoStream;
    streams_.emplace_back().stream = stream;
    streams_.back().next_event = now_ + event_spacing_;
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
  state.over = found->time;
  return true;
}

void StreamOrder::find_what_is_over() {
  for (StreamState& state : streams_) {
    for (std::size_t back = 0; back < kKept; ++back) {
      const Recorded& recorded = state.events[(state.newest + kKept - back) % kKept];
      if (recorded.event == kNoEvent || recorded.time <= state.over) break;
      if (!device_->passed(recorded.event)) continue;
      state.over = recorded.time;
      break;
    }
  }
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

void StreamOrder::record_free(StreamIndex stream, Tick now) {
  streams_[stream].next_event = now + event_spacing_;
  record(streams_[stream], now);
}

const StreamOrder::Recorded* StreamOrder::find_behind(const StreamState& stream, Tick freed) {
  const Recorded* found = nullptr;
  for (const Recorded& recorded : stream.events) {
    const bool is_behind = recorded.event != kNoEvent && recorded.time >= freed;
    if (is_behind && (found == nullptr || recorded.time < found->time)) found = &recorded;
  }
  return found;
}

const StreamOrder::Recorded* StreamOrder::record(StreamState& stream, Tick now) {
  const DeviceEvent event = device_->record(stream.stream);
  if (event == kNoEvent) return nullptr;
  stream.newest = (stream.newest + 1) % kKept;
  Recorded& recorded = stream.events[stream.newest];
  if (recorded.event != kNoEvent) device_->forget(recorded.event);
  recorded = {now, event};
  return &recorded;
}

}  // namespace stweaver
