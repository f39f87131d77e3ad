// Which bytes of device memory are known, and which hold a presumption: a number that was made up once and is
// consistent from then on. What is known stands in the core's books, what is presumed only here.
#pragma once

#include <atomic>
#include <iterator>
#include <map>
#include <mutex>
#include <string>

#include "../values.h"
#include "tensors.h"

namespace nullcuda {

/// Presumed bytes, and who is to blame for them.
class Presumptions {
 public:
  void add(Range range, const std::string* origin) {
    const std::scoped_lock lock(mutex_);
    remove_locked(range);
    pieces_[range.begin] = {range.begin + range.size, origin};
    count_ = pieces_.size();
  }

  void remove(Range range) {
    if (count_ == 0) return;
    const std::scoped_lock lock(mutex_);
    remove_locked(range);
  }

  /// Of the last presumption among the bytes; nullptr if there is none, or if some of the rest is not known.
  const std::string* origin_of(Range range) const {
    if (count_ == 0) return nullptr;
    const std::scoped_lock lock(mutex_);
    const char* at = range.begin;
    const char* const end = range.begin + range.size;
    const std::string* origin = nullptr;
    auto piece = pieces_.upper_bound(at);
    if (piece != pieces_.begin() && std::prev(piece)->second.end > at) --piece;
    for (; at < end && piece != pieces_.end() && piece->first < end; ++piece) {
      if (piece->first > at && !is_known(at, piece->first)) return nullptr;
      at = piece->second.end;
      origin = piece->second.origin;
    }
    return at < end && (origin == nullptr || !is_known(at, end)) ? nullptr : origin;
  }

 private:
  struct Piece {
    const char* end;
    const std::string* origin;
  };

  static bool is_known(const char* begin, const char* end) {
    return nullcuda_knows(begin, static_cast<std::size_t>(end - begin)) == 1;
  }

  void remove_locked(Range range) {
    const char* const end = range.begin + range.size;
    auto piece = pieces_.upper_bound(range.begin);
    if (piece != pieces_.begin()) --piece;
    while (piece != pieces_.end() && piece->first < end) {
      const auto [begin, old] = *piece;
      if (old.end <= range.begin) {
        ++piece;
        continue;
      }
      piece = pieces_.erase(piece);
      if (begin < range.begin) pieces_[begin] = {range.begin, old.origin};
      if (old.end > end) piece = pieces_.insert({end, old}).first;
    }
    count_ = pieces_.size();
  }

  mutable std::mutex mutex_;
  std::atomic<std::size_t> count_{0};
  std::map<const char*, Piece> pieces_;
};

inline Presumptions& presumptions() {
  static auto& made = *new Presumptions;  // memory is freed after everything else has ended
  return made;
}

inline void forget(Range range) {
  if (range.size == 0) return;
  nullcuda_forget(range.begin, range.size);
  presumptions().remove(range);
}

inline void forget(const Tensor& tensor) {
  forget(extent_of(tensor));
}

inline bool is_known(const Tensor& tensor) {
  const auto knows = [](Range range) { return nullcuda_knows(range.begin, range.size) == 1; };
  return for_each_piece(tensor, knows, knows);
}

/// What the bytes hold has just been written.
inline void know(const Tensor& tensor) {
  for_each_piece(
      tensor,
      [](Range range) {
        presumptions().remove(range);
        nullcuda_know(range.begin, range.size);
        return true;
      },
      [](Range range) {
        if (nullcuda_knows(range.begin, range.size) == 0) forget(range);
        return true;
      });
}

/// What was written is made up; `origin` is the operator that did it first.
inline void presume(const Tensor& tensor, const std::string* origin) {
  for_each_piece(
      tensor,
      [origin](Range range) {
        nullcuda_forget(range.begin, range.size);
        presumptions().add(range, origin);
        return true;
      },
      [](Range range) {
        forget(range);
        return true;
      });
}

/// Where the presumed numbers come from; nullptr if some of them are neither known nor presumed.
inline const std::string* origin_of(const Tensor& tensor) {
  const std::string* origin = nullptr;
  const auto look = [&origin](Range range) {
    const std::string* const found = presumptions().origin_of(range);
    if (found != nullptr) origin = found;
    return found != nullptr || nullcuda_knows(range.begin, range.size) == 1;
  };
  return for_each_piece(tensor, look, look) ? origin : nullptr;
}

// ---- the rule for numbers that nobody knows ----

/// Floats are 2, so that a norm is clipped and nothing is infinite; integers are 0 (no error, no overflow),
/// and nothing is true.
inline at::Scalar number_for(at::ScalarType type) {
  if (at::isFloatingType(type) || at::isComplexType(type)) return 2.0;
  return type == at::kBool ? at::Scalar(false) : at::Scalar(0);
}

/// On the CPU: what the tensor holds as far as it is known or presumed, else the rule's number. `origin`
/// becomes that of the presumption.
inline Tensor presumed(const Tensor& tensor, const std::string*& origin) {
  const std::string* const found = origin_of(tensor);
  if (found != nullptr) origin = found;
  if (found != nullptr || is_known(tensor)) return shadow_of(tensor);
  return at::full(tensor.sizes(), number_for(tensor.scalar_type()),
                  at::TensorOptions().dtype(tensor.scalar_type()).device(at::kCPU));
}

}  // namespace nullcuda
