// Squeaky-wheel optimization around the class sweep.
#pragma once

#include <memory>
#include <optional>

#include "plan/class_sweep.h"

namespace stweaver {

/// Sweeps again and again; after each sweep the items that stick out above the bound move a class or two
/// ahead, so that what was hard to place is placed earlier (Joslin and Clements 1999).
class SqueakyWheel {
 public:
  /// `bound` is the peak to aim at. `instance` must outlive this. With `fixed`, all sweeps go around what has
  /// its offset there (see class_sweep_around()).
  SqueakyWheel(const Instance& instance, std::shared_ptr<const BirthOrder> order, Classes classes,
               const Sweep& options, Bytes bound, Placement fixed = {});

  /// One sweep. Nothing when the deadline passed, or when no class can change any more.
  std::optional<Placement> step(const Budget& budget);

 private:
  const Instance& instance_;
  std::shared_ptr<const BirthOrder> order_;
  Classes classes_;
  Sweep options_;
  Bytes bound_;
  Placement fixed_;
  bool exhausted_ = false;
};

}  // namespace stweaver
