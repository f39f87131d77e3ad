// The files of src/report/page/, as CMake puts them into the program.
#pragma once

#include <string_view>

namespace stweaver {

extern const std::string_view kPageHtml;      ///< with places to fill in: {{title}}, {{style}}, {{facts}}...
extern const std::string_view kPageStyle;     ///< CSS
extern const std::string_view kReportScript;  ///< all modules of the page of `report` as one
extern const std::string_view kDiffScript;    ///< of `diff`
extern const std::string_view kFrontScript;   ///< of `advise`

}  // namespace stweaver
