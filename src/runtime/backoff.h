// How often to do what costs the device a standstill.
#pragma once

#include <algorithm>

namespace stweaver {

/// Lets something be done in each step, until steps need it again and again: then in every second step, every
/// fourth, and so on, until a step does without it.
class Backoff {
 public:
  [[nodiscard]] bool allows() const { return left_ == 0; }

  /// A step has ended in which it was done, or was not.
  void end_step(bool was_done) {
    if (was_done) {
      wait_ = std::clamp(2 * wait_, 1, kLongestWait);
      left_ = wait_;
    } else if (left_ > 0) {
      --left_;
    } else {
      wait_ = 0;
    }
  }

 private:
  static constexpr int kLongestWait = 8;  ///< steps; each then bears an eighth of what it costs

  int wait_ = 0;  ///< steps from one time to the next
  int left_ = 0;  ///< steps of it still to come
};

}  // namespace stweaver
