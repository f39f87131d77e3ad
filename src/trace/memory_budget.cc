#include "trace/memory_budget.h"

#include <algorithm>
#include <fstream>

#include "base/base.h"

namespace stweaver {

std::uint64_t memory_for_reading() {
  std::uint64_t most = std::uint64_t{16} << 30;
  std::ifstream file("/proc/meminfo");
  for (std::string key; file >> key;) {
    std::uint64_t kibibytes = 0;
    if (key == "MemAvailable:" && file >> kibibytes) most = std::min(most, kibibytes << 9);  // half of them
  }
  return most;
}

void MemoryBudget::refuse() const {
  fail(name_, ": would take more than ", most_ >> 20,
       " MiB of memory to read, half of what this machine has to spare or 16 GiB");
}

}  // namespace stweaver
