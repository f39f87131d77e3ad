#include "session/session.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "device/device.h"
#include "plan/plan.h"
#include "plan/plan_file.h"
#include "runtime/runtime.h"
#include "simulate/caching_allocator.h"
#include "simulate/caching_upstream.h"
#include "simulate/replay.h"
#include "support/clocked_device.h"
#include "support/files.h"
#include "trace/trace.h"

namespace stweaver {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;
using ::testing::ThrowsMessage;

constexpr Bytes kCapacity = 4 * kGiB;

Trace trace_in(const std::string& path) {
  return read_traces(file_source(path), path).front();
}

/// Host devices with PyTorch's allocator, and a switch that says a CUDA graph is being captured.
class SessionTest : public testing::Test {
 protected:
  void* take(int device, Bytes size) { return session.allocate(device, size, 0); }

  /// A step of a training job on a device: activations that die in reverse, then temporaries.
  void step(int device = 0, Bytes temporary = kMiB) {
    std::vector<void*> activations;
    for (Bytes i = 1; i <= kLayers; ++i) activations.push_back(take(device, i * 64 * kKiB));
    for (; !activations.empty(); activations.pop_back()) {
      session.free(take(device, temporary));
      session.free(activations.back());
    }
    session.begin_step();
  }
  /// Until the plan is followed; a thread makes it meanwhile.
  void step_until_followed(int device = 0) {
    step(device);
    for (int i = 0; i < 2000 && !session.allocator(device)->follows_plan(); ++i) {
      step(device);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    ASSERT_TRUE(session.allocator(device)->follows_plan());
  }
  /// Until the plan that is followed is saved; a thread writes it meanwhile. How many steps came before it.
  int step_until_saved() {
    int before = 0;
    for (int i = 0; i < 60'000 && !session.plan_files(0).saved; ++i) {
      if (session.stage(0) != "following") {
        step();
        ++before;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_TRUE(session.plan_files(0).saved);
    return before;
  }
  /// Other steps, until the plan is left.
  void change_the_job() {
    for (int i = 0; i < 50 && session.allocator(0)->follows_plan(); ++i) {
      for (Bytes size = kMiB; size < 16 * kMiB; size += kMiB) session.free(take(0, size));
      session.begin_step();
    }
    EXPECT_FALSE(session.allocator(0)->follows_plan());
  }
  [[nodiscard]] Served last_step(int device = 0) const {
    return session.allocator(device)->statistics().last_step.served;
  }

  static constexpr Bytes kLayers = 16;
  static constexpr std::int64_t kRequests = 2 * kLayers;

  std::atomic<bool> captures{false};
  std::vector<Device*> devices = std::vector<Device*>(2);
  std::vector<void*> foreign;
  std::mutex told_mutex;
  std::vector<void*> told;
  Session session{{.device =
                       [this](int device) {
                         if (device > 1) fail("there is no device ", device);
                         auto made = std::make_unique<HostDevice>(kCapacity);
                         devices[static_cast<std::size_t>(device)] = made.get();
                         return made;
                       },
                   .upstream =
                       [this](int device) {
                         return std::make_unique<CachingUpstream>(AllocatorSettings(),
                                                                  *devices[static_cast<std::size_t>(device)]);
                       },
                   .captures = [this] { return captures.load(); },
                   .before_free =
                       [this](void* memory) {
                         const std::scoped_lock lock(told_mutex);
                         told.push_back(memory);
                       },
                   .free_foreign = [this](void* memory) { foreign.push_back(memory); }}};
};

TEST_F(SessionTest, FollowsAPlanOnceItHasSeenStepsRepeat) {
  session.start({});
  void* const weights = take(0, 3 * kMiB);
  EXPECT_EQ(session.stage(0), "recording");
  step_until_followed();
  step();
  EXPECT_EQ(last_step().planned, kRequests);
  EXPECT_EQ(last_step().beside_plan(), 0);
  EXPECT_EQ(session.stage(0), "following");
  EXPECT_THAT(session.log(), Contains(HasSubstr("following a plan")));
  session.free(weights);
}

TEST_F(SessionTest, PassesRequestsOnBeforeItIsStarted) {
  void* const memory = take(0, kMiB);
  EXPECT_NE(memory, nullptr);
  EXPECT_EQ(session.stage(0), "off");
  session.free(memory);
  step();
  EXPECT_EQ(last_step().in_plan(), 0);
}

TEST_F(SessionTest, SavesAPlanThatTheNextRunFollowsFromItsFirstRequest) {
  const TemporaryFolder folder;
  const std::string path = folder.file("job-cuda{device}.plan");
  session.start({.save_path = path});
  void* const weights = take(0, 3 * kMiB);
  step_until_followed();
  session.stop();  // waits for the file
  session.free(weights);
  EXPECT_TRUE(std::filesystem::exists(folder.file("job-cuda0.plan")));

  Session next({.device = [](int) { return std::make_unique<HostDevice>(kCapacity); },
                .upstream = [](int) { return std::make_unique<CachingUpstream>(AllocatorSettings()); }});
  next.start({.plan_path = path});
  void* const again = next.allocate(0, 3 * kMiB, 0);
  EXPECT_EQ(next.allocator(0)->statistics().served.planned, 1);
  next.free(again);
}

TEST_F(SessionTest, SavesThePlanOfAJobWhoseStepsDifferOnceItHasSeenEnoughOfThem) {
  const TemporaryFolder folder;
  const std::string path = folder.file("plan");
  session.start({.save_path = path});
  void* const weights = take(0, 3 * kMiB);
  for (Bytes i = 1; i < 2000 && session.stage(0) != "resting"; ++i) {
    step(0, kMiB + i % 7 * 64 * kKiB);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  session.stop();
  session.free(weights);
  EXPECT_THAT(session.log(), Contains(HasSubstr("recording longer")));
  const Plan plan = read_plan(file_source(path), path);
  EXPECT_NE(plan.shape, StepShape::kFixed) << "so that the next run need not find that out";
  EXPECT_GT(plan.prologue, 0U) << "it begins with the job's first request";
  EXPECT_EQ(plan.slots.front().size, 3 * kMiB);
}

TEST_F(SessionTest, SavesNoPlanForAJobWhoseStepsDifferBeforeItHasSeenEnoughOfThem) {
  const TemporaryFolder folder;
  session.start({.save_path = folder.file("plan")});
  std::mt19937 random(1);
  const auto recorded_longer = [&] {
    const std::vector<std::string> log = session.log();
    return std::ranges::count_if(log, [](const auto& line) { return line.ends_with("recording longer"); });
  };
  for (int i = 0; i < 2000 && recorded_longer() < 2; ++i) {
    for (Bytes layer = 0; layer < kLayers; ++layer)
      session.free(take(0, static_cast<Bytes>(1 + random() % 16) * 64 * kKiB));
    session.begin_step();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  ASSERT_EQ(recorded_longer(), 2) << ::testing::PrintToString(session.log());
  session.stop();
  EXPECT_FALSE(std::filesystem::exists(folder.file("plan"))) << "the next run would look for none";
}

TEST_F(SessionTest, TellsOfTheFilesOfPlans) {
  const TemporaryFolder folder;
  const std::string path = folder.file("plan");
  EXPECT_FALSE(session.plan_files(0).saved) << "there is no such device";
  std::ofstream(path) << "no plan";
  session.start({.plan_path = path, .save_path = path});
  step_until_followed();
  const std::string refused = session.plan_files(0).followed.refused;
  session.stop();
  const PlanFiles files = session.plan_files(0);
  EXPECT_EQ(files.followed.slots, 0);
  EXPECT_THAT(refused, AllOf(HasSubstr("plan"), Not(HasSubstr(path))));
  EXPECT_EQ(files.followed.refused, refused) << "also when it is over";
  EXPECT_TRUE(files.saved);
  session.start({});
  EXPECT_FALSE(session.plan_files(0).saved) << "of this one";
}

TEST_F(SessionTest, KeepsThePlanOfTheBeginningWhereLaterStepsAreOfOtherSizes) {
  // A warm-up of the batch: the next run begins with it, too.
  const TemporaryFolder folder;
  const std::string path = folder.file("plan");
  session.start({.save_path = path});
  step_until_saved();
  for (int i = 0; i < 20; ++i) step();
  const auto another = [&](std::int64_t plans) {
    for (int i = 0; i < 4000 && session.allocator(0)->statistics().plans < plans; ++i) {
      step(0, 2 * plans * kMiB);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    ASSERT_EQ(session.allocator(0)->statistics().plans, plans);
  };
  another(2);
  another(3);  // the second is left at once: that says nothing of the first
  session.stop();
  const Plan plan = read_plan(file_source(path), path);
  EXPECT_GT(plan.prologue, 0U);
  EXPECT_EQ(std::ranges::max(plan.slots, {}, &Slot::size).size, kMiB);
}

TEST_F(SessionTest, ReplacesTheSavedPlanWhenMoreLengthsWereSeen) {
  const TemporaryFolder folder;
  const std::string path = folder.file("plan");
  session.start({.save_path = path});
  const auto step_of = [&](Bytes length) {
    for (Bytes i = 1; i <= kLayers; ++i) session.free(take(0, length * i * 64 * kKiB));
    session.begin_step();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  for (int i = 0; i < 2000 && !session.plan_files(0).saved; ++i) step_of(4);
  ASSERT_EQ(read_plan(file_source(path), path).shape, StepShape::kFixed);
  std::mt19937 random(1);
  for (int i = 0; i < 4000 && session.allocator(0)->statistics().plans < 2; ++i)
    step_of(5 + static_cast<Bytes>(random() % 12));
  session.stop();
  const Plan plan = read_plan(file_source(path), path);
  EXPECT_EQ(plan.shape, StepShape::kVarying);
  EXPECT_EQ(plan.prologue, 0U) << "the beginning of the job was not seen with such steps";
}

TEST_F(SessionTest, LeavesAPlanThatNoStepHasTriedAlone) {
  const TemporaryFolder folder;
  const std::string path = folder.file("plan");
  session.start({.save_path = path});
  step_until_saved();
  session.stop();
  const std::string plan = content_of(path);
  for (const std::string& content : {plan, std::string("the user's notes")}) {
    put_file(path, content);
    session.start({.plan_path = path, .save_path = path});
    for (int i = 0; i < 900; ++i) session.free(take(0, 33 * kMiB));  // an evaluation
    session.stop();
    EXPECT_EQ(content_of(path), content);
    EXPECT_EQ(session.plan_files(0).removed, "");
  }
}

TEST_F(SessionTest, KeepsAPlanOfThisRunThatFittedForAShortWhile) {
  // A warm-up that is nearly over when there is a plan for it.
  const TemporaryFolder folder;
  const std::string path = folder.file("plan");
  session.start({.save_path = path});
  const int before = step_until_saved();
  for (int i = 0; i < 4; ++i) step();
  change_the_job();
  session.stop();
  ASSERT_GT(before, 2) << "recorded, and so without a plan";
  EXPECT_EQ(session.plan_files(0).removed, "");
  EXPECT_TRUE(std::filesystem::exists(path));
}

TEST_F(SessionTest, APlanThatSaysThatStepsDifferIsNotJudgedByAnother) {
  const TemporaryFolder folder;
  const std::string path = folder.file("plan");
  Plan differs;
  differs.shape = StepShape::kDynamic;
  differs.slots = {{.size = kMiB, .stream = 0, .death = 1}};
  save_plan(differs, path);
  session.start({.plan_path = path, .save_path = path});
  step_until_followed();
  change_the_job();
  session.stop();
  EXPECT_EQ(session.plan_files(0).removed, "") << ::testing::PrintToString(session.log());
  EXPECT_THAT(session.plan_files(0).followed.refused, StartsWith("steps differ"));
}

TEST(Frugal, RefusesAPlanThatTheNextRunWouldRefuse) {
  Plan plan;
  plan.lower_bound = 3 * kGiB;
  plan.arena = plan.lower_bound + 2 * Policy().slack(plan.lower_bound);
  EXPECT_EQ(frugal(plan).arena, plan.arena);
  ++plan.arena;
  EXPECT_THAT([&] { (void)frugal(plan); },
              ThrowsMessage<Error>(HasSubstr("it takes 3.02 GiB, and 3.00 GiB may do")));
  plan.shape = StepShape::kDynamic;
  EXPECT_EQ(frugal(plan).arena, plan.arena) << "it says that there is none to follow";
}

TEST_F(SessionTest, SavesThePlanWhereALinkLeads) {
  const TemporaryFolder folder;
  const std::string link = folder.file("plan");
  const std::string target = folder.file("not_there_yet");
  std::filesystem::create_symlink("not_there_yet", link);
  for (const bool is_there : {false, true}) {
    EXPECT_EQ(std::filesystem::exists(target), is_there);
    save_plan({}, link);
    EXPECT_TRUE(std::filesystem::is_symlink(link));
    EXPECT_TRUE(std::filesystem::is_regular_file(target));
  }
}

TEST_F(SessionTest, BeginsAnewWhereMoreThanWhoIsToldIsAnother) {
  session.start({});
  step_until_followed();
  session.start({.hold = kGiB});
  EXPECT_TRUE(session.allocator(0)->follows_plan());
  session.start({.settings = "expandable_segments:True"});
  EXPECT_FALSE(session.allocator(0)->follows_plan());
  step_until_followed();
  session.start({.settings = "expandable_segments:True",
                 .simulate = [](const Trace&, const std::vector<Time>&) { return Bytes{0}; }});
  EXPECT_FALSE(session.allocator(0)->follows_plan());
}

TEST_F(SessionTest, RemovesASavedPlanAsSoonAsItProvesUnfit) {
  const TemporaryFolder folder;
  const std::string path = folder.file("plan");
  session.start({.save_path = path});
  step_until_followed();
  session.stop();

  for (const std::string& saves : {folder.file("another"), path}) {
    Session next({.device = [](int) { return std::make_unique<HostDevice>(kCapacity); },
                  .upstream = [](int) { return std::make_unique<CachingUpstream>(AllocatorSettings()); }});
    next.start({.plan_path = path, .save_path = saves});
    EXPECT_TRUE(std::filesystem::exists(path)) << "a plan that is not to be replaced is not ours";
    for (int i = 0; i < 20; ++i) {
      for (Bytes size = kMiB; size < 16 * kMiB; size += kMiB) next.free(next.allocate(0, size, 0));
      next.begin_step();
    }
    const auto removed = HasSubstr("stweaver[0]: removed the plan: in step");
    EXPECT_EQ(testing::Matches(Contains(removed))(next.log()), saves == path)
        << ::testing::PrintToString(next.log());
    const PlanFiles files = next.plan_files(0);
    EXPECT_GT(files.followed.slots, 0);
    EXPECT_EQ(files.followed.refused, "");
    EXPECT_EQ(files.removed.starts_with("in step"), saves == path) << files.removed;
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST_F(SessionTest, KeepsASavedPlanThatFittedUntilTheJobChanged) {
  const TemporaryFolder folder;
  const std::string path = folder.file("plan");
  session.start({.save_path = path});
  step_until_followed();
  session.start({.plan_path = path, .save_path = path});
  for (int i = 0; i < 50; ++i) step();
  change_the_job();
  EXPECT_TRUE(std::filesystem::exists(path));
}

TEST_F(SessionTest, RemovesAPlanOfThisRunThatProvesUnfitToo) {
  // Else the next run would follow it, and leave it as this one.
  const TemporaryFolder folder;
  const std::string path = folder.file("plan");
  session.start({.save_path = path});
  step_until_saved();
  change_the_job();
  session.stop();  // waits for who writes it
  EXPECT_FALSE(session.plan_files(0).saved);
  EXPECT_THAT(session.plan_files(0).removed, StartsWith("in step"));
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST_F(SessionTest, LeavesThePlanOfAnotherRunAloneWhereItHasSavedNone) {
  const TemporaryFolder folder;
  const std::string path = folder.file("plan");
  session.start({.save_path = path});
  step_until_saved();
  session.stop();
  session.start({.save_path = path});  // what it records is not the job's beginning: it saves nothing
  step_until_followed();
  session.restart();
  EXPECT_TRUE(std::filesystem::exists(path));
  step_until_followed();
  change_the_job();
  session.stop();
  EXPECT_TRUE(std::filesystem::exists(path));
  EXPECT_EQ(session.plan_files(0).removed, "");
}

TEST_F(SessionTest, KeepsAPlanOfThisRunThatFittedUntilTheJobChanged) {
  const TemporaryFolder folder;
  const std::string path = folder.file("plan");
  session.start({.save_path = path});
  const int before = step_until_saved();
  for (int i = 0; i < before + 50; ++i) step();
  change_the_job();
  session.stop();
  EXPECT_TRUE(session.plan_files(0).saved);
  EXPECT_EQ(session.plan_files(0).removed, "");
  EXPECT_TRUE(std::filesystem::exists(path));
}

TEST_F(SessionTest, RestartsWithoutWhatWasMadeOfStepsThatWereNone) {
  const TemporaryFolder folder;
  const std::string path = folder.file("plan");
  session.restart();
  session.start({.trace_path = folder.file("trace"), .save_path = path});
  step_until_saved();
  session.restart();
  EXPECT_EQ(session.stage(0), "recording");
  EXPECT_FALSE(session.allocator(0)->follows_plan());
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_THAT(session.plan_files(0).removed, StartsWith("steps end elsewhere"));
  step_until_followed();
  session.stop();
  EXPECT_FALSE(session.plan_files(0).saved) << "such a plan does not say how the job begins";
  EXPECT_FALSE(trace_in(folder.file("trace")).marks.empty()) << "it is of the steps before";
}

TEST_F(SessionTest, ARestartDoesNotChangeWhatTheSessionIs) {
  const TemporaryFolder folder;
  const std::string path = folder.file("plan");
  session.start({.save_path = path});
  step_until_saved();
  session.stop();
  const SessionOptions options = {
      .plan_path = path, .trace_path = folder.file("trace"), .save_path = folder.file("another")};
  session.start(options);
  ASSERT_TRUE(session.allocator(0)->follows_plan());
  captures = true;
  session.restart();
  EXPECT_TRUE(session.allocator(0)->follows_plan()) << "a capture is not disturbed";
  captures = false;
  session.restart();
  EXPECT_TRUE(std::filesystem::exists(path)) << "a plan that is not to be replaced is not ours";
  EXPECT_GT(session.plan_files(0).followed.slots, 0);
  step_until_followed();
  session.start(options);
  EXPECT_TRUE(session.allocator(0)->follows_plan()) << "it goes on";
  session.stop();
  EXPECT_GT(session.plan_files(0).followed.slots, 0);
}

TEST_F(SessionTest, RestartsNothingThatOnlyRecords) {
  const TemporaryFolder folder;
  session.start({.trace_path = folder.file("trace"), .follows = false});
  step();
  session.restart();
  step();
  session.stop();
  EXPECT_EQ(trace_in(folder.file("trace")).marks.size(), 2U);
}

TEST_F(SessionTest, SavesNothingWhenOnlyALaterRecordingShowsWhatRepeats) {
  const TemporaryFolder folder;
  session.start({.save_path = folder.file("plan")});
  void* const weights = take(0, 3 * kMiB);
  const auto gave_up = [&] {
    const std::vector<std::string> log = session.log();
    return std::ranges::any_of(log, [](const std::string& line) { return line.ends_with("what repeats"); });
  };
  for (int i = 0; i < 2000 && !gave_up(); ++i) {
    session.begin_step();  // of steps in which nothing is asked for
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  ASSERT_TRUE(gave_up()) << ::testing::PrintToString(session.log());
  step_until_followed();
  session.stop();
  session.free(weights);
  EXPECT_FALSE(std::filesystem::exists(folder.file("plan"))) << "it does not begin with the job";
}

TEST_F(SessionTest, SavesNothingForAJobThatItDidNotSeeFromTheStart) {
  const TemporaryFolder folder;
  session.free(take(0, kMiB));
  session.start({.save_path = folder.file("plan")});
  step_until_followed();
  session.stop();
  EXPECT_FALSE(std::filesystem::exists(folder.file("plan")));
}

TEST_F(SessionTest, GoesOnWhereAPlanCannotBeSaved) {
  session.start({.save_path = "/nonexistent/folder/plan"});
  step_until_followed();
  session.stop();
  EXPECT_THAT(session.log(), Contains(HasSubstr("no plan saved: /nonexistent/folder/plan")));
}

TEST_F(SessionTest, OnlyRecordsWhenToldTo) {
  const TemporaryFolder folder;
  session.start({.trace_path = folder.file("trace{device}"), .follows = false});
  for (int i = 0; i < 20; ++i) step();
  EXPECT_EQ(session.stage(0), "recording");
  session.stop();
  EXPECT_EQ(trace_in(folder.file("trace0")).requests.size(), 20 * static_cast<std::size_t>(kRequests));
  EXPECT_THAT(session.log(), ElementsAre("stweaver[0]: recording from step 0 on, to the end"));
}

TEST_F(SessionTest, RecordsToTheEndWhereNobodyMarksSteps) {
  const TemporaryFolder folder;
  session.start({.trace_path = folder.file("trace"), .follows = false, .finds_steps = true});
  constexpr std::size_t kMany = 22'000;  // a session that follows would have searched for steps
  for (std::size_t i = 0; i < kMany; ++i) session.free(take(0, kMiB));
  EXPECT_EQ(session.stage(0), "recording");
  session.stop();
  EXPECT_EQ(trace_in(folder.file("trace")).requests.size(), kMany);
}

TEST_F(SessionTest, RefusesToRecordNowhere) {
  EXPECT_THROW(session.start({.follows = false}), Error);
}

TEST_F(SessionTest, RefusesToFollowASavedPlanWhereNobodyMarksSteps) {
  EXPECT_THROW(session.start({.plan_path = "a", .finds_steps = true}), Error);
  session.free(take(0, kMiB));
  EXPECT_EQ(session.stage(0), "off");
}

TEST_F(SessionTest, MayBeStartedAndStoppedFromSeveralThreads) {
  session.free(take(0, kMiB));
  {
    std::vector<std::jthread> threads;
    for (int thread = 0; thread < 4; ++thread) {
      threads.emplace_back([this, thread] {
        for (int i = 0; i < 50; ++i) {
          if (i % 4 == thread) session.stop();
          session.start({.record_steps = 2 + (thread + i) % 2});
          session.free(take(0, kMiB));
          session.begin_step();
        }
      });
    }
  }
  session.start({});
  step_until_followed();
}

TEST(Session, KeepsABlockForTheStreamsThatUseIt) {
  ClockedDevice* device = nullptr;
  Session session({.device =
                       [&device](int) {
                         auto made = std::make_unique<ClockedDevice>();
                         device = made.get();
                         return made;
                       },
                   .upstream = [](int) { return std::make_unique<CachingUpstream>(AllocatorSettings()); }});
  session.start({});
  void* const block = session.allocate(0, 8 * kMiB, 0);
  device->work(5);
  session.record_stream(block, 5);
  session.free(block);
  EXPECT_EQ(session.allocator(0)->statistics().waiting, 8 * kMiB);
  void* const other = session.allocate(0, 8 * kMiB, 0);
  EXPECT_NE(other, block);
  device->finish(5);
  EXPECT_EQ(session.allocate(0, 8 * kMiB, 0), block);
  session.free(block);
  session.free(other);
}

TEST_F(SessionTest, FindsStepsThatNobodyMarks) {
  session.start({.finds_steps = true});
  for (int i = 0; i < 4000 && (session.allocator(0) == nullptr || !session.allocator(0)->follows_plan());
       ++i) {
    std::vector<void*> activations;
    for (Bytes j = 1; j <= kLayers; ++j) activations.push_back(take(0, j * 64 * kKiB));
    for (void* const memory : activations) session.free(memory);
    if (session.stage(0) == "planning") std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_TRUE(session.allocator(0)->follows_plan()) << testing::PrintToString(session.log());
}

TEST_F(SessionTest, KeepsDevicesApart) {
  session.start({});
  void* const first = take(0, kMiB);
  void* const second = take(1, 2 * kMiB);
  EXPECT_THAT(session.devices(), ElementsAre(0, 1));
  EXPECT_EQ(session.owner(first), session.allocator(0));
  EXPECT_EQ(session.owner(second), session.allocator(1));
  EXPECT_EQ(session.allocator(1)->statistics().requested, 2 * kMiB);
  session.free(first);
  session.free(second);
  EXPECT_EQ(session.allocator(0)->statistics().requested, 0);
  EXPECT_EQ(session.allocator(1)->statistics().requested, 0);
}

TEST_F(SessionTest, HandsMemoryBackThatNoDeviceKnows) {
  int stranger = 0;
  session.free(&stranger);
  EXPECT_THAT(foreign, ElementsAre(&stranger));
}

TEST_F(SessionTest, RefusesADeviceThatIsNone) {
  EXPECT_THROW(take(-1, kMiB), Error);
  EXPECT_THROW(take(Session::kMostDevices, kMiB), Error);
  EXPECT_THROW(take(2, kMiB), Error);
  EXPECT_THAT(session.devices(), IsEmpty());
}

TEST_F(SessionTest, TakesBlocksBackAfterTheGraphThatWasCapturedMeanwhile) {
  session.start({});
  void* const memory = take(0, kMiB);
  captures = true;
  session.free(memory);
  session.release_deferred();
  EXPECT_EQ(session.allocator(0)->statistics().requested, kMiB);
  EXPECT_THAT(told, IsEmpty()) << "who is told may give work to streams";
  captures = false;
  session.release_deferred();
  EXPECT_THAT(told, ElementsAre(memory));
  EXPECT_EQ(session.allocator(0)->statistics().requested, 0);
}

TEST_F(SessionTest, TakesBlocksBackAtTheNextFreeAfterACaptureThatFailed) {
  session.start({});
  void* const memory = take(0, kMiB);
  void* const other = take(0, kMiB);
  captures = true;
  session.free(memory);
  captures = false;
  session.free(other);
  EXPECT_EQ(session.allocator(0)->statistics().requested, 0);
}

TEST_F(SessionTest, EmptiesItsCacheOfBlocksThatWereFreedDuringACapture) {
  session.start({});
  void* const memory = take(0, kMiB);
  captures = true;
  session.free(memory);
  captures = false;
  session.empty_cache();
  EXPECT_THAT(told, ElementsAre(memory));
  EXPECT_EQ(session.allocator(0)->statistics().arena, 0);
}

TEST_F(SessionTest, EmptiesUpstreamAloneWhileAGraphIsCaptured) {
  session.start({});
  session.free(take(0, kMiB));
  const Bytes arena = session.allocator(0)->statistics().arena;
  ASSERT_GT(arena, 0);
  captures = true;
  session.empty_cache();
  EXPECT_EQ(session.allocator(0)->statistics().arena, arena) << "to wait for work would spoil the graph";
  captures = false;
  session.empty_cache();
  EXPECT_EQ(session.allocator(0)->statistics().arena, 0);
}

TEST_F(SessionTest, CountsNoStepWhileAGraphIsCaptured) {
  session.start({});
  session.free(take(0, kMiB));
  captures = true;
  session.begin_step();
  EXPECT_EQ(session.allocator(0)->statistics().steps, 0);
  captures = false;
  session.begin_step();
  EXPECT_EQ(session.allocator(0)->statistics().steps, 1);
}

TEST_F(SessionTest, LeavesBlocksWhereTheyAreWhenItStops) {
  session.start({});
  step_until_followed();
  auto* const memory = static_cast<char*>(take(0, 64 * kKiB));
  memory[0] = 'x';
  ASSERT_GT(session.allocator(0)->block_in_arena(memory).size, 0);
  session.stop();
  EXPECT_EQ(memory[0], 'x');
  EXPECT_FALSE(session.allocator(0)->follows_plan());
  session.free(memory);
  session.begin_step();
  EXPECT_EQ(session.allocator(0)->statistics().arena, 0);
}

TEST_F(SessionTest, MovesNoMemoryAtTheEndOfTheProcess) {
  session.start({});
  step_until_followed();
  session.free(take(0, 64 * kKiB));
  const RuntimeStatistics before = session.allocator(0)->statistics();
  ASSERT_GT(before.arena, 0);
  session.finish();
  const RuntimeStatistics after = session.allocator(0)->statistics();
  EXPECT_EQ(after.arena, before.arena);
  EXPECT_EQ(after.mapping.unmaps, before.mapping.unmaps);
  session.stop();
  EXPECT_EQ(session.allocator(0)->statistics().arena, 0);
}

TEST_F(SessionTest, MovesNoMemoryAtTheEndOfTheProcessThoughMuchIsFreedLater) {
  session.start({});
  void* const weights = take(0, 256 * kMiB);
  session.finish();
  session.free(weights);
  session.free(take(0, kMiB));
  EXPECT_EQ(session.allocator(0)->statistics().mapping.unmaps, 0);
}

TEST_F(SessionTest, StartsAgain) {
  for (int i = 0; i < 2; ++i) {
    session.start({});
    step_until_followed();
    session.stop();
  }
  EXPECT_EQ(session.allocator(0)->statistics().plans, 2);
}

TEST_F(SessionTest, GoesOnWhereOnlyWhatMayBeHeldIsAnother) {
  const TemporaryFolder folder;
  SessionOptions options = {.trace_path = folder.file("job.trace"), .save_path = folder.file("job.plan")};
  session.start(options);
  void* const weights = take(0, 3 * kMiB);
  step();
  options.hold = kGiB;
  session.start(options);
  step_until_followed();
  session.stop();
  EXPECT_TRUE(std::filesystem::exists(options.save_path)) << "the recording is that of the whole job";
  EXPECT_EQ(trace_in(options.trace_path).requests.front().size, 3 * kMiB);
  EXPECT_EQ(trace_in(options.trace_path).requests.front().life.lower, 0);
  session.free(weights);
}

TEST_F(SessionTest, MovesNoMemoryWhileMoreMayBeHeld) {
  const auto unmaps_with = [&](Bytes hold) {
    session.stop();
    session.start({.hold = hold});
    for (const Bytes size : {64 * kMiB, 40 * kMiB}) session.free(take(0, size));
    return session.allocator(0)->statistics().mapping.unmaps;
  };
  const std::int64_t before = unmaps_with(kCapacity);
  EXPECT_EQ(before, 0);
  EXPECT_GT(unmaps_with(0), before);
}

TEST_F(SessionTest, HandsOnHowMuchMayBeHeldAndWhoIsToldWhereItGoesOn) {
  std::vector<std::string> lines;
  session.start({});
  take(0, 64 * kKiB);  // a place that is there before, and one that is not yet
  session.start({.hold = kCapacity, .log = [&](const std::string& line) { lines.push_back(line); }});
  for (const int device : {0, 1}) {
    for (const Bytes size : {64 * kMiB, 40 * kMiB}) session.free(take(device, size));
    EXPECT_EQ(session.allocator(device)->statistics().mapping.unmaps, 0) << device;
  }
  step_until_followed();
  session.stop();
  EXPECT_THAT(lines, Contains(HasSubstr("following a plan")));
}

TEST_F(SessionTest, SimulatesWhatUpstreamWouldHaveReservedForTheJobsBeginning) {
  const auto reserved = [](const Trace& trace, const std::vector<Time>&) {
    CachingAllocator allocator{AllocatorSettings()};
    return replay(trace, allocator).reserved_peak;
  };
  session.start({.simulate = reserved});
  void* const weights = take(0, 3 * kMiB);
  EXPECT_FALSE(session.simulated(0));
  step_until_followed();
  session.stop();  // waits for it
  session.free(weights);
  ASSERT_TRUE(session.simulated(0));
  EXPECT_GE(session.simulated(0)->steps, 3);
  EXPECT_EQ(session.simulated(0)->requested, session.allocator(0)->statistics().peaks.requested);
  EXPECT_EQ(session.simulated(0)->reserved, 32 * kMiB) << "a segment of 20 MiB and six of 2";
  EXPECT_FALSE(session.simulated(1));
}

TEST_F(SessionTest, SimulatesNothingForAJobThatItDidNotSeeFromTheStart) {
  session.free(take(0, kMiB));
  session.start({.simulate = [](const Trace&, const std::vector<Time>&) { return kGiB; }});
  step_until_followed();
  session.stop();
  EXPECT_FALSE(session.simulated(0));
}

TEST_F(SessionTest, SimulatesAlsoWhenTheJobEmptiedItsCache) {
  std::vector<Time> seen;
  session.start({.simulate = [&](const Trace&, const std::vector<Time>& emptied) {
    seen = emptied;
    return kGiB;
  }});
  session.empty_cache();
  void* const weights = take(0, kMiB);
  session.empty_cache();
  step();
  session.empty_cache();
  step_until_followed();
  session.stop();
  session.empty_cache();
  session.free(weights);
  EXPECT_TRUE(session.simulated(0));
  EXPECT_THAT(seen, ElementsAre(1, 1 + 2 * kRequests)) << "of a device that was asked for memory";
}

TEST_F(SessionTest, GoesOnWhereNothingCanBeSimulated) {
  session.start(
      {.simulate = [](const Trace&, const std::vector<Time>&) -> Bytes { fail("no such setting"); }});
  step_until_followed();
  session.stop();
  EXPECT_FALSE(session.simulated(0));
  EXPECT_THAT(session.log(), Contains(HasSubstr("would have reserved: no such setting")));
}

TEST_F(SessionTest, SaysWhyARequestFailed) {
  EXPECT_THAT(session.explain_shortage(0, {.size = kGiB}), HasSubstr("holds nothing"));
  session.start({});
  void* const memory = take(0, kGiB);
  EXPECT_EQ(take(0, 2 * kCapacity), nullptr);
  const std::string why = session.explain_shortage(0, {.size = 2 * kCapacity});
  EXPECT_THAT(
      why,
      HasSubstr("asked for 8.00 GiB in step 0 (recording); the device has 4.00 GiB, 3.00 GiB of it free"));
  EXPECT_THAT(why, HasSubstr("1.00 GiB by STWeaver's arena, 1.00 GiB of it in use"));
  session.free(memory);
}

TEST_F(SessionTest, ServesThreadsWhilePlansComeAndGo) {
  session.start({});
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 3; ++thread) {
    threads.emplace_back([this, thread] {
      for (int i = 0; i < 200; ++i) {
        std::vector<void*> blocks;
        for (Bytes j = 1; j <= 20; ++j) blocks.push_back(session.allocate(thread % 2, j * 4096, 0));
        for (void* const block : blocks) session.free(block);
      }
    });
  }
  for (int i = 0; i < 20; ++i) {
    session.begin_step();
    if (i == 10) session.stop();
    if (i == 12) session.start({});
  }
  for (std::thread& thread : threads) thread.join();
  for (const int device : session.devices()) EXPECT_EQ(session.allocator(device)->statistics().requested, 0);
}

TEST(SavedPlan, IsMadeFromATraceFile) {
  const TemporaryFolder folder;
  {
    Recorder recorder({.path = folder.file("trace")});
    for (int step = 0; step < 4; ++step) {
      recorder.mark("step " + std::to_string(step));
      for (Bytes i = 1; i < 20; ++i) recorder.free(recorder.allocate(i * kMiB, 0, 0));
    }
  }
  const Plan plan = plan_file(folder.file("trace"), folder.file("plan"), 1);
  EXPECT_EQ(plan.arena, 19 * kMiB);
  const Plan saved = read_plan(file_source(folder.file("plan")), "plan");
  EXPECT_EQ(saved.arena, plan.arena);
  EXPECT_THAT(check_plan(saved, trace_in(folder.file("trace"))), IsEmpty());
}

TEST(SavedPlan, LeavesWhatIsThereWhenTheTraceIsNone) {
  const TemporaryFolder folder;
  put_file(folder.file("trace"), "nonsense");
  put_file(folder.file("plan"), "precious");
  EXPECT_THROW(plan_file(folder.file("trace"), folder.file("plan"), 1), Error);
  EXPECT_EQ(content_of(folder.file("plan")), "precious");
}

}  // namespace
}  // namespace stweaver
