// How a configuration is said to the frameworks that run it.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "advise/configuration.h"

namespace stweaver {

/// The arguments of Megatron-LM's pretrain_gpt.py that make the configuration. Nothing for what it cannot do:
/// share gradients but no parameters, recompute a part of dense layers, scale each row of fp8, or keep
/// optimizer states on the host that are not shared.
std::optional<std::string> megatron_arguments(const Job& job);
/// The settings of torchtitan 0.3, as arguments. Nothing for what it cannot do: share optimizer states alone,
/// recompute some layers of a stage or another part of them than every second product and what is cheap, keep
/// optimizer states on the host.
std::optional<std::string> torchtitan_arguments(const Job& job);
/// The configuration file of DeepSpeed, for jobs that are only data parallel.
std::optional<std::string> deepspeed_configuration(const Job& job);

/// One that runs configurations.
struct Framework {
  std::string key;   ///< "megatron"
  std::string name;  ///< "Megatron-LM"
  bool (*runs)(const Job&) = nullptr;
  std::optional<std::string> (*settings)(const Job&) = nullptr;
};
/// Those above.
std::span<const Framework> known_frameworks();
/// One of them by its key. Error that lists the keys.
const Framework& framework_named(const std::string& key);

}  // namespace stweaver
