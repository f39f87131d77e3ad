#include "advise/measurements.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <initializer_list>
#include <set>
#include <string_view>

#include "advise/memory.h"
#include "base/base.h"
#include "simulate/simulate.h"

namespace stweaver {
namespace {

/// What spreadsheets write in front of UTF-8.
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

std::string trimmed(const std::string& text) {
  constexpr std::string_view kBlanks = " \t";
  const std::size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string::npos) return "";
  return text.substr(first, text.find_last_not_of(kBlanks) + 1 - first);
}

/// Cells of one line of comma separated values; quotes may hold commas, and are doubled inside themselves.
std::vector<std::string> cells_of(std::string_view line, const std::string& where) {
  std::vector<std::string> cells(1);
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quoted && c == '"' && i + 1 < line.size() && line[i + 1] == '"') {
      cells.back() += c;
      ++i;
    } else if (c == '"') {
      quoted = !quoted;
    } else if (c == ',' && !quoted) {
      cells.emplace_back();
    } else {
      cells.back() += c;
    }
  }
  if (quoted) fail(where, ": a quote is never closed");
  for (std::string& cell : cells) cell = trimmed(cell);
  return cells;
}

/// A table: the columns' names, in any case, and the lines below. What is wrong in a cell is an error of its
/// row, which does not name the row.
class Sheet {
 public:
  Sheet(const std::string& csv, std::string name) : name_(std::move(name)) {
    std::size_t line = 0;
    for (std::size_t at = 0; at < csv.size();) {
      const std::size_t end = std::min(csv.find('\n', at), csv.size());
      std::string_view text(csv.data() + at, end - at);
      if (at == 0 && text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
      if (text.ends_with('\r')) text.remove_suffix(1);
      at = end + 1;
      ++line;
      if (text.empty()) continue;
      std::vector<std::string> cells = cells_of(text, where(line));
      if (columns_.empty()) {
        std::ranges::transform(cells, std::back_inserter(columns_), lower_case);
        require_one_each();
        continue;
      }
      if (cells.size() != columns_.size())
        fail(where(line), ": ", cells.size(), " cells under ", columns_.size(), " columns");
      rows_.push_back({line, std::move(cells)});
    }
    if (columns_.empty()) fail(name_, ": empty; a table begins with the names of its columns");
  }

  struct Row {
    std::size_t line = 0;
    std::vector<std::string> cells;
  };

  [[nodiscard]] const std::vector<std::string>& columns() const { return columns_; }
  [[nodiscard]] const std::vector<Row>& rows() const { return rows_; }
  [[nodiscard]] bool has(std::initializer_list<const char*> names) const {
    return std::all_of(names.begin(), names.end(), [this](const char* name) { return column(name) >= 0; });
  }
  /// The cell of an optional column; empty where there is none.
  [[nodiscard]] std::string cell(const Row& row, const char* name) const {
    const int index = column(name);
    return index < 0 ? "" : row.cells[static_cast<std::size_t>(index)];
  }
  [[nodiscard]] double number(const Row& row, const char* name) const {
    const std::string text = cell(row, name);
    if (text.empty()) fail(name, " is not given");
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value))
      fail(name, " is no number: \"", text, "\"");
    return value;
  }
  /// A size: a whole number from 0 to a thousand million. `missing` where the cell is empty, or there is
  /// none.
  [[nodiscard]] int whole(const Row& row, const char* name, std::optional<int> missing = std::nullopt) const {
    if (missing && cell(row, name).empty()) return *missing;
    const double value = number(row, name);
    if (value < 0 || value > 1e9 || value != std::floor(value))
      fail(name, " is no whole number that it can be: ", value);
    return static_cast<int>(value);
  }
  [[nodiscard]] std::string where(std::size_t line) const { return text(name_, ":", line); }

 private:
  void require_one_each() const {
    std::set<std::string> seen;
    for (const std::string& column : columns_)
      if (!column.empty() && !seen.insert(column).second) fail(name_, ": two columns are called ", column);
  }
  [[nodiscard]] int column(const char* name) const {
    const auto found = std::ranges::find(columns_, lower_case(name));
    return found == columns_.end() ? -1 : static_cast<int>(found - columns_.begin());
  }

  std::string name_;
  std::vector<std::string> columns_;
  std::vector<Row> rows_;
};

