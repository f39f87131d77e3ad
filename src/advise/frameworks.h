// How a configuration is said to the frameworks that run it.
#pragma once

#include <string>

#include "advise/configuration.h"

namespace stweaver {

/// The arguments of Megatron-LM's pretrain_gpt.py that make the configuration.
std::string megatron_arguments(const Job& job);

}  // namespace stweaver
