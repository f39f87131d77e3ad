#include "report/page_template.h"

#include "base/base.h"
#include "report/page_files.h"
#include "report/table.h"

namespace stweaver {
namespace {

using Json = nlohmann::ordered_json;

/// The template with `value` in the place of the first `{{name}}`.
void fill_in(std::string& page, std::string_view name, std::string_view value) {
  const std::string place = "{{" + std::string(name) + "}}";
  const std::size_t at = page.find(place);
  if (at == std::string::npos) fail("the page has no place for ", name);
  page.replace(at, place.size(), value);
}

}  // namespace

std::string html_escaped(std::string_view text) {
  std::string escaped;
  for (const char letter : text) {
    switch (letter) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      case '\'':
        escaped += "&#39;";
        break;
      default:
        escaped += letter;
    }
  }
  return escaped;
}

std::string json_for_script(const Json& document) {
  const std::string json = document.dump(-1, ' ', true, Json::error_handler_t::replace);
  std::string safe;
  safe.reserve(json.size());
  for (const char letter : json) {
    if (letter == '<') {
      safe += "\\u003c";  // in JSON it stands inside of strings only
    } else {
      safe += letter;
    }
  }
  return safe;
}

std::string assemble_page(const PageParts& parts) {
  std::string data;
  for (std::size_t i = 0; i < parts.data.size(); ++i)
    data += text(R"(<script type="text/plain" id="data-)", i, R"(">)", parts.data[i], "</script>\n");
  // What comes from traces is filled in from the last place to the first: it may look like a place itself.
  std::string page(kPageHtml);
  fill_in(page, "style", kPageStyle);
  fill_in(page, "script", parts.script);
  fill_in(page, "data", data);
  fill_in(page, "facts", json_for_script(parts.facts));
  fill_in(page, "title", html_escaped(valid_utf8(parts.title)));
  return page;
}

}  // namespace stweaver
