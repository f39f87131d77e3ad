// What `advise MODEL` answers, as text and as JSON.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "advise/advise.h"

namespace stweaver {

/// A choice with what its fullest rank would reserve.
struct PlannedChoice {
  Choice choice;
  Reservation reservation;
};

/// A recorded rank: bytes measured, and as the model says.
struct CalibratedRank {
  std::string name;
  double measured = 0;
  double before = 0;
  double after = 0;
  std::optional<double> left_out;  ///< calibrated by the other ranks alone, where there are others
};
/// How the calibration of these ranks does on them.
std::vector<CalibratedRank> calibrated_ranks(const std::vector<RecordedRank>& ranks);

/// Whose peak of the fullest rank has to fit.
enum class AllocatorChoice : std::uint8_t { kDefault, kExpandable, kStweaver };
/// "default", "expandable", "stweaver". Error that lists the names.
AllocatorChoice allocator_named(const std::string& name);
Bytes reserved_by(AllocatorChoice allocator, const Reservation& reservation);

/// `advise MODEL`: the choices, and how they were found.
struct Recommendation {
  ModelShape model;
  Gpu gpu;
  std::vector<PlannedChoice> choices;  ///< in order of time
  Front front;                         ///< that they were taken from
  double seconds = 0;
  std::vector<Objective> objectives;
  double memory = 0;                  ///< bytes that were allowed
  std::optional<double> price;        ///< of a GPU hour, in whatever money
  std::vector<Framework> frameworks;  ///< that settings are told for
  Calibration calibration;
  std::vector<CalibratedRank> ranks;  ///< that it is from
};
Job job_of(const Recommendation& advice, const Configuration& how);

std::string advise_text(const Recommendation& advice);
nlohmann::ordered_json advise_json(const Recommendation& advice);

}  // namespace stweaver
