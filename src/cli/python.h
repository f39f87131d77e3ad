// The Python that has the package.
#pragma once

#include <cstdlib>
#include <string>

namespace stweaver {

/// $STWEAVER_PYTHON, else the first python3 of the PATH. It may not be there.
inline std::string python_name() {
  const char* const named = std::getenv("STWEAVER_PYTHON");
  return named != nullptr && *named != '\0' ? named : "python3";
}

}  // namespace stweaver