/// What the word in a cell stands for, by any case; where it has none, what the first does. Error: no such
/// word.
template <typename Value>
Value meaning(const Sheet& sheet, const Sheet::Row& row, const char* column,
              std::initializer_list<std::pair<const char*, Value>> words) {
  const std::string given = sheet.cell(row, column);
  if (given.empty()) return words.begin()->second;
  std::string known;
  for (const auto& [word, value] : words) {
    if (lower_case(given) == word) return value;
    known += (known.empty() ? "" : ", ") + std::string(word);
  }
  fail("no ", column, " is called ", given, "; there are ", known);
}

/// Columns that tell the shape of a model.
constexpr std::initializer_list<const char*> kShape = {"layers", "hidden", "heads", "vocab"};

/// A model by its shape: a GPT where the table does not tell. `vocabulary` is for those that do not tell
/// that.
ModelShape shape_of(const Sheet& sheet, const Sheet::Row& row, std::optional<int> vocabulary = std::nullopt) {
  ModelShape model;
  model.layers = sheet.whole(row, "layers");
  model.hidden = sheet.whole(row, "hidden");
  model.ffn = sheet.whole(row, "ffn", 4 * model.hidden);
  model.heads = sheet.whole(row, "heads");
  model.kv_heads = sheet.whole(row, "kv_heads", model.heads);
  model.head_dim = sheet.whole(row, "head_dim", model.heads > 0 ? model.hidden / model.heads : 0);
  model.vocabulary = sheet.whole(row, "vocab", vocabulary);
  model.gated_mlp = sheet.whole(row, "swiglu", 0) != 0;
  model.tied_embeddings = sheet.whole(row, "untied", 0) == 0;
  model.experts = sheet.whole(row, "experts", 0);
  model.topk = sheet.whole(row, "topk", 0);
  model.expert_ffn = model.experts > 0 ? sheet.whole(row, "moe_ffn", model.ffn) : 0;
  model.shared_ffn = sheet.whole(row, "shared_ffn", 0);
  model.moe_layers = model.experts > 0 ? model.layers : 0;
  model.name = text(model.experts > 0 ? "moe-" : "gpt-", model.layers, "x", model.hidden);
  return model;
}

/// The public model that a row names, or else the shape that it gives.
ModelShape model_of(const Sheet& sheet, const Sheet::Row& row) {
  const std::string name = sheet.cell(row, "model");
  if (!sheet.has(kShape) || is_known_model(name)) return known_model(name);
  ModelShape model = shape_of(sheet, row);
  if (!name.empty()) model.name = name;
  return model;
}

void read_layout(const Sheet& sheet, const Sheet::Row& row, Configuration& how) {
  constexpr int kMostGpus = 1 << 20;
  how.gpus = sheet.whole(row, "gpus");
  how.tp = sheet.whole(row, "tp");
  how.pp = sheet.whole(row, "pp");
  how.cp = sheet.whole(row, "cp", 1);
  if (how.gpus > kMostGpus) fail(how.gpus, " GPUs, which nobody has");
  for (const int ranks : {how.tp, how.pp, how.cp})
    if (ranks < 1 || ranks > how.gpus) fail("there are no groups of ", ranks, " among ", how.gpus, " GPUs");
  how.global_batch = sheet.whole(row, "gbs");
  how.sequence = sheet.whole(row, "seq");
}

