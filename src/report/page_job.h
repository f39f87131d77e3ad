// What a page knows of one job.
#pragma once

#include <cstddef>
#include <string>

#include <nlohmann/json.hpp>

#include "report/job_report.h"

namespace stweaver {

struct PageJob {
  nlohmann::ordered_json facts;
  std::string data;  ///< columns that `facts` describes, packed (columns.h)
};

/// Draws `most_blocks` requests at most, those that occupy the most bytes times events; the facts say how
/// many are left out.
PageJob page_job(const JobReport& report, std::size_t most_blocks);

}  // namespace stweaver
