// What may stand for an option, and the line that says so when something else does.
#pragma once

#include <CLI/CLI.hpp>

#include "base/base.h"

namespace stweaver {

/// A file's name: any text but none.
CLI::Validator file_name();

/// Seconds for a search: a number from 0 to a million, fractions allowed.
CLI::Validator seconds();

/// A number, fractions allowed; CLI::Range takes one that is none (NaN) for one in it.
CLI::Validator number(double lowest, double highest);

/// A whole number of bytes from `lowest` to `highest`.
CLI::Validator bytes(Bytes lowest, Bytes highest = kGiB * kGiB);

}  // namespace stweaver
