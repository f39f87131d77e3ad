// What the subcommands take in and give out.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "trace/trace.h"

namespace stweaver {

/// Exit statuses (docs/command.md).
inline constexpr int kDone = 0;
inline constexpr int kAnswerIsNo = 1;
inline constexpr int kBadInput = 2;

/// What a subcommand has found out, as a text and as a document.
struct Answer {
  std::string text;
  nlohmann::ordered_json document;
  int status = kDone;
};

/// The planning world's instances are told by their name, compressed ones too; everything else is read as a
/// trace.
bool is_csv(const std::string& path);

/// The trace of `device` in a file, or of the device with the most requests. Error when there is none.
Trace open_trace(const std::string& path, std::optional<int> device = std::nullopt);

/// Error when one of several inputs is not there: to be asked before the first is read.
void find_inputs(const std::vector<std::string>& paths);

std::vector<CsvRow> open_csv(const std::string& path);

/// The whole of a text file, compressed or not. Error when it cannot be read or has more than 64 MiB.
std::string read_text(const std::string& path);

/// Error when an output is one of the inputs, or another output, or cannot be written: to be asked before any
/// work is done. Empty names are none.
void keep_apart(const std::vector<std::string>& inputs, const std::vector<std::string>& outputs);

/// Writes a file whole or throws Error; on failure it is what it was before. What is no plain file (a device,
/// a pipe, a link) is written to in place.
void write_file(const std::string& path, const std::string& content);

/// Makes a folder and those above it, unless it is there. Error when that cannot be.
void make_folder(const std::string& path);

/// Prints an answer on standard output: the document if `json` is set, else the text. Gives its status. Error
/// when it cannot be written. To be asked once no Progress is there any more: both may go to one terminal.
int print_answer(bool json, const Answer& answer);

}  // namespace stweaver