/// What some parts that are recomputed leave of a layer, "core_attn": flash attention keeps no scores, so its
/// core is recomputed for nothing.
Recompute recompute_of_parts(const std::string& parts) {
  if (parts == "core_attn") return Recompute::kNone;
  if (parts == "layernorm+moe_act") return Recompute::kSelective;
  fail("no model of what is left where ", parts, " is recomputed");
}

/// By a name (`name_of(Recompute)`), or as tables of Megatron-LM's jobs say it: "selective:core_attn",
/// "full:block half of the layers", of which each stage counts its own.
void read_recompute(const Sheet& sheet, const Sheet::Row& row, Job& job) {
  constexpr std::string_view kParts = "selective:", kHalf = "full:block half of the layers";
  Configuration& how = job.configuration;
  const std::string recompute = lower_case(sheet.cell(row, "recompute"));
  std::string modules = lower_case(sheet.cell(row, "recompute_modules"));
  std::ranges::replace(modules, ' ', '+');
  // Uniform groups are of so many layers, and all of them are recomputed.
  if (sheet.cell(row, "recompute_method") != "uniform")
    how.recompute_layers = sheet.whole(row, "recompute_layers", 0);
  if (recompute.starts_with(kParts)) {
    how.recompute = recompute_of_parts(recompute.substr(kParts.size()));
  } else if (recompute == "selective" && !modules.empty()) {
    how.recompute = recompute_of_parts(modules);
  } else if (recompute == kHalf) {
    how.recompute = Recompute::kFull;
    how.recompute_layers = job.model.layers / 2;
  } else {
    how.recompute = recompute.empty() ? Recompute::kNone : recompute_named(recompute);
  }
}

/// Iteration times of GPT shapes, Megatron-DeepSpeed of 2022: fp16, no flash attention, optimizer states not
/// shared, and no sequence parallelism where the table does not say so.
Measurement vtrain_row(const Sheet& sheet, const Sheet::Row& row) {
  Measurement measured;
  measured.job.model = shape_of(sheet, row, 50257);
  Gpu& gpu = measured.job.gpu;
  gpu = known_gpu(sheet.cell(row, "gpu"));
  gpu.domain = sheet.whole(row, "node_size", gpu.domain);
  if (gpu.domain < 1) fail("nodes have no GPUs");
  if (!sheet.cell(row, "inter_node_Gbps").empty())
    gpu.network = sheet.number(row, "inter_node_Gbps") * 1e9 / 8 / gpu.domain;
  if (!(gpu.network > 0)) fail("nothing is sent between nodes: inter_node_Gbps is ", gpu.network);
  Configuration& how = measured.job.configuration;
  read_layout(sheet, row, how);
  how.micro_batch = sheet.whole(row, "mbs");
  how.virtual_stages = sheet.whole(row, "vp", 1);
  (void)meaning<bool>(sheet, row, "schedule", {{"1f1b", true}, {"interleaved", true}});  // by `vp`
  how.zero = 0;
  read_recompute(sheet, row, measured.job);
  how.sequence_parallel = sheet.whole(row, "sp", 0) != 0;
  how.flash_attention = false;
  how.dropout = true;
  how.pads_vocabulary = false;  // a rank alone has the times of 50257 columns, not of 50304
  how.gradient_bytes = 2;
  measured.seconds = sheet.number(row, "iteration_ms") / 1000;
  return measured;
}

/// By its name, or as tables of Megatron-Bridge abbreviate it: current and delayed scaling, microscaling.
Precision bridge_precision(const std::string& name) {
  const std::string known = lower_case(name);
  if (known == "fp8-cs" || known == "fp8-ds") return Precision::kFp8;
  if (known == "fp8-mx") return Precision::kMxfp8;
  if (known == "fp16") return Precision::kBf16;  // which is as wide
  return precision_named(name);
}

