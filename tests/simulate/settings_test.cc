#include "simulate/settings.h"

#include <string>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stweaver {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(Settings, AreTheOnesOfPyTorchWhenNothingIsSaid) {
  const AllocatorSettings settings = parse_settings("");
  EXPECT_EQ(settings.max_split_size, kUnlimited);
  EXPECT_EQ(settings.max_non_split_rounding, 20 * kMiB);
  EXPECT_EQ(settings.large_segment_size, 20 * kMiB);
  EXPECT_THAT(settings.roundup_power2_divisions, ::testing::Each(0));
  EXPECT_EQ(settings.garbage_collection_threshold, 0);
  EXPECT_FALSE(settings.expandable_segments);
  EXPECT_EQ(settings.memory_fraction, 1);
}

TEST(Settings, AreReadFromPyTorchsSyntax) {
  const AllocatorSettings settings = parse_settings(
      "max_split_size_mb:128, max_non_split_rounding_mb:40,garbage_collection_threshold:0.8,\n"
      "expandable_segments:True,per_process_memory_fraction:0.5,large_segment_size_mb:32,");
  EXPECT_EQ(settings.max_split_size, 128 * kMiB);
  EXPECT_EQ(settings.max_non_split_rounding, 40 * kMiB);
  EXPECT_EQ(settings.large_segment_size, 32 * kMiB);
  EXPECT_EQ(settings.garbage_collection_threshold, 0.8);
  EXPECT_TRUE(settings.expandable_segments);
  EXPECT_EQ(settings.memory_fraction, 0.5);
}

TEST(Settings, TellLaterReleasesOfPyTorch) {
  EXPECT_FALSE(parse_settings("").oldest_first);
  EXPECT_TRUE(parse_settings("max_split_size_mb:128,oldest_first:True").oldest_first);
}

TEST(Settings, TakeTheLastOfSeveral) {
  EXPECT_FALSE(parse_settings("expandable_segments:True,expandable_segments:False").expandable_segments);
}

TEST(Settings, LetTheRoundingFollowTheSegmentSize) {
  EXPECT_EQ(parse_settings("large_segment_size_mb:64").max_non_split_rounding, 64 * kMiB);
}

TEST(Settings, ReadOneDivisionForAllSizes) {
  EXPECT_THAT(parse_settings("roundup_power2_divisions:4").roundup_power2_divisions, ::testing::Each(4));
}

// The expected tables are those of PyTorch's own tests (c10/test/core/AllocatorConfig_test.cpp).
TEST(Settings, ReadDivisionsByInterval) {
  EXPECT_THAT(
      parse_settings("roundup_power2_divisions:[128:8,256:16,512:1,2048:8,>:2]").roundup_power2_divisions,
      ::testing::ElementsAre(8, 8, 8, 8, 8, 8, 8, 8, 16, 1, 0, 8, 2, 2, 2, 2));
  EXPECT_THAT(
      parse_settings("roundup_power2_divisions:[64:8,128:2,256:4,512:2,1024:4,>:1]").roundup_power2_divisions,
      ::testing::ElementsAre(8, 8, 8, 8, 8, 8, 8, 2, 4, 2, 4, 1, 1, 1, 1, 1));
}

TEST(Settings, TreatIntervalsAboveTheTableAsItsLast) {
  const auto table = parse_settings("roundup_power2_divisions:[1:2,131072:4]").roundup_power2_divisions;
  EXPECT_EQ(table.front(), 2);
  EXPECT_EQ(table.back(), 4);
}

TEST(Settings, LeaveOutTheFirstIntervalWhenOnlyTheRestIsGiven) {
  const auto table = parse_settings("roundup_power2_divisions:[>:4]").roundup_power2_divisions;
  EXPECT_EQ(table[0], 0);  // seen in torch 2.11
  EXPECT_EQ(table[1], 4);
}

