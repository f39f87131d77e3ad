#include "advise/frameworks.h"

#include <vector>

#include <nlohmann/json.hpp>

#include "base/base.h"

namespace stweaver {

namespace {

/// How Megatron-LM names what its products are in: each tensor with the scale that it has now, each 32 values
/// with their own, each 16.
std::string megatron_precision(Precision precision) {
  switch (precision) {
    case Precision::kBf16:
      return " --bf16";
    case Precision::kFp8:
      return " --bf16 --fp8-format hybrid --fp8-recipe tensorwise";
    case Precision::kMxfp8:
      return " --bf16 --fp8-format e4m3 --fp8-recipe mxfp8";
    case Precision::kNvfp4:
      return " --bf16 --fp4-format e2m1";
    case Precision::kFp8Rowwise:  // which it does not have
      break;
  }
  return "";
}

/// Chunks whose ends are not alike have the embedding and the output layer in place of a layer.
std::string megatron_pipeline(const Job& job) {
  const Configuration& how = job.configuration;
  std::string out = text(" --pipeline-model-parallel-size ", how.pp);
  if (how.virtual_stages > 1) {
    out += text(" --num-layers-per-virtual-pipeline-stage ", chunk_layers(job));
    if (how.first_layers > 0)
      out += " --account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split";
    return out;
  }
  if (how.first_layers > 0) out += text(" --decoder-first-pipeline-num-layers ", how.first_layers);
  if (how.last_layers > 0) out += text(" --decoder-last-pipeline-num-layers ", how.last_layers);
  return out;
}

/// Without being told, it splits experts as all else, and runs one after another.
std::string megatron_experts(const Job& job) {
  const Configuration& how = job.configuration;
  if (job.model.moe_layers == 0) return "";
  std::string out;
  if (how.ep > 1) out += text(" --expert-model-parallel-size ", how.ep);
  out += text(" --expert-tensor-parallel-size ", how.expert_tp,
              " --moe-grouped-gemm --moe-token-dispatcher-type alltoall");
  if (how.overlap_experts) out += " --overlap-moe-expert-parallel-comm";
  return out;
}

/// What data parallel ranks share, and when. Weights that FSDP only shares later would first be whole on each
/// GPU.
std::string megatron_sharing(const Configuration& how) {
  std::string out = " --overlap-grad-reduce";
  if (how.zero > 0) out += " --overlap-param-gather --use-distributed-optimizer";
  if (how.zero == 3)
    out +=
        " --use-megatron-fsdp --data-parallel-sharding-strategy optim_grads_params --ckpt-format "
        "fsdp_dtensor --init-model-with-meta-device";
  if (how.offload_optimizer) out += " --use-precision-aware-optimizer --optimizer-cpu-offload";
  return out;
}

/// Modules that have something to recompute: norms that stand alone, and what routed experts' activation
/// functions give. TransformerEngine has the norms of all other layers in their products, and flash attention
/// keeps no scores.
std::string megatron_modules(const ModelShape& model) {
  std::string modules;
  if (model.moe_layers > 0 || model.kv_lora > 0) modules += " layernorm";
  if (model.moe_layers > 0) modules += " moe_act";
  return modules;
}

std::string megatron_recomputation(const Job& job) {
  if (job.configuration.recompute == Recompute::kFull)
    return text(" --recompute-granularity full --recompute-method block --recompute-num-layers ",
                recomputed_layers(job));
  if (job.configuration.recompute == Recompute::kNone) return "";
  return " --recompute-granularity selective --recompute-modules" + megatron_modules(job.model);
}

bool megatron_runs(const Job& job) {
  const Configuration& how = job.configuration;
  // Optimizer states on the host are for the distributed optimizer alone, not for FSDP's tensors
  // (Megatron-LM's issue 1986).
  const bool shares = how.zero == 1 || ((how.zero == 0 || how.zero == 3) && !how.offload_optimizer);
  const bool recomputes = how.recompute == Recompute::kNone || how.recompute == Recompute::kFull ||
                          (how.recompute == Recompute::kSelective && !megatron_modules(job.model).empty());
  return shares && recomputes && how.precision != Precision::kFp8Rowwise;
}

bool torchtitan_runs(const Job& job) {
  const Configuration& how = job.configuration;
  const bool whole = how.recompute == Recompute::kFull && recomputed_layers(job) == chunk_layers(job);
  const bool recomputes =
      whole || how.recompute == Recompute::kNone || how.recompute == Recompute::kOperators;
  return how.zero == 3 && recomputes && !how.offload_optimizer && how.precision == Precision::kBf16;
}

bool deepspeed_runs(const Job& job) {
  const Configuration& how = job.configuration;
  // It offloads what ranks share, from stage 1 on.
  const bool offloads = how.zero > 0 || !how.offload_optimizer;
  return how.tp * how.pp * how.cp * how.ep == 1 && how.precision == Precision::kBf16 && offloads;
}

}  // namespace

std::optional<std::string> megatron_arguments(const Job& job) {
  const Configuration& how = job.configuration;
  if (!megatron_runs(job)) return std::nullopt;
  std::string out = text("--tensor-model-parallel-size ", how.tp);
  if (how.tp > 1) out += " --sequence-parallel";
  out += megatron_pipeline(job);
  if (how.cp > 1) out += text(" --context-parallel-size ", how.cp);
  // TransformerEngine's ring has no windows.
  if (how.cp > 1 && job.model.full_attention < 1) out += " --cp-comm-type all_gather";
  out += text(" --micro-batch-size ", how.micro_batch, " --global-batch-size ", how.global_batch,
              " --seq-length ", how.sequence, " --no-create-attention-mask-in-dataloader");
  return out + megatron_experts(job) + megatron_sharing(how) + megatron_recomputation(job) +
         megatron_precision(how.precision);
}

std::optional<std::string> torchtitan_arguments(const Job& job) {
  const Configuration& how = job.configuration;
  if (!torchtitan_runs(job)) return std::nullopt;
  const char* mode = how.recompute == Recompute::kFull   ? "full"
                     : how.recompute == Recompute::kNone ? "none"
                                                         : "selective";
  // A rank's batch is what a pipeline cuts into micro-batches; without one, steps are accumulated.
  const int local = how.pp > 1 ? how.micro_batch * micro_batches(how) : how.micro_batch;
  std::string out =
      text("--parallelism.data_parallel_shard_degree ", data_parallel(how),
           " --parallelism.tensor_parallel_degree ", how.tp, " --parallelism.context_parallel_degree ",
           how.cp, " --parallelism.pipeline_parallel_degree ", how.pp, " --training.local_batch_size ", local,
           " --training.global_batch_size ", how.global_batch, " --training.seq_len ", how.sequence);
  if (how.ep > 1) out += text(" --parallelism.expert_parallel_degree ", how.ep);
  if (how.pp > 1)
    out += text(" --parallelism.pipeline_parallel_microbatch_size ", how.micro_batch,
                " --parallelism.pipeline_parallel_schedule ",
                how.virtual_stages > 1 ? "Interleaved1F1B" : "1F1B");
  // Graphs have memory of their own, and most experts cannot be captured (_validate_cuda_graphs in
  // trainer.py).
  out += " --training.disable_cuda_graphs";
  return out + " activation-checkpoint:" + mode;  // a subcommand: nothing may follow
}

std::optional<std::string> deepspeed_configuration(const Job& job) {
  const Configuration& how = job.configuration;
  if (!deepspeed_runs(job)) return std::nullopt;
  nlohmann::ordered_json zero = {{"stage", how.zero}, {"overlap_comm", true}};
  if (how.offload_optimizer) zero["offload_optimizer"] = {{"device", "cpu"}, {"pin_memory", true}};
  nlohmann::ordered_json document = {{"train_batch_size", how.global_batch},
                                     {"train_micro_batch_size_per_gpu", how.micro_batch},
                                     {"gradient_accumulation_steps", micro_batches(how)},
                                     {"bf16", {{"enabled", true}}},
                                     {"zero_optimization", zero}};
  // It would keep gradients in bf16. Without ZeRO it cannot do otherwise.
  if (how.zero > 0 && how.gradient_bytes == 4) document["data_types"] = {{"grad_accum_dtype", "fp32"}};
  return document.dump();
}

std::span<const Framework> known_frameworks() {
  static const std::vector<Framework> frameworks = {
      {"megatron", "Megatron-LM", megatron_runs, megatron_arguments},
      {"torchtitan", "torchtitan", torchtitan_runs, torchtitan_arguments},
      {"deepspeed", "DeepSpeed", deepspeed_runs, deepspeed_configuration}};
  return frameworks;
}

const Framework& framework_named(const std::string& key) {
  std::string keys;
  for (const Framework& framework : known_frameworks()) {
    if (framework.key == key) return framework;
    keys += " " + framework.key;
  }
  fail("no settings are known for ", key, "; there are some for", keys);
}

}  // namespace stweaver
