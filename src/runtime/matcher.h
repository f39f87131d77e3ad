// Which slot of the plan a request stands for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "arena/free_space.h"
#include "runtime/plan_index.h"
#include "runtime/policy.h"

namespace stweaver {

/// What the matcher makes of a request.
struct Match {
  std::size_t slot = 0;
  /// The request looks like the one of that slot, but the one before it does not fit in: it may as well be
  /// one that the plan does not know.
  bool guess = false;
  /// Its size tells the length of the step: the first that does, or one that agrees with a slot of another
  /// size.
  bool tells_length = false;
};

/// Follows each stream's slots in order. A request takes its stream's next slot if that is of its size. If it
/// is not, there are several readings: the request is not in the plan; it is the next one, of another size;
/// what lies before a slot of its size was left out; the last kAnchor sizes occur elsewhere in the plan; a
/// step begins. Two readings are cursors, which advance together until one disagrees with what comes. Where
/// the plan has the last sizes several times, what lives tells: an evaluation leaves no gradients behind.
///
/// At the end of the step the matcher begins it again, and so it does at each step boundary, wherever it was;
/// if what comes contradicts that, it goes on where it was.
class Matcher {
 public:
  Matcher(std::shared_ptr<const PlanIndex> index, const Policy& policy);

  /// The slot of a request of stream number `stream`, whose handle is `handle`; nothing when the plan has
  /// none. `alive`: bytes asked for by all living blocks, where that is known.
  std::optional<Match> match(StreamIndex stream, Stream handle, Bytes size, Pool pool,
                             std::optional<Bytes> alive = {});

  /// Whether the stream's last requests were nothing like the plan: it does something else for now.
  [[nodiscard]] bool is_astray(StreamIndex stream) const;

  /// Whether what the stream asked for in this step was the plan's for sure, but for one request, which may
  /// be the first of a stream that no handle tells, and 1/Policy::misfit_share of the bytes of the others. A
  /// prologue counts as one step, for what it leaves behind is there together.
  [[nodiscard]] bool knows(StreamIndex stream) const;

  /// There was no memory for the stream's last request. One that the plan does not know counts for nothing.
  void forget(StreamIndex stream, Bytes size);

  /// A step begins.
  void begin_step();

  [[nodiscard]] const PlanIndex& index() const { return *index_; }

 private:
  static constexpr std::size_t kNowhere = ~std::size_t{0};

  /// What slots that follow a length are asked for.
  struct Length {
    double share = 0;    ///< of their sizes; 0 where that is not known
    Bytes shown_by = 0;  ///< size of the slot that showed the share first; 0 once it is sure
  };

  struct Asked {
    Bytes size = 0;
    Pool pool = 0;
    std::optional<Bytes> alive;
    const std::vector<Length>* lengths = nullptr;  ///< Follower::lengths; nullptr where none is known
  };

  /// The entry that most likely comes next, and another that may; more were tried (docs/results/tried.md).
  struct Cursors {
    std::size_t first = 0;
    std::size_t other = kNowhere;

    void add(std::size_t entry) {
      if (entry != first) other = entry;
    }
  };

  /// How far one stream of the plan has been followed.
  struct Follower {
    explicit Follower(std::size_t count) : lengths(count) {}
    Cursors cursors;
    SizeTrail trail;
    std::vector<Length> lengths;     ///< of the step
    std::size_t unmatched = 0;       ///< requests since the last one that was matched for sure
    StreamIndex stream = kNoStream;  ///< whose requests it follows
    Bytes matched = 0;               ///< in this step, by requests that were matched for sure
    Bytes lost = 0;                  ///< in this step, by the others
    Bytes first_lost = 0;            ///< by the first of those
  };

  struct Found {
    std::size_t entry = kNowhere;
    bool guess = false;
  };

  std::optional<std::size_t> planned_stream_of(StreamIndex stream, Stream handle, const Asked& asked);
  [[nodiscard]] const Follower* follower_of(StreamIndex stream) const;  ///< nullptr where it has none
  [[nodiscard]] std::optional<std::size_t> find_stream(Stream handle, const Asked& asked) const;

  [[nodiscard]] bool has_size(const Entry& entry, const Asked& asked) const;
  bool note_share(Follower& follower, const Entry& entry, const Asked& asked) const;
  [[nodiscard]] bool agrees(const PlannedStream& stream, std::size_t entry, const Asked& asked) const;
  Found follow(const PlannedStream& stream, Follower& follower, const Asked& asked) const;
  std::size_t follow_cursors(const PlannedStream& stream, Cursors& cursors, const Asked& asked) const;
  Found look_around(const PlannedStream& stream, Cursors& cursors, const Asked& asked) const;
  [[nodiscard]] std::size_t find_size(const PlannedStream& stream, std::size_t from, std::size_t reach,
                                      const Asked& asked) const;
  [[nodiscard]] Bytes out_of_place(const Entry& entry, const Asked& asked) const;
  [[nodiscard]] std::size_t find_anchor(const PlannedStream& stream, const Follower& follower,
                                        const Asked& asked) const;

  std::shared_ptr<const PlanIndex> index_;
  const Policy* policy_;
  std::vector<Follower> followers_;          ///< by stream of the plan
  std::vector<std::size_t> planned_stream_;  ///< by stream; kNowhere where it has none
  std::size_t steps_begun_;                  ///< a plan without a prologue begins with a step
  std::size_t begin_;                        ///< the slot that the step begins with; kNowhere in a prologue
  std::optional<Bytes> beside_;              ///< bytes of no slot that lived then
};

}  // namespace stweaver