/// Megatron-LM, tuned recipes of named models.
Measurement bridge_row(const Sheet& sheet, const Sheet::Row& row) {
  Measurement measured;
  measured.job.model = model_of(sheet, row);
  Configuration& how = measured.job.configuration;
  read_layout(sheet, row, how);
  how.precision = bridge_precision(sheet.cell(row, "precision"));
  how.micro_batch = sheet.whole(row, "mbs");
  how.virtual_stages = sheet.whole(row, "vp", 1);
  how.ep = sheet.whole(row, "ep", 1);
  const int fsdp = sheet.whole(row, "fsdp", 0);
  if (fsdp > 1) {
    if (data_parallel(how) * how.cp % fsdp != 0)
      fail("no parameters are shared by ", fsdp, " of ", data_parallel(how) * how.cp, " ranks");
    how.zero = 3;
    how.shard = fsdp;
  }
  read_recompute(sheet, row, measured.job);
  const std::string task = sheet.cell(row, "task");
  // A recipe has grad_reduce_in_fp32=False.
  how.gradient_bytes = sheet.whole(row, "gradient_bytes", task.empty() ? how.gradient_bytes : 2);
  how.lora = task == "lora";
  // One kernel for the products, gate and narrowing of experts came with the release of June 2026.
  const std::string release = sheet.cell(row, "release");
  how.fused_experts = release.empty() || release >= "26.06";
  measured.job.gpu = known_gpu(sheet.cell(row, "gpu"));
  require_units(measured.job.gpu, how.precision);
  if (sheet.cell(row, "note").find("w/o MTP") != std::string::npos) measured.job.model.mtp_layers = 0;
  how.overlap_experts = can_overlap_experts(measured.job);
  const double rate = sheet.number(row, "tokens_per_s_per_gpu");
  measured.seconds = static_cast<double>(how.global_batch) * how.sequence / how.gpus / rate;
  measured.model = measured.job.model.name + " " + task;
  return measured;
}

/// How a row of torchtitan has its loss: `fused` for a kernel that leaves the gradient where the logits were.
Loss loss_of(const Sheet& sheet, const Sheet::Row& row, bool compiled) {
  // torchtitan compiles it, too, since some time between its tables of December 2024, when that caused errors
  // (train.py), and June 2025 (components/loss.py).
  const bool compiles = compiled && sheet.cell(row, "date") >= "2025-06";
  return meaning<Loss>(sheet, row, "loss",
                       {{"default", compiles ? Loss::kCompiled : Loss::kPyTorch},
                        {"pytorch", Loss::kPyTorch},
                        {"compiled", Loss::kCompiled},
                        {"fused", Loss::kTransformerEngine}});
}

/// torchtitan: FSDP2 with tensor, context and pipeline parallelism.
Measurement torchtitan_row(const Sheet& sheet, const Sheet::Row& row) {
  Measurement measured;
  measured.job.model = model_of(sheet, row);
  Configuration& how = measured.job.configuration;
  if (sheet.whole(row, "compile", 1) == 0) use_pytorch_modules(measured.job);
  read_layout(sheet, row, how);
  how.ep = sheet.whole(row, "ep", 1);
  how.zero = 3;
  how.micro_batch = sheet.whole(row, "local_batch");
  how.virtual_stages = meaning<int>(
      sheet, row, "pp_schedule", {{"none", 1}, {"1f1b", 1}, {"interleaved_1f1b", 2}, {"interleaved1f1b", 2}});
  // A pipeline cuts the batch of a rank in as many pieces as it is deep, which is torchtitan's default
  // (build_pipeline_schedule in torchtitan/parallelisms/pipelining_utils.py at the tables' dates).
  if (how.pp > 1) how.micro_batch = std::max(1, how.micro_batch / how.pp);
  how.recompute = meaning<Recompute>(sheet, row, "activation_checkpointing",
                                     {{"none", Recompute::kNone},
                                      {"selective", Recompute::kOperators},
                                      {"selective_op", Recompute::kOperators},
                                      {"full", Recompute::kFull}});
  how.precision = meaning<Precision>(
      sheet, row, "float8",
      {{"none", Precision::kBf16}, {"tensorwise", Precision::kFp8}, {"rowwise", Precision::kFp8Rowwise}});
  how.megatron = false;
  how.pads_vocabulary = false;
  how.loss = loss_of(sheet, row, how.compiled);
  how.narrow_inputs = false;  // torchao's Float8Linear keeps what it was given
  how.overlap_tp = sheet.whole(row, "async_tp", 0) != 0;
  measured.job.gpu = known_gpu(sheet.cell(row, "gpu"));
  require_units(measured.job.gpu, how.precision);
  const double rate = sheet.number(row, "tokens_per_s_per_gpu");
  measured.seconds = static_cast<double>(how.global_batch) * how.sequence / how.gpus / rate;
  // The largest of all GPUs, with the expandable segments that its launch script asks for.
  if (!sheet.cell(row, "peak_memory_GiB").empty())
    measured.memory = {.bytes = sheet.number(row, "peak_memory_GiB") * static_cast<double>(kGiB),
                       .reserved = true,
                       .stage = -1};
  return measured;
}

