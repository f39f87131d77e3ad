// Every call of a CUDA function: counted, and made to fail where the user wants that.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "model/settings.h"

namespace nullcuda {

/// Counts the calls of one function, and knows which of them fail. One for each function, static there.
class Call {
 public:
  explicit Call(const char* name, const std::vector<Failure>& failures = settings().failures);

  /// Counts a call; the error that it must end with, 0 for none.
  int happened() {
    if (forked.load(std::memory_order_relaxed)) return kNotInitialized;
    const std::uint64_t tick = clock.fetch_add(1, std::memory_order_relaxed) + 1;
    const std::uint64_t number = count_.fetch_add(1, std::memory_order_relaxed) + 1;
    return fails_ ? injected(number, tick) : 0;
  }
  [[nodiscard]] const char* name() const { return name_; }
  [[nodiscard]] std::uint64_t count() const { return count_.load(std::memory_order_relaxed); }

  /// The number of all calls so far: the clock of this process.
  static std::uint64_t ticks() { return clock.load(std::memory_order_relaxed); }

 private:
  [[nodiscard]] int injected(std::uint64_t number, std::uint64_t tick) const;

  static constexpr int kNotInitialized = 3;  // cudaErrorInitializationError

  static inline std::atomic<std::uint64_t> clock = 0;
  /// This process is a fork of one that has called CUDA: as on a GPU it cannot, for the memory is the
  /// other's.
  static inline std::atomic<bool> forked = false;

  const char* name_;
  const std::vector<Failure>& failures_;
  bool fails_ = false;  ///< some rule is about this function
  std::atomic<std::uint64_t> count_ = 0;
};

/// Counts a call of a function that nobody wrote by hand: `name` lives for ever.
void count_stub(const char* name);
/// Counts something that was made up because nobody knew it.
void count_guess(const std::string& what);

/// How often each function was called; only those that were.
std::map<std::string, std::uint64_t> calls();
/// Those of them that nobody wrote by hand.
std::map<std::string, std::uint64_t> stub_calls();
std::map<std::string, std::uint64_t> guesses();

}  // namespace nullcuda

/// Counts a call of the function in which it stands; the error that it must end with, 0 for none.
#define NULLCUDA_CALLED()               \
  ([](const char* called) {             \
    static nullcuda::Call call(called); \
    return call.happened();             \
  }(__func__))
