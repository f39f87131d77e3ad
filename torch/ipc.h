// Blocks of the arena in other processes.
//
// CUDA's own handles are for memory of cudaMalloc. Mapped memory has file descriptors, which the other
// process takes over with pidfd_getfd(2), as PyTorch does with its expandable segments; it needs STWeaver
// too, and the right to look into the first one's files (the same user; where ptrace_scope is 1, as the child
// of nobody else).
#pragma once

#include <cstring>
#include <locale>
#include <map>
#include <memory>
#include <mutex>
#include <sstream>
#include <string>
#include <sys/syscall.h>
#include <unistd.h>
#include <vector>

#include "base/base.h"
#include "device/model.h"

namespace stweaver {

inline constexpr std::string_view kIpcMark = "stweaver-ipc-1 ";

/// What one process tells another: who it is and what to open.
struct IpcHandle {
  pid_t process = 0;
  std::vector<SharedPiece> pieces;

  [[nodiscard]] std::string write() const {
    std::string line = text(kIpcMark, process, ' ', pieces.size());
    for (const SharedPiece& piece : pieces) line += text(' ', piece.file, ' ', piece.size);
    return line;
  }
  /// Error for anything that write() did not write.
  static IpcHandle read(const std::string& line) {
    std::istringstream in(line.substr(kIpcMark.size()));
    in.imbue(std::locale::classic());
    IpcHandle handle;
    std::size_t count = 0;
    in >> handle.process >> count;
    for (std::size_t i = 0; in && i < count; ++i) {
      SharedPiece piece;
      in >> piece.file >> piece.size;
      handle.pieces.push_back(piece);
    }
    if (!in || handle.pieces.empty()) fail("a damaged handle of memory in another process: ", line);
    return handle;
  }
};

/// What was given away, each extent once, however many tensors in it are shared. A file keeps its memory from
/// being given back, so it is closed when that is unmapped.
class SharedPieces {
 public:
  /// Memory of an arena in one piece.
  struct Extent {
    std::uintptr_t address = 0;
    Bytes size = 0;
  };

  /// Of whole extents, one behind the other. Error when the driver refuses.
  std::string handle_of(Device& device, const std::vector<Extent>& extents) {
    const std::scoped_lock lock(mutex_);
    IpcHandle handle = {.process = getpid(), .pieces = {}};
    for (const Extent& extent : extents) {
      std::vector<SharedPiece>& pieces = given_[extent.address];
      if (pieces.empty())
        pieces = device.share(pointer(extent.address), pointer(extent.address) + extent.size);
      if (pieces.empty()) fail("memory cannot be shared with another process: ", device.failure());
      handle.pieces.insert(handle.pieces.end(), pieces.begin(), pieces.end());
    }
    return handle.write();
  }

  /// The extent at `at` is unmapped.
  void forget(const std::byte* at) {
    const std::scoped_lock lock(mutex_);
    const auto found = given_.find(reinterpret_cast<std::uintptr_t>(at));
    if (found == given_.end()) return;
    for (const SharedPiece& piece : found->second) ::close(piece.file);
    given_.erase(found);
  }

 private:
  static std::byte* pointer(std::uintptr_t address) {
    return reinterpret_cast<std::byte*>(address);  // NOLINT(performance-no-int-to-ptr): an address
  }

  std::mutex mutex_;
  std::map<std::uintptr_t, std::vector<SharedPiece>> given_;  ///< by where the extent begins
};

/// Memory of other processes that is open here.
class OpenedPieces {
 public:
  /// The beginning of what the handle stands for, open as long as somebody holds it. Error when it cannot be.
  std::shared_ptr<void> open(const std::shared_ptr<Device>& device, const std::string& line) {
    const std::scoped_lock lock(mutex_);
    std::erase_if(opened_, [](const auto& entry) { return entry.second.expired(); });
    if (const auto found = opened_.find(line); found != opened_.end())
      if (std::shared_ptr<void> open = found->second.lock()) return open;
    const IpcHandle handle = IpcHandle::read(line);
    std::vector<SharedPiece> ours = take_over(handle);
    Bytes size = 0;
    for (const SharedPiece& piece : ours) size += piece.size;
    std::byte* const begin = device->open_shared(ours);
    for (const SharedPiece& piece : ours) ::close(piece.file);
    if (begin == nullptr)
      fail("memory of process ", handle.process, " cannot be opened: ", device->failure());
    std::shared_ptr<void> opened(begin, [device, size](void* memory) {
      device->synchronize();
      device->close_shared(static_cast<std::byte*>(memory), size);
    });
    opened_[line] = opened;
    return opened;
  }

 private:
  static std::vector<SharedPiece> take_over(const IpcHandle& handle) {
    const auto process = static_cast<int>(syscall(SYS_pidfd_open, handle.process, 0));
    if (process < 0)
      fail("process ", handle.process, ", which shares memory, is gone: ", std::strerror(errno));
    std::vector<SharedPiece> ours = handle.pieces;
    for (std::size_t i = 0; i < ours.size(); ++i) {
      ours[i].file = static_cast<int>(syscall(SYS_pidfd_getfd, process, handle.pieces[i].file, 0));
      if (ours[i].file >= 0) continue;
      const std::string why = std::strerror(errno);
      for (std::size_t j = 0; j < i; ++j) ::close(ours[j].file);
      ::close(process);
      fail("files of process ", handle.process, ", which shares memory, cannot be reached: ", why,
           "; allow it with prctl(PR_SET_PTRACER) or /proc/sys/kernel/yama/ptrace_scope");
    }
    ::close(process);
    return ours;
  }

  std::mutex mutex_;
  std::map<std::string, std::weak_ptr<void>> opened_;
};

}  // namespace stweaver
