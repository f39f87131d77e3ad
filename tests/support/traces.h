// Compares traces.
#pragma once

#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "trace/model.h"

namespace stweaver {

inline auto fields(const Request& r) {
  return std::tuple(r.size, r.life.lower, r.life.upper, r.dropped, r.stream, r.pool);
}
inline auto fields(const Mark& m) {
  return std::tuple(m.time, m.label);
}
inline auto fields(const Reserve& r) {
  return std::tuple(r.time, r.bytes);
}
inline auto fields(const OutOfMemory& o) {
  return std::tuple(o.time, o.size, o.device_free);
}

template <typename Item>
void expect_same(const std::vector<Item>& a, const std::vector<Item>& b, const char* what) {
  ASSERT_EQ(a.size(), b.size()) << what;
  for (std::size_t i = 0; i < a.size(); ++i) ASSERT_EQ(fields(a[i]), fields(b[i])) << what << ' ' << i;
}

/// Everything but the name.
inline void expect_same(const Trace& a, const Trace& b) {
  EXPECT_EQ(a.device, b.device);
  EXPECT_EQ(a.settings, b.settings);
  EXPECT_EQ(a.end, b.end);
  EXPECT_EQ(a.micros, b.micros);
  EXPECT_EQ(a.complete, b.complete);
  expect_same(a.requests, b.requests, "request");
  expect_same(a.marks, b.marks, "mark");
  expect_same(a.reserves, b.reserves, "reserve");
  expect_same(a.ooms, b.ooms, "failed allocation");
}

}  // namespace stweaver
