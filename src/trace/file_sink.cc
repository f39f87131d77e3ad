#include "trace/file_sink.h"

#include <array>
#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string_view>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>

#include "base/base.h"
#include "trace/draft.h"

namespace stweaver {
namespace {

using std::filesystem::file_type;

void require_empty_or_ours(const std::string& path) {
  std::array<char, 8> begin = {};
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file) refuse_to_write(path, errno);
  file.read(begin.data(), begin.size());
  const auto size = static_cast<std::size_t>(file.gcount());
  if (size > 0 && !is_trace_file(std::as_bytes(std::span(begin).first(size))))
    refuse_to_write(path, "it is there already and no trace file; remove it or name another");
}

/// What cannot be looked at passes here: opening it says why.
void require_replaceable(const std::string& path) {
  std::error_code ignored;
  switch (std::filesystem::status(path, ignored).type()) {
    case file_type::regular:
      return require_empty_or_ours(path);
    case file_type::directory:
      return refuse_to_write(path, EISDIR);
    case file_type::fifo:
    case file_type::socket:
    case file_type::block:
      return refuse_to_write(path, "a recording needs a plain file");
    default:
      return;
  }
}

/// O_NONBLOCK: opening and writing must never hold up a job. Plain files do not know it.
int open_to_write(const std::string& path) {
  constexpr int kFlags = O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
  return ::open(path.c_str(), kFlags, 0666);
}

class OutputFile {
 public:
  explicit OutputFile(std::string path) : path_(std::move(path)), owner_(::getpid()) {
    require_replaceable(path_);
    std::error_code ignored;
    const file_type type = std::filesystem::symlink_status(path_, ignored).type();
    replaces_ = type == file_type::not_found || type == file_type::regular;
    if (replaces_) draft_ = make_draft(path_);
    file_ = open_to_write(draft_.empty() ? path_ : draft_);
    if (file_ >= 0) return;
    const int reason = errno;
    if (!draft_.empty()) ::unlink(draft_.c_str());
    refuse_to_write(path_, reason);
  }

  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  OutputFile(OutputFile&&) = delete;
  OutputFile& operator=(OutputFile&&) = delete;

  ~OutputFile() {
    if (!draft_.empty() && ::getpid() == owner_) ::unlink(draft_.c_str());
    ::close(file_);
  }

  void write(std::span<const std::byte> bytes) {
    require_mine();
    while (!bytes.empty()) {
      errno = 0;
      const ssize_t written = ::write(file_, bytes.data(), bytes.size());
      if (written > 0) {
        bytes = bytes.subspan(static_cast<std::size_t>(written));
      } else if (errno != EINTR) {
        refuse_to_write(path_, errno);
      }
    }
    if (!draft_.empty()) take_place();
  }

 private:
  /// Two jobs that were given one path would otherwise go on for hours before one finds its file missing.
  void require_mine() const {
    if (::getpid() != owner_)
      refuse_to_write(path_, "this process was forked from the one that records into it");
    struct stat status = {};
    if (replaces_ && draft_.empty() && ::fstat(file_, &status) == 0 && status.st_nlink == 0)
      refuse_to_write(path_, "it was removed or replaced meanwhile; each process needs a file of its own");
  }

  void take_place() {
    if (::rename(draft_.c_str(), path_.c_str()) != 0) refuse_to_write(path_, errno);
    draft_.clear();
  }

  std::string path_;
  pid_t owner_;
  bool replaces_ = false;  // a plain file of this name is replaced by ours
  std::string draft_;      // where ours is until then
  int file_ = -1;
};

}  // namespace

ByteSink file_sink(const std::string& path) {
  auto file = std::make_shared<OutputFile>(path);
  return [file = std::move(file)](std::span<const std::byte> bytes) { file->write(bytes); };
}

}  // namespace stweaver
