// What the observer knows of each operator: found out once.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/record_function.h>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace nullcuda {

enum class Kind {
  ignored,     ///< touches no memory itself: a view, an allocation, or made of other operators
  plain,       ///< reads its arguments, writes its outputs and what its schema says
  collective,  ///< of torch.distributed
};

/// Operators about which there is more to say.
enum class Special { none, copy, read, count, equal, router, sample, finite_check };

struct Operator {
  std::string name;
  std::optional<c10::OperatorHandle> handle;
  Kind kind = Kind::ignored;
  Special special = Special::none;
  bool has_cpu_kernel = false;
  bool mutates = false;
  bool is_in_place = false;  ///< reads what it writes
  bool is_random = false;
  bool is_heavy = false;            ///< takes far longer than to read its arguments
  bool presumes_true = false;       ///< asks whether all is well
  std::size_t returns = 0;          ///< how many values
  std::vector<bool> writes = {};    ///< of each argument
  std::vector<bool> replaces = {};  ///< of each argument: what it held before does not matter

  [[nodiscard]] bool writes_to(std::size_t argument) const { return mutates && writes[argument]; }
  [[nodiscard]] bool replaces_in(std::size_t argument) const { return mutates && replaces[argument]; }
};

namespace lists {

using Names = std::unordered_set<std::string_view>;

/// Views that do not say so, memory that nobody has written, and what other operators do in their stead.
inline const Names kIgnored = {"aten::_unsafe_view",   "aten::unsafe_split",  "aten::unsafe_split_with_sizes",
                               "aten::unsafe_chunk",   "aten::lift",          "aten::_reshape_alias",
                               "aten::empty",          "aten::empty_like",    "aten::empty_strided",
                               "aten::empty_permuted", "aten::new_empty",     "aten::new_empty_strided",
                               "aten::resize_",        "aten::resize_as_",    "aten::_resize_output_",
                               "aten::set_",           "aten::set_data",      "aten::record_stream",
                               "aten::_pin_memory",    "aten::is_pinned",     "aten::_to_copy",
                               "aten::zeros",          "aten::ones",          "aten::full",
                               "aten::zeros_like",     "aten::ones_like",     "aten::full_like",
                               "aten::new_zeros",      "aten::new_ones",      "aten::new_full",
                               "aten::rand",           "aten::randn",         "aten::randint",
                               "aten::rand_like",      "aten::randn_like",    "aten::randint_like",
                               "aten::arange",         "aten::eye",           "aten::linspace",
                               "aten::logspace",       "aten::scalar_tensor", "aten::randperm"};

/// In place, whatever was there before.
inline const Names kReplacing = {
    "aten::copy_",      "aten::fill_",          "aten::zero_",         "aten::normal_", "aten::uniform_",
    "aten::random_",    "aten::exponential_",   "aten::geometric_",    "aten::cauchy_", "aten::log_normal_",
    "aten::bernoulli_", "aten::_foreach_copy_", "aten::_foreach_zero_"};

/// Their kernels read a count back to know how large the output is.
inline const Names kCounting = {
    "aten::nonzero",    "aten::_unique2",           "aten::_unique",
    "aten::unique_dim", "aten::unique_consecutive", "aten::unique_dim_consecutive"};

/// Products of matrices, which hardly ever steer a program.
inline const Names kHeavy = {"aten::mm",
                             "aten::addmm",
                             "aten::bmm",
                             "aten::baddbmm",
                             "aten::addbmm",
                             "aten::linear",
                             "aten::convolution",
                             "aten::convolution_backward",
                             "aten::_convolution",
                             "aten::matmul",
                             "aten::_trilinear",
                             "aten::cdist",
                             "aten::_cdist_forward"};

inline const Names kTrue = {"aten::all", "aten::isfinite", "aten::equal", "aten::_is_all_true"};

}  // namespace lists

inline bool begins_with(std::string_view text, std::string_view start) {
  return text.substr(0, start.size()) == start;
}

