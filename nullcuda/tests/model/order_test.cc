// Uses of the same bytes on different streams: which are ordered, and which are a race.

#include <array>
#include <bitset>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/helpers.h"
#include "model/streams.h"

namespace nullcuda {
namespace {

constexpr std::uint64_t kPlace = 0x1000;
constexpr std::uint64_t kSize = 512;

using testing::HasSubstr;
using testing::IsEmpty;

class OrderTest : public testing::Test {
 protected:
  std::string write(StreamId stream, std::uint64_t begin = kPlace, std::uint64_t size = 512) {
    return streams_.work(stream, {{.begin = begin, .size = size, .writes = true}});
  }
  std::string read(StreamId stream, std::uint64_t begin = kPlace, std::uint64_t size = 512) {
    return streams_.work(stream, {{.begin = begin, .size = size, .writes = false}});
  }
  StreamId stream(unsigned flags = kNonBlocking) { return streams_.create(0, flags, 0); }
  Event* event(StreamId on) {
    Event* made = streams_.create_event(0, false);
    streams_.record(made, on);
    return made;
  }
  Streams& streams() { return streams_; }
  [[nodiscard]] StreamId a() const { return a_; }
  [[nodiscard]] StreamId b() const { return b_; }

 private:
  Settings settings_ = checking();
  Streams streams_{settings_};
  StreamId a_ = stream();
  StreamId b_ = stream();
};

TEST_F(OrderTest, WritesOnTwoStreamsAreARace) {
  EXPECT_THAT(write(a()), IsEmpty());
  const std::string wrong = write(b());
  EXPECT_THAT(wrong, testing::StartsWith("0x1000 (512 bytes) is written on stream 0x"));
  EXPECT_THAT(wrong, HasSubstr("while it may still be written on stream 0x"));
  EXPECT_THAT(wrong, testing::EndsWith("nothing orders the two"));
}

TEST_F(OrderTest, AReadAfterAWriteIsARace) {
  EXPECT_THAT(write(a()), IsEmpty());
  EXPECT_THAT(read(b()), HasSubstr("is read on stream"));
}

TEST_F(OrderTest, AWriteAfterAReadIsARace) {
  EXPECT_THAT(read(a()), IsEmpty());
  EXPECT_THAT(write(b()), HasSubstr("may still be read on stream"));
}

TEST_F(OrderTest, AWriteAfterAnyOfManyReadsIsARace) {
  EXPECT_THAT(read(a()), IsEmpty());
  EXPECT_THAT(read(0), IsEmpty());
  EXPECT_THAT(read(b()), IsEmpty());
  streams().wait(b(), event(a()));
  EXPECT_THAT(write(b()), HasSubstr("the default stream"));
}

TEST_F(OrderTest, ReadsAreNoRace) {
  EXPECT_THAT(read(a()), IsEmpty());
  EXPECT_THAT(read(b()), IsEmpty());
}

TEST_F(OrderTest, OtherBytesAreNoRace) {
  EXPECT_THAT(write(a(), kPlace, 512), IsEmpty());
  EXPECT_THAT(write(b(), kPlace + 512, 512), IsEmpty());
  EXPECT_THAT(write(b(), kPlace - 512, 512), IsEmpty());
  EXPECT_THAT(write(b(), kPlace + 100, 0), IsEmpty());
  EXPECT_THAT(write(b(), kPlace + 511, 1), HasSubstr("0x11ff (1 bytes)"));
}

TEST_F(OrderTest, OneStreamIsInOrder) {
  EXPECT_THAT(write(a()), IsEmpty());
  EXPECT_THAT(read(a()), IsEmpty());
  EXPECT_THAT(write(a()), IsEmpty());
}

TEST_F(OrderTest, APieceMayReadAndWriteTheSame) {
  const std::vector<Use> uses = {{.begin = kPlace, .size = 512, .writes = false},
                                 {.begin = kPlace, .size = 512, .writes = true}};
  EXPECT_THAT(streams().work(a(), uses), IsEmpty());
  EXPECT_THAT(streams().work(b(), uses), testing::Not(IsEmpty()));
}

TEST_F(OrderTest, AnEventOrdersWhatLiesBeforeItAndNothingLater) {
  EXPECT_THAT(write(a()), IsEmpty());
  Event* before = event(a());
  EXPECT_THAT(write(a(), 2 * kPlace), IsEmpty());
  streams().wait(b(), before);
  EXPECT_THAT(write(b()), IsEmpty());
  EXPECT_THAT(write(b(), 2 * kPlace), testing::Not(IsEmpty()));
}

TEST_F(OrderTest, AnEventOrdersThroughOtherStreams) {
  const StreamId middle = stream();
  EXPECT_THAT(write(a()), IsEmpty());
  streams().wait(middle, event(a()));
  streams().wait(b(), event(middle));
  EXPECT_THAT(write(b()), IsEmpty());
}

TEST_F(OrderTest, AWaitIsForWhatWasRecordedThen) {
  Event* twice = event(a());
  streams().wait(b(), twice);
  EXPECT_THAT(write(a()), IsEmpty());
  streams().record(twice, a());
  EXPECT_THAT(write(b()), testing::Not(IsEmpty()));
}

TEST_F(OrderTest, AnEventOrdersAfterItWasDestroyed) {
  EXPECT_THAT(write(a()), IsEmpty());
  Event* gone = event(a());
  streams().wait(b(), gone);
  streams().destroy_event(gone);
  EXPECT_THAT(write(b()), IsEmpty());
}

TEST_F(OrderTest, AnEventOrdersAfterItsStreamWasDestroyed) {
  EXPECT_THAT(write(a()), IsEmpty());
  Event* left = event(a());
  streams().destroy(a());
  streams().wait(b(), left);
  EXPECT_THAT(write(b()), IsEmpty());
}

TEST_F(OrderTest, TheHostOrdersByAskingOrWaiting) {
  const auto orders = [&](const auto& look) {
    EXPECT_THAT(write(a()), IsEmpty());
    Event* end = event(a());
    look(end);
    EXPECT_THAT(write(b()), IsEmpty());
    streams().synchronize_all();
  };
  orders([&](Event* end) { EXPECT_EQ(streams().query(end), 0); });
  orders([&](Event*) { EXPECT_EQ(streams().query(a()), 0); });
  orders([&](Event* end) { streams().synchronize(end); });
  orders([&](Event*) { streams().synchronize(a()); });
  orders([&](Event*) { streams().synchronize_all(); });
  orders([&](Event*) { streams().destroy(a()), streams().synchronize_all(); });
}

TEST_F(OrderTest, TheHostOrdersNothingThatItGaveOutBefore) {
  EXPECT_THAT(write(b()), IsEmpty());
  EXPECT_THAT(read(a(), 2 * kPlace), IsEmpty());
  streams().synchronize(a());
  EXPECT_THAT(write(a()), testing::Not(IsEmpty()));
}

TEST_F(OrderTest, TheLegacyStreamOrdersTheStreamsThatWaitForIt) {
  const StreamId one = stream(0);
  const StreamId two = stream(0);
  EXPECT_THAT(write(one), IsEmpty());
  EXPECT_THAT(write(0), IsEmpty());
  EXPECT_THAT(write(two), IsEmpty());
  EXPECT_THAT(write(one, 2 * kPlace), IsEmpty());
  EXPECT_THAT(write(two, 2 * kPlace), testing::Not(IsEmpty()));
}

TEST_F(OrderTest, TheLegacyStreamDoesNotOrderTheStreamsApart) {
  EXPECT_THAT(write(a()), IsEmpty());
  EXPECT_THAT(write(0), testing::Not(IsEmpty()));
}

TEST_F(OrderTest, TheLegacyStreamWaitsForStreamsThatAreGone) {
  const StreamId one = stream(0);
  EXPECT_THAT(write(one), IsEmpty());
  streams().destroy(one);
  EXPECT_THAT(write(0), IsEmpty());
}

TEST_F(OrderTest, TheHostThatWaitsForTheLegacyStreamWaitsForThoseThatItWaitsFor) {
  const StreamId one = stream(0);
  EXPECT_THAT(write(one), IsEmpty());
  streams().synchronize(StreamId{0});
  EXPECT_THAT(write(a()), IsEmpty());
}

TEST_F(OrderTest, MemoryGoesAwayWhenTheHostKnowsThatAllIsDone) {
  EXPECT_THAT(write(a()), IsEmpty());
  EXPECT_THAT(streams().forget(kPlace, 512), HasSubstr("goes away while stream 0x"));
  EXPECT_THAT(write(a()), IsEmpty());
  streams().synchronize(a());
  EXPECT_THAT(streams().forget(kPlace, 512), IsEmpty());
  EXPECT_THAT(write(b()), IsEmpty());
}

TEST_F(OrderTest, MemoryThatWentAwayIsForgottenAndItsNeighboursAreNot) {
  EXPECT_THAT(write(a(), kPlace, 3 * kSize), IsEmpty());
  streams().forget(kPlace + 512, 512);
  EXPECT_THAT(write(b(), kPlace + 512, 512), IsEmpty());
  EXPECT_THAT(read(b(), kPlace, 1), testing::Not(IsEmpty()));
  EXPECT_THAT(read(b(), kPlace + 3 * kSize - 1, 1), testing::Not(IsEmpty()));
}

TEST_F(OrderTest, AStreamThatDoesNotExistIsAnError) {
  streams().destroy(a());
  EXPECT_THAT(write(a()), testing::EndsWith("does not exist"));
}

TEST_F(OrderTest, WithoutCheckingModeNothingIsWrong) {
  const Settings settings = small_gpu();
  Streams unchecked(settings);
  const std::vector<Use> uses = {{.begin = kPlace, .size = 512, .writes = true}};
  EXPECT_THAT(unchecked.work(unchecked.create(0, kNonBlocking, 0), uses), IsEmpty());
  EXPECT_THAT(unchecked.work(unchecked.create(0, kNonBlocking, 0), uses), IsEmpty());
  EXPECT_THAT(unchecked.forget(kPlace, 512), IsEmpty());
}

TEST_F(OrderTest, StaysFastHoweverBytesWereCutBefore) {
  constexpr std::uint64_t kBytes = 1ULL << 24;
  for (std::uint64_t begin = 0; begin < kBytes; begin += 512) write(a(), begin, 512);
  const auto start = std::chrono::steady_clock::now();
  for (int round = 0; round < 2000; ++round) write(a(), 0, kBytes);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(1));
}

// ---- random programs against a naive graph of what happens before what ----

/// What happens before what, as nodes with all of their ancestors.
class Naive {
 public:
  static constexpr std::size_t kNodes = 256;
  using Ancestors = std::bitset<kNodes>;

