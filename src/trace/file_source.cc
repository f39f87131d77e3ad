#include "trace/file_source.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <system_error>

#include "base/base.h"

namespace stweaver {

ByteSource file_source(const std::string& path) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) fail(path, ": there is no such file");
  // A pipe or a device could keep the job waiting for ever.
  if (!std::filesystem::is_regular_file(status)) fail(path, ": is not a plain file");
  const auto file = std::make_shared<std::ifstream>(path, std::ios::binary);
  if (!*file) fail(path, ": cannot be opened: ", std::generic_category().message(errno));
  return [file, path](std::span<std::byte> buffer) {
    file->read(reinterpret_cast<char*>(buffer.data()), static_cast<std::streamsize>(buffer.size()));
    if (file->bad()) fail(path, ": cannot be read: ", std::generic_category().message(errno));
    return static_cast<std::size_t>(file->gcount());
  };
}

}  // namespace stweaver
