#include "model/gpu.h"

#include <set>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

namespace nullcuda {
namespace {

TEST(Gpu, HasAllSixKeys) {
  EXPECT_EQ(gpu_keys(), "h200, h100, a100, a100-40gb, b200, rtx4090");
  for (const char* key : {"h200", "h100", "a100", "a100-40gb", "b200", "rtx4090"}) {
    const Gpu* gpu = find_gpu(key);
    ASSERT_NE(gpu, nullptr) << key;
    EXPECT_EQ(gpu->key, key);
  }
}

TEST(Gpu, IsFoundInAnyCase) {
  EXPECT_EQ(find_gpu("H200"), find_gpu("h200"));
  EXPECT_EQ(find_gpu("A100-40GB"), find_gpu("a100-40gb"));
}

TEST(Gpu, IsNotFoundByAnotherName) {
  for (const char* key : {"", "h20", "h2000", "NVIDIA H200"}) EXPECT_EQ(find_gpu(key), nullptr) << key;
}

TEST(Gpu, IsPlausibleWhicheverItIs) {
  std::set<std::string_view> names;
  for (const Gpu& gpu : gpus()) {
    EXPECT_TRUE(names.insert(gpu.name).second) << gpu.key;
    EXPECT_GT(gpu.memory, 20ULL << 30) << gpu.key;
    EXPECT_LT(gpu.memory, 200ULL << 30) << gpu.key;
    EXPECT_LT(gpu.context, gpu.memory / 10) << gpu.key;
    EXPECT_LT(gpu.shared_memory_optin, gpu.shared_memory) << gpu.key;
    EXPECT_EQ(gpu.threads % 512, 0) << gpu.key;
    EXPECT_GE(gpu.major, 8) << gpu.key;
  }
}

}  // namespace
}  // namespace nullcuda
