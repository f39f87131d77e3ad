#include "trace/draft.h"

#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <random>
#include <system_error>
#include <unistd.h>

#include "base/base.h"

namespace stweaver {

std::filesystem::path target_of(const std::string& name) {
  constexpr int kMostLinks = 40;  // as Linux follows
  std::error_code error;
  std::filesystem::path path = std::filesystem::absolute(name, error);
  if (error) return name;  // the current folder is gone
  for (int i = 0; i < kMostLinks && std::filesystem::is_symlink(path, error); ++i)
    path = path.parent_path() / std::filesystem::read_symlink(path, error);
  const std::filesystem::path target = std::filesystem::weakly_canonical(path, error);
  return error ? path.lexically_normal() : target;
}

std::string make_draft(const std::string& path) {
  constexpr int kTries = 100;
  std::random_device random;  // processes of other hosts and containers have the same numbers
  int file = -1;
  std::string draft;
  for (int i = 0; i < kTries && file < 0 && (i == 0 || errno == EEXIST); ++i) {
    draft = text(path, '.', ::getpid(), '.', random(), ".part");
    file = ::open(draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  }
  if (file < 0) refuse_to_write(path, errno);
  ::close(file);
  return draft;
}

void replace_file(const std::string& path, std::string_view content) {
  std::error_code ignored;
  const std::filesystem::file_status before = std::filesystem::status(path, ignored);
  const std::string draft = make_draft(path);
  try {
    write_whole(draft, content, path);
    if (std::filesystem::exists(before)) std::filesystem::permissions(draft, before.permissions(), ignored);
    if (std::rename(draft.c_str(), path.c_str()) != 0) refuse_to_write(path, errno);
  } catch (...) {
    std::remove(draft.c_str());
    throw;
  }
}

void write_whole(const std::string& file, std::string_view content, const std::string& path) {
  errno = 0;
  std::ofstream out(file, std::ios::binary);
  out << content;
  out.close();
  if (!out) refuse_to_write(path, errno != 0 ? errno : EIO);
}

void refuse_to_write(const std::string& path, std::string_view reason) {
  fail(path, ": cannot be written (", reason, ")");
}

void refuse_to_write(const std::string& path, int reason) {
  refuse_to_write(path, std::system_category().message(reason));
}

}  // namespace stweaver
