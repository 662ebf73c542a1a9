#include "tools/control/process/visible_devices.h"

#include <cstdlib>

#include "gtest/gtest.h"

namespace oneflow {
namespace {

TEST(VisibleDevicesTest, AreNamedAsOurEnvironmentNamesThem) {
  unsetenv("CUDA_VISIBLE_DEVICES");
  EXPECT_EQ(VisibleDevices({2, 0}), "CUDA_VISIBLE_DEVICES=2,0");
  setenv("CUDA_VISIBLE_DEVICES", "5,GPU-ab12,7", 1);
  EXPECT_EQ(VisibleDevices({0, 1}), "CUDA_VISIBLE_DEVICES=5,GPU-ab12");
  EXPECT_EQ(VisibleDevices({2}), "CUDA_VISIBLE_DEVICES=7");
  EXPECT_EQ(VisibleDevices({2, 3}), "CUDA_VISIBLE_DEVICES=7") << "the fourth is not there";
  setenv("CUDA_VISIBLE_DEVICES", "", 1);
  EXPECT_EQ(VisibleDevices({0}), "CUDA_VISIBLE_DEVICES=");
  unsetenv("CUDA_VISIBLE_DEVICES");
}

}  // namespace
}  // namespace oneflow
