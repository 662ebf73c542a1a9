// What kernels ask for of scratch memory before there is a device.
#include "kernels/scratch.h"

#include "gmock/gmock.h"

namespace oneflow {
namespace {

using ::testing::IsSupersetOf;

ShardType F32(const Shape& dims) { return {DType::kFloat32, dims, dims}; }

int64_t OfAttention(const ShardType& heads, int threads) {
  const AttrMap attrs{{"heads", int64_t{4}}, {"causal", true}};
  const std::vector<ShardType> in(3, heads), out = {heads, F32({2, 4, 64})};
  return ScratchBytes(CpuKernels(), "attention", attrs, in, out, threads);
}

TEST(ScratchTest, IsThatOfEveryThread) {
  EXPECT_GT(OfAttention(F32({2, 64, 32}), 1), 0);
  EXPECT_EQ(OfAttention(F32({2, 64, 32}), 8), 8 * OfAttention(F32({2, 64, 32}), 1));
}

TEST(ScratchTest, AShardOfTheHeadsHasTheirSize) {
  // Two of four heads of 8 columns, not four of 4.
  EXPECT_EQ(OfAttention({DType::kFloat32, Shape({2, 64, 16}), Shape({2, 64, 32})}, 1),
            OfAttention(F32({2, 64, 32}), 1));
}

TEST(ScratchTest, OfNoKernelIsNothing) {
  const ShardType integers{DType::kInt64, Shape({2, 64, 32}), Shape({2, 64, 32})};
  EXPECT_EQ(OfAttention(integers, 1), 0);
  EXPECT_EQ(ScratchBytes(CpuKernels(), "no_such_op", {}, {F32({3})}, {F32({3})}, 1), 0);
  EXPECT_EQ(ScratchBytes(CpuKernels(), "relu", {}, {F32({3})}, {F32({3})}, 1), 0);
}

TEST(ScratchTest, OpsThatMayAskAreListed) {
  EXPECT_THAT(OpsWithScratch(CpuKernels()), IsSupersetOf({"attention", "attention_grad", "conv2d", "layer_norm_grad"}));
}

}  // namespace
}  // namespace oneflow
