#include "runtime/recorder.h"

#include <atomic>
#include <chrono>
#include <csignal>
#include <functional>
#include <random>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include <gmock/gmock.h>

#include "profile/profile.h"
#include "support/errors.h"
#include "support/files.h"
#include "support/sources.h"
#include "support/traces.h"

namespace stweaver {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

class RecorderTest : public testing::Test {
 protected:
  [[nodiscard]] Trace from_file() const { return read_trace_file(source_of(content_of(path_)), path_); }

  TemporaryFolder folder_;
  std::string path_ = folder_.file("job.trace");
};

/// What a job might do, at random but the same for the same seed, with a mark at the end of each step. Calls
/// after(step) then, until it returns false.
void play(Recorder& recorder, unsigned seed, const std::function<bool(int)>& after) {
  std::mt19937 random(seed);
  const auto below = [&random](std::size_t n) { return random() % n; };
  std::vector<RequestId> alive;
  for (std::size_t n = below(5); n > 0; --n)
    alive.push_back(recorder.add_before(static_cast<Bytes>(below(1000)), below(2)));
  for (int step = 0;; ++step) {
    for (std::size_t n = below(400); n > 0; --n) {
      const std::size_t what = below(100);
      const std::size_t which = alive.empty() ? 0 : below(alive.size());
      if (what < 50 || alive.empty()) {
        const Bytes size = what < 25 ? 512 : static_cast<Bytes>(below(1U << 30U));
        alive.push_back(recorder.allocate(size, below(3) * 0x7f00dead0000, static_cast<Pool>(below(2))));
      } else if (what < 90) {
        recorder.free(alive[which]);
        alive[which] = alive.back();
        alive.pop_back();
      } else if (what < 96) {
        recorder.drop(alive[which]);
      } else if (what < 98) {
        recorder.reserve(static_cast<Bytes>(below(1U << 30U)));
      } else {
        recorder.out_of_memory(static_cast<Bytes>(below(1U << 30U)), static_cast<Bytes>(below(1000)));
      }
    }
    recorder.mark(text("step ", step));
    if (!after(step)) return;
  }
}

std::function<bool(int)> until(int last) {
  return [last](int step) { return step < last; };
}

/// What was known of `trace` after its first `end` events and so many marks, reserves and ooms.
Trace cut(Trace trace, Time end, std::size_t marks, std::size_t reserves, std::size_t ooms) {
  std::erase_if(trace.requests, [end](const Request& request) { return request.life.lower >= end; });
  for (Request& request : trace.requests) {
    if (request.life.upper >= end) request.life.upper = kForever;
    if (request.dropped >= end) request.dropped = kForever;
  }
  trace.end = end;
  trace.marks.resize(marks);
  trace.reserves.resize(reserves);
  trace.ooms.resize(ooms);
  trace.complete = false;
  return trace;
}

TEST_F(RecorderTest, WritesDownWhatWasAsked) {
  {
    Recorder recorder({.device = 3, .settings = "expandable_segments:True", .path = path_});
    const RequestId weight = recorder.add_before(1000, 0);
    const RequestId waiting = recorder.add_before(2000, 7);
    recorder.reserve(2'000'000);
    recorder.mark("step 0");
    const RequestId small = recorder.allocate(0, 7, 0);     // event 0
    const RequestId graph = recorder.allocate(4096, 7, 2);  // 1
    recorder.drop(graph);                                   // 2
    recorder.reserve(2'000'000);
    recorder.reserve(4'000'000);
    recorder.out_of_memory(1 << 30, 5);
    recorder.free(waiting);  // 3
    recorder.free(graph);    // 4
    recorder.mark("step 1");
    recorder.allocate(8, 0, 0);  // 5
    recorder.free(small);        // 6
    EXPECT_EQ(recorder.trace().name, path_);
    EXPECT_EQ(weight, 0);
    EXPECT_EQ(recorder.failure(), "");
  }
  Trace wanted;
  wanted.device = 3;
  wanted.settings = "expandable_segments:True";
  wanted.requests = {{1000, {kBeforeRecording, kForever}, kForever, 0, 0},
                     {2000, {kBeforeRecording, 3}, 3, 7, 0},
                     {0, {0, 6}, 6, 7, 0},
                     {4096, {1, 4}, 2, 7, 2},
                     {8, {5, kForever}, kForever, 0, 0}};
  wanted.end = 7;
  wanted.marks = {{0, "step 0"}, {5, "step 1"}};
  wanted.reserves = {{0, 2'000'000}, {3, 4'000'000}};
  wanted.ooms = {{3, 1 << 30, 5}};
  expect_same(from_file(), wanted);
}

TEST_F(RecorderTest, HoldsAValidTraceAtAnyTimeAndTheSameInItsFile) {
  for (unsigned seed = 0; seed < 30; ++seed) {
    Recorder recorder({.path = path_, .timed = seed % 2 == 1});
    play(recorder, seed, [&](int step) {
      EXPECT_NO_THROW(validate(recorder.trace()));
      EXPECT_FALSE(recorder.trace().complete);
      expect_same(from_file(), recorder.trace());
      return step < 5;
    });
    recorder.allocate(1, 2, 3);
    recorder.finish();
    EXPECT_EQ(recorder.failure(), "");
    EXPECT_TRUE(recorder.trace().complete);
    validate(recorder.trace());
    expect_same(from_file(), recorder.trace());
  }
}

TEST_F(RecorderTest, NeedsNoFile) {
  Recorder with({.path = path_});
  Recorder without({});
  play(with, 1, until(3));
  play(without, 1, until(3));
  expect_same(without.trace(), with.trace());
  EXPECT_EQ(without.trace().name, "the recording of device 0");
  EXPECT_EQ(without.failure(), "");
  EXPECT_EQ(folder_.size(), 1);
}

TEST_F(RecorderTest, ForgetsWhatIsTooMuchAndEndsItsFile) {
  Recorder recorder({.path = path_, .most = 3});
  for (Bytes size = 1; size <= 3; ++size) EXPECT_NE(recorder.allocate(size, 0, 0), kNotRecorded);
  EXPECT_FALSE(recorder.is_full());
  EXPECT_EQ(recorder.allocate(4, 0, 0), kNotRecorded);
  EXPECT_TRUE(recorder.is_full());
  EXPECT_TRUE(recorder.trace().requests.empty());
  EXPECT_EQ(recorder.trace().requests.capacity(), 0U);
  recorder.mark("step 1");
  recorder.finish();
  const Trace kept = from_file();
  EXPECT_TRUE(kept.complete);
  EXPECT_EQ(kept.requests.size(), 3U);
}

TEST_F(RecorderTest, LooksAtTheClockIfWanted) {
  const auto now = [] {
    return std::chrono::duration_cast<std::chrono::microseconds>(
               std::chrono::system_clock::now().time_since_epoch())
        .count();
  };
  Recorder recorder({.timed = true});
  const std::int64_t before = now();
  recorder.free(recorder.allocate(1, 0, 0));
  const std::int64_t after = now();
  ASSERT_EQ(recorder.trace().micros.size(), 2);
  for (const std::int64_t micros : recorder.trace().micros) {
    EXPECT_LE(before, micros);
    EXPECT_GE(after, micros);
  }
}

TEST_F(RecorderTest, LetsNothingGoTwice) {
  Recorder recorder({.path = path_});
  const RequestId request = recorder.allocate(512, 0, 0);
  recorder.drop(request);
  recorder.drop(request);
  recorder.free(request);
  recorder.free(request);
  recorder.drop(request);
  EXPECT_EQ(recorder.trace().end, 3);
  recorder.finish();
  recorder.finish();
  expect_same(from_file(), recorder.trace());
}

TEST_F(RecorderTest, CountsAsAllocatedWhatItHearsOfTooLate) {
  Recorder recorder({.path = path_});
  recorder.allocate(1, 0, 0);
  recorder.add_before(2, 0);
  recorder.finish();
  EXPECT_EQ(recorder.trace().requests[1].life.lower, 1);
  expect_same(from_file(), recorder.trace());
}

TEST_F(RecorderTest, GoesOnInMemoryWhenThereIsNoFile) {
  put_file(path_, "a script, not a trace");
  for (const std::string& path :
       {path_, folder_.path().string(), folder_.file("no such folder/x"), std::string("/dev/full")}) {
    Recorder recorder({.path = path});
    EXPECT_THAT(recorder.failure(), StartsWith(path + ": cannot be written ("));
    EXPECT_THAT(recorder.failure(), testing::Not(HasSubstr("\n")));
    Recorder other({});
    play(recorder, 5, until(3));
    play(other, 5, until(3));
    expect_same(recorder.trace(), other.trace());
  }
  EXPECT_EQ(content_of(path_), "a script, not a trace");
}

TEST_F(RecorderTest, GoesOnInMemoryWhenTheFileFailsLater) {
  Recorder recorder({.path = path_});
  const RequestId early = recorder.allocate(1, 0, 0);
  recorder.mark("step 0");
  EXPECT_EQ(recorder.failure(), "");
  std::filesystem::remove(path_);
  recorder.mark("step 1");
  const std::string failure = recorder.failure();
  EXPECT_THAT(failure, HasSubstr("removed or replaced"));
  recorder.free(early);
  recorder.mark("step 2");
  recorder.finish();
  EXPECT_EQ(recorder.failure(), failure) << "the first reason stays";
  EXPECT_EQ(recorder.trace().marks.size(), 3);
  validate(recorder.trace());
}

TEST_F(RecorderTest, LeavesItsFileAloneOnceItWasFull) {
  Recorder recorder({.path = path_});
  recorder.allocate(1, 0, 0);
  recorder.mark("step 0");
  rlimit before = {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit full = {std::filesystem::file_size(path_) + 3, before.rlim_max};
  const auto handler = ::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &full), 0);
  recorder.mark("step 1");
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  ::signal(SIGXFSZ, handler);
  recorder.mark("step 2");
  recorder.finish();
  EXPECT_THAT(recorder.failure(), HasSubstr("File too large"));
  EXPECT_EQ(from_file().marks.size(), 1) << "a block behind half a block would be damage";
}

