// How names, numbers and shares read in all answers.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/base.h"

namespace stweaver {

/// The last part of a path, without the endings of snapshots: what a job is called in tables.
std::string job_name(const std::string& path);

/// Bytes in GiB, with two digits and without the unit.
std::string gib_text(Bytes bytes);

/// "3 MiB", or "300 bytes" of what is no whole number of MiB.
std::string size_text(Bytes size);

/// A share of 1 in percent, with one digit.
std::string percent_text(double share);

/// An efficiency, with so many digits that 99.98 % does not read 100 %.
std::string efficiency_text(double efficiency);

/// "1 step", "2 steps".
std::string counted(std::size_t count, std::string_view noun);

}  // namespace stweaver
