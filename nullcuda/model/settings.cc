#include "model/settings.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <numeric>
#include <regex>
#include <sstream>
#include <system_error>
#include <unistd.h>

namespace nullcuda {
namespace {

constexpr std::uint64_t kRandomCalls = 200;  // about what PyTorch calls in a layer

std::string variable(const char* name, const char* otherwise = "") {
  const char* text = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): before any other thread
  return text != nullptr && *text != '\0' ? text : otherwise;
}

std::uint64_t number(const char* name, std::uint64_t otherwise) {
  const std::string text = variable(name);
  if (text.empty()) return otherwise;
  std::uint64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || rest != end) stop(std::string(name) + ": not a number: " + text);
  return value;
}

std::uint64_t mebibytes(const char* name, std::uint64_t otherwise) {
  if (variable(name).empty()) return otherwise;
  constexpr std::uint64_t kMost = 4ULL << 20U;  // 4 TiB: of addresses a device has no more
  const std::uint64_t value = number(name, 0);
  if (value > kMost) stop(std::string(name) + ": at most " + std::to_string(kMost));
  return value * kMiB;
}

Settings read() {
  Settings settings;
  const std::string gpu = variable("NULLCUDA_GPU", "h200");
  settings.gpu = find_gpu(gpu);
  if (settings.gpu == nullptr) stop("NULLCUDA_GPU: no GPU named " + gpu + "; there are: " + gpu_keys());
  constexpr std::uint64_t kMost = 16;
  const std::uint64_t devices = number("NULLCUDA_DEVICES", 1);
  if (devices > kMost) stop("NULLCUDA_DEVICES: at most 16");
  settings.devices = static_cast<int>(devices);
  settings.memory = mebibytes("NULLCUDA_MEMORY_MIB", settings.gpu->memory);
  settings.context = mebibytes("NULLCUDA_CONTEXT_MIB", settings.gpu->context);
  settings.completion = parse_completion(variable("NULLCUDA_EVENTS", "at_once"));
  settings.failures = parse_failures(variable("NULLCUDA_FAIL"));
  settings.checks = number("NULLCUDA_CHECK", 0) != 0;
  settings.values = settings.checks || number("NULLCUDA_VALUES", 0) != 0;
  constexpr std::uint64_t kElements = 1U << 18U;
  constexpr std::uint64_t kLongest = 16;  // bytes of an element
  settings.values_limit = number("NULLCUDA_VALUES_LIMIT", kElements) * kLongest;
  settings.report = variable("NULLCUDA_REPORT");
  settings.kernels = variable("NULLCUDA_KERNELS");
  settings.log = static_cast<int>(number("NULLCUDA_LOG", 0));
  return settings;
}

/// The numbers that `pattern` captures in the whole of `text`; stops the process where it does not match.
std::smatch matched(const std::string& text, const char* pattern, const char* name, const char* forms) {
  std::smatch match;
  if (!std::regex_match(text, match, std::regex(pattern)))
    stop(std::string(name) + ": " + text + ": write " + forms);
  return match;
}

}  // namespace

const Settings& settings() {
  static const Settings* const taken = new Settings(read());  // never destroyed: used until the very end
  return *taken;
}

void say(const std::string& line) {
  const std::string whole = "nullcuda: " + line + "\n";
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, whole.data(), whole.size());
}

void stop(const std::string& line) {
  say(line);
  std::_Exit(kExitStatus);
}

std::string uuid_of(int device) {
  std::ostringstream text;
  text << "GPU" << std::hex;
  for (int byte = 0; byte < 16; ++byte)
    text << (byte == 0 || (byte >= 4 && byte <= 10 && byte % 2 == 0) ? "-" : "") << 'Z' + device;
  return text.str();
}

std::vector<int> parse_visible(const char* text, int devices) {
  std::vector<int> all(static_cast<std::size_t>(devices));
  std::iota(all.begin(), all.end(), 0);
  if (text == nullptr) return all;
  std::vector<int> visible;
  std::istringstream list(text);
  for (std::string name; std::getline(list, name, ',');) {
    char* end = nullptr;
    const long number = std::strtol(name.c_str(), &end, 10);
    auto found = std::ranges::find(all, end == name.c_str() ? -1 : number);
    if (name.starts_with("GPU-"))
      found = std::ranges::find_if(all, [&](int device) { return uuid_of(device).starts_with(name); });
    if (found == all.end()) break;
    if (std::ranges::find(visible, *found) != visible.end()) return {};
    visible.push_back(*found);
  }
  return visible;
}

const std::vector<int>& visible_devices() {
  static const auto* const taken = new std::vector(parse_visible(
      std::getenv("CUDA_VISIBLE_DEVICES"), settings().devices));  // NOLINT(concurrency-mt-unsafe)
  return *taken;
}

Completion parse_completion(const std::string& text) {
  const std::smatch match = matched(text, R"(at_once|delay:(\d{1,9})|random:(\d{1,9})(?:/(\d{1,9}))?)",
                                    "NULLCUDA_EVENTS", "at_once, delay:CALLS or random:SEED[/CALLS]");
  if (match[1].matched) return {.calls = std::stoull(match[1])};
  if (!match[2].matched) return {};
  return {.calls = match[3].matched ? std::stoull(match[3]) : kRandomCalls,
          .random = true,
          .seed = std::stoull(match[2])};
}

std::vector<Failure> parse_failures(const std::string& text) {
  std::vector<Failure> failures;
  std::istringstream rules(text);
  for (std::string rule; std::getline(rules, rule, ',');) {
    const std::smatch match = matched(
        rule, R"(([A-Za-z_0-9]+\*?|\*)(?:@([1-9]\d{0,17})(\+?)|%(\d{1,9})/([1-9]\d{0,8}))=([1-9]\d{0,3}))",
        "NULLCUDA_FAIL", "NAME@N=ERROR, NAME@N+=ERROR or NAME%SEED/ONE_IN=ERROR");
    Failure failure{.pattern = match[1], .error = std::stoi(match[6])};
    if (match[2].matched) {
      failure.nth = std::stoull(match[2]);
      failure.lasting = match[3].length() != 0;
    } else {
      failure.seed = std::stoull(match[4]);
      failure.one_in = std::stoull(match[5]);
    }
    failures.push_back(failure);
  }
  return failures;
}

}  // namespace nullcuda
