#include "model/report.h"

#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <sstream>
#include <string>
#include <unistd.h>

#include "model/machine.h"

namespace nullcuda {
namespace {

/// Names here are functions' and operators': nothing in them needs more than this.
std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char letter : text) {
    if (letter == '"' || letter == '\\') out += '\\';
    if (static_cast<unsigned char>(letter) >= ' ') out += letter;
  }
  return out + "\"";
}

std::string object(const std::map<std::string, std::uint64_t>& counts) {
  std::string out;
  for (const auto& [name, count] : counts) {
    if (count == 0) continue;
    out += (out.empty() ? "" : ", ") + quoted(name) + ": " + std::to_string(count);
  }
  return "{" + out + "}";
}

std::string file_name() {
  std::string name = settings().report;
  if (const auto place = name.find("%p"); place != std::string::npos)
    name.replace(place, 2, std::to_string(getpid()));
  return name;
}

void summary() {
  std::uint64_t made_up = 0;
  for (const auto& [name, count] : guesses()) made_up += count;
  std::ostringstream line;
  line << settings().gpu->name << ": " << Call::ticks() << " calls, "
       << machine().memory.peak(0) / (1U << 20U) << " MiB of device 0 used at most, " << made_up
       << " values made up";
  say(line.str());
  if (settings().log < 2) return;
  for (const auto& [name, count] : stub_calls()) say("stub " + name + " x" + std::to_string(count));
  for (const auto& [name, count] : guesses()) say("made up: " + name + " x" + std::to_string(count));
}

/// The process that uses CUDA. One that it forked cannot (nor on a GPU), and has nothing to report.
pid_t owner = 0;

void at_exit() {
  if (getpid() != owner) return;
  if (settings().log > 0) summary();
  if (settings().report.empty()) return;
  const int file = ::open(file_name().c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  const std::string line = report() + "\n";
  if (file < 0 || ::write(file, line.data(), line.size()) != static_cast<ssize_t>(line.size()))
    say("cannot write the report to " + file_name());
  if (file >= 0) ::close(file);
}

}  // namespace

std::string report() {
  const Machine& m = machine();
  std::ostringstream out;
  out << "{\"gpu\": " << quoted(std::string(m.settings.gpu->key)) << ", \"process\": " << getpid()
      << ", \"peak\": [";
  for (int device = 0; device < m.settings.devices; ++device)
    out << (device == 0 ? "" : ", ") << m.memory.peak(device);
  out << "], \"calls\": " << object(calls()) << ", \"stubs\": " << object(stub_calls())
      << ", \"guesses\": " << object(guesses()) << "}";
  return out.str();
}

void report_at_exit() {
  owner = getpid();
  static const bool once = std::atexit(at_exit) == 0;
  if (!once) say("no report: too many functions to call at exit");
}

}  // namespace nullcuda
