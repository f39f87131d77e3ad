#include "archive/archive.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include <lzma.h>
#include <zlib.h>
#include <zstd.h>

#include "base/base.h"

namespace stweaver {
namespace {

constexpr std::uint64_t kMemoryLimit = std::uint64_t{256} << 20;
constexpr int kWindowLog = 27;  // 128 MiB, what the zstd command accepts without being told to accept more
constexpr int kGzipOnly = 16 + MAX_WBITS;  // zlib.h, inflateInit2
constexpr std::size_t kBufferSize = std::size_t{1} << 18;
// Gzip cannot pack more than 1032 to 1, traces are packed about 20 to 1. What xz and Zstandard can pack
// further would be read for minutes, from a file of a few kilobytes. A small file may stand for a little
// more.
constexpr std::uint64_t kMostPacked = 1000;
constexpr std::uint64_t kSmall = std::uint64_t{64} << 20;

/// A file and the piece of it that is to be used next.
class Input {
 public:
  explicit Input(const std::filesystem::path& path) : name_(path.string()), buffer_(kBufferSize) {
    std::error_code error;  // that there is no file to open is said below
    if (std::filesystem::is_directory(path, error)) fail(name_, ": is a directory, name a file in it");
    file_.reset(std::fopen(name_.c_str(), "rb"));
    if (!file_) fail(name_, ": cannot be opened: ", reason());
    refill();
  }

  [[nodiscard]] std::span<std::byte> piece() { return std::span(buffer_).subspan(begin_, end_ - begin_); }

  void consume(std::size_t size) { begin_ += size; }

  /// Makes sure that there is a piece; false at the end of the file.
  bool more() {
    if (begin_ == end_) refill();
    return begin_ < end_;
  }

  /// Counts what came out of it.
  void count_unpacked(std::size_t size) {
    unpacked_ += size;
    if (unpacked_ > kSmall + kMostPacked * read_)
      refuse("unpacks to more than ", kMostPacked, " times its size: no trace is packed like that");
  }

  template <typename... Parts>
  [[noreturn]] void refuse(const Parts&... parts) const {
    fail(name_, ": ", parts...);
  }

 private:
  struct Close {
    void operator()(std::FILE* file) const { static_cast<void>(std::fclose(file)); }
  };

  static std::string reason() { return std::error_code(errno, std::generic_category()).message(); }

  void refill() {
    begin_ = 0;
    end_ = std::fread(buffer_.data(), 1, buffer_.size(), file_.get());
    if (end_ == 0 && std::ferror(file_.get()) != 0) fail(name_, ": cannot be read: ", reason());
    read_ += end_;
  }

  std::string name_;
  std::unique_ptr<std::FILE, Close> file_;
  std::vector<std::byte> buffer_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::uint64_t read_ = 0;
  std::uint64_t unpacked_ = 0;
};

using Buffer = std::span<std::byte>;

std::uint8_t* bytes_of(Buffer buffer) {
  return reinterpret_cast<std::uint8_t*>(buffer.data());
}

[[noreturn]] void refuse_end(const Input& input, const char* format) {
  input.refuse("ends early: the ", format, " data is incomplete, copy or write it again");
}

class PlainReader {
 public:
  explicit PlainReader(std::shared_ptr<Input> input) : input_(std::move(input)) {}

  std::size_t read(Buffer out) {
    if (!input_->more()) return 0;
    const std::size_t size = std::min(out.size(), input_->piece().size());
    std::memcpy(out.data(), input_->piece().data(), size);
    input_->consume(size);
    return size;
  }

 private:
  std::shared_ptr<Input> input_;
};

class GzipReader {
 public:
  explicit GzipReader(std::shared_ptr<Input> input) : input_(std::move(input)) {
    if (inflateInit2(&stream_, kGzipOnly) != Z_OK) input_->refuse("no memory to decompress it");
  }
  ~GzipReader() { inflateEnd(&stream_); }
  GzipReader(const GzipReader&) = delete;
  GzipReader& operator=(const GzipReader&) = delete;

  std::size_t read(Buffer out) {
    stream_.next_out = bytes_of(out);
    stream_.avail_out =
        static_cast<uInt>(std::min<std::size_t>(out.size(), std::numeric_limits<uInt>::max()));
    const uInt wanted = stream_.avail_out;
    while (stream_.avail_out == wanted) {
      if (!input_->more()) {
        if (in_member_) refuse_end(*input_, "gzip");
        break;
      }
      inflate_piece();
    }
    return wanted - stream_.avail_out;
  }

 private:
  void inflate_piece() {
    const Buffer piece = input_->piece();
    stream_.next_in = bytes_of(piece);
    stream_.avail_in = static_cast<uInt>(piece.size());
    in_member_ = true;
    const int status = inflate(&stream_, Z_NO_FLUSH);
    input_->consume(piece.size() - stream_.avail_in);
    if (status == Z_STREAM_END) {
      in_member_ = false;
      inflateReset(&stream_);
    } else if (status != Z_OK && status != Z_BUF_ERROR) {
      input_->refuse("is damaged: ", stream_.msg == nullptr ? "bad gzip data" : stream_.msg);
    }
  }

