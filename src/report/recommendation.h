// What `advise MODEL` answers, as text and as JSON.
#pragma once

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

/// `advise MODEL`: the choices, and how they were found.
struct Recommendation {
  ModelShape model;
  Gpu gpu;
  std::vector<PlannedChoice> choices;  ///< in order of time
  Front front;                         ///< that they were taken from
  double seconds = 0;
  std::vector<Objective> objectives;
  double memory = 0;            ///< bytes that were allowed
  std::optional<double> price;  ///< of a GPU hour, in whatever money
};

std::string advise_text(const Recommendation& advice);
nlohmann::ordered_json advise_json(const Recommendation& advice);

}  // namespace stweaver
