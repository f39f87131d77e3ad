#include "archive/archive.h"

#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <unistd.h>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <lzma.h>
#include <zlib.h>
#include <zstd.h>

#include "base/error.h"

namespace stweaver {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::StartsWith;

/// Half noise and half repetition, larger than the readers' buffers.
std::string plain_text() {
  std::mt19937 random(1);
  std::string text;
  for (int i = 0; i < 300'000; ++i) text.push_back(static_cast<char>(random()));
  return text + std::string(500'000, 'x');
}

std::string gzip(const std::string& text) {
  z_stream stream = {};
  EXPECT_EQ(deflateInit2(&stream, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string input = text;
  std::string out(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(input.data());
  stream.avail_in = static_cast<uInt>(input.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

std::string xz(const std::string& text, std::uint32_t dictionary = 1 << 20) {
  lzma_options_lzma options = {};
  lzma_lzma_preset(&options, 0);
  options.dict_size = dictionary;
  lzma_filter filters[] = {{LZMA_FILTER_LZMA2, &options}, {LZMA_VLI_UNKNOWN, nullptr}};
  std::string out(lzma_stream_buffer_bound(text.size()), '\0');
  std::size_t size = 0;
  EXPECT_EQ(lzma_stream_buffer_encode(filters, LZMA_CHECK_CRC64, nullptr,
                                      reinterpret_cast<const std::uint8_t*>(text.data()), text.size(),
                                      reinterpret_cast<std::uint8_t*>(out.data()), &size, out.size()),
            LZMA_OK);
  out.resize(size);
  return out;
}

std::string zstd(const std::string& text, int window_log = 20) {
  std::unique_ptr<ZSTD_CCtx, decltype(&ZSTD_freeCCtx)> context(ZSTD_createCCtx(), ZSTD_freeCCtx);
  ZSTD_CCtx_setParameter(context.get(), ZSTD_c_checksumFlag, 1);
  ZSTD_CCtx_setParameter(context.get(), ZSTD_c_contentSizeFlag, 0);
  ZSTD_CCtx_setParameter(context.get(), ZSTD_c_windowLog, window_log);
  std::string out(ZSTD_compressBound(text.size()), '\0');
  // As a stream of unknown length, whose window is the one asked for.
  ZSTD_inBuffer input = {text.data(), text.size(), 0};
  ZSTD_outBuffer output = {out.data(), out.size(), 0};
  ZSTD_compressStream2(context.get(), &output, &input, ZSTD_e_continue);
  EXPECT_EQ(ZSTD_compressStream2(context.get(), &output, &input, ZSTD_e_end), 0);
  out.resize(output.pos);
  return out;
}

using Compress = std::string (*)(const std::string&);

struct Format {
  std::string name;
  Compress compress;
};

const std::vector<Format> kFormats = {{"gzip", gzip},
                                      {"xz", [](const std::string& text) { return xz(text); }},
                                      {"zstd", [](const std::string& text) { return zstd(text); }}};

class Archive : public testing::Test {
 public:
  Archive(const Archive&) = delete;
  Archive& operator=(const Archive&) = delete;

 protected:
  Archive() { fs::create_directory(folder_); }
  ~Archive() override { fs::remove_all(folder_); }

  [[nodiscard]] fs::path file(const std::string& bytes) const {
    fs::path path = folder_ / "file";
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }

  static std::string read(const fs::path& path, std::size_t piece = 4096) {
    const ByteSource source = open_archive(path);
    std::string out;
    std::vector<std::byte> buffer(piece);
    while (const std::size_t size = source(buffer))
      out.append(reinterpret_cast<const char*>(buffer.data()), size);
    EXPECT_EQ(source(buffer), 0) << "the end stays the end";
    return out;
  }

  static std::string refused(const fs::path& path) {
    try {
      read(path);
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), StartsWith(path.string() + ": "));
      EXPECT_THAT(error.what(), testing::Not(HasSubstr("\n")));
      return error.what();
    }
    ADD_FAILURE() << "nothing was refused";
    return {};
  }

  fs::path folder_ = fs::temp_directory_path() / ("stweaver_archive_test_" + std::to_string(getpid()));
};

TEST_F(Archive, ReadsPlainFiles) {
  EXPECT_EQ(read(file("hello")), "hello");
  EXPECT_EQ(read(file(plain_text())), plain_text());
  EXPECT_EQ(read(file("")), "");
}

TEST_F(Archive, ReadsCompressedFilesWhateverTheirName) {
  for (const Format& format : kFormats) {
    const fs::path path = file(format.compress(plain_text()));
    for (const std::size_t piece : {std::size_t{777}, std::size_t{1} << 20}) {
      EXPECT_EQ(read(path, piece), plain_text()) << format.name;
    }
    EXPECT_EQ(read(file(format.compress("hello")), 1), "hello") << format.name;
    EXPECT_EQ(read(file(format.compress(""))), "") << format.name;
  }
}

TEST_F(Archive, ReadsConcatenatedMembersAsOne) {
  for (const Format& format : kFormats) {
    const std::string members =
        format.compress("hello ") + format.compress("") + format.compress(plain_text());
    EXPECT_EQ(read(file(members)), "hello " + plain_text()) << format.name;
  }
}

TEST_F(Archive, RefusesWhatEndsEarly) {
  for (const Format& format : kFormats) {
    const std::string whole = format.compress(plain_text());
    for (const std::size_t length : {std::size_t{8}, std::size_t{20}, whole.size() / 2, whole.size() - 1}) {
      EXPECT_THAT(refused(file(whole.substr(0, length))), HasSubstr("ends early: the " + format.name))
          << length;
    }
  }
}

TEST_F(Archive, RefusesDamage) {
  for (const Format& format : kFormats) {
    std::string bytes = format.compress(plain_text());
    bytes[bytes.size() / 3] ^= 0x10;
    EXPECT_THAT(refused(file(bytes)), HasSubstr("is damaged: ")) << format.name;
  }
}

TEST_F(Archive, RefusesWhatFollowsTheData) {
  for (const Format& format : kFormats) {
    EXPECT_THAT(refused(file(format.compress("hello") + "more after that")), HasSubstr("is damaged"))
        << format.name;
  }
}

TEST_F(Archive, RefusesToTakeMoreMemoryThanIsSound) {
  EXPECT_THAT(refused(file(xz("hello", 1 << 30))), HasSubstr("wants more than 256 MiB"));
  EXPECT_THAT(refused(file(zstd(plain_text(), 30))), HasSubstr("zstd: "));
}

TEST_F(Archive, RefusesWhatIsPackedAsNoTraceIs) {
  const std::string zeros(std::size_t{1} << 20, '\0');
  const fs::path path = file("");
  std::ofstream out(path, std::ios::binary);
  for (int member = 0; member < 300; ++member) out << zstd(zeros);
  out.close();
  EXPECT_THAT(refused(path), HasSubstr("unpacks to more than 1000 times its size"));
}

TEST_F(Archive, SaysWhatIsWrongWithThePath) {
  EXPECT_THAT(refused(folder_ / "missing"), HasSubstr("cannot be opened: No such file"));
  EXPECT_THAT(refused(folder_), HasSubstr("is a directory"));
}

TEST_F(Archive, SaysThatAFileCannotBeRead) {
  const fs::path unreadable = "/proc/self/mem";  // opens, but has nothing at its beginning, even for root
  EXPECT_THAT(refused(unreadable), HasSubstr("cannot be read: Input/output error"));
}

}  // namespace
}  // namespace stweaver
