#include "trace/file_sink.h"

#include <csignal>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/errors.h"
#include "support/files.h"
#include "support/sources.h"

namespace stweaver {
namespace {

namespace fs = std::filesystem;

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

class FileSink : public testing::Test {
 protected:
  [[nodiscard]] std::string refused_at_opening(const std::string& path) const {
    const std::size_t before = folder_.size();
    std::string line = refusal([&] { file_sink(path); });
    EXPECT_THAT(line, StartsWith(path + ": cannot be written (")) << "so that the log says which file";
    EXPECT_EQ(folder_.size(), before) << "nothing is left behind";
    return line;
  }

  TemporaryFolder folder_;
  std::string path_ = folder_.file("job.trace");
};

void put(const ByteSink& sink, const std::string& bytes) {
  sink(std::as_bytes(std::span(bytes)));
}

std::string refused_by(const ByteSink& sink, const std::string& bytes) {
  return refusal([&] { put(sink, bytes); });
}

/// The exit status of `child`, run in a forked process.
template <typename Child>
int forked(const Child& child) {
  const pid_t process = ::fork();
  if (process == 0) ::_exit(child());
  int status = -1;
  ::waitpid(process, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST_F(FileSink, HoldsWhatItWasGiven) {
  const ByteSink sink = file_sink(path_);
  put(sink, "one");
  EXPECT_EQ(content_of(path_), "one") << "at once, not when it is closed";
  put(sink, " and two");
  EXPECT_EQ(content_of(path_), "one and two");
  EXPECT_EQ(folder_.size(), 1);
}

TEST_F(FileSink, KeepsTheOldTraceUntilTheNewOneHasItsStart) {
  const std::string old = "STWTRACE of yesterday, and a longer one";
  put_file(path_, old);
  {
    const ByteSink never_used = file_sink(path_);
    EXPECT_EQ(content_of(path_), old);
  }
  EXPECT_EQ(content_of(path_), old);
  EXPECT_EQ(folder_.size(), 1) << "the draft is gone";
  put(file_sink(path_), "STWTRACE of today");
  EXPECT_EQ(content_of(path_), "STWTRACE of today");
}

TEST_F(FileSink, TakesThePlaceOfAnEmptyFile) {
  put_file(path_, "");
  put(file_sink(path_), "begun");
  EXPECT_EQ(content_of(path_), "begun");
}

TEST_F(FileSink, LeavesAFileOfAnotherKindAlone) {
  for (const std::string content : {"#!/usr/bin/env python3\n", "STWTRACK", "x"}) {
    put_file(path_, content);
    EXPECT_THAT(refused_at_opening(path_), HasSubstr("no trace file; remove it or name another"));
    EXPECT_EQ(content_of(path_), content);
  }
  const std::string link = folder_.file("link");
  fs::create_symlink(path_, link);
  EXPECT_THAT(refused_at_opening(link), HasSubstr("no trace file"));
  EXPECT_EQ(content_of(path_), "x");
}

TEST_F(FileSink, WritesToWhereALinkPoints) {
  const std::string link = folder_.file("link");
  fs::create_symlink(path_, link);
  put(file_sink(link), "STWTRACE of a link to nothing yet");
  put(file_sink(link), "STWTRACE again");
  EXPECT_EQ(content_of(path_), "STWTRACE again");
  EXPECT_TRUE(fs::is_symlink(link));
}

TEST_F(FileSink, RefusesWhatIsNoPlainFile) {
  EXPECT_THAT(refused_at_opening(folder_.path().string()), HasSubstr("directory"));
  EXPECT_THAT(refused_at_opening(folder_.file("no such folder/job.trace")), HasSubstr("No such file"));
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  EXPECT_THAT(refused_at_opening(path_), HasSubstr("plain file")) << "and does not wait for a reader";
}

TEST_F(FileSink, RefusesAFolderThatMayNotBeWritten) {
  ASSERT_EQ(::chmod(folder_.path().c_str(), 0555), 0);
  const uid_t user = ::geteuid();
  // Root may write everywhere, so it becomes somebody else for a while; anybody else stays who he is.
  ASSERT_EQ(::seteuid(user == 0 ? 65534 : user), 0);
  const std::string line = refused_at_opening(path_);
  ASSERT_EQ(::seteuid(user), 0);
  EXPECT_THAT(line, HasSubstr("Permission denied"));
  ASSERT_EQ(::chmod(folder_.path().c_str(), 0755), 0);
}

TEST_F(FileSink, SaysThatTheDiskIsFull) {
  EXPECT_THAT(refused_by(file_sink("/dev/full"), "anything"),
              AllOf(StartsWith("/dev/full: "), HasSubstr("No space left on device")));
}

TEST_F(FileSink, LeavesTheOldTraceWhenTheDiskIsFullFromTheStart) {
  put_file(path_, "STWTRACE of yesterday");
  const int status = forked([&] {
    const rlimit none = {0, 0};
    if (::signal(SIGXFSZ, SIG_IGN) == SIG_ERR || ::setrlimit(RLIMIT_FSIZE, &none) != 0) return 1;
    return refused_by(file_sink(path_), "STWTRACE of today").find("File too large") == std::string::npos ? 2
                                                                                                         : 0;
  });
  EXPECT_EQ(status, 0);
  EXPECT_EQ(content_of(path_), "STWTRACE of yesterday");
  EXPECT_EQ(folder_.size(), 1);
}

TEST_F(FileSink, LeavesAReadableTraceWhenTheDiskIsFullInTheMiddle) {
  const int status = forked([&] {
    const rlimit limit = {100'000, 100'000};
    if (::signal(SIGXFSZ, SIG_IGN) == SIG_ERR || ::setrlimit(RLIMIT_FSIZE, &limit) != 0) return 1;
    TraceWriter writer(file_sink(path_), {});
    return refusal([&] {
             for (int i = 0; i < 1'000'000; ++i) writer.allocate(i, 0, 0);
           }).find("File too large") == std::string::npos
               ? 2
               : 0;
  });
  EXPECT_EQ(status, 0);
  EXPECT_EQ(fs::file_size(path_), 100'000) << "the second block is cut";
  const Trace trace = read_trace_file(source_of(content_of(path_)), path_);
  EXPECT_FALSE(trace.complete);
  EXPECT_GT(trace.requests.size(), 1000) << "the first is not";
}

TEST_F(FileSink, NoticesThatItsFileIsGone) {
  const ByteSink removed = file_sink(path_);
  put(removed, "STWTRACE");
  fs::remove(path_);
  EXPECT_THAT(refused_by(removed, "more"), HasSubstr("removed or replaced"));
}

TEST_F(FileSink, NoticesASecondOneOfTheSamePath) {
  const ByteSink first = file_sink(path_);
  put(first, "STWTRACE of one");
  const ByteSink second = file_sink(path_);
  put(second, "STWTRACE of another");
  EXPECT_THAT(refused_by(first, "more"), HasSubstr("each process needs a file of its own"));
  put(second, " and more");
  EXPECT_EQ(content_of(path_), "STWTRACE of another and more");
}

TEST_F(FileSink, IsOfNoUseToAForkedProcess) {
  for (const bool begun : {false, true}) {
    ByteSink sink = file_sink(path_);
    if (begun) put(sink, "STWTRACE");
    const std::size_t files = folder_.size();
    const int status = forked([&] {
      const bool refuses = refused_by(sink, "from the child").find("forked") != std::string::npos;
      sink = nullptr;
      return refuses ? 0 : 1;
    });
    EXPECT_EQ(status, 0);
    EXPECT_EQ(folder_.size(), files) << "the child leaves the parent's draft where it is";
    put(sink, begun ? " of the parent" : "STWTRACE");
    EXPECT_EQ(content_of(path_), begun ? "STWTRACE of the parent" : "STWTRACE");
  }
}

}  // namespace
}  // namespace stweaver
