// Where a process was when it crashed, for crash.py: its native stack, on standard error, before it ends.
#include <array>
#include <csignal>
#include <execinfo.h>
#include <unistd.h>

namespace {

constexpr int kDepth = 64;
std::array<char, 1 << 16> own_stack;  // the thread's may be what is broken

void show(int signal) {
  constexpr char kTitle[] = "native stack, the innermost call first:\n";
  std::array<void*, kDepth> frames{};
  const int depth = backtrace(frames.data(), kDepth);
  (void)!write(STDERR_FILENO, kTitle, sizeof kTitle - 1);
  backtrace_symbols_fd(frames.data(), depth, STDERR_FILENO);
  raise(signal);  // SA_RESETHAND: this time it ends the process
}

}  // namespace

extern "C" void show_crashes() {
  std::array<void*, 1> frame{};
  backtrace(frame.data(), 1);  // loads what it needs, which a handler must not
  const stack_t stack = {.ss_sp = own_stack.data(), .ss_flags = 0, .ss_size = own_stack.size()};
  sigaltstack(&stack, nullptr);
  struct sigaction action {};
  action.sa_handler = show;
  action.sa_flags = SA_ONSTACK | static_cast<int>(SA_RESETHAND) | SA_NODEFER;
  for (const int signal : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT}) sigaction(signal, &action, nullptr);
}