/// The whole number behind a name among arguments; 0 where it is not there.
int number_after(const std::string& arguments, const std::string& name) {
  const std::size_t at = arguments.find(name);
  int value = 0;
  if (at != std::string::npos)
    std::from_chars(arguments.data() + at + name.size(), arguments.data() + arguments.size(), value);
  return value;
}

/// Precision of a table of peaks, as Megatron-LM's tests ("bf16+fp8") or tables of Megatron-Bridge ("FP8-CS")
/// have it.
Precision memory_precision(const std::string& name, const std::string& arguments) {
  const std::string known = lower_case(name);
  if (known.empty() || known == "unstated") return Precision::kBf16;
  if (known == "fp8" || known == "bf16+fp8")
    return arguments.find("fp8-recipe=mxfp8") == std::string::npos ? Precision::kFp8 : Precision::kMxfp8;
  return bridge_precision(name);
}

/// What layers are made of: `transformer_impl` is Megatron-LM's argument, or "none" where TransformerEngine
/// is not installed.
void read_software(const Sheet& sheet, const Sheet::Row& row, Configuration& how) {
  const std::string layers = sheet.cell(row, "transformer_impl");
  const std::string attention = sheet.cell(row, "attention_backend");
  how.transformer_engine = layers != "none";
  how.local_layers = layers == "local" || layers == "none";
  how.flash_library = attention == "flash";
  how.fused_softmax =
      how.transformer_engine &&
      sheet.cell(row, "other_args").find("no-masked-softmax-fusion=True") == std::string::npos;
  how.flash_attention = how.local_layers ? how.flash_library : attention != "unfused";
}

void read_sharding(const Sheet& sheet, const Sheet::Row& row, Configuration& how) {
  const std::string sharding = sheet.cell(row, "sharding");
  how.offload_optimizer = sheet.whole(row, "offload", 0) != 0 || sharding.ends_with(" + optimizer offload");
  if (sharding.empty() || sharding == "none") {  // Megatron-LM's default
    how.zero = 0;
  } else if (sharding.starts_with("distributed_optimizer")) {
    how.zero = 1;
  } else if (sharding.find("fsdp") != std::string::npos) {
    how.zero = 3;
  } else {
    fail("no sharding is called ", sharding, "; there are none, distributed_optimizer and fsdp");
  }
}

/// Megatron-LM reduces gradients in fp32 for bf16 alone (training/arguments.py), in fp16 as they are. Its
/// tests in fp16, without the distributed optimizer, have two bytes more for each parameter all the same;
/// whose these are is not known.
int gradient_bytes_of(const Sheet& sheet, const Sheet::Row& row) {
  const bool in_fp16 = lower_case(sheet.cell(row, "precision")) == "fp16";
  return in_fp16 && sheet.cell(row, "sharding").starts_with("distributed_optimizer") ? 2 : 4;
}

