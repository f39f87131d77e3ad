// One line on stderr for whoever asks with NULLCUDA_LOG.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

namespace nullcuda {

inline std::string setting(const char* name, const char* otherwise) {
  const char* const value = std::getenv(name);
  return value == nullptr || *value == '\0' ? otherwise : value;
}

inline int log_level() {
  static const int level = std::atoi(setting("NULLCUDA_LOG", "0").c_str());
  return level;
}

inline void log(int level, const std::string& who, std::string_view what) {
  if (log_level() < level) return;
  what = what.substr(0, what.find('\n'));
  std::fprintf(stderr, "nullcuda: %s: %.*s\n", who.c_str(), static_cast<int>(what.size()), what.data());
}

}  // namespace nullcuda
