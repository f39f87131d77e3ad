// How much memory what is read may take.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace stweaver {

/// Half of the memory that this machine has to spare or that this process may have at all (its control
/// groups, as of a container), and at most 16 GiB: a small file, compressed, may stand for more than there
/// is. `root` is where /proc and /sys lie.
std::uint64_t memory_for_reading(const std::filesystem::path& root = "/");

/// Adds up what a reader keeps of its input.
class MemoryBudget {
 public:
  explicit MemoryBudget(std::string name, std::uint64_t most = memory_for_reading())
      : name_(std::move(name)), most_(most) {}

  /// Takes `bytes` of the budget; Error when it is spent.
  void charge(std::uint64_t bytes) {
    used_ += bytes;
    if (used_ > most_) refuse();
  }

 private:
  [[noreturn]] void refuse() const;

  std::string name_;
  std::uint64_t most_;
  std::uint64_t used_ = 0;
};

}  // namespace stweaver
