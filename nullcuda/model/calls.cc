#include "model/calls.h"

#include <mutex>
#include <pthread.h>
#include <string_view>
#include <vector>

namespace nullcuda {
namespace {

struct Register {
  std::mutex mutex;
  std::vector<const Call*> calls;
  std::map<std::string, std::uint64_t> stubs;
  std::map<std::string, std::uint64_t> guesses;
};

Register& all() {
  static auto* const registered = new Register;  // never destroyed: calls come until the very end
  return *registered;
}

bool matches(const std::string& pattern, std::string_view name) {
  if (!pattern.ends_with('*')) return pattern == name;
  return name.starts_with(std::string_view(pattern).substr(0, pattern.size() - 1));
}

/// A number that looks random: the splitmix64 generator (Steele et al., OOPSLA 2014), one step from `seed`.
std::uint64_t scrambled(std::uint64_t seed) {
  std::uint64_t x = seed + 0x9E3779B97F4A7C15ULL;
  x = (x ^ (x >> 30U)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27U)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31U);
}

}  // namespace

Call::Call(const char* name, const std::vector<Failure>& failures) : name_(name), failures_(failures) {
  static const bool watched = pthread_atfork(nullptr, nullptr, [] { forked.store(true); }) == 0;
  if (!watched) stop("cannot watch for forks");
  for (const Failure& failure : failures) fails_ = fails_ || matches(failure.pattern, name);
  const std::scoped_lock lock(all().mutex);
  all().calls.push_back(this);
  if (settings().log > 1) say(std::string("first call of ") + name);
}

int Call::injected(std::uint64_t number, std::uint64_t tick) const {
  for (const Failure& failure : failures_) {
    if (!matches(failure.pattern, name_)) continue;
    // A pattern for several functions counts the calls of all of CUDA.
    const std::uint64_t place = failure.pattern.ends_with('*') ? tick : number;
    const bool hit = failure.nth == 0  ? scrambled(failure.seed * 0x10001 + place) % failure.one_in == 0
                     : failure.lasting ? place >= failure.nth
                                       : place == failure.nth;
    if (hit) return failure.error;
  }
  return 0;
}

void count_stub(const char* name) {
  const std::scoped_lock lock(all().mutex);
  if (++all().stubs[name] == 1 && settings().log > 1) say(std::string("first call of a stub: ") + name);
}

void count_guess(const std::string& what) {
  const std::scoped_lock lock(all().mutex);
  if (++all().guesses[what] == 1 && settings().log > 1) say("made up: " + what);
}

std::map<std::string, std::uint64_t> calls() {
  const std::scoped_lock lock(all().mutex);
  std::map<std::string, std::uint64_t> counts = all().stubs;
  for (const Call* call : all().calls) counts[call->name()] += call->count();
  return counts;
}

std::map<std::string, std::uint64_t> stub_calls() {
  const std::scoped_lock lock(all().mutex);
  return all().stubs;
}

std::map<std::string, std::uint64_t> guesses() {
  const std::scoped_lock lock(all().mutex);
  return all().guesses;
}

}  // namespace nullcuda
