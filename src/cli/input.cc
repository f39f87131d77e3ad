#include "cli/input.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <unistd.h>
#include <utility>
#include <vector>

#include "archive/archive.h"
#include "cli/progress.h"
#include "trace/draft.h"

namespace stweaver {
namespace {

/// Plain files alone: what comes out of a pipe is not what goes in.
bool are_one_file(const std::string& a, const std::string& b) {
  std::error_code error;
  if (std::filesystem::exists(a, error) && std::filesystem::exists(b, error))
    return std::filesystem::is_regular_file(a, error) && std::filesystem::equivalent(a, b, error);
  return target_of(a) == target_of(b);
}

/// Whether what is written to `path` replaces it. Devices, pipes and links are written to where they are: a
/// rename would put a file in their place. Error where that cannot be.
bool is_replaced(const std::string& path) {
  std::error_code error;
  const std::filesystem::file_status there = std::filesystem::symlink_status(path, error);
  if (std::filesystem::is_directory(there)) refuse_to_write(path, EISDIR);
  const bool is_file = std::filesystem::is_regular_file(there);
  if (std::filesystem::exists(there) && !is_file) return false;
  if (is_file && ::access(path.c_str(), W_OK) != 0) refuse_to_write(path, errno);
  return true;
}

}  // namespace

bool is_csv(const std::string& path) {
  const std::filesystem::path file(path);
  const std::string end = file.extension().string();
  const bool packed = end == ".gz" || end == ".xz" || end == ".zst";
  return (packed ? file.stem() : file).extension() == ".csv";
}

void find_inputs(const std::vector<std::string>& paths) {
  for (const std::string& path : paths) {
    std::error_code error;
    if (!std::filesystem::exists(path, error)) fail(path, ": cannot be opened: there is no such file");
  }
}

Trace open_trace(const std::string& path, std::optional<int> device) {
  std::vector<Trace> traces = read_traces(open_archive(path), path);
  const auto chosen = device ? std::find_if(traces.begin(), traces.end(),
                                            [device](const Trace& trace) { return trace.device == *device; })
                             : busiest_of(traces);
  if (chosen == traces.end())
    fail(path, ": nothing was recorded on device ", *device, "; leave out --device");
  if (!chosen->complete) {
    say(text(path, ": the recording was cut short; what it holds up to event ", chosen->end, " is used"));
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

void keep_apart(const std::vector<std::string>& inputs, const std::vector<std::string>& outputs) {
  std::vector<std::string> taken = inputs;
  for (const std::string& output : outputs) {
    if (output.empty()) continue;
    std::error_code error;
    const std::filesystem::path folder = std::filesystem::absolute(output, error).parent_path();
    if (!std::filesystem::is_directory(folder, error))
      fail(output, ": cannot be written, there is no folder ", folder.string(), "; make it first");
    for (const std::string& other : taken)
      if (!other.empty() && are_one_file(output, other))
        fail(output, ": would be written over ", other, "; give it another name");
    if (is_replaced(output)) std::filesystem::remove(make_draft(output), error);
    taken.push_back(output);
  }
}

void write_file(const std::string& path, const std::string& content) {
  if (is_replaced(path)) return replace_file(path, content);
  write_whole(path, content, path);
}

void make_folder(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) fail(path, ": no folder can be made there (", error.message(), ")");
}

int print_answer(bool json, const Answer& answer) {
  using Json = nlohmann::ordered_json;
  const std::string words =
      json ? answer.document.dump(2, ' ', false, Json::error_handler_t::replace) + "\n" : answer.text;
  const bool written = std::fwrite(words.data(), 1, words.size(), stdout) == words.size();
  if (!written || std::fflush(stdout) != 0)
    fail("the answer cannot be written to standard output (", std::strerror(errno), ")");
  return answer.status;
}

}  // namespace stweaver
