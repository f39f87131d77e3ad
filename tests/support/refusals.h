// What a failed call must leave behind.
#pragma once

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "device/device.h"

namespace stweaver {

/// Expects the device's last failure to be one line that begins with `call`.
inline void expect_failure(const Device& device, const std::string& call) {
  EXPECT_THAT(device.failure(), testing::StartsWith(call));
  EXPECT_THAT(device.failure(), testing::Not(testing::HasSubstr("\n")));
}

}  // namespace stweaver
