#include "advise/cluster.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stweaver {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(KnownGpu, IsFoundByTheNamesThatOthersHaveForIt) {
  const std::pair<const char*, const char*> names[] = {
      {"a100", "A100"},
      {"A100-SXM4-80GB", "A100"},
      {"A100-40GB", "A100-40GB"},
      {"A100-SXM4-40GB", "A100-40GB"},
      {"NVIDIA A100-SXM4-40GB", "A100-40GB"},
      {"H100-80GB", "H100"},
      {"NVIDIA H100 80GB HBM3", "H100"},
      {"H100-SXM5-80GB", "H100"},
      {"HGX H100", "H100"},
      {"h100-96gb-hbm2e-500w", "H100-96GB-HBM2e-500W"},
      {"H200-141GB", "H200"},
      {"B200-192GB", "B200"},
      {"GB200-NVL72", "GB200"},
  };
  for (const auto& [name, known] : names) EXPECT_EQ(known_gpu(name).name, known) << name;
}

TEST(KnownGpu, IsNoOtherGpuWhoseNameBeginsAlike) {
  for (const char* name :
       {"H100-PCIe", "H100-NVL", "NVIDIA H100 PCIe", "H100-96GB", "H100-80GB-HBM2e", "A100-PCIE-40GB",
        "A100X", "B200-NVL72", "GB200-NVL4", "H100-40GB", "GH200", "HGX", ""})
    EXPECT_THAT([name] { (void)known_gpu(name); },
                ThrowsMessage<Error>(HasSubstr("there are some for A100 A100-40GB")))
        << name;
}

}  // namespace
}  // namespace stweaver