  std::shared_ptr<Input> input_;
  z_stream stream_ = {};
  bool in_member_ = true;
};

class XzReader {
 public:
  explicit XzReader(std::shared_ptr<Input> input) : input_(std::move(input)) {
    if (lzma_stream_decoder(&stream_, kMemoryLimit, LZMA_CONCATENATED) != LZMA_OK) {
      input_->refuse("no memory to decompress it");
    }
  }
  ~XzReader() { lzma_end(&stream_); }
  XzReader(const XzReader&) = delete;
  XzReader& operator=(const XzReader&) = delete;

  std::size_t read(Buffer out) {
    stream_.next_out = bytes_of(out);
    stream_.avail_out = out.size();
    while (!done_ && stream_.avail_out == out.size()) decode_piece();
    return out.size() - stream_.avail_out;
  }

 private:
  void decode_piece() {
    const bool more = input_->more();
    const Buffer piece = input_->piece();
    stream_.next_in = bytes_of(piece);
    stream_.avail_in = piece.size();
    const lzma_ret status = lzma_code(&stream_, more ? LZMA_RUN : LZMA_FINISH);
    input_->consume(piece.size() - stream_.avail_in);
    switch (status) {
      case LZMA_OK:
        break;
      case LZMA_STREAM_END:
        done_ = true;
        break;
      case LZMA_BUF_ERROR:
        refuse_end(*input_, "xz");
      case LZMA_MEMLIMIT_ERROR:
        input_->refuse("wants more than ", kMemoryLimit >> 20,
                       " MiB to be decompressed: compress it with xz -6");
      default:
        input_->refuse("is damaged: bad xz data");
    }
  }

  std::shared_ptr<Input> input_;
  lzma_stream stream_ = LZMA_STREAM_INIT;
  bool done_ = false;
};

class ZstdReader {
 public:
  explicit ZstdReader(std::shared_ptr<Input> input)
      : input_(std::move(input)), stream_(ZSTD_createDStream()) {
    if (!stream_) input_->refuse("no memory to decompress it");
    ZSTD_DCtx_setParameter(stream_.get(), ZSTD_d_windowLogMax, kWindowLog);
  }

  std::size_t read(Buffer out) {
    ZSTD_outBuffer produced = {out.data(), out.size(), 0};
    while (produced.pos == 0) {
      if (!input_->more() && !holding_) {
        if (in_frame_) refuse_end(*input_, "zstd");
        break;
      }
      decode_piece(produced);
    }
    return produced.pos;
  }

 private:
  struct Free {
    void operator()(ZSTD_DStream* stream) const { ZSTD_freeDStream(stream); }
  };

  void decode_piece(ZSTD_outBuffer& produced) {
    const Buffer piece = input_->piece();
    ZSTD_inBuffer taken = {piece.data(), piece.size(), 0};
    const std::size_t status = ZSTD_decompressStream(stream_.get(), &produced, &taken);
    if (ZSTD_isError(status) != 0) input_->refuse("is damaged: zstd: ", ZSTD_getErrorName(status));
    input_->consume(taken.pos);
    in_frame_ = status != 0;
    holding_ = in_frame_ && produced.pos == produced.size;  // then there may be more than fitted
  }

  std::shared_ptr<Input> input_;
  std::unique_ptr<ZSTD_DStream, Free> stream_;
  bool in_frame_ = true;
  bool holding_ = false;
};

/// A reader as a ByteSource, which must be copyable.
template <typename Reader>
ByteSource source_of(std::shared_ptr<Input> input) {
  auto reader = std::make_shared<Reader>(std::move(input));
  return [reader](Buffer buffer) { return buffer.empty() ? 0 : reader->read(buffer); };
}

template <typename Reader>
ByteSource unpacked_source_of(const std::shared_ptr<Input>& input) {
  return [input, packed = source_of<Reader>(input)](Buffer buffer) {
    const std::size_t size = packed(buffer);
    input->count_unpacked(size);
    return size;
  };
}

template <std::size_t kLength>
bool begins_with(Buffer piece, const std::array<std::uint8_t, kLength>& magic) {
  return piece.size() >= kLength && std::memcmp(piece.data(), magic.data(), kLength) == 0;
}

constexpr std::array<std::uint8_t, 2> kGzipMagic = {0x1f, 0x8b};                    // RFC 1952
constexpr std::array<std::uint8_t, 6> kXzMagic = {0xfd, '7', 'z', 'X', 'Z', 0x00};  // xz-file-format.txt
constexpr std::array<std::uint8_t, 4> kZstdMagic = {0x28, 0xb5, 0x2f, 0xfd};        // RFC 8878

}  // namespace

ByteSource open_archive(const std::filesystem::path& path) {
  auto input = std::make_shared<Input>(path);
  const Buffer begin = input->piece();
  if (begins_with(begin, kGzipMagic)) return unpacked_source_of<GzipReader>(input);
  if (begins_with(begin, kXzMagic)) return unpacked_source_of<XzReader>(input);
  if (begins_with(begin, kZstdMagic)) return unpacked_source_of<ZstdReader>(input);
  return source_of<PlainReader>(std::move(input));
}

}  // namespace stweaver
