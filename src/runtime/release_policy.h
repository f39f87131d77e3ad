// When the fallback gives idle memory back to the device.
#pragma once

#include <algorithm>
#include <limits>

#include "base/base.h"

namespace stweaver {

/// Giving memory back costs the device a standstill, and so does asking for it again. A job whose steps need
/// the fallback for the same requests again and again would pay for both in each of them, so each time that
/// what was given back had been fetched again, the next time is put off for twice as many steps.
class ReleasePolicy {
 public:
  /// Asked at a step boundary: `reserved` bytes are held, `idle` of them unused, `bearable` is how much of
  /// that may be. Whether to give the idle ones back.
  bool releases(Bytes reserved, Bytes idle, Bytes bearable) {
    left_ = std::max(left_ - 1, 0);
    if (idle <= bearable || left_ > 0) return false;
    wait_ = reserved >= released_from_ - bearable ? std::min(2 * wait_, kLongestWait) : 1;
    released_from_ = reserved;
    left_ = wait_;
    return true;
  }

 private:
  static constexpr int kLongestWait = 16;  ///< steps; a release then costs each of them a sixteenth of itself

  Bytes released_from_ = std::numeric_limits<Bytes>::max();
  int wait_ = 1;  ///< steps from one release to the next
  int left_ = 0;  ///< steps of it still to come
};

}  // namespace stweaver
