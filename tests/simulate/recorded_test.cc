// The simulator against PyTorch itself: recordings, made by record.py, hold random requests under many
// settings and what the allocator reserved after each. Those of oldest_first are of torch 2.15.0 on null
// CUDA, the others of torch 2.11.0 on an H200.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "simulate/simulate.h"

namespace stweaver {
namespace {

namespace fs = std::filesystem;

const fs::path kRecordings = fs::path(STWEAVER_TEST_DATA) / "allocator";

constexpr std::string_view kOldestFirst = "oldest_first";

std::vector<std::string> recordings() {
  std::vector<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(kRecordings)) {
    if (entry.path().extension() == ".txt")
      names.push_back(fs::relative(entry.path(), kRecordings).replace_extension().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

class Recorded : public ::testing::TestWithParam<std::string> {};

/// Makes one recorded call; true if the allocator ran out of memory.
bool make_call(std::istringstream& line, CachingAllocator& allocator,
               std::vector<std::optional<Address>>& blocks) {
  char call = 0;
  line >> call;
  if (call == 'a') {
    Bytes size = 0;
    Stream stream = 0;
    line >> size >> stream;
    blocks.push_back(allocator.allocate(size, stream));
    return !blocks.back().has_value();
  }
  if (call == 'f') {
    std::size_t number = 0;
    line >> number;
    allocator.free(blocks.at(number).value());
  } else {
    EXPECT_EQ(call, 'e');
    allocator.empty_cache();
  }
  return false;
}

void expect_end(std::istringstream& line, const AllocatorStatistics& statistics) {
  AllocatorStatistics measured;
  line >> measured.allocated >> measured.requested >> measured.segments >> measured.retries >>
      measured.ooms >> measured.reserved_peak;
  EXPECT_TRUE(line);
  EXPECT_EQ(statistics.allocated, measured.allocated);
  EXPECT_EQ(statistics.requested, measured.requested);
  EXPECT_EQ(statistics.segments, measured.segments);
  EXPECT_EQ(statistics.retries, measured.retries);
  EXPECT_EQ(statistics.ooms, measured.ooms);
  EXPECT_EQ(statistics.reserved_peak, measured.reserved_peak);
}

/// What a recorded line says about the outcome of its call.
struct Outcome {
  bool failed = false;
  std::optional<Bytes> reserved;
  std::optional<Address> segment;
};

Outcome outcome_of(const std::string& line) {
  Outcome outcome;
  std::istringstream words(line);
  Bytes number = 0;
  for (std::string word; words >> word;) {
    if (word == "x") outcome.failed = true;
    if (word == "r" && words >> number) outcome.reserved = number;
    if (word == "s" && words >> number) outcome.segment = static_cast<Address>((number + 1) * kMiB);
  }
  return outcome;
}

TEST_P(Recorded, ReservesTheSameAfterEveryCall) {
  std::ifstream file(kRecordings / (GetParam() + ".txt"));
  std::string line;
  std::getline(file, line);
  AllocatorSettings settings = parse_settings(line.substr(std::string("settings ").size()));
  std::string word;
  Bytes capacity = 0;
  file >> word >> capacity >> word >> settings.memory_fraction >> std::ws;

  Outcome outcome;
  // Where PyTorch goes by the age of segments, their addresses do not matter.
  settings.oldest_first = GetParam().starts_with(kOldestFirst);
  SegmentPlacer place;
  if (!settings.oldest_first) place = [&](Bytes) { return outcome.segment.value(); };
  CachingAllocator allocator(settings, capacity, place);
  std::vector<std::optional<Address>> blocks;
  Bytes reserved = 0;
  for (int number = 0; std::getline(file, line) && !line.starts_with("end"); ++number) {
    SCOPED_TRACE(text("call ", number, ": ", line));
    outcome = outcome_of(line);
    std::istringstream words(line);
    ASSERT_EQ(make_call(words, allocator, blocks), outcome.failed);
    reserved = outcome.reserved.value_or(reserved);
    ASSERT_EQ(allocator.statistics().reserved, reserved);
  }
  std::istringstream words(line);
  words >> word;
  EXPECT_EQ(word, "end");
  expect_end(words, allocator.statistics());
}

INSTANTIATE_TEST_SUITE_P(PyTorch, Recorded, ::testing::ValuesIn(recordings()), [](const auto& recording) {
  std::string name = recording.param;
  std::ranges::replace(name, '/', '_');
  return name;
});

}  // namespace
}  // namespace stweaver
