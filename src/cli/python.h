// The Python that has the package.
#pragma once

#include <cstdlib>
#include <string>
#include <string_view>

namespace stweaver {

/// $STWEAVER_PYTHON, else the first python3 of the PATH. It may not be there.
inline std::string python_name() {
  const char* const named = std::getenv("STWEAVER_PYTHON");
  return named != nullptr && *named != '\0' ? named : "python3";
}

/// The same, for a shell.
inline constexpr std::string_view kPythonInShell = R"("${STWEAVER_PYTHON:-python3}")";

}  // namespace stweaver
