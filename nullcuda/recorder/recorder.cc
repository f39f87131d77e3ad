// For LD_PRELOAD before a program that uses a GPU: writes what cuDNN and cuFFT ask for as lines of the tables
// that null CUDA reads (../model/table.h) to the file $NULLCUDA_RECORD.
//
// It stands before the functions that describe an operation and those that say its sizes, remembers what they
// are told as null CUDA does, and passes everything on.

#include <array>
#include <cstdlib>
#include <dlfcn.h>
#include <fcntl.h>
#include <mutex>
#include <unistd.h>
#include <unordered_map>

#include "api/cudnn_graph.h"
#include "api/cudnn_network.h"
#include "api/cufft_plan.h"

#define RECORDER_API extern "C" __attribute__((visibility("default")))

namespace nullcuda {
namespace {

// ---- the real functions ----

/// The library's own function: the next one that the loader finds, or that of a library which only its users
/// see, as Python loads them.
void* next(const char* name) {
  if (void* found = dlsym(RTLD_NEXT, name); found != nullptr) return found;
  constexpr std::array kLibraries = {"libcudnn.so.9", "libcufft.so.12", "libcufft.so.11"};
  for (const char* library : kLibraries) {
    void* const handle = dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
    if (handle == nullptr) continue;
    if (void* found = dlsym(handle, name); found != nullptr) return found;
  }
  const std::string line = std::string("recorder: no ") + name + "\n";
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), line.size());
  std::abort();
}

// ---- lines ----

/// Appends a line where its sizes are not those that the key had last. With cudnn.benchmark several plans of
/// one graph are executed: the last line is the one that was chosen.
void record(const std::string& key, const std::string& sizes) {
  static std::mutex mutex;
  static auto* const last = new std::unordered_map<std::string, std::string>;
  static const char* const file = std::getenv("NULLCUDA_RECORD");
  if (file == nullptr) return;
  const std::scoped_lock lock(mutex);
  std::string& known = (*last)[key];
  if (known == sizes) return;
  known = sizes;
  const std::string line = key + " " + sizes + "\n";
  const int out = ::open(file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (out < 0) return;
  [[maybe_unused]] const auto written = ::write(out, line.data(), line.size());
  ::close(out);
}

// ---- what descriptors were told ----

/// A plan is executed many times: its line is made once.
struct Plan {
  std::string key, workspace;
};

struct Memory {
  std::recursive_mutex mutex;                                ///< the library may call itself through us
  std::unordered_map<const void*, Descriptor*> descriptors;  ///< of those that exist
  std::unordered_map<const Descriptor*, Plan> plans;
  std::unordered_map<const void*, Network> networks;
  std::unordered_map<const void*, Sequences> sequences;
  std::unordered_map<const void*, bool> dropouts;
};

Memory& memory() {
  static auto* const all = new Memory;  // never destroyed: calls come until the very end
  return *all;
}

Descriptor* of(const void* descriptor) {
  const auto found = memory().descriptors.find(descriptor);
  return found == memory().descriptors.end() ? nullptr : found->second;
}

/// The bytes of a value, with our descriptors in place of the library's.
Value taken(cudnnBackendAttributeType_t type, std::int64_t count, const void* values) {
  const std::size_t size = width(type) * static_cast<std::size_t>(count);
  Value value{.type = type, .count = count, .bytes = std::vector<char>(size)};
  if (values != nullptr && size > 0) std::memcpy(value.bytes.data(), values, size);
  if (type != CUDNN_TYPE_BACKEND_DESCRIPTOR) return value;
  for (std::size_t place = 0; place < size; place += sizeof(void*)) {
    const void* theirs = nullptr;
    std::memcpy(&theirs, &value.bytes[place], sizeof theirs);
    const Descriptor* ours = of(theirs);
    std::memcpy(&value.bytes[place], &ours, sizeof ours);
  }
  return value;
}

/// What the library answers with descriptors that the caller made are for the same graph.
void pass_graph_on(const Descriptor* from, std::int64_t count, const void* values) {
  if (from == nullptr || from->graph == nullptr) return;
  for (std::int64_t place = 0; place < count; ++place) {
    const void* theirs = nullptr;
    std::memcpy(&theirs, static_cast<const char*>(values) + place * 8, sizeof theirs);
    if (Descriptor* ours = of(theirs); ours != nullptr && ours->graph == nullptr) ours->graph = from->graph;
  }
}

}  // namespace
}  // namespace nullcuda

using namespace nullcuda;  // NOLINT(google-build-using-namespace)