/// The stage of the rank whose peak it is: a number or `fullest`, or as tables of others' jobs say it.
/// Otherwise that of the rank that logs, the last one, where the job did, and the fullest where `where` says
/// no more.
int stage_of(const Sheet& sheet, const Sheet::Row& row, int stages) {
  const std::string stage = sheet.cell(row, "stage"), where = sheet.cell(row, "where");
  if (where.find("(first stage)") != std::string::npos) return 0;
  if (where.find("(second stage)") != std::string::npos) return 1;
  return stage == "fullest" || !where.empty() ? -1 : sheet.whole(row, "stage", stages - 1);
}

/// A peak in bytes, or in a unit of its own.
double peak_of(const Sheet& sheet, const Sheet::Row& row) {
  if (sheet.has({"peak_allocated_bytes"})) return sheet.number(row, "peak_allocated_bytes");
  const std::string unit = sheet.cell(row, "unit");
  if (unit != "GB" && unit != "GiB") fail("a peak is given in GB or GiB, and not in ", unit);
  return sheet.number(row, "peak_allocated") * (unit == "GB" ? 1e9 : static_cast<double>(kGiB));
}

/// Megatron-LM splits experts as it splits all else unless it is told otherwise, which it has to be where a
/// stage has too few ranks for that.
int expert_tp_of(const Sheet& sheet, const Sheet::Row& row, const Configuration& how) {
  const std::int64_t ranks = static_cast<std::int64_t>(how.ep) * how.tp;
  const bool is_split = ranks > 0 && how.gpus / how.pp % ranks == 0;
  return std::max(1, sheet.whole(row, "etp", is_split ? how.tp : 1));
}

/// A job that did not run has no peak, and other allocators than PyTorch's count other bytes.
void require_a_peak_of_pytorch(const Sheet& sheet, const Sheet::Row& row) {
  const std::string outcome = sheet.cell(row, "outcome"), allocator = sheet.cell(row, "allocator");
  if (!outcome.empty() && outcome != "ok") fail("the job did not run: ", outcome);
  for (const char* known : {"", "default", "expandable_segments", "unstated"})
    if (allocator == known) return;
  fail("no prediction of what ", allocator, " allocates");
}

/// Layers that are recomputed together are all there in the backward pass.
void require_small_groups(const Sheet& sheet, const Sheet::Row& row) {
  const int layers = sheet.whole(row, "recompute_layers", 1);
  if (sheet.cell(row, "recompute_method") == "uniform" && layers > 1)
    fail("no model of what is left where ", layers, " layers are recomputed together");
}

/// What Megatron-LM's arguments say of a job.
void read_arguments(const std::string& arguments, Job& job) {
  Configuration& how = job.configuration;
  const auto has = [&arguments](const char* argument) {
    return arguments.find(argument) != std::string::npos;
  };
  how.fused_gradients = !has("no-gradient-accumulation-fusion");
  how.deterministic = has("deterministic-mode=True");
  // Megatron-LM's data loader does unless it is told not to (create_attention_mask_in_dataloader).
  how.attention_mask = !arguments.empty() && !has("no-create-attention-mask-in-dataloader=True");
  how.fused_gate = !has("no-bias-swiglu-fusion=True");
  if (has("cross-entropy-fusion-impl=te")) how.loss = Loss::kTransformerEngine;
  how.grouped_experts = arguments.empty() || has("moe-grouped-gemm=True");
  how.rounds = number_after(arguments, "microbatch-group-size-per-virtual-pipeline-stage=");
  how.overlap_experts = has("overlap-moe-expert-parallel-comm=True");
  how.first_layers = number_after(arguments, "decoder-first-pipeline-num-layers=");
  how.last_layers = number_after(arguments, "decoder-last-pipeline-num-layers=");
  if (how.tp > 0 && how.pp > 0 && how.cp > 0 && how.zero > 0 && has("num-distributed-optimizer-instances=2"))
    how.shard = std::max(1, data_parallel(how) * how.cp / 2);
  const int shared = number_after(arguments, "moe-shared-expert-intermediate-size=");
  if (shared > 0) job.model.shared_ffn = shared;
  if (has("qk-layernorm=True")) job.model.query_norm = true;
  how.dropout = !has("hidden-dropout=0.0");
  how.rotary = has("position-embedding-type=rope");
}