TEST(Settings, IgnoreWhatDoesNotMoveABlock) {
  const AllocatorSettings settings = parse_settings(
      "backend:native,release_lock_on_cudamalloc:True,pinned_use_cuda_host_register:True,"
      "pinned_num_register_threads:8,pinned_use_background_threads:False,pinned_reserve_segment_size_mb:64,"
      "pinned_max_round_threshold_mb:1,pinned_max_cached_size_mb:1,"
      "graph_capture_record_stream_reuse:True,expandable_segments_reserve_by_class:[a:1,b:2],"
      "expandable_segments:True");
  EXPECT_TRUE(settings.expandable_segments);
  EXPECT_EQ(settings.max_split_size, kUnlimited);
}

TEST(Settings, AreReadAsPyTorchReadsThem) {
  for (const char* const text :
       {"max_split_size_mb:128", "max_split_size_mb:128,", ",,max_split_size_mb:128,,",
        "max_split_size_mb:+128", "max_split_size_mb:128MB", "max_split_size_mb:128.5",
        "max_split_size_mb : 128 ,"}) {
    EXPECT_EQ(parse_settings(text).max_split_size, 128 * kMiB) << text;
  }
  EXPECT_EQ(parse_settings("garbage_collection_threshold:+0.8x").garbage_collection_threshold, 0.8);
  EXPECT_EQ(parse_settings(",").max_split_size, kUnlimited);
}

TEST(Settings, OfANewerPyTorchLeaveTheOthersAsTheyAre) {
  const AllocatorSettings settings =
      parse_settings("max_split_size_mb:64,some_new_key:3,another:[a:1,b:2],expandable_segments:True");
  EXPECT_EQ(settings.max_split_size, 64 * kMiB);
  EXPECT_TRUE(settings.expandable_segments);
}

