// Sizes that only NVIDIA's closed libraries know, as recorded on a GPU (recorder/): text files of lines
// "KIND KEY BYTES..." where KIND says what the numbers are.
#pragma once

#include <array>
#include <cstdint>
#include <istream>
#include <string>
#include <string_view>
#include <unordered_map>

namespace nullcuda {

class Table {
 public:
  /// "conv" and "graph": the workspace; "rnn": workspace and reserve; "weights" and "fft": one size.
  using Sizes = std::array<std::uint64_t, 2>;

  /// Reads lines; of two with the same key the later one counts. Stops the process with the file's name and
  /// the line's number where one is broken. Empty lines and lines that begin with '#' say nothing.
  void read(std::istream& lines, const std::string& file);
  /// Null where nobody recorded it.
  [[nodiscard]] const Sizes* find(std::string_view kind, std::string_view key) const;
  [[nodiscard]] std::size_t size() const { return sizes_.size(); }

 private:
  std::unordered_map<std::string, Sizes> sizes_;  ///< by "KIND KEY"
};

/// The file `name` in `place`, or `place` itself where that is a file. A folder without it is an empty table;
/// stops the process where `place` does not exist and `must_exist`.
Table read_table(const std::string& place, const std::string& name, bool must_exist);

/// The table of this process's GPU and the cuDNN of that version: from $NULLCUDA_TABLES or from the folder
/// `tables` beside this library. Read at the first call; later ones must name the same version.
const Table& table(std::string_view cudnn_version);

}  // namespace nullcuda
