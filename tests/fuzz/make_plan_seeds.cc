// Turns snapshots into plans, as seeds for a fuzzer: make_plan_seeds OUT SNAPSHOT...
#include <filesystem>
#include <fstream>
#include <iostream>
#include <span>

#include "archive/archive.h"
#include "base/base.h"
#include "plan/plan.h"
#include "trace/trace.h"

namespace stweaver {
namespace {

void convert(const std::filesystem::path& snapshot, const std::filesystem::path& folder) {
  for (const Trace& trace : read_snapshot(open_archive(snapshot), snapshot.string())) {
    std::ofstream out(folder / text(snapshot.stem().string(), '_', trace.device, ".plan"), std::ios::binary);
    write_plan(synthesize(trace, profile_of(trace), {.threads = 1}).plan, out);
  }
}

}  // namespace
}  // namespace stweaver

int main(int count, char** arguments) {
  const std::span<char*> paths(arguments, static_cast<std::size_t>(count));
  if (paths.size() < 3) return 2;
  try {
    std::filesystem::create_directories(paths[1]);
    for (const char* snapshot : paths.subspan(2)) stweaver::convert(snapshot, paths[1]);
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
  return 0;
}
