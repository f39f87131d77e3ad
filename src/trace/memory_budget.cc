#include "trace/memory_budget.h"

#include <algorithm>
#include <fstream>

#include "base/base.h"

namespace stweaver {

namespace {

/// The least that the control group, or one that it lies in, may have: its path is that of `mounted` or, seen
/// from a container, of a folder that is not there.
std::uint64_t limit_of(const std::filesystem::path& mounted, const std::filesystem::path& group,
                       const char* name, std::uint64_t most) {
  std::filesystem::path folder = mounted;
  for (const std::filesystem::path& part : group) {
    folder /= part.relative_path();
    std::uint64_t limit = 0;  // "max" is no number
    if (std::ifstream(folder / name) >> limit) most = std::min(most, limit);
  }
  return most;
}

std::uint64_t limit_of_groups(const std::filesystem::path& root, std::uint64_t most) {
  const std::filesystem::path mounted = root / "sys/fs/cgroup";
  std::ifstream file(root / "proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {  // number:controllers:/path
    const std::string group = line.substr(line.find(':', line.find(':') + 1) + 1);
    if (line.starts_with("0::")) most = limit_of(mounted, group, "memory.max", most);
    if (line.find(":memory:") != std::string::npos)
      most = limit_of(mounted / "memory", group, "memory.limit_in_bytes", most);
  }
  return most;
}

}  // namespace

std::uint64_t memory_for_reading(const std::filesystem::path& root) {
  std::uint64_t most = limit_of_groups(root, std::uint64_t{32} << 30);
  std::ifstream file(root / "proc/meminfo");
  for (std::string key; file >> key;) {
    std::uint64_t kibibytes = 0;
    if (key == "MemAvailable:" && file >> kibibytes) most = std::min(most, kibibytes << 10);
  }
  return most / 2;
}

void MemoryBudget::refuse() const {
  fail(name_, ": would take more than ", most_ >> 20,
       " MiB of memory to read, half of what there is to spare or 16 GiB");
}

}  // namespace stweaver
