// Turns snapshots into trace files, as seeds for a fuzzer: make_trace_seeds OUT SNAPSHOT...
#include <filesystem>
#include <fstream>
#include <iostream>
#include <span>

#include "base/base.h"
#include "trace/trace.h"

namespace stweaver {
namespace {

void convert(const std::filesystem::path& snapshot, const std::filesystem::path& folder) {
  for (const Trace& trace : read_snapshot(file_source(snapshot.string()), snapshot.string())) {
    std::ofstream out(folder / text(snapshot.stem().string(), '_', trace.device, ".trace"), std::ios::binary);
    write_trace_file(trace, [&](std::span<const std::byte> bytes) {
      out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    });
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
