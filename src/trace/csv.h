// The interchange format of the planning world (google/minimalloc): one buffer per line.
#pragma once

#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "base/base.h"
#include "trace/memory_budget.h"
#include "trace/source.h"

namespace stweaver {

/// One buffer of a planning instance. Its times are as the file has them: many may begin or end at one.
struct CsvRow {
  std::string id;
  Interval life;  ///< [lower, upper)
  Bytes size = 0;
  std::optional<Bytes> offset;  ///< where a solution puts it

  friend bool operator==(const CsvRow&, const CsvRow&) = default;
};

/// Reads `id,lower,upper,size[,offset]`; the first line names the columns, in any order. `start` may stand
/// for `lower`, and `end`, which is inclusive, for `upper`.
///
/// Error, with `name` and the line in front, for a missing, unknown or repeated column, a number that is
/// negative or does not fit, a lifespan that is empty or crosses itself, an id given twice, and sizes that
/// add up to more than 63 bits can tell; and when the rows would take more than `most` bytes of memory.
std::vector<CsvRow> read_csv(const ByteSource& source, const std::string& name,
                             std::uint64_t most = memory_for_reading());

/// Writes what read_csv() reads, with the column `offset` if any row has one. Error when only some have.
void write_csv(const std::vector<CsvRow>& rows, std::ostream& out);

}  // namespace stweaver