  void add_stream(StreamId stream, bool blocking) {
    last_[stream] = {};
    if (blocking) blocking_.insert(stream);
  }
  void destroy(StreamId stream) {
    gone_ |= last_[stream];
    if (blocking_.erase(stream) != 0) gone_blocking_ |= last_[stream];
    last_.erase(stream);
  }
  /// A piece of work or a record: everything that is done before it, and itself.
  Ancestors piece(StreamId stream) {
    Ancestors& last = last_[stream];
    last |= host_;
    if (stream == 0)
      last |= all_blocking();
    else if (blocking_.contains(stream))
      last |= last_[0];
    last.set(count_++);
    return last;
  }
  void wait(StreamId stream, const Ancestors& event) { last_[stream] |= event; }
  void host_knows(const Ancestors& done) { host_ |= done; }
  void host_waits(StreamId stream) { host_ |= stream == 0 ? last_[0] | all_blocking() : last_[stream]; }
  void host_waits_for_all() {
    host_ |= gone_;
    for (const auto& [stream, last] : last_) host_ |= last;
  }

  /// Whether a use by the newest piece, with these ancestors, races an earlier one of the cells.
  bool races(const Ancestors& ancestors, std::size_t begin, std::size_t end, bool writes) {
    bool race = false;
    for (std::size_t cell = begin; cell < end; ++cell) {
      for (const auto& [piece, wrote] : uses_[cell])
        race = race || ((writes || wrote) && !ancestors.test(piece));
      uses_[cell].emplace_back(count_ - 1, writes);
    }
    return race;
  }
  bool forget(std::size_t begin, std::size_t end) {
    bool pending = false;
    for (std::size_t cell = begin; cell < end; ++cell) {
      for (const auto& [piece, wrote] : uses_[cell]) pending = pending || !host_.test(piece);
      uses_[cell].clear();
    }
    return pending;
  }
  [[nodiscard]] bool full() const { return count_ + 1 >= kNodes; }