/// What recipes of Megatron-Bridge set: fp8 weights for products in fp8 (training/mixed_precision.py),
/// without copies that are transposed (disable_parameter_transpose_cache), gradients reduced in bf16
/// (grad_reduce_in_fp32), TransformerEngine's loss (cross_entropy_fusion_impl), and no dropout. Its data sets
/// make no mask (skip_getting_attention_mask_from_dataset).
void use_recipe(Configuration& how) {
  const bool is_fp8 = how.precision == Precision::kFp8 || how.precision == Precision::kMxfp8;
  how.weight_bytes = is_fp8 ? 1 : 2;
  how.gradient_bytes = 2;
  how.loss = Loss::kTransformerEngine;
  how.dropout = false;
  how.rotary = true;
}

/// Peaks of memory of shapes, Megatron-LM's arguments in `other_args`, or modules of PyTorch where `compiled`
/// is 0. A model that is named has its own shape, and a task is that of a recipe, where no arguments say what
/// the job is.
Measurement memory_row(const Sheet& sheet, const Sheet::Row& row) {
  require_a_peak_of_pytorch(sheet, row);
  const double peak = peak_of(sheet, row);
  Measurement measured;
  measured.job.model = model_of(sheet, row);
  measured.job.gpu = known_gpu(sheet.cell(row, "gpu"));
  Configuration& how = measured.job.configuration;
  read_layout(sheet, row, how);
  how.micro_batch = sheet.whole(row, "mbs");
  const std::string arguments = sheet.cell(row, "other_args");
  how.precision = memory_precision(sheet.cell(row, "precision"), arguments);
  how.virtual_stages = sheet.whole(row, "vp", 1);
  how.ep = sheet.whole(row, "ep", 1);
  how.sequence_parallel = sheet.whole(row, "sp", 1) != 0;
  read_sharding(sheet, row, how);
  read_recompute(sheet, row, measured.job);
  require_small_groups(sheet, row);
  read_software(sheet, row, how);
  read_arguments(arguments, measured.job);
  how.gradient_bytes = gradient_bytes_of(sheet, row);
  if (arguments.empty() && !sheet.cell(row, "task").empty()) use_recipe(how);
  how.weight_bytes = sheet.whole(row, "weight_bytes", how.weight_bytes);
  how.gradient_bytes = sheet.whole(row, "gradient_bytes", how.gradient_bytes);
  how.moment_bytes = sheet.whole(row, "moment_bytes", how.moment_bytes);
  if (measured.job.model.experts > 0) how.expert_tp = expert_tp_of(sheet, row, how);
  if (sheet.whole(row, "compiled", 1) == 0) use_pytorch_modules(measured.job);
  if (sheet.cell(row, "transformer_impl") == "legacy") use_legacy_modules(measured.job);
  const int stage = stage_of(sheet, row, how.pp);
  if (stage >= how.pp) fail("there is no stage ", stage, " of ", how.pp);
  measured.memory = {.bytes = peak, .reserved = false, .stage = stage};
  return measured;
}

using RowReader = Measurement (*)(const Sheet&, const Sheet::Row&);

struct Kind {
  const char* name;
  const char* stack;
  RowReader read;
  bool names_models;  ///< by a column `model`, or else tells their shape
  std::initializer_list<const char*> columns;
};