TEST_F(RecorderTest, KeepsTheFileReadableWhenALabelIsTooLong) {
  Recorder recorder({.path = path_});
  recorder.allocate(1, 0, 0);
  recorder.mark("step 0");
  recorder.mark(std::string(2 << 20, 'x'));
  EXPECT_THAT(recorder.failure(), HasSubstr("too long"));
  EXPECT_EQ(from_file().marks.size(), 1);
}

TEST_F(RecorderTest, IsNotSpoiledByAForkedProcess) {
  Recorder recorder({.path = path_});
  recorder.allocate(1, 0, 0);
  recorder.mark("step 0");
  recorder.allocate(2, 0, 0);  // in the buffer of both processes
  const pid_t child = ::fork();
  if (child == 0) {
    recorder.mark("a data loader's");
    recorder.finish();
    ::_exit(recorder.failure().find("forked") != std::string::npos ? 0 : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  recorder.mark("step 1");
  recorder.finish();
  EXPECT_EQ(recorder.failure(), "");
  expect_same(from_file(), recorder.trace());
}

TEST_F(RecorderTest, ShowsTheStepsOfAJobThatRepeats) {
  Recorder recorder({});
  for (int i = 0; i < 4; ++i) recorder.allocate(1 << 20, 0, 0);  // weights
  constexpr int kSteps = 4;
  std::vector<Time> begins;
  for (int step = 0; step < kSteps; ++step) {
    begins.push_back(recorder.trace().end);
    recorder.mark(text("step ", step));
    std::vector<RequestId> activations;
    for (Bytes layer = 1; layer <= 6; ++layer) activations.push_back(recorder.allocate(layer << 12, 0, 0));
    for (; !activations.empty(); activations.pop_back()) {
      const RequestId gradient = recorder.allocate(1 << 12, 0, 0);
      recorder.free(activations.back());
      recorder.free(gradient);
    }
  }
  const Profile profile = profile_of(recorder.trace());
  EXPECT_EQ(profile.steps.source, StepSource::kMarks);
  ASSERT_EQ(profile.steps.spans.size(), kSteps);
  for (std::size_t i = 0; i < kSteps; ++i) EXPECT_EQ(profile.steps.spans[i].lower, begins[i]);
  EXPECT_EQ(profile.steps.spans.back().upper, recorder.trace().end);
}

/// Memory that a forked process shares with its parent.
class SharedNumber {
 public:
  SharedNumber()
      : memory_(::mmap(nullptr, sizeof(Number), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) {
    if (memory_ == MAP_FAILED) throw std::runtime_error("no shared memory");
    number_ = new (memory_) Number(-1);
  }
  SharedNumber(const SharedNumber&) = delete;
  SharedNumber& operator=(const SharedNumber&) = delete;
  SharedNumber(SharedNumber&&) = delete;
  SharedNumber& operator=(SharedNumber&&) = delete;
  ~SharedNumber() { ::munmap(memory_, sizeof(Number)); }

  [[nodiscard]] int get() const { return *number_; }
  void set(int value) { *number_ = value; }

 private:
  using Number = std::atomic<int>;
  static_assert(Number::is_always_lock_free);
  void* memory_;
  Number* number_ = nullptr;
};

/// Begins to record seed's job into `path` without end and is killed `micros` after its beginning, or after
/// its first mark. Returns the last step whose mark the job was done with; -1 for none.
int record_and_be_killed(const std::string& path, unsigned seed, bool after_a_mark, unsigned micros) {
  SharedNumber last_mark;
  const pid_t child = ::fork();
  if (child == 0) {
    Recorder recorder({.path = path});
    play(recorder, seed, [&](int step) {
      last_mark.set(step);
      return true;
    });
  }
  int status = 0;
  while (after_a_mark && last_mark.get() < 0 && ::waitpid(child, &status, WNOHANG) == 0)
    std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::microseconds(micros));
  ::kill(child, SIGKILL);
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  return last_mark.get();
}

TEST_F(RecorderTest, LosesAtMostTheStepItIsKilledIn) {
  std::mt19937 random(1);
  constexpr unsigned kRounds = 40;
  for (unsigned round = 0; round < kRounds; ++round) {
    const bool after_a_mark = round % 2 == 0;
    const auto micros = static_cast<unsigned>(random() % 4000);
    const int last = record_and_be_killed(path_, round, after_a_mark, micros);
    EXPECT_TRUE(last >= 0 || !after_a_mark);
    const Trace read = from_file();  // the last round's if this one was killed before it began
    EXPECT_FALSE(read.complete);
    if (last < 0) continue;
    EXPECT_GT(read.marks.size(), last);
    Recorder again({});
    play(again, round, until(static_cast<int>(read.marks.size()) + 1));
    expect_same(read,
                cut(again.trace(), read.end, read.marks.size(), read.reserves.size(), read.ooms.size()));
  }
}

}  // namespace
}  // namespace stweaver