 private:
  Ancestors all_blocking() {
    Ancestors all = gone_blocking_;
    for (const StreamId stream : blocking_) all |= last_[stream];
    return all;
  }

  std::size_t count_ = 0;
  std::map<StreamId, Ancestors> last_;
  std::set<StreamId> blocking_;
  Ancestors host_, gone_, gone_blocking_;
  std::map<std::size_t, std::vector<std::pair<std::size_t, bool>>> uses_;
};

struct Outcomes {
  bool agree = true;
  bool raced = false;
  std::size_t steps = 0;
};

/// One random program on both, until they find a race or it ends.
class Program {
 public:
  explicit Program(std::uint64_t seed) : random_(seed), streams_(settings_) {
    naive_.add_stream(0, false);
    for (const unsigned flags : {0U, 0U, kNonBlocking, kNonBlocking, kNonBlocking}) {
      ids_.push_back(streams_.create(0, flags, 0));
      naive_.add_stream(ids_.back(), flags == 0);
    }
    for (Event*& event : events_) event = streams_.create_event(0, false);
    quiet_ = below(12);  // some programs order much, some little
  }

  /// Whether they agree, and whether it raced.
  Outcomes run() {
    while (!naive_.full() && !ended_) {
      ++outcomes_.steps;
      step();
    }
    return outcomes_;
  }

