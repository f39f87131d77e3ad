// What went wrong last on a device.
#pragma once

#include <mutex>
#include <string>
#include <utility>

#include "base/base.h"

namespace stweaver {

/// The last failure, in one line. Safe to use from any thread.
class Failure {
 public:
  /// Keeps its arguments joined as the last failure. Always false, so that a call can end with it.
  template <typename... Parts>
  bool set(const Parts&... parts) {
    std::string line = text(parts...);
    const std::lock_guard lock(mutex_);
    line_ = std::move(line);
    return false;
  }

  [[nodiscard]] std::string last() const {
    const std::lock_guard lock(mutex_);
    return line_;
  }

 private:
  mutable std::mutex mutex_;
  std::string line_;
};

}  // namespace stweaver
