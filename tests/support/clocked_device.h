// A device whose streams keep vector clocks: what is ordered behind what can be asked instead of hoped for.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "device/device.h"

namespace stweaver {

/// One piece of work on a stream, numbered from 1.
struct Work {
  Stream stream = 0;
  std::int64_t number = 0;
};

/// Host memory, and streams on which nothing is over until finish() says so. For one thread. Failure when an
/// event is used that was never recorded or is forgotten.
class ClockedDevice final : public Device {
 public:
  explicit ClockedDevice(Bytes capacity = 64 * kGiB) : memory_(capacity) {}

  /// The program gives a stream something to do.
  Work work(Stream stream) { return {stream, ++clocks_[stream][stream]}; }

  /// Whether what the stream is given from now on begins after that work has ended.
  [[nodiscard]] bool is_behind(Stream stream, const Work& work) const {
    return reaches(clocks_, stream, work) || at(finished_, work.stream) >= work.number;
  }

  /// All work of the stream is over, and with it what it waited for.
  void finish(Stream stream) { join(finished_, clocks_[stream]); }
  void finish() {
    for (const auto& [stream, clock] : clocks_) join(finished_, clock);
  }

  [[nodiscard]] std::size_t events_alive() const { return events_.size(); }
  [[nodiscard]] const std::vector<DeviceEvent>& waited_for() const { return waited_for_; }

  [[nodiscard]] std::string name() const override { return "clocked"; }
  [[nodiscard]] DeviceMemory memory() const override { return memory_.memory(); }
  [[nodiscard]] std::string failure() const override { return memory_.failure(); }
  std::byte* allocate(Bytes size) override { return memory_.allocate(size); }
  bool free(std::byte* memory) override { return memory_.free(memory); }
  [[nodiscard]] Bytes page_size() const override { return memory_.page_size(); }
  std::byte* reserve(Bytes size) override { return memory_.reserve(size); }
  bool release(std::byte* addresses, Bytes size) override { return memory_.release(addresses, size); }
  bool map(std::byte* at, Bytes size) override { return memory_.map(at, size); }
  bool unmap(std::byte* at, Bytes size) override { return memory_.unmap(at, size); }

  DeviceEvent record(Stream stream) override {
    events_[++last_event_] = clocks_[stream];
    return last_event_;
  }
  bool wait(Stream stream, DeviceEvent event) override {
    waited_for_.push_back(event);
    join(clocks_[stream], clock_of(event));
    return true;
  }
  bool passed(DeviceEvent event) override {
    const Clock& clock = clock_of(event);
    return std::all_of(clock.begin(), clock.end(),
                       [&](const auto& entry) { return at(finished_, entry.first) >= entry.second; });
  }
  bool await(DeviceEvent event) override {
    join(finished_, clock_of(event));
    return true;
  }
  void forget(DeviceEvent event) override { EXPECT_EQ(events_.erase(event), 1U) << "no event " << event; }
  bool synchronize() override {
    finish();
    return true;
  }
  bool fill(std::byte* at, Bytes size, std::uint32_t value, Stream stream) override {
    return memory_.fill(at, size, value, stream);
  }
  Bytes count_other(const std::byte* at, Bytes size, std::uint32_t value, Stream stream) override {
    return memory_.count_other(at, size, value, stream);
  }

 private:
  using Clock = std::map<Stream, std::int64_t>;  ///< stream -> its last work that comes before

  static std::int64_t at(const Clock& clock, Stream stream) {
    const auto found = clock.find(stream);
    return found == clock.end() ? 0 : found->second;
  }
  static void join(Clock& clock, const Clock& other) {
    for (const auto& [stream, number] : other) clock[stream] = std::max(clock[stream], number);
  }
  static bool reaches(const std::map<Stream, Clock>& clocks, Stream stream, const Work& work) {
    const auto found = clocks.find(stream);
    return found != clocks.end() && at(found->second, work.stream) >= work.number;
  }
  const Clock& clock_of(DeviceEvent event) {
    EXPECT_TRUE(events_.contains(event)) << "no event " << event;
    return events_[event];
  }

  HostDevice memory_;
  std::map<Stream, Clock> clocks_;
  Clock finished_;
  std::map<DeviceEvent, Clock> events_;
  DeviceEvent last_event_ = kNoEvent;
  std::vector<DeviceEvent> waited_for_;
};

/// Which work touched which memory last. Sees it when memory is taken whose last users may still be at work.
class RaceDetector {
 public:
  explicit RaceDetector(const ClockedDevice& device) : device_(&device) {}

  /// The program wrote to memory: it is asked when the memory was just given to it, before anything else.
  void expect_done(std::uintptr_t address, Bytes size, Stream taker) {
    std::vector<Past> kept;
    const Interval taken = {static_cast<Bytes>(address), static_cast<Bytes>(address) + size};
    for (const Past& past : past_) {
      if (!overlaps(past.range, taken)) {
        kept.push_back(past);
        continue;
      }
      EXPECT_TRUE(device_->is_behind(taker, past.work))
          << "stream " << taker << " got memory that stream " << past.work.stream << " may still use";
      // From here on whoever comes after the taker comes after this work too.
      if (past.range.lower < taken.lower) kept.push_back({{past.range.lower, taken.lower}, past.work});
      if (past.range.upper > taken.upper) kept.push_back({{taken.upper, past.range.upper}, past.work});
    }
    past_ = std::move(kept);
  }

  /// The work is the last on its stream that touches the memory before it is freed.
  void used(std::uintptr_t address, Bytes size, const Work& work) {
    past_.push_back({{static_cast<Bytes>(address), static_cast<Bytes>(address) + size}, work});
  }

 private:
  struct Past {
    Interval range;
    Work work;
  };

  const ClockedDevice* device_;
  std::vector<Past> past_;
};

}  // namespace stweaver
