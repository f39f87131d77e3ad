// The one machine that this process sees. Everything of CUDA's functions that remembers something is here.
#pragma once

#include "model/calls.h"
#include "model/host_memory.h"
#include "model/known.h"
#include "model/memory.h"
#include "model/settings.h"
#include "model/streams.h"

namespace nullcuda {

struct Machine {
  const Settings& settings;
  Memory memory;
  HostMemory host;
  Streams streams;
  KnownBytes known;

  explicit Machine(const Settings& from) : settings(from), memory(from), streams(from) {}
};

/// Made at the first call, never destroyed.
Machine& machine();

/// A handle of something that is only a name; never the same again.
std::uint64_t fresh_handle();

/// The device that the calling thread works with.
int& current_device();

/// A piece of work on a stream that uses bytes of device memory. In checking mode it stops the process where
/// they are not mapped, or used out of order. `what` is the function, for the message. Whenever a graph that
/// it was captured in has run, nobody knows what it has written.
void use(const char* what, StreamId stream, const std::vector<Use>& uses);
/// One whose effect on bytes is known: that comes at once, or whenever the graph is launched.
void perform(const char* what, StreamId stream, const std::vector<Use>& uses, const Effect& effect);
/// Memory goes away; in checking mode it stops the process where work that uses it may still be under way.
void forget(const char* what, std::uint64_t begin, std::uint64_t size);
/// The same in the order of a stream, which nobody needs to wait for.
void forget_in_order(std::uint64_t begin, std::uint64_t size);

/// Memory of another process is mapped: its bytes, if they exist, are what that one knows.
void know_imported(std::uint64_t begin, std::uint64_t size);

/// What CUDA's copies and fills do, as far as bytes exist and are known.
void copy(const char* what, StreamId stream, void* to, const void* from, std::uint64_t size);
void fill(const char* what, StreamId stream, void* at, int value, std::uint64_t size, int width = 1);

/// The answer to the next small copies of unknown bytes of this thread (values.h).
struct Answer {
  bool given = false;
  std::int64_t value = 0;
};
Answer& answer();

}  // namespace nullcuda
