// What the tests of answers share: a trace to answer about, how it was served, and what every JSON document
// must be.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "simulate/serving.h"
#include "support/job.h"

namespace stweaver {

/// The trace of a training loop.
inline Trace trained(int steps) {
  Training training({});
  for (int i = 0; i < steps; ++i) training.step();
  Trace trace = training.job.trace();
  trace.name = "folder/my job.pickle";
  return trace;
}

/// What every program that reads a document relies on: the fields, in order.
inline std::vector<std::string> fields_of(const nlohmann::ordered_json& object) {
  std::vector<std::string> fields;
  for (const auto& [field, value] : object.items()) fields.push_back(field);
  return fields;
}

/// JSON has no word for NaN or infinity: nlohmann writes null for them.
inline void expect_no_null(const nlohmann::ordered_json& value) {
  EXPECT_FALSE(value.is_null());
  if (value.is_number_float()) {
    EXPECT_NE(nlohmann::ordered_json::parse(value.dump()), nlohmann::ordered_json()) << "not a finite number";
  }
  if (!value.is_structured()) return;
  for (const nlohmann::ordered_json& part : value) expect_no_null(part);
}

inline void expect_integers(const nlohmann::ordered_json& object, const std::vector<std::string>& fields) {
  for (const std::string& field : fields) EXPECT_TRUE(object.at(field).is_number_integer()) << field;
}

inline const std::vector<std::string> kServingFields = {"reserved_peak",
                                                        "efficiency",
                                                        "arena",
                                                        "fallback_reserved_peak",
                                                        "hits",
                                                        "misses",
                                                        "planned",
                                                        "reused",
                                                        "missed",
                                                        "waits",
                                                        "events",
                                                        "maps",
                                                        "unmaps",
                                                        "idle_waits",
                                                        "plans",
                                                        "plan_seconds",
                                                        "ooms",
                                                        "corrupt_blocks",
                                                        "seconds",
                                                        "ns_per_event",
                                                        "log"};

inline Serving some_serving() {
  Serving serving;
  serving.device = "host";
  serving.plan_seconds = 0.5;
  serving.replay.requested_peak = 8 * kGiB;
  serving.replay.reserved_peak = 8 * kGiB + kMiB;
  serving.replay.seconds = 2;
  serving.replay.ns_per_event = 100;
  serving.statistics.served.planned = 90;
  serving.statistics.served.reused = 9;
  serving.statistics.served.unplanned[static_cast<std::size_t>(Unplanned::kTooLarge)] = 1;
  serving.statistics.arena = 8 * kGiB;
  serving.statistics.peaks.fallback_reserved = kMiB;
  serving.statistics.plans = 1;
  return serving;
}

inline Serving some_life(std::int64_t steady_steps) {
  Serving serving = some_serving();
  serving.story = {.before_plan = 10 * kGiB,
                   .steady_steps = steady_steps,
                   .steady = {.requested = 6 * kGiB, .reserved = 8 * kGiB}};
  serving.log = {"stweaver[0]: recording", "stweaver[0]: two\nlines"};
  return serving;
}

}  // namespace stweaver