std::string refusal_of(const std::string& settings) {
  try {
    parse_settings(settings);
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

using Refused = std::pair<std::string, std::string>;  ///< the settings, and what is said about them

class RefusedSettings : public ::testing::TestWithParam<Refused> {};

TEST_P(RefusedSettings, AreNamedInOneLine) {
  EXPECT_THAT(refusal_of(GetParam().first), AllOf(HasSubstr(GetParam().second), Not(HasSubstr("\n"))));
}

INSTANTIATE_TEST_SUITE_P(
    Strings, RefusedSettings,
    ::testing::Values(Refused{"max_split_size_mb", "max_split_size_mb lacks a ':'"},
                      Refused{"max_split_size_mb:", "max_split_size_mb is missing or has no value"},
                      Refused{"max_split_size_mb:,", "max_split_size_mb is missing or has no value"},
                      Refused{"max_split_size_mb:abc", "wants a whole number, not 'abc'"},
                      Refused{"max_split_size_mb:-32", "wants a whole number, not '-32'"},
                      Refused{"max_split_size_mb:99999999999999999999", "wants a whole number"},
                      Refused{"max_split_size_mb:19", "max_split_size_mb must be at least 20"},
                      Refused{"max_split_size_mb:20,large_segment_size_mb:25",
                              "max_split_size_mb must be at least 25"},
                      Refused{"max_non_split_rounding_mb:1", "max_non_split_rounding_mb must be at least 20"},
                      Refused{"large_segment_size_mb:10", "large_segment_size_mb must be at least 11"},
                      Refused{"max_split_size_mb:32 max_non_split_rounding_mb:32", "lacks a ','"},
                      Refused{"max_split_size_mb:32]", "lacks a ','"},
                      Refused{":", "a key is missing or has no value"},
                      Refused{"[", "a key is missing or has no value"},
                      Refused{"expandable_segments:true", "wants True or False"},
                      Refused{"garbage_collection_threshold:0", "must lie between 0 and 1"},
                      Refused{"garbage_collection_threshold:1", "must lie between 0 and 1"},
                      Refused{"garbage_collection_threshold:nan", "must lie between 0 and 1"},
                      Refused{"garbage_collection_threshold:x", "wants a number"},
                      Refused{"per_process_memory_fraction:1.5", "must lie between 0 and 1"},
                      Refused{"roundup_power2_divisions:3", "wants powers of two, not 3"},
                      Refused{"roundup_power2_divisions:0", "wants powers of two, not 0"},
                      Refused{"roundup_power2_divisions:[3:4]", "wants powers of two, not 3"},
                      Refused{"roundup_power2_divisions:[4:3]", "wants powers of two or 0, not 3"},
                      Refused{"roundup_power2_divisions:[64:8", "lacks a ']'"},
                      Refused{"roundup_power2_divisions:[64:8 128:4]", "wants"},
                      Refused{"pinned_num_register_threads:[1", "lacks a ']'"},
                      Refused{"backend:cudaMallocAsync", "'cudaMallocAsync' is not simulated"}));

TEST(RoundSize, GoesToMultiplesOf512) {
  const AllocatorSettings settings;
  EXPECT_EQ(round_size(settings, 1), 512);
  EXPECT_EQ(round_size(settings, 512), 512);
  EXPECT_EQ(round_size(settings, 513), 1024);
  EXPECT_EQ(round_size(settings, 3 * kGiB + 1), 3 * kGiB + 512);
}

TEST(RoundSize, GoesToDivisionsOfPowersOfTwo) {
  const AllocatorSettings settings = parse_settings("roundup_power2_divisions:4");
  EXPECT_EQ(round_size(settings, 4 * kMiB), 4 * kMiB);
  EXPECT_EQ(round_size(settings, 4 * kMiB + 1), 5 * kMiB);
  EXPECT_EQ(round_size(settings, 5 * kMiB), 5 * kMiB);
  EXPECT_EQ(round_size(settings, 7 * kMiB + 1), 8 * kMiB);
  EXPECT_EQ(round_size(settings, 2048), 2048);  // 512 * 4: not above it
  EXPECT_EQ(round_size(settings, 2049), 2560);
  EXPECT_EQ(round_size(settings, 1), 512);
}

TEST(RoundSize, LooksUpTheIntervalOfTheSize) {
  const AllocatorSettings settings = parse_settings("roundup_power2_divisions:[1:2,2:4,4:0,>:8]");
  EXPECT_EQ(round_size(settings, 100 * kKiB), 128 * kKiB);             // below 1 MiB like 1 MiB: 64, 96, 128
  EXPECT_EQ(round_size(settings, kMiB + 1), kMiB + kMiB / 2);          // halves
  EXPECT_EQ(round_size(settings, 2 * kMiB + 1), 2 * kMiB + kMiB / 2);  // quarters
  EXPECT_EQ(round_size(settings, 4 * kMiB + 1), 4 * kMiB + 512);       // none
  EXPECT_EQ(round_size(settings, 8 * kMiB + 1), 9 * kMiB);             // eighths
  EXPECT_EQ(round_size(settings, 256 * kGiB + 1), 288 * kGiB);         // above the table like its last
}

TEST(AllocationSize, HasThreeSteps) {
  const AllocatorSettings settings;
  EXPECT_EQ(allocation_size(settings, 512), 2 * kMiB);
  EXPECT_EQ(allocation_size(settings, kMiB), 2 * kMiB);
  EXPECT_EQ(allocation_size(settings, kMiB + 512), 20 * kMiB);
  EXPECT_EQ(allocation_size(settings, 10 * kMiB - 512), 20 * kMiB);
  EXPECT_EQ(allocation_size(settings, 10 * kMiB), 10 * kMiB);
  EXPECT_EQ(allocation_size(settings, 10 * kMiB + 512), 12 * kMiB);
}

TEST(AllocationSize, UsesTheSegmentSizeThatWasSet) {
  EXPECT_EQ(allocation_size(parse_settings("large_segment_size_mb:64"), 2 * kMiB), 64 * kMiB);
}

}  // namespace
}  // namespace stweaver
