// The page of `report`: one HTML file that needs nothing else.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "report/job_report.h"

namespace stweaver {

/// What a page draws of address spaces at most, all jobs together: 300 thousand blocks stay fluid on a laptop
/// and below 8 MB.
inline constexpr std::size_t kMostBlocks = 300'000;

/// The page of these jobs, at least one. Of each, `most_blocks` / jobs requests are drawn, those that occupy
/// the most bytes times events; the page says how many are left out. Texts from traces are shown as they are
/// and never read as HTML.
std::string page_html(const std::vector<JobReport>& reports, std::size_t most_blocks = kMostBlocks);

}  // namespace stweaver