/// The function in which it stands, as the library has it.
#define REAL(function) (reinterpret_cast<decltype(&function)>(found_once(#function)))
#define found_once(name)                             \
  ([] {                                              \
    static void* const found = nullcuda::next(name); \
    return found;                                    \
  }())

// ---- operation graphs ----

RECORDER_API cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                                        cudnnBackendDescriptor_t* descriptor) {
  const auto status = REAL(cudnnBackendCreateDescriptor)(type, descriptor);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  const std::scoped_lock lock(memory().mutex);
  memory().descriptors[*descriptor] = new Descriptor{.type = type, .values = {}};
  return status;
}

// Ours is never freed: an engine goes on pointing to a graph that its owner has destroyed.
RECORDER_API cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  {
    const std::scoped_lock lock(memory().mutex);
    memory().descriptors.erase(descriptor);
  }
  return REAL(cudnnBackendDestroyDescriptor)(descriptor);
}

RECORDER_API cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor,
                                                    cudnnBackendAttributeName_t name,
                                                    cudnnBackendAttributeType_t type, std::int64_t count,
                                                    const void* values) {
  const auto status = REAL(cudnnBackendSetAttribute)(descriptor, name, type, count, values);
  if (status != CUDNN_STATUS_SUCCESS || count < 0) return status;
  const std::scoped_lock lock(memory().mutex);
  if (Descriptor* ours = of(descriptor); ours != nullptr) remember(*ours, name, taken(type, count, values));
  return status;
}

RECORDER_API cudnnStatus_t cudnnBackendGetAttribute(const cudnnBackendDescriptor_t descriptor,
                                                    cudnnBackendAttributeName_t name,
                                                    cudnnBackendAttributeType_t type, std::int64_t wanted,
                                                    std::int64_t* count, void* values) {
  std::int64_t given = 0;
  const auto status = REAL(cudnnBackendGetAttribute)(descriptor, name, type, wanted, &given, values);
  if (count != nullptr) *count = given;
  const bool has_descriptors = type == CUDNN_TYPE_BACKEND_DESCRIPTOR && values != nullptr;
  if (status != CUDNN_STATUS_SUCCESS || !has_descriptors) return status;
  const std::scoped_lock lock(memory().mutex);
  pass_graph_on(of(descriptor), given < wanted ? given : wanted, values);
  return status;
}

namespace nullcuda {
namespace {

Plan described(cudnnBackendDescriptor_t plan, const Descriptor* graph) {
  std::int64_t workspace = 0;
  std::int64_t count = 0;
  const auto status = REAL(cudnnBackendGetAttribute)(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                                     CUDNN_TYPE_INT64, 1, &count, &workspace);
  if (status != CUDNN_STATUS_SUCCESS || count != 1) return {};
  return {.key = std::string(kind_of(graph)) + " " + key_of(graph), .workspace = std::to_string(workspace)};
}

void record_plan(cudnnBackendDescriptor_t plan) {
  const std::scoped_lock lock(memory().mutex);
  const Descriptor* const ours = of(plan);
  if (ours == nullptr || ours->graph == nullptr || operations(ours->graph).empty()) return;
  auto [place, is_new] = memory().plans.try_emplace(ours);
  if (is_new) place->second = described(plan, ours->graph);
  if (!place->second.key.empty()) record(place->second.key, place->second.workspace);
}

}  // namespace
}  // namespace nullcuda

RECORDER_API cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                               cudnnBackendDescriptor_t pack) {
  const auto status = REAL(cudnnBackendExecute)(handle, plan, pack);
  if (status == CUDNN_STATUS_SUCCESS) record_plan(plan);
  return status;
}

// ---- recurrent networks ----

namespace nullcuda {
namespace {

void remember_dropout(cudnnDropoutDescriptor_t descriptor, float dropout) {
  const std::scoped_lock lock(memory().mutex);
  memory().dropouts[descriptor] = dropout > 0;
}

}  // namespace
}  // namespace nullcuda

RECORDER_API cudnnStatus_t cudnnSetDropoutDescriptor(cudnnDropoutDescriptor_t descriptor,
                                                     cudnnHandle_t handle, float dropout, void* states,
                                                     std::size_t size, unsigned long long seed) {
  remember_dropout(descriptor, dropout);
  return REAL(cudnnSetDropoutDescriptor)(descriptor, handle, dropout, states, size, seed);
}

RECORDER_API cudnnStatus_t cudnnRestoreDropoutDescriptor(cudnnDropoutDescriptor_t descriptor,
                                                         cudnnHandle_t handle, float dropout, void* states,
                                                         std::size_t size, unsigned long long seed) {
  remember_dropout(descriptor, dropout);
  return REAL(cudnnRestoreDropoutDescriptor)(descriptor, handle, dropout, states, size, seed);
}

