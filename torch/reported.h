// A failure as a line for C callers.
#pragma once

#include <cstring>
#include <exception>
#include <new>
#include <string>

namespace stweaver {

/// Calls `work`; nullptr when it went well, else its failure in one line, good until the thread's next call.
template <typename Work>
const char* reported(Work work) {
  thread_local std::string line;
  try {
    work();
    return nullptr;
  } catch (const std::bad_alloc&) {
    return "there is no memory left for it on the host";
  } catch (const std::exception& error) {
    line = error.what();
    return line.c_str();
  }
}

/// A copy for C callers, to be given to stweaver_release().
inline char* copy_of(const std::string& text) {
  char* const copy = strdup(text.c_str());
  if (copy == nullptr) throw std::bad_alloc();
  return copy;
}

}  // namespace stweaver
