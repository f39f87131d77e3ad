#include "cli/input.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>
#include <vector>

#include "archive/archive.h"
#include "report/report.h"

namespace stweaver {

bool is_csv(const std::string& path) {
  return path.ends_with(".csv");
}

Trace open_trace(const std::string& path, std::optional<int> device) {
  std::vector<Trace> traces = read_traces(open_archive(path), path);
  const auto chosen =
      device ? std::find_if(traces.begin(), traces.end(),
                            [device](const Trace& trace) { return trace.device == *device; })
             : std::max_element(traces.begin(), traces.end(), [](const Trace& a, const Trace& b) {
                 return a.requests.size() < b.requests.size();
               });
  if (chosen == traces.end())
    fail(path, ": nothing was recorded on device ", *device, "; leave out --device");
  if (!chosen->complete) {
    std::fprintf(stderr,
                 "stweaver: %s: the recording was cut short; what it holds up to event %lld is used\n",
                 printable(path).c_str(), static_cast<long long>(chosen->end));
  }
  return std::move(*chosen);
}

std::vector<CsvRow> open_csv(const std::string& path) {
  return read_csv(open_archive(path), path);
}

std::string read_text(const std::string& path) {
  constexpr std::size_t kMost = std::size_t{64} << 20;
  const ByteSource source = open_archive(path);
  std::string content;
  std::vector<std::byte> buffer(1 << 16);
  while (const std::size_t got = source(buffer)) {
    content.append(reinterpret_cast<const char*>(buffer.data()), got);
    if (content.size() > kMost) fail(path, ": more than 64 MiB, which no table or model has");
  }
  return content;
}

void write_file(const std::string& path, const std::string& content) {
  // A file is written beside itself and renamed: whoever reads it sees all of it or what was there before.
  // Devices, pipes and links are written to where they are: a rename would put a file in their place.
  std::error_code error;
  const std::filesystem::file_type type = std::filesystem::symlink_status(path, error).type();
  const bool replace =
      type == std::filesystem::file_type::not_found || type == std::filesystem::file_type::regular;
  const std::string draft = replace ? path + ".part" : path;
  error.clear();
  std::ofstream file(draft, std::ios::binary);
  file << content;
  file.close();
  if (file && replace) std::filesystem::rename(draft, path, error);
  if (file && !error) return;
  const std::string reason = error ? error.message() : std::strerror(errno);
  if (replace) std::filesystem::remove(draft, error);
  fail(path, ": cannot be written (", reason, ")");
}

void make_folder(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) fail(path, ": no folder can be made there (", error.message(), ")");
}

void print_answer(bool json, const std::string& text, const nlohmann::ordered_json& document) {
  const std::string answer =
      json ? document.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n" : text;
  const bool written = std::fwrite(answer.data(), 1, answer.size(), stdout) == answer.size();
  if (!written || std::fflush(stdout) != 0)
    fail("the answer cannot be written to standard output (", std::strerror(errno), ")");
}

}  // namespace stweaver
