// What all pages have in common: one HTML file that needs nothing else.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

namespace stweaver {

/// The text as HTML shows it, wherever it stands.
std::string html_escaped(std::string_view text);

/// JSON that may stand inside of a script element: no text in it can end that.
std::string json_for_script(const nlohmann::ordered_json& document);

struct PageParts {
  std::string title;
  nlohmann::ordered_json facts;
  std::vector<std::string> data;  ///< packed columns (columns.h), which the script finds by their number
  std::string_view script;
};

/// Texts in it are shown as they are and never read as HTML.
std::string assemble_page(const PageParts& parts);

}  // namespace stweaver
