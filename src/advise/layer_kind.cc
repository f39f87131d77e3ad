#include "advise/layer_kind.h"

#include <vector>

namespace stweaver {

LayerKind layer_kind(const Job& job) {
  const Configuration& how = job.configuration;
  return {.gpu = job.gpu.name,
          .hidden = job.model.hidden,
          .ffn = job.model.ffn,
          .heads = job.model.heads,
          .experts = job.model.experts,
          .topk = job.model.topk,
          .expert_ffn = job.model.expert_ffn,
          .tp = how.tp,
          .ep = how.ep,
          .cp = how.cp,
          .micro_batch = how.micro_batch,
          .sequence = how.sequence,
          .precision = how.precision,
          .lora = static_cast<int>(how.lora),
          .compiled = static_cast<int>(how.compiled),
          .overlap_tp = static_cast<int>(how.overlap_tp)};
}

std::span<const LayerField> layer_fields() {
  using K = LayerKind;
  static const std::vector<LayerField> fields = {{"hidden", &K::hidden},
                                                 {"ffn", &K::ffn},
                                                 {"heads", &K::heads},
                                                 {"experts", &K::experts},
                                                 {"topk", &K::topk},
                                                 {"expert_ffn", &K::expert_ffn},
                                                 {"tp", &K::tp},
                                                 {"ep", &K::ep},
                                                 {"cp", &K::cp},
                                                 {"micro_batch", &K::micro_batch},
                                                 {"sequence", &K::sequence},
                                                 {"lora", &K::lora},
                                                 {"compiled", &K::compiled},
                                                 {"overlap_tp", &K::overlap_tp}};
  return fields;
}

}  // namespace stweaver
