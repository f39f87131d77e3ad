// What the environment says of this process: read once, at the first call.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/gpu.h"

namespace nullcuda {

/// When work that was given to a stream is done, in calls of CUDA: at once, `calls` later, or after a random
/// number of calls below `calls`.
struct Completion {
  std::uint64_t calls = 0;
  bool random = false;
  std::uint64_t seed = 0;
};

/// A call that fails: the calls of functions whose name matches `pattern` (`*` at its end matches the rest).
struct Failure {
  std::string pattern;
  std::uint64_t nth = 0;     ///< this call, counted from 1, with `*` among all calls of CUDA; 0: at random
  bool lasting = false;      ///< and every later one
  std::uint64_t seed = 0;    ///< of what is random
  std::uint64_t one_in = 1;  ///< how rarely it is
  int error = 0;             ///< cudaError_t and CUresult agree on what is injected
};

struct Settings {
  const Gpu* gpu = nullptr;
  int devices = 1;
  std::uint64_t memory = 0;   ///< bytes of each device
  std::uint64_t context = 0;  ///< bytes of it that are in use before the program asks for any
  Completion completion;
  std::vector<Failure> failures;
  bool values = false;  ///< device memory can be read and written; some of its bytes are known
  bool checks = false;  ///< memory is real, and whoever uses it wrongly is stopped
  std::uint64_t values_limit =
      0;                ///< bytes: longer copies and fills are not carried out, but in checking mode
  std::string report;   ///< file that the report is written to when the process ends; "" for none
  std::string kernels;  ///< library whose functions run as the kernels of their names; "" for none
  int log = 0;          ///< 0: nothing but errors; 1: a summary at the end; 2: first calls
};

/// The settings of this process. What cannot be understood ends it with one line.
const Settings& settings();

/// Writes one line to standard error.
void say(const std::string& line);
/// EX_SOFTWARE of sysexits.h.
inline constexpr int kExitStatus = 70;
/// Writes one line to standard error and ends the process with that status.
[[noreturn]] void stop(const std::string& line);

/// `at_once`, `delay:CALLS` or `random:SEED[/CALLS]`; stops the process where it is none of them.
Completion parse_completion(const std::string& text);
/// The devices that CUDA_VISIBLE_DEVICES leaves of so many, in its order: the numbers and beginnings of UUIDs
/// in `text` up to the first that is none; all where there is no text, none where one is named twice.
std::vector<int> parse_visible(const char* text, int devices);
/// What that is for this process when it is first asked for.
const std::vector<int>& visible_devices();
/// "GPU-..."; every device has another.
std::string uuid_of(int device);
/// Comma-separated `PATTERN@N=ERROR`, `PATTERN@N+=ERROR` (from then on) or `PATTERN%SEED/ONE_IN=ERROR`.
std::vector<Failure> parse_failures(const std::string& text);

}  // namespace nullcuda