/// The first whose columns a table has: one of peaks may have times as well.
constexpr Kind kKinds[] = {
    {"memory",
     "megatron",
     memory_row,
     true,
     {"gpu", "gpus", "seq", "tp", "pp", "mbs", "gbs", "peak_allocated", "unit"}},
    {"vtrain",
     "megatron-deepspeed",
     vtrain_row,
     false,
     {"gpu", "gpus", "layers", "hidden", "heads", "seq", "tp", "pp", "mbs", "gbs", "iteration_ms"}},
    {"bridge",
     "megatron",
     bridge_row,
     true,
     {"gpu", "gpus", "precision", "gbs", "mbs", "seq", "tp", "pp", "tokens_per_s_per_gpu"}},
    {"torchtitan",
     "torchtitan",
     torchtitan_row,
     true,
     {"gpu", "gpus", "local_batch", "gbs", "seq", "tp", "pp", "tokens_per_s_per_gpu"}},
    {"memory",
     "megatron",
     memory_row,
     true,
     {"gpu", "gpus", "seq", "tp", "pp", "mbs", "gbs", "peak_allocated_bytes"}},
};

const Kind& kind_of(const Sheet& sheet, const std::string& name) {
  const bool has_model = sheet.has({"model"}) || sheet.has(kShape);
  for (const Kind& kind : kKinds)
    if (sheet.has(kind.columns) && (has_model || !kind.names_models)) return kind;
  if (sheet.columns().size() == 1)
    fail(name, ": one column, \"", sheet.columns().front(), "\"; commas part the cells of a table");
  std::vector<std::vector<std::string>> lacking;
  for (const Kind& kind : kKinds) {
    std::vector<std::string>& columns = lacking.emplace_back();
    if (kind.names_models && !has_model) columns.emplace_back("model (or layers hidden heads vocab)");
    for (const char* column : kind.columns)
      if (!sheet.has({column})) columns.emplace_back(column);
  }
  std::ranges::stable_sort(lacking, {}, &std::vector<std::string>::size);
  std::string wanted;
  for (const std::vector<std::string>& columns : lacking) {
    wanted += wanted.empty() ? "" : "; or";
    for (const std::string& column : columns) wanted += " " + column;
  }
  fail(name, ": no table that can be predicted; it lacks", wanted);
}

/// Why a row says nothing that can be predicted; empty where it does. A rate of 0 is a time without end.
std::string why_left_out(const Measurement& row, const Kind& kind) {
  const bool has_time = row.seconds > 0 && std::isfinite(row.seconds);
  if (!has_time && kind.read != memory_row) return "a step that takes no time, or no end of it";
  if (row.memory && !(row.memory->bytes > 0)) return "a job that needs no memory";
  return why_not(row.job);
}

}  // namespace

double predicted_memory(const Measurement& row) {
  const int stage =
      row.memory->stage >= 0 ? row.memory->stage : fullest_rank(row.job, chunk_memory(row.job)).stage;
  const Trace trace = rank_trace(row.job, stage);
  if (!row.memory->reserved) return static_cast<double>(peak_requested(trace));
  return static_cast<double>(reserved_by_pytorch(trace, true, kAmpleCapacity));
}

Measurements read_measurements(const std::string& csv, const std::string& name) {
  const Sheet sheet(csv, name);
  const Kind& kind = kind_of(sheet, name);
  Measurements measured{.kind = kind.name, .stack = kind.stack, .rows = {}, .left_out = {}};
  for (const Sheet::Row& row : sheet.rows()) {
    try {
      Measurement one = kind.read(sheet, row);
      validate(one.job.model, "its model");
      if (const std::string reason = why_left_out(one, kind); !reason.empty()) fail(reason);
      one.line = row.line;
      if (one.model.empty()) one.model = one.job.model.name;
      measured.rows.push_back(std::move(one));
    } catch (const Error& error) {
      measured.left_out.push_back(text("line ", row.line, ": ", error.what()));
    }
  }
  return measured;
}

}  // namespace stweaver
