// Points of one dimension, one after another in memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

namespace stweaver::pareto {

class Points {
 public:
  explicit Points(std::size_t dimension = 0) : dimension_(dimension) {}

  [[nodiscard]] std::size_t size() const { return dimension_ == 0 ? 0 : values_.size() / dimension_; }
  [[nodiscard]] std::size_t dimension() const { return dimension_; }

  std::span<double> operator[](std::size_t i) { return {values_.data() + (i * dimension_), dimension_}; }
  std::span<const double> operator[](std::size_t i) const {
    return {values_.data() + (i * dimension_), dimension_};
  }

  /// Copies `point`, which has this dimension and is none of these.
  void add(std::span<const double> point) { values_.insert(values_.end(), point.begin(), point.end()); }
  void resize(std::size_t size) { values_.resize(size * dimension_); }

 private:
  std::size_t dimension_;
  std::vector<double> values_;
};

}  // namespace stweaver::pareto
