// Layer archive: opens files, compressed or not, as a stream of bytes.
#pragma once

#include <filesystem>

#include "trace/source.h"

namespace stweaver {

/// The bytes of `path`, decompressed if it begins like a gzip, xz or Zstandard file, whatever its name says.
/// Files of several members one after another are read as one. Decompression takes at most 256 MiB of
/// memory, whatever the file asks for.
///
/// Error, naming the file, when it is missing, is a directory, or cannot be read; and from the source, when
/// compressed data is damaged, ends early, or stands for far more than any trace of its size.
ByteSource open_archive(const std::filesystem::path& path);

}  // namespace stweaver
