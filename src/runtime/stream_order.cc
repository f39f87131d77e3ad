#include "runtime/stream_order.h"

#include <algorithm>

namespace stweaver {

StreamOrder::~StreamOrder() {
  for (const Lane& lane : lanes_) {
    for (const Recorded& recorded : lane.events) {
      if (recorded.event != kNoEvent) device_->forget(recorded.event);
    }
  }
}

LaneId StreamOrder::find_lane(Stream stream) {
  const auto found = std::find_if(lanes_.begin(), lanes_.end(),
                                  [stream](const Lane& lane) { return lane.stream == stream; });
  if (found == lanes_.end()) {
    if (lanes_.size() == kMostLanes) return kNobody;
    lanes_.emplace_back().stream = stream;
    for (Lane& lane : lanes_) lane.known.resize(lanes_.size(), 0);
    last_stream_ = stream;
    return last_ = static_cast<LaneId>(lanes_.size() - 1);
  }
  last_stream_ = stream;
  return last_ = static_cast<LaneId>(found - lanes_.begin());
}

bool StreamOrder::order(LaneId taker, const LastUse& last, Tick now) {
  if (ordered(taker, last)) return true;
  Lane& giver = lanes_[last.lane];
  const Recorded* found = nullptr;
  for (const Recorded& recorded : giver.events) {
    const bool behind = recorded.event != kNoEvent && recorded.time >= last.freed;
    if (behind && (found == nullptr || recorded.time < found->time)) found = &recorded;
  }
  if (found == nullptr) found = record(giver, now);
  if (found == nullptr || !device_->wait(lanes_[taker].stream, found->event)) return false;
  ++waits_;
  lanes_[taker].known[last.lane] = found->time;
  return true;
}

void StreamOrder::hand_over(LaneId lane, Tick now) {
  Tick& due = lanes_[lane].due;
  if (due != kNever) return;
  due = now + spacing_;
  next_due_ = std::min(next_due_, due);
}

void StreamOrder::settle(Tick now) {
  for (Lane& lane : lanes_) std::fill(lane.known.begin(), lane.known.end(), now);
}

void StreamOrder::record_due(Tick now) {
  next_due_ = kNever;
  for (Lane& lane : lanes_) {
    if (lane.due <= now) {
      record(lane, now);
      lane.due = kNever;
    }
    next_due_ = std::min(next_due_, lane.due);
  }
}

const StreamOrder::Recorded* StreamOrder::record(Lane& lane, Tick now) {
  const DeviceEvent event = device_->record(lane.stream);
  if (event == kNoEvent) return nullptr;
  ++events_;
  lane.newest = (lane.newest + 1) % kKept;
  Recorded& recorded = lane.events[lane.newest];
  if (recorded.event != kNoEvent) device_->forget(recorded.event);
  recorded = {now, event};
  return &recorded;
}

}  // namespace stweaver