 private:
  static constexpr std::size_t kCells = 8;
  static constexpr std::size_t kCell = 512;  // bytes

  std::size_t below(std::size_t most) { return static_cast<std::size_t>(random_() % most); }

  void step() {
    const StreamId stream = ids_[below(ids_.size())];
    const std::size_t event = below(events_.size());
    const std::size_t begin = below(kCells);
    const std::size_t end = begin + 1 + below(kCells - begin);
    switch (const std::size_t what = below(10 + quiet_); what) {
      case 0:
        streams_.synchronize(events_[event]);
        return naive_.host_knows(recorded_[event]);
      case 1:
        streams_.query(stream);
        return naive_.host_waits(stream);
      case 2:
        return wait_for_all();
      case 3:
        return forget(begin, end);
      case 4:
        return destroy(stream);
      case 5:
      case 6:
        return use(stream, begin, end);
      default:
        return what % 2 == 0 ? record(event, stream) : wait(stream, event);
    }
  }

  void wait_for_all() {
    if (below(4) != 0) return;
    streams_.synchronize_all();
    naive_.host_waits_for_all();
  }
  void forget(std::size_t begin, std::size_t end) {
    const bool wrong = !streams_.forget(kCell * begin, kCell * (end - begin)).empty();
    compare(wrong, naive_.forget(begin, end));
  }
  void destroy(StreamId stream) {
    if (ids_.size() == 2 || stream == 0 || below(8) != 0) return;
    streams_.destroy(stream);
    naive_.destroy(stream);
    std::erase(ids_, stream);
  }
  void use(StreamId stream, std::size_t begin, std::size_t end) {
    const bool writes = below(3) == 0;
    const auto errors =
        streams_.work(stream, {{.begin = kCell * begin, .size = kCell * (end - begin), .writes = writes}});
    outcomes_.raced = naive_.races(naive_.piece(stream), begin, end, writes);
    compare(!errors.empty(), outcomes_.raced);
  }
  void record(std::size_t event, StreamId stream) {
    streams_.record(events_[event], stream);
    recorded_[event] = naive_.piece(stream);
  }
  void wait(StreamId stream, std::size_t event) {
    streams_.wait(stream, events_[event]);
    naive_.wait(stream, recorded_[event]);
  }

  /// What either finds wrong ends the program.
  void compare(bool wrong, bool expected) {
    outcomes_.agree = wrong == expected;
    ended_ = wrong || expected;
  }

  std::mt19937_64 random_;
  Settings settings_ = checking();
  Streams streams_;
  Naive naive_;
  std::vector<StreamId> ids_ = {0};
  std::array<Event*, 4> events_{};
  std::array<Naive::Ancestors, 4> recorded_;
  std::size_t quiet_ = 0;
  Outcomes outcomes_;
  bool ended_ = false;
};

TEST(Order, IsThatOfAGraphOfWhatHappensBeforeWhat) {
  std::size_t raced = 0;
  std::size_t steps = 0;
  constexpr std::uint64_t kPrograms = 20000;
  for (std::uint64_t seed = 1; seed <= kPrograms; ++seed) {
    const Outcomes outcomes = Program(seed).run();
    ASSERT_TRUE(outcomes.agree) << "program " << seed << ", step " << outcomes.steps;
    raced += static_cast<std::size_t>(outcomes.raced);
    steps += outcomes.steps;
  }
  EXPECT_GT(raced, kPrograms / 10);
  EXPECT_GT(steps, kPrograms * 10);
}

}  // namespace
}  // namespace nullcuda
