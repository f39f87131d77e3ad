#include "model/table.h"

#include <charconv>
#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <system_error>
#include <vector>

#include "model/settings.h"

namespace nullcuda {
namespace {

/// How many numbers a line of each kind has.
const std::map<std::string_view, std::size_t, std::less<>> kNumbers = {
    {"conv", 1}, {"graph", 1}, {"rnn", 2}, {"weights", 1}, {"fft", 1}};

bool parse(const std::string& text, std::uint64_t& number) {
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && rest == end;
}

/// False where the line is none of a table.
bool parse_line(const std::string& line, std::string& key, Table::Sizes& sizes) {
  std::istringstream stream(line);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  const auto numbers = words.empty() ? kNumbers.end() : kNumbers.find(words[0]);
  if (numbers == kNumbers.end() || words.size() != 2 + numbers->second) return false;
  key = words[0] + " " + words[1];
  for (std::size_t place = 0; place < numbers->second; ++place)
    if (!parse(words[2 + place], sizes[place])) return false;
  return true;
}

/// The folder of this library or program.
std::filesystem::path here() {
  Dl_info info{};
  if (dladdr(&kNumbers, &info) == 0 || info.dli_fname == nullptr) return {};
  return std::filesystem::path(info.dli_fname).parent_path();
}

Table of_this_process(std::string_view cudnn_version) {
  const char* given = std::getenv("NULLCUDA_TABLES");  // NOLINT(concurrency-mt-unsafe): nobody sets it
  const bool is_given = given != nullptr && *given != '\0';
  const std::string place = is_given ? given : (here() / "tables").string();
  const std::string name = std::string(settings().gpu->key) + "-cudnn" + std::string(cudnn_version) + ".txt";
  return read_table(place, name, is_given);
}

}  // namespace

void Table::read(std::istream& lines, const std::string& file) {
  std::size_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (line.empty() || line.front() == '#') continue;
    std::string key;
    Sizes sizes{};
    if (!parse_line(line, key, sizes))
      stop(file + ":" + std::to_string(number) + ": not a line of a table: KIND KEY BYTES...");
    sizes_[key] = sizes;
  }
}

const Table::Sizes* Table::find(std::string_view kind, std::string_view key) const {
  if (sizes_.empty()) return nullptr;
  const auto found = sizes_.find(std::string(kind) + " " + std::string(key));
  return found == sizes_.end() ? nullptr : &found->second;
}

Table read_table(const std::string& place, const std::string& name, bool must_exist) {
  Table table;
  std::error_code none;
  if (must_exist && !std::filesystem::exists(place, none)) stop("no table: " + place);
  std::filesystem::path file = place;
  if (std::filesystem::is_directory(file, none)) file /= name;
  if (!std::filesystem::exists(file, none)) return table;
  std::ifstream lines(file);
  if (!lines) stop("cannot read " + file.string());
  table.read(lines, file.string());
  return table;
}

const Table& table(std::string_view cudnn_version) {
  static const auto* const taken = new Table(of_this_process(cudnn_version));  // never destroyed
  return *taken;
}

}  // namespace nullcuda
