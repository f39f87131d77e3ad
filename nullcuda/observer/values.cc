// Watches the operators of PyTorch under null CUDA, where no kernel runs: those that are small and whose
// inputs are known are run once more by the CPU's kernels on the bytes of the device. An observer
// (at::RecordFunction): neither dispatch nor autograd changes.
//
// What holds at each moment: bytes are known only if they are what a GPU would hold. So whatever else is
// written is forgotten, before the operator and, where it may have called others on its way, after it.
#include "../values.h"

#include <atomic>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAStream.h>
#include <memory>

#include "frame.h"
#include "special.h"

namespace nullcuda {
namespace {

namespace cca = c10::cuda::CUDACachingAllocator;

// ---- memory that changes hands ----

void note(const cca::TraceEntry& entry) {
  switch (entry.action_) {
    case cca::TraceEntry::ALLOC:
    case cca::TraceEntry::FREE_COMPLETED:
    case cca::TraceEntry::SEGMENT_FREE:
    case cca::TraceEntry::SEGMENT_UNMAP:
      // NOLINTNEXTLINE(performance-no-int-to-ptr): PyTorch tells addresses as numbers
      return forget(Range{reinterpret_cast<const char*>(entry.addr_), static_cast<std::size_t>(entry.size_)});
    default:
      return;
  }
}

/// Trackers belong to an allocator, and only take hold once it is initialised; another may be installed
/// later.
void follow_allocator() {
  static std::atomic<cca::CUDAAllocator*> followed{nullptr};
  cca::CUDAAllocator* const current = cca::allocator.load(std::memory_order_relaxed);
  cca::CUDAAllocator* last = followed.load(std::memory_order_relaxed);
  if (current == last || current == nullptr || !current->initialized()) return;
  if (!followed.compare_exchange_strong(last, current)) return;
  try {
    current->attachAllocatorTraceTracker(note);
  } catch (const c10::Error&) {  // it has none: what it hands out again holds what it held before
  }
}

// ---- uses of memory ----

/// Only what runs on the current stream: collectives have their own, and the core sees them.
void report_use(const Tensor& tensor, bool writes) {
  if (!tensor.is_cuda() || is_wrapper(tensor)) return;
  const Range range = extent_of(tensor);
  if (range.size == 0 || range.begin == nullptr) return;
  nullcuda_use(range.begin, range.size, c10::cuda::getCurrentCUDAStream(tensor.get_device()).stream(),
               static_cast<int>(writes));
}

void report_inputs(const Operator& op, Inputs inputs) {
  for (std::size_t i = 0; i < inputs.size(); ++i)
    for_each_tensor(inputs[i], [&](const Tensor& tensor) { report_use(tensor, op.writes_to(i)); });
}

void report_outputs(const std::vector<c10::IValue>& outputs) {
  for (const c10::IValue& output : outputs)
    for_each_tensor(output, [](const Tensor& tensor) { report_use(tensor, /*writes=*/true); });
}

// ---- the observer ----

bool watches_values = false;

bool wants_uses() {
  return nullcuda_wants_uses() == 1;
}

std::unique_ptr<Frame> begin_plain(const Operator& op, Inputs inputs, const Survey& found) {
  const bool can_run = op.has_cpu_kernel && (found.is_known || found.is_tiny) && !is_capturing();
  if (can_run) return prepare(op, inputs, found.is_known);
  log(3, op.name, "unknown");
  forget_written(op, inputs);
  return nullptr;
}

std::unique_ptr<Frame> begin(const Operator& op, Inputs inputs) {
  if (op.kind == Kind::collective) return watches_values ? communicate(op, inputs) : nullptr;
  if (!late.empty()) write_late();
  const Survey found = survey_of(op, inputs);
  if (!found.is_on_device || found.is_wrapped) return nullptr;
  if (wants_uses()) report_inputs(op, inputs);
  if (!watches_values) return nullptr;
  follow_allocator();
  if (op.special != Special::none)
    if (std::unique_ptr<Frame> frame = begin_special(op, inputs, found)) return frame;
  return begin_plain(op, inputs, found);
}

std::unique_ptr<at::ObserverContext> start(const at::RecordFunction& function) {
  const Operator& op = Operators::find(function);
  if (op.kind == Kind::ignored) return nullptr;
  return begin(op, function.inputs());
}

void finish(const at::RecordFunction& function, at::ObserverContext* context) {
  const Operator& op = Operators::find(function);
  if (op.kind == Kind::ignored) return;
  const std::vector<c10::IValue>& outputs = function.outputs();
  // What copies write was said at their start: the core follows them itself.
  const bool is_told = op.kind == Kind::collective || op.special == Special::copy;
  if (!is_told && wants_uses()) report_outputs(outputs);
  if (context != nullptr) {
    end(op, *static_cast<Frame*>(context), outputs);
  } else if (watches_values && op.kind != Kind::collective) {
    write_unknown(op, outputs);
  }
}

}  // namespace
}  // namespace nullcuda

/// Begins to watch. To be called once, after libtorch was loaded.
extern "C" void nullcuda_observe() {
  using namespace nullcuda;  // NOLINT(google-build-using-namespace)
  watches_values = setting("NULLCUDA_VALUES", "0") == "1";
  if (!watches_values && !wants_uses()) return;
  at::addGlobalCallback(at::RecordFunctionCallback(start, finish)
                            .needsInputs(true)
                            .needsOutputs(true)
                            .scopes({at::RecordScope::FUNCTION}));
}
