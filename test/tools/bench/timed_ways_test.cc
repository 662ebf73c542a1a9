#include "tools/bench/timed_ways.h"

#include <cmath>

#include "gmock/gmock.h"
#include "test/support/status_matchers.h"

namespace oneflow::testing {
namespace {

TEST(TimedWaysTest, EachIsRepeatedInTurnAndItsShortestTimeKept) {
  std::string order;
  double a = 0, b = 0;
  const std::atomic<bool> stop = false;
  const auto way = [&](char name) {
    return [&order, name]() -> const char* {
      order += name;
      return nullptr;
    };
  };
  ASSERT_OK(TimeInTurn({{way('a'), &a}, {way('b'), &b}}, /*least_seconds=*/0, stop));
  EXPECT_EQ(order, "abababab") << "one more than counts";
  EXPECT_GT(a, 0);
  EXPECT_GT(b, 0);
}

TEST(TimedWaysTest, AFailureIsSaidAndAWishToStopHeard) {
  double best = 0;
  std::atomic<bool> stop = false;
  const TimedWay fails = []() -> const char* { return "broken"; };
  EXPECT_THAT(TimeInTurn({{fails, &best}}, 0, stop), StatusIs(absl::StatusCode::kInternal, HasSubstr("broken")));
  stop = true;
  EXPECT_THAT(TimeInTurn({{fails, &best}}, 0, stop), StatusIs(absl::StatusCode::kCancelled, HasSubstr("interrupted")));
}

TEST(TimedWaysTest, AKernelComputes) {
  const std::unique_ptr<DeviceContext> device = MakeCpuDevice(1);
  device->BindThread();
  auto* const x = static_cast<float*>(NormalNumbers(*device, DType::kFloat32, 100));
  auto* const y = static_cast<float*>(device->Allocate(100 * sizeof(float)));
  ASSERT_OK_AND_ASSIGN(const TimedWay way,
                       KernelWay(*device, "neg", {}, {{x, DType::kFloat32, {4, 25}}}, {{y, DType::kFloat32, {4, 25}}}));
  ASSERT_EQ(way(), nullptr);
  double sum = 0;
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(y[i], -x[i]);
    sum += std::abs(x[i]);
  }
  EXPECT_NEAR(sum / 100, std::sqrt(2 / M_PI), 0.3) << "of normal numbers";
  EXPECT_THAT(KernelWay(*device, "no such op", {}, {{x, DType::kFloat32, {4, 25}}}, {}),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("there is no no such op of f32")));
}

}  // namespace
}  // namespace oneflow::testing
