#include "tools/control/worker/engine_options.h"

#include "gmock/gmock.h"

namespace oneflow {
namespace {

TEST(EngineOptionsTest, WhatASpecDoesNotSayIsAsTheEngineHasIt) {
  const EngineOptions options = EngineOptionsOf(pb::JobSpec()), usual;
  EXPECT_EQ(options.cores, 1);
  EXPECT_EQ(options.stall_seconds, usual.stall_seconds);
  EXPECT_EQ(options.trace_bytes, 0);
  EXPECT_FALSE(options.profile);
  EXPECT_TRUE(options.capture);
}

TEST(EngineOptionsTest, ASpecIsFollowed) {
  pb::JobSpec spec;
  spec.set_cores_per_process(3);
  spec.set_profile(true);
  spec.set_uncaptured(true);
  spec.set_trace_bytes(5);
  spec.set_emulated_ms_per_mb(2);
  spec.mutable_stall()->set_seconds(7);
  const EngineOptions options = EngineOptionsOf(spec);
  EXPECT_EQ(options.cores, 3);
  EXPECT_TRUE(options.profile);
  EXPECT_FALSE(options.capture);
  EXPECT_EQ(options.trace_bytes, 5);
  EXPECT_EQ(options.emulated_ns_per_byte, 2);
  EXPECT_EQ(options.stall_seconds, 7);
}

}  // namespace
}  // namespace oneflow
