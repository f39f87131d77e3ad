// How names, numbers and shares read in all answers.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "base/base.h"

namespace stweaver {

/// The classes of requests (`LifeClass`), by their numbers.
inline constexpr std::array<const char*, 3> kClassNames = {"persistent", "scoped", "transient"};

/// The last part of a path, without the endings of snapshots: what a job is called in tables. " (device 1)"
/// stays.
std::string job_name(const std::string& path);

/// Bytes in GiB, with two digits and without the unit.
std::string gib_text(Bytes bytes);

/// In the largest unit of which it is a whole number: "3 MiB", "300 bytes".
std::string size_text(Bytes size);

/// "1.500 GiB"; less than a tenth of that in the largest unit of which there is one: "1.5 MiB", "300 bytes".
std::string amount_text(Bytes bytes);

/// A share of 1 in percent, with one digit.
std::string percent_text(double share);

/// An efficiency, with so many digits that 99.98 % does not read 100 %.
std::string efficiency_text(double efficiency);

/// "1 step", "2 steps".
std::string counted(std::size_t count, std::string_view noun);

}  // namespace stweaver