class Operators {
 public:
  /// Found by the address of its name, which belongs to the operator; regions that a program names may have
  /// another's address later.
  static const Operator& find(const at::RecordFunction& function) {
    thread_local std::unordered_map<const char*, const Operator*> found;
    const char* const name = function.name();
    const Operator*& at = found[name];
    if (at == nullptr || at->name != name) at = make(function);
    return *at;
  }

 private:
  static const Operator* make(const at::RecordFunction& function) {
    auto made = std::make_unique<Operator>();
    made->name = function.name();
    if (const auto name = function.operator_name())
      made->handle = c10::Dispatcher::singleton().findSchema(*name);
    if (made->handle) describe(*made);
    return made.release();  // names are kept for ever
  }

  static void describe(Operator& op) {
    const c10::FunctionSchema& schema = op.handle->schema();
    op.mutates = schema.is_mutable();
    op.returns = schema.returns().size();
    op.special = special_of(op.name);
    op.kind = kind_of(op, schema);
    op.is_random = op.handle->hasTag(at::Tag::nondeterministic_seeded);
    op.is_heavy = lists::kHeavy.count(op.name) != 0;
    op.presumes_true = lists::kTrue.count(op.name) != 0;
    op.has_cpu_kernel =
        begins_with(op.name, "aten::") && op.handle->hasComputedKernelForDispatchKey(c10::DispatchKey::CPU);
    for (const c10::Argument& argument : schema.arguments()) describe(op, argument);
  }

  static void describe(Operator& op, const c10::Argument& argument) {
    const bool is_statistic = op.name.find("batch_norm") != std::string::npos &&
                              begins_with(argument.name(), "running_");  // written, but the schema is silent
    const bool writes =
        (argument.alias_info() != nullptr && argument.alias_info()->isWrite()) || is_statistic;
    const bool replaces =
        writes && (argument.is_out() || (op.writes.empty() && lists::kReplacing.count(op.name) != 0));
    op.writes.push_back(writes);
    op.replaces.push_back(replaces);
    op.mutates = op.mutates || writes;
    op.is_in_place = op.is_in_place || (writes && !argument.is_out());
  }

  static Special special_of(std::string_view name) {
    if (name == "aten::copy_") return Special::copy;
    if (name == "aten::_local_scalar_dense") return Special::read;
    if (name == "aten::equal") return Special::equal;
    if (name == "aten::topk") return Special::router;
    if (name == "aten::multinomial" || name == "aten::argmax") return Special::sample;
    if (name == "aten::_amp_foreach_non_finite_check_and_unscale_") return Special::finite_check;
    return lists::kCounting.count(name) != 0 ? Special::count : Special::none;
  }

  static Kind kind_of(const Operator& op, const c10::FunctionSchema& schema) {
    using c10::DispatchKey;
    if (begins_with(op.name, "c10d::")) return Kind::collective;
    if (begins_with(op.name, "_c10d_functional::")) return Kind::ignored;  // made of those
    if (lists::kIgnored.count(op.name) != 0 && !schema_has_out(schema)) return Kind::ignored;
    if (op.handle->hasTag(at::Tag::inplace_view)) return Kind::ignored;
    if (op.handle->hasKernelForDispatchKey(DispatchKey::CompositeImplicitAutograd) &&
        !op.handle->hasKernelForDispatchKey(DispatchKey::CUDA))
      return Kind::ignored;
    if (schema.is_mutable() || op.special != Special::none) return Kind::plain;
    bool returns_tensor = false;
    for (const c10::Argument& result : schema.returns()) {
      if (result.alias_info() != nullptr) return Kind::ignored;  // a view
      returns_tensor = returns_tensor || result.type()->isSubtypeOf(*c10::TensorType::get()) ||
                       result.type()->kind() == c10::TypeKind::ListType;
    }
    return returns_tensor ? Kind::plain : Kind::ignored;
  }

  static bool schema_has_out(const c10::FunctionSchema& schema) {
    for (const c10::Argument& argument : schema.arguments())
      if (argument.is_out()) return true;
    return false;
  }
};

}  // namespace nullcuda
