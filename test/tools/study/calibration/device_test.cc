#include "tools/study/calibration/device.h"

#include "sbp/device_kinds.h"
#include "test/support/status_matchers.h"
#include "test/support/test_dir.h"
#include "tools/job/device_table.h"

namespace oneflow {
namespace {

// Within what any processor of this century and the next decade does.
TEST(BenchDeviceTest, TheRowOfThisMachineIsMeasuredAndReadBack) {
  TestDir dir;
  ASSERT_OK(BenchDeviceCommand({.kind = "this", .output = dir.File("table")}));
  ASSERT_OK_AND_ASSIGN(const std::vector<DeviceSpeeds> table, ReadDeviceTable(dir.File("table")));
  const DeviceSpeeds* const row = FindDevice(table, "this");
  ASSERT_NE(row, nullptr);
  EXPECT_EQ(row->device, DeviceKind::kCpu);
  EXPECT_GT(row->f32_flops, 1e8);
  EXPECT_LT(row->f32_flops, 1e13);
  EXPECT_GT(row->memory_bytes_per_s, 1e8);
  EXPECT_LT(row->memory_bytes_per_s, 1e12);
  EXPECT_GT(row->act_s, row->same_process.alpha_s);
  EXPECT_GT(row->same_process.alpha_s, 1e-8);
  EXPECT_GT(row->same_host.alpha_s, 1e-8);
  EXPECT_GT(row->same_host.beta_s_per_byte, 1e-12);
}

TEST(BenchDeviceTest, WhatCannotBeMeasuredIsRefused) {
  EXPECT_THAT(BenchDeviceCommand({.device = "tpu"}), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'tpu'")));
  EXPECT_THAT(BenchDeviceCommand({.cores = 0}), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("0 cores")));
  EXPECT_THAT(BenchDeviceCommand({.output = "/nowhere/table"}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("cannot write")));
}

}  // namespace
}  // namespace oneflow
