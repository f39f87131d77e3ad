#include "runtime/plan_fit.h"

#include <map>
#include <optional>
#include <vector>

#include "profile/profile.h"
#include "runtime/matcher.h"

namespace stweaver {

bool foretells_last_step(const std::shared_ptr<const PlanIndex>& plan, const Trace& recording,
                         const Policy& policy) {
  if (recording.marks.size() < 2) return true;
  const std::vector<RequestId> births = births_before(recording);
  const auto born_before = [&](Time time) { return births[static_cast<std::size_t>(time)]; };
  const RequestId begin = born_before((recording.marks.end() - 2)->time);
  const RequestId end = born_before(recording.marks.back().time);
  Matcher matcher(plan, policy);
  std::map<Stream, StreamIndex> numbers;
  Bytes all = 0;
  Bytes wrong = 0;
  for (RequestId id = begin; id < end; ++id) {
    const Request& request = recording.requests[id];
    if (request.size == 0) continue;
    const StreamIndex stream =
        numbers.emplace(request.stream, static_cast<StreamIndex>(numbers.size())).first->second;
    const std::optional<Match> match = matcher.match(stream, request.stream, request.size, request.pool);
    // What lives on when the recording ends has lived to there.
    const auto died = request.life.upper == kForever ? static_cast<RequestId>(recording.requests.size())
                                                     : born_before(request.life.upper);
    const bool is_right = match && !match->guess &&
                          static_cast<Time>(died - id + match->slot) <= plan->plan().slots[match->slot].death;
    all += request.size;
    if (!is_right) wrong += request.size;
  }
  const bool is_varying = plan->plan().shape == StepShape::kVarying;
  return wrong <= (is_varying ? all : plan->plan().arena) / policy.misfit_share;
}

}  // namespace stweaver
