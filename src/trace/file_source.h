// A plain file as a source of bytes.
#pragma once

#include <string>

#include "trace/source.h"

namespace stweaver {

/// The bytes of `path` as they are. Error, naming it, when it is missing, is no plain file, or cannot be
/// read; from the source too. The file is closed when the last copy of the source is gone.
ByteSource file_source(const std::string& path);

}  // namespace stweaver
