#include "advise/frameworks.h"

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
  if (how.tp > 1) out += " --sequence-parallel";
  if (how.zero == 3) {
    out += " --use-megatron-fsdp --data-parallel-sharding-strategy optim_grads_params";
  } else {
    out += " --use-distributed-optimizer";
  }
  out += " --overlap-grad-reduce --overlap-param-gather";
  if (how.recompute == Recompute::kFull)
    out += text(" --recompute-granularity full --recompute-method block --recompute-num-layers ",
                recomputed_layers(job));
  if (how.recompute == Recompute::kSelective)
    out += " --recompute-granularity selective --recompute-modules core_attn layernorm mlp_act";
  if (how.offload_optimizer) out += " --optimizer-cpu-offload";
  out += how.precision == Precision::kBf16 ? " --bf16" : " --bf16 --fp8-format hybrid";
  return out;
}

}  // namespace stweaver
