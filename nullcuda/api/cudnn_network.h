// What cuDNN's recurrent networks were told, and the text that tells one from another: shared by null CUDA
// and recorder/.
#pragma once

#include <cstdint>
#include <cudnn.h>
#include <string>
#include <utility>

namespace nullcuda {

struct Network {
  cudnnRNNAlgo_t algorithm;
  cudnnRNNMode_t mode;
  cudnnRNNBiasMode_t bias;
  int directions;
  cudnnRNNInputMode_t input_mode;
  cudnnDataType_t type, compute;
  cudnnMathType_t math;
  std::int64_t input, hidden, projection, layers;
  bool dropout;  ///< some of what a layer gives is dropped
  std::uint32_t flags;
};

struct Sequences {
  cudnnDataType_t type;
  cudnnRNNDataLayout_t layout;
  std::int64_t length, batch, vector;
};

/// `word1,word2,...`: numbers with the word that says what they are.
class KeyText {
 public:
  explicit KeyText(std::string first) : text_(std::move(first)) {}
  KeyText& add(const char* word, std::int64_t number) {
    text_ += "," + (word + std::to_string(number));
    return *this;
  }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  std::string text_;
};

inline const char* name_of(cudnnRNNMode_t mode) {
  switch (mode) {
    case CUDNN_LSTM:
      return "lstm";
    case CUDNN_GRU:
      return "gru";
    case CUDNN_RNN_RELU:
      return "relu";
    default:
      return "tanh";
  }
}

inline KeyText text_of(const Network& network) {
  KeyText key(name_of(network.mode));
  key.add("algorithm", network.algorithm).add("bias", network.bias).add("directions", network.directions);
  key.add("skip", network.input_mode).add("type", network.type).add("compute", network.compute);
  key.add("math", network.math).add("input", network.input).add("hidden", network.hidden);
  key.add("projection", network.projection).add("layers", network.layers);
  key.add("dropout", network.dropout ? 1 : 0).add("flags", network.flags);
  return key;
}

inline std::string key_of(const Network& network) {
  return text_of(network).text();
}

inline std::string key_of(const Network& network, cudnnForwardMode_t mode, const Sequences& sequences) {
  KeyText key = text_of(network);
  key.add("training", mode == CUDNN_FWD_MODE_TRAINING ? 1 : 0).add("data", sequences.type);
  key.add("layout", sequences.layout).add("length", sequences.length).add("batch", sequences.batch);
  key.add("vector", sequences.vector);
  return key.text();
}

}  // namespace nullcuda
