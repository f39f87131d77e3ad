#include "advise/frameworks.h"

#include <vector>

#include <nlohmann/json.hpp>

#include "base/base.h"

namespace stweaver {

std::string megatron_arguments(const Job& job) {
  const Configuration& how = job.configuration;
  std::string out = text("--tensor-model-parallel-size ", how.tp, " --pipeline-model-parallel-size ", how.pp,
                         " --micro-batch-size ", how.micro_batch, " --global-batch-size ", how.global_batch,
                         " --seq-length ", how.sequence);
  if (how.virtual_stages > 1)
    out += text(" --num-layers-per-virtual-pipeline-stage ", job.model.layers / how.pp / how.virtual_stages);
  if (how.cp > 1) out += text(" --context-parallel-size ", how.cp);
  if (how.ep > 1) out += text(" --expert-model-parallel-size ", how.ep, " --expert-tensor-parallel-size 1");
  if (overlaps_experts(how))
    out += " --moe-token-dispatcher-type alltoall --overlap-moe-expert-parallel-comm";
  if (how.tp > 1) out += " --sequence-parallel";
  if (how.zero == 3) {
    out += " --use-megatron-fsdp --data-parallel-sharding-strategy optim_grads_params";
  } else {
    out += " --use-distributed-optimizer";
  }
  out += " --overlap-grad-reduce --overlap-param-gather --no-create-attention-mask-in-dataloader";
  if (how.recompute == Recompute::kFull)
    out += text(" --recompute-granularity full --recompute-method block --recompute-num-layers ",
                recomputed_layers(job));
  if (how.recompute == Recompute::kSelective)
    out += " --recompute-granularity selective --recompute-modules core_attn layernorm mlp_act";
  if (how.offload_optimizer) out += " --optimizer-cpu-offload";
  out += how.precision == Precision::kBf16 ? " --bf16" : " --bf16 --fp8-format hybrid";
  return out;
}

std::optional<std::string> torchtitan_arguments(const Job& job) {
  const Configuration& how = job.configuration;
  const bool partly = how.recompute == Recompute::kFull && recomputed_layers(job) < chunk_layers(job);
  if (how.zero != 3 || partly || how.offload_optimizer || how.precision != Precision::kBf16)
    return std::nullopt;
  const char* mode = how.recompute == Recompute::kFull   ? "full"
                     : how.recompute == Recompute::kNone ? "none"
                                                         : "selective";
  // A rank's batch is what a pipeline cuts into micro-batches; without one, steps are accumulated.
  const int local = how.pp > 1 ? how.micro_batch * micro_batches(how) : how.micro_batch;
  std::string out =
      text("--parallelism.data_parallel_shard_degree ", data_parallel(how),
           " --parallelism.tensor_parallel_degree ", how.tp, " --parallelism.context_parallel_degree ",
           how.cp, " --parallelism.pipeline_parallel_degree ", how.pp, " --training.local_batch_size ", local,
           " --training.global_batch_size ", how.global_batch, " --training.seq_len ", how.sequence,
           " --activation_checkpoint.mode ", mode);
  if (how.ep > 1) out += text(" --parallelism.expert_parallel_degree ", how.ep);
  if (how.pp > 1)
    out += text(" --parallelism.pipeline_parallel_microbatch_size ", how.micro_batch,
                " --parallelism.pipeline_parallel_schedule ",
                how.virtual_stages > 1 ? "Interleaved1F1B" : "1F1B");
  return out;
}

std::optional<std::string> deepspeed_configuration(const Job& job) {
  const Configuration& how = job.configuration;
  if (how.tp * how.pp * how.cp * how.ep > 1 || how.precision != Precision::kBf16) return std::nullopt;
  nlohmann::ordered_json zero = {{"stage", how.zero}, {"overlap_comm", true}};
  if (how.offload_optimizer) zero["offload_optimizer"] = {{"device", "cpu"}, {"pin_memory", true}};
  return nlohmann::ordered_json{{"train_batch_size", how.global_batch},
                                {"train_micro_batch_size_per_gpu", how.micro_batch},
                                {"gradient_accumulation_steps", micro_batches(how)},
                                {"bf16", {{"enabled", true}}},
                                {"zero_optimization", zero}}
      .dump();
}

std::span<const Framework> known_frameworks() {
  static const std::vector<Framework> frameworks = {
      {"megatron", "Megatron-LM", [](const Job& job) { return std::optional(megatron_arguments(job)); }},
      {"torchtitan", "torchtitan", torchtitan_arguments},
      {"deepspeed", "DeepSpeed", deepspeed_configuration}};
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
