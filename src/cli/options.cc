#include "cli/options.h"

#include "cli/validators.h"

namespace stweaver {

void add_trace(CLI::App& command, std::string& trace) {
  command.add_option("TRACE", trace, "PyTorch memory snapshot (.pickle, also .gz .xz .zst) or trace file")
      ->required()
      ->check(file_name());
}

void add_traces(CLI::App& command, std::vector<std::string>& traces) {
  command.add_option("TRACE", traces, "PyTorch memory snapshots or trace files")
      ->required()
      ->check(file_name());
}

void add_search(CLI::App& command, SynthesizeOptions& search, const std::string& purpose) {
  command.add_option("--timeout", search.timeout, "seconds to " + purpose)
      ->capture_default_str()
      ->check(seconds());
  command.add_option("--threads", search.threads, "threads to search with (default: all cores)")
      ->check(CLI::Range(1, 1024));
}

}  // namespace stweaver
