// The sets of constants that the program brings: the files in sets/, written into it when it is built.
#pragma once

#include <span>
#include <string_view>

namespace stweaver {

struct ConstantFile {
  std::string_view name;  ///< of the set
  std::string_view json;  ///< what read_constants() reads
};
std::span<const ConstantFile> constant_files();

}  // namespace stweaver
