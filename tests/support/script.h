// A job as a list of calls that can be changed before it is played: what a run may do otherwise than the one
// that was planned.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "trace/trace.h"

namespace stweaver {

struct Call {
  enum class Kind : std::uint8_t { kStep, kAllocate, kFree };
  Kind kind = Kind::kStep;
  RequestId request = 0;
};

/// A request and where in the job it is made.
struct Asked {
  Bytes size = 0;
  Stream stream = 0;
  Pool pool = 0;
  int step = -1;             ///< -1 for the prologue
  std::size_t position = 0;  ///< in the order of its step
};

/// Requests are numbered as they are first made. Changes keep their numbers; what they add gets new ones.
struct Script {
  std::vector<Asked> requests;
  std::vector<Call> calls;
  std::vector<std::vector<RequestId>> steps;  ///< their requests, in order
};

/// The index of the call that makes or frees a request; calls.size() when there is none.
inline std::size_t find_call(const Script& script, Call::Kind kind, RequestId request) {
  const auto found = std::find_if(script.calls.begin(), script.calls.end(), [&](const Call& call) {
    return call.kind == kind && call.request == request;
  });
  return static_cast<std::size_t>(found - script.calls.begin());
}

/// The index of the call that begins a step; calls.size() for the step behind the last.
inline std::size_t find_step(const Script& script, std::size_t step) {
  for (std::size_t i = 0; i < script.calls.size(); ++i) {
    if (script.calls[i].kind == Call::Kind::kStep && step-- == 0) return i;
  }
  return script.calls.size();
}

inline void insert_call(Script& script, std::size_t at, const Call& call) {
  script.calls.insert(script.calls.begin() + static_cast<std::ptrdiff_t>(at), call);
}

inline void erase_call(Script& script, std::size_t at) {
  if (at < script.calls.size()) script.calls.erase(script.calls.begin() + static_cast<std::ptrdiff_t>(at));
}

/// Writes the script of a recorded job, and goes on with its last step for as long as wanted.
class ScriptWriter {
 public:
  /// `spans`: the job's steps.
  ScriptWriter(const Trace& trace, const std::vector<Lifespan>& spans)
      : trace_(trace), spans_(spans), events_(events_of(trace)) {
    for (const Request& request : trace.requests) {
      if (request.life.lower == kBeforeRecording)
        add_request(static_cast<RequestId>(&request - trace.requests.data()));
    }
    play_recorded();
  }

  /// The last step once more. What a step leaves alive lives in the next step for as long as it did in the
  /// last recorded one, and no longer than that.
  void repeat_last_step() {
    begin_step();
    const Copy before = std::exchange(copy_, {});
    const std::vector<RequestId> earlier = born_in(spans_[spans_.size() - 2]);
    const std::vector<RequestId> later = born_in(spans_.back());
    for (Time now = spans_.back().lower; now < spans_.back().upper; ++now) {
      const Event& event = events_[static_cast<std::size_t>(now)];
      if (event.kind == EventKind::kAllocate) copy_[event.request] = add_request(event.request);
      if (event.kind != EventKind::kFree) continue;
      if (const auto own = copy_.find(event.request); own != copy_.end()) {
        free(own->second);
        continue;
      }
      // What the step before left behind: its counterpart in the copy before.
      const auto born = std::lower_bound(earlier.begin(), earlier.end(), event.request);
      if (born == earlier.end() || *born != event.request || earlier.size() != later.size()) continue;
      free(before.at(later[static_cast<std::size_t>(born - earlier.begin())]));
    }
    for (const auto& [recorded, id] : before) free(id);
  }

  void begin_step() {
    script_.calls.push_back({Call::Kind::kStep});
    script_.steps.emplace_back();
  }

  [[nodiscard]] Script script() && { return std::move(script_); }

 private:
  using Copy = std::map<RequestId, RequestId>;  ///< request of the trace -> of the script

  void play_recorded() {
    std::map<RequestId, RequestId> ids;
    for (RequestId id = 0; id < script_.requests.size(); ++id) ids[id] = id;
    std::size_t step = 0;
    for (Time now = 0; now < spans_.back().upper; ++now) {
      if (step < spans_.size() && spans_[step].lower == now) {
        begin_step();
        ++step;
      }
      const Event& event = events_[static_cast<std::size_t>(now)];
      if (event.kind == EventKind::kAllocate) {
        ids[event.request] = add_request(event.request);
        if (step == spans_.size()) copy_[event.request] = ids[event.request];
      }
      if (event.kind == EventKind::kFree) free(ids.at(event.request));
    }
  }

  RequestId add_request(RequestId recorded) {
    const Request& request = trace_.requests[recorded];
    const auto id = static_cast<RequestId>(script_.requests.size());
    Asked asked = {request.size, request.stream, request.pool};
    if (!script_.steps.empty()) {
      asked.step = static_cast<int>(script_.steps.size()) - 1;
      asked.position = script_.steps.back().size();
      script_.steps.back().push_back(id);
    }
    script_.requests.push_back(asked);
    script_.calls.push_back({Call::Kind::kAllocate, id});
    return id;
  }

  void free(RequestId id) {
    if (freed_.insert(id).second) script_.calls.push_back({Call::Kind::kFree, id});
  }

  [[nodiscard]] std::vector<RequestId> born_in(const Lifespan& span) const {
    std::vector<RequestId> born;
    for (RequestId id = 0; id < trace_.requests.size(); ++id) {
      if (span.contains(trace_.requests[id].life.lower)) born.push_back(id);
    }
    return born;
  }

  const Trace& trace_;
  const std::vector<Lifespan>& spans_;
  std::vector<Event> events_;
  Script script_;
  std::set<RequestId> freed_;
  Copy copy_;  ///< of the last step, as it was played last
};

/// The job `trace` with `repeats` more steps at its end, and a boundary behind them.
inline Script script_of(const Trace& trace, const std::vector<Lifespan>& spans, int repeats) {
  ScriptWriter writer(trace, spans);
  for (int i = 0; i < repeats; ++i) writer.repeat_last_step();
  writer.begin_step();
  return std::move(writer).script();
}

}  // namespace stweaver