RECORDER_API cudnnStatus_t cudnnSetRNNDescriptor_v8(
    cudnnRNNDescriptor_t descriptor, cudnnRNNAlgo_t algorithm, cudnnRNNMode_t mode, cudnnRNNBiasMode_t bias,
    cudnnDirectionMode_t direction, cudnnRNNInputMode_t input_mode, cudnnDataType_t type,
    cudnnDataType_t compute, cudnnMathType_t math, std::int32_t input, std::int32_t hidden,
    std::int32_t projection, std::int32_t layers, cudnnDropoutDescriptor_t dropout, std::uint32_t flags) {
  {
    const std::scoped_lock lock(memory().mutex);
    memory().networks[descriptor] = {.algorithm = algorithm,
                                     .mode = mode,
                                     .bias = bias,
                                     .directions = direction == CUDNN_BIDIRECTIONAL ? 2 : 1,
                                     .input_mode = input_mode,
                                     .type = type,
                                     .compute = compute,
                                     .math = math,
                                     .input = input,
                                     .hidden = hidden,
                                     .projection = projection,
                                     .layers = layers,
                                     .dropout = memory().dropouts[dropout],
                                     .flags = flags};
  }
  return REAL(cudnnSetRNNDescriptor_v8)(descriptor, algorithm, mode, bias, direction, input_mode, type,
                                        compute, math, input, hidden, projection, layers, dropout, flags);
}

RECORDER_API cudnnStatus_t cudnnSetRNNDataDescriptor(cudnnRNNDataDescriptor_t descriptor,
                                                     cudnnDataType_t type, cudnnRNNDataLayout_t layout,
                                                     int length, int batch, int vector, const int lengths[],
                                                     void* padding) {
  {
    const std::scoped_lock lock(memory().mutex);
    memory().sequences[descriptor] = {
        .type = type, .layout = layout, .length = length, .batch = batch, .vector = vector};
  }
  return REAL(cudnnSetRNNDataDescriptor)(descriptor, type, layout, length, batch, vector, lengths, padding);
}

RECORDER_API cudnnStatus_t cudnnGetRNNWeightSpaceSize(cudnnHandle_t handle, cudnnRNNDescriptor_t descriptor,
                                                      std::size_t* size) {
  const auto status = REAL(cudnnGetRNNWeightSpaceSize)(handle, descriptor, size);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  const std::scoped_lock lock(memory().mutex);
  record("weights " + key_of(memory().networks[descriptor]), std::to_string(*size));
  return status;
}

RECORDER_API cudnnStatus_t cudnnGetRNNTempSpaceSizes(cudnnHandle_t handle, cudnnRNNDescriptor_t descriptor,
                                                     cudnnForwardMode_t mode, cudnnRNNDataDescriptor_t data,
                                                     std::size_t* workspace, std::size_t* reserve) {
  std::size_t work = 0;
  std::size_t kept = 0;
  const auto status = REAL(cudnnGetRNNTempSpaceSizes)(handle, descriptor, mode, data, &work, &kept);
  if (workspace != nullptr) *workspace = work;
  if (reserve != nullptr) *reserve = kept;
  if (status != CUDNN_STATUS_SUCCESS) return status;
  const std::scoped_lock lock(memory().mutex);
  record("rnn " + key_of(memory().networks[descriptor], mode, memory().sequences[data]),
         std::to_string(work) + " " + std::to_string(kept));
  return status;
}

// ---- Fourier transforms ----

RECORDER_API cufftResult cufftXtMakePlanMany(cufftHandle plan, int rank, long long* sizes, long long* inputs,
                                             long long input_stride, long long input_distance,
                                             cudaDataType input_type, long long* outputs,
                                             long long output_stride, long long output_distance,
                                             cudaDataType output_type, long long batch,
                                             std::size_t* workspace, cudaDataType compute) {
  const auto result =
      REAL(cufftXtMakePlanMany)(plan, rank, sizes, inputs, input_stride, input_distance, input_type, outputs,
                                output_stride, output_distance, output_type, batch, workspace, compute);
  if (result != CUFFT_SUCCESS) return result;
  const FftLayout input{inputs, input_stride, input_distance, input_type};
  const FftLayout output{outputs, output_stride, output_distance, output_type};
  record("fft " + key_of(rank, sizes, input, output, batch, compute), std::to_string(*workspace));
  return result;
}
