// What kernels ask for of scratch memory before there is a device.
#include "kernels/scratch.h"

#include "gmock/gmock.h"
#include "kernels/cpu/narrow_product.h"
#include "test/support/names.h"

namespace oneflow {
namespace {

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

// The sums of all threads but one, which has them where they are to be.
TEST(ScratchTest, TheGradientOfASmallWeightHasSumsOfEachThread) {
  const auto of = [](int64_t rows, int threads) {
    return ScratchBytes(CpuKernels(), "matmul_wgrad", {}, {F32({rows, 128}), F32({rows, 512})}, {F32({128, 512})},
                        threads);
  };
  EXPECT_EQ(of(4096, 1), 0);
  EXPECT_EQ(of(4096, 4), 3 * 128 * 512 * 4);
  EXPECT_EQ(of(600, 4), 0) << "few rows";
}

TEST(ScratchTest, OfNoKernelIsNothing) {
  const ShardType integers{DType::kInt64, Shape({2, 64, 32}), Shape({2, 64, 32})};
  EXPECT_EQ(OfAttention(integers, 1), 0);
  EXPECT_EQ(ScratchBytes(CpuKernels(), "no_such_op", {}, {F32({3})}, {F32({3})}, 1), 0);
  EXPECT_EQ(ScratchBytes(CpuKernels(), "relu", {}, {F32({3})}, {F32({3})}, 1), 0);
}

// GPT-2's head: of 1,024 rows of logits, and of as many of their gradient, a quarter is there at a time.
TEST(ScratchTest, AHeadAsksForABlockOfLogits) {
  const ShardType x = F32({1024, 768}), w = F32({50257, 768}), loss = F32({1024});
  const ShardType labels{DType::kInt32, Shape({1024}), Shape({1024})};
  const AttrMap attrs{{"transpose_b", true}, {"dw_transpose", true}};
  const int64_t logits =
      ScratchBytes(CpuKernels(), "matmul_cross_entropy_grad", attrs, {x, w, labels, loss}, {loss, x, w}, /*threads=*/1);
  EXPECT_EQ(logits, int64_t{256} * 50304 * 4);
  EXPECT_EQ(ScratchBytes(CpuKernels(), "matmul_cross_entropy", attrs, {x, w, labels}, {loss}, 1), logits);
}

// Of bf16, with results that are floats: operands are laid out anew as bf16, and not as floats, which take twice as
// much.
TEST(ScratchTest, GradientsOfANarrowConvolutionAreMadeOfNarrowOperands) {
  if (cpu::NarrowProduct::Fastest(DType::kBFloat16) != cpu::NarrowProduct::Way::kLibrary) {
    GTEST_SKIP() << "this processor multiplies bf16 as floats";
  }
  const auto bf16 = [](const Shape& dims) { return ShardType{DType::kBFloat16, dims, dims}; };
  const Shape x({8, 64, 28, 28}), k({64, 64, 1, 1});
  const AttrMap attrs{{"stride", int64_t{1}}, {"padding", int64_t{0}},       {"height", int64_t{28}},
                      {"width", int64_t{28}}, {"kernel_height", int64_t{1}}, {"kernel_width", int64_t{1}}};
  EXPECT_LT(ScratchBytes(CpuKernels(), "conv2d_wgrad", attrs, {bf16(x), bf16(x)}, {F32(k)}, 1), 2 * x.count() * 3);
  // One of the two is the result.
  EXPECT_LT(ScratchBytes(CpuKernels(), "conv2d_dgrad", attrs, {bf16(x), bf16(k)}, {F32(x)}, 1), x.count() * 7);
}

TEST(ScratchTest, OpsThatMayAskAreListed) {
  EXPECT_THAT(OpsWithScratch(CpuKernels()), IsSupersetOf({"attention", "attention_grad", "conv2d", "layer_norm_grad"}));
}

}  // namespace
}  // namespace oneflow
