// A script played by a runtime allocator, request by request.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "device/device.h"
#include "runtime/runtime.h"
#include "simulate/caching_upstream.h"
#include "support/ledger.h"
#include "support/script.h"

namespace stweaver {

/// What became of a request.
enum class Fate : std::uint8_t { kNotMade, kPlanned, kReused, kMissed };

struct Outcome {
  Fate fate = Fate::kNotMade;
  std::uintptr_t address = 0;
};

struct Played {
  std::vector<Outcome> outcomes;         ///< by request
  std::vector<Bytes> fallback_reserved;  ///< when each step had begun
  std::vector<Served> served;            ///< by step, the prologue first
  RuntimeStatistics end;
};

/// Plays the script under the plan, on a device with memory for everything. Failure when two living blocks
/// share a byte or a request is not served.
class Player {
 public:
  explicit Player(const std::shared_ptr<const PlanIndex>& plan) : runtime_(device_, fallback_) {
    EXPECT_TRUE(plan == nullptr || runtime_.adopt(plan));
  }

  Played play(const Script& script) {
    Played played;
    played.outcomes.resize(script.requests.size());
    blocks_.resize(script.requests.size());
    for (const Call& call : script.calls) {
      if (call.kind == Call::Kind::kStep) {
        runtime_.begin_step();
        const RuntimeStatistics now = runtime_.statistics();
        played.served.push_back(now.last_step.served);
        played.fallback_reserved.push_back(now.fallback_reserved);
      } else if (call.kind == Call::Kind::kAllocate) {
        played.outcomes[call.request] = allocate(call.request, script.requests[call.request]);
      } else {
        free(call.request);
      }
    }
    played.end = runtime_.statistics();
    EXPECT_EQ(played.end.requested, living_.bytes());
    EXPECT_EQ(played.end.blocks, living_.count());
    free_the_rest();
    return played;
  }

 private:
  Outcome allocate(RequestId id, const Asked& asked) {
    void* const memory = runtime_.allocate(asked.size, asked.stream, asked.pool);
    blocks_[id] = memory;
    const Served before = served_;
    served_ = runtime_.statistics().served;
    if (asked.size == 0) return {Fate::kMissed, 0};
    EXPECT_NE(memory, nullptr);
    EXPECT_TRUE(living_.add({.address = std::bit_cast<Address>(memory), .size = asked.size}))
        << "request " << id;
    const auto address = reinterpret_cast<std::uintptr_t>(memory);
    if (served_.planned > before.planned) return {Fate::kPlanned, address};
    return {served_.reused > before.reused ? Fate::kReused : Fate::kMissed, address};
  }

  void free(RequestId id) {
    if (blocks_[id] == nullptr) return;
    EXPECT_TRUE(living_.remove_at(std::bit_cast<Address>(blocks_[id])));
    runtime_.free(blocks_[id]);
    blocks_[id] = nullptr;
  }

  void free_the_rest() {
    for (RequestId id = 0; id < blocks_.size(); ++id) free(id);
    const RuntimeStatistics end = runtime_.statistics();
    EXPECT_EQ(end.planned, 0);
    EXPECT_EQ(end.reused, 0);
    EXPECT_EQ(end.fallback, 0);
    EXPECT_EQ(end.allocated, 0);
    EXPECT_EQ(end.blocks, 0);
    EXPECT_EQ(fallback_.allocated(), 0);
  }

  // A thread sanitizer leaves room for four times that, the fewest addresses that an arena does with.
  HostDevice device_{64 * kGiB};
  CachingUpstream fallback_{AllocatorSettings()};
  RuntimeAllocator runtime_;
  std::vector<void*> blocks_;
  Ledger living_;
  Served served_;
};

}  // namespace stweaver
