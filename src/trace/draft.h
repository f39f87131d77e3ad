// A file beside another, to be renamed to it: whoever reads that sees all of it or what was there before.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace stweaver {

/// Where a name leads, through links to what is not there yet, too.
std::filesystem::path target_of(const std::string& name);

/// Makes an empty file beside `path` that was not there before, and returns its name. Error of
/// refuse_to_write().
std::string make_draft(const std::string& path);

/// Writes a draft and renames it to `path`, whose permissions it takes if that is there. Error of
/// refuse_to_write(); no draft stays.
void replace_file(const std::string& path, std::string_view content);

/// Writes into the file itself. Error of refuse_to_write(), naming `path`.
void write_whole(const std::string& file, std::string_view content, const std::string& path);

/// Error: the file cannot be written, for this reason, in words or a value of errno.
[[noreturn]] void refuse_to_write(const std::string& path, std::string_view reason);
[[noreturn]] void refuse_to_write(const std::string& path, int reason);

}  // namespace stweaver
