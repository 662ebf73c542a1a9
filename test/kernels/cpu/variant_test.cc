// The kernels of each kind of processor. That each computes what its op says is held by running the conformance tests
// on all of them (test/CMakeLists.txt); here, that the right one is taken and that what has to be equal to the bit is.
#include "kernels/cpu/variant.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/kernel.h"
#include "kernels/random_fill.h"
#include "test/support/status_matchers.h"

namespace oneflow {
namespace {

// Of those that this processor runs.
const char* TheLastThatIsTakenUnasked() {
  const char* name = "";
  for (const CpuVariant* const variant : RunnableCpuVariants()) {
    if (Preference(TheProcessor(), variant->name) > 0) name = variant->name;
  }
  return name;
}

TEST(CpuVariantTest, TheBestThatRunsIsTakenUnlessAnotherIsNamed) {
  const auto runnable = RunnableCpuVariants();
  ASSERT_FALSE(runnable.empty());
  EXPECT_STREQ(TheLastThatIsTakenUnasked(), "portable") << "which runs everywhere";
  ASSERT_OK_AND_ASSIGN(const CpuVariant* best, FindCpuVariant(""));
  EXPECT_EQ(best, runnable.front());
  for (const CpuVariant* const variant : runnable) {
    ASSERT_OK_AND_ASSIGN(const CpuVariant* found, FindCpuVariant(variant->name));
    EXPECT_EQ(found, variant);
  }
  EXPECT_THAT(FindCpuVariant("mmx"), StatusIs(absl::StatusCode::kInvalidArgument,
                                              HasSubstr("'mmx' are no kernels that this processor runs; there are ")));
  const char* const asked = std::getenv("ONEFLOW_CPU");
  EXPECT_STREQ(TheCpuVariant().name, asked != nullptr ? asked : best->name);
}

TEST(CpuVariantDeathTest, ANameThatIsNoneEndsTheProcessWithASentence) {
  EXPECT_EXIT(
      {
        setenv("ONEFLOW_CPU", "mmx", 1);
        execl("/proc/self/exe", "kernels_test", "--gtest_filter=CpuVariantTest.TheBest*", nullptr);
      },
      ::testing::ExitedWithCode(1), "ONEFLOW_CPU: 'mmx' are no kernels that this processor runs");
}

// What a processor takes of all variants, best first.
std::vector<std::string> Taken(const Processor& processor) {
  std::vector<std::string> taken;
  for (const char* const variant : {"amx", "avx512_bf16", "avx512", "avx2", "portable", "amx_twin"}) {
    if (CanRun(processor, variant) && Preference(processor, variant) > 0) taken.push_back(variant);
  }
  std::stable_sort(taken.begin(), taken.end(), [&](const std::string& a, const std::string& b) {
    return Preference(processor, a) > Preference(processor, b);
  });
  return taken;
}

TEST(CpuVariantTest, EachProcessorTakesItsFastest) {
  const Processor sapphire_rapids = {
      .avx2 = true, .avx512 = true, .avx512_bf16 = true, .amx_bf16 = true, .is_intel = true};
  EXPECT_THAT(Taken(sapphire_rapids), ElementsAre("amx", "avx512", "avx512_bf16", "avx2", "portable"));
  Processor without_tiles = sapphire_rapids;  // Cooper Lake; or the system does not let it use them
  without_tiles.amx_bf16 = false;
  EXPECT_THAT(Taken(without_tiles), ElementsAre("avx512", "avx512_bf16", "avx2", "portable"))
      << "its products of pairs are slower than those of floats";
  const Processor zen4 = {.avx2 = true, .avx512 = true, .avx512_bf16 = true};
  EXPECT_THAT(Taken(zen4), ElementsAre("avx512_bf16", "avx512", "avx2", "portable"));
  EXPECT_THAT(Taken({.avx2 = true}), ElementsAre("avx2", "portable"));
  EXPECT_THAT(Taken({}), ElementsAre("portable"));
  // A machine that hides some of what a processor has hides all that builds on it.
  EXPECT_THAT(Taken({.avx2 = true, .avx512_bf16 = true, .amx_bf16 = true}), ElementsAre("avx2", "portable"));
  EXPECT_THAT(Taken({.avx512 = true}), ElementsAre("portable"));
  EXPECT_FALSE(CanRun(zen4, "mmx"));
}

TEST(CpuVariantTest, AllHaveTheSameKernels) {
  const auto names = [](const CpuVariant& variant) {
    std::multiset<std::pair<std::string, DType>> names;
    for (const Kernel& kernel : variant.kernels()) names.insert({kernel.op, kernel.dtype});
    return names;
  };
  for (const CpuVariant* const variant : RunnableCpuVariants()) {
    EXPECT_EQ(names(*variant), names(*RunnableCpuVariants().front())) << variant->name;
  }
}

// Replicas of a weight may lie on hosts with different processors.
TEST(CpuVariantTest, InitialValuesAreTheSameToTheBit) {
  constexpr int64_t kCount = 100'003;
  const auto fill = [](const CpuVariant& variant) {
    std::vector<float> values(2 * kCount);
    variant.fill_uniform(7, 3, kCount, 0.5f, values.data());
    variant.fill_normal(11, 5, kCount, 0.02f, values.data() + kCount);
    return values;
  };
  const std::vector<float> expected = fill(*RunnableCpuVariants().front());
  for (const CpuVariant* const variant : RunnableCpuVariants()) {
    const std::vector<float> values = fill(*variant);
    EXPECT_EQ(std::memcmp(values.data(), expected.data(), values.size() * sizeof(float)), 0) << variant->name;
  }
}

TEST(CpuVariantTest, CopiesAreTheSameToTheBit) {
  const std::vector<int64_t> extent = {5, 33, 17}, source_stride = {17 * 33, 1, 33}, target_stride = {17 * 33, 17, 1};
  std::vector<float> source(5 * 33 * 17);
  std::mt19937 random(1);
  for (float& x : source) x = std::ldexp(static_cast<float>(random()), -31) - 1;
  const auto copy = [&](const CpuVariant& variant) {
    std::vector<float> target(source.size(), 0.25f);
    EXPECT_EQ(variant.copy_region({.dtype = DType::kFloat32,
                                   .extent = extent,
                                   .source = source.data(),
                                   .source_stride = source_stride,
                                   .target = target.data(),
                                   .target_stride = target_stride,
                                   .accumulate = true}),
              nullptr);
    return target;
  };
  const std::vector<float> expected = copy(*RunnableCpuVariants().front());
  EXPECT_EQ(expected[1], source[33] + 0.25f) << "a transpose";
  for (const CpuVariant* const variant : RunnableCpuVariants()) EXPECT_EQ(copy(*variant), expected) << variant->name;
}

}  // namespace
}  // namespace oneflow
