// What `advise` answers, as text and as JSON.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "advise/advise.h"

namespace stweaver {

/// `advise --predict`: predicted beside measured, row by row, and how good that is.
std::string predict_text(const Measurements& measured, std::span<const StepTime> times);
nlohmann::ordered_json predict_json(const Measurements& measured, std::span<const StepTime> times);

/// `advise --fit`: the constants, and how well they describe the rows they were fitted on.
std::string fit_text(const Measurements& measured, std::span<const StepTime> times,
                     const std::vector<std::string>& names, const Constants& fitted);
nlohmann::ordered_json fit_json(const Measurements& measured, std::span<const StepTime> times,
                                const std::vector<std::string>& names, const Constants& fitted);

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
  double memory = 0;            ///< bytes that were allowed
  std::optional<double> price;  ///< of a GPU hour, in whatever money
};
std::string advise_text(const Recommendation& advice);
nlohmann::ordered_json advise_json(const Recommendation& advice);

}  // namespace stweaver
