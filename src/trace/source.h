// Where the readers of this layer take their bytes from.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

namespace stweaver {

/// Fills `buffer` from its start and returns how many bytes it wrote; 0 means the end. Throws Error when the
/// bytes cannot be had. Decompression is another layer's affair (archive), so this one needs no library.
using ByteSource = std::function<std::size_t(std::span<std::byte> buffer)>;

}  // namespace stweaver
