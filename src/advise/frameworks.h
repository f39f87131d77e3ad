// How a configuration is said to the frameworks that run it.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "advise/configuration.h"

namespace stweaver {

/// The arguments of Megatron-LM's pretrain_gpt.py that make the configuration. Nothing for what it cannot do:
/// share gradients but no parameters, recompute every second product, scale each row of fp8, or keep
/// optimizer states on the host that are not shared.
std::optional<std::string> megatron_arguments(const Job& job);
/// The settings of torchtitan, as arguments. Nothing for what it cannot do: share optimizer states alone,
/// recompute some layers of a stage, keep optimizer states on the host.
std::optional<std::string> torchtitan_arguments(const Job& job);
/// The configuration file of DeepSpeed, for jobs that are only data parallel.
std::optional<std::string> deepspeed_configuration(const Job& job);

/// One that runs configurations.
struct Framework {
  std::string key;   ///< "megatron"
  std::string name;  ///< "Megatron-LM"
  std::optional<std::string> (*settings)(const Job&) = nullptr;
};
/// Those above.
std::span<const Framework> known_frameworks();
/// One of them by its key. Error that lists the keys.
const Framework& framework_named(const std::string& key);

}  // namespace stweaver
