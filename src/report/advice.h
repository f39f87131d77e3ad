// What `advise --predict` and `advise --fit` answer, as text and as JSON.
#pragma once

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

}  // namespace stweaver
