// A model as its publisher describes it: the `config.json` of a transformers model.
#pragma once

#include <string>

#include "advise/model.h"

namespace stweaver {

/// Reads the `config.json` of a transformers model whose `model_type` is known; one that names none is taken
/// for llama's kind. Of a model that sees or hears, the part for text counts (`text_config`). Error of one
/// line, with `name` in front, for what is no such file, and for layers that no ModelShape describes.
ModelShape read_model(const std::string& json, const std::string& name);

}  // namespace stweaver
