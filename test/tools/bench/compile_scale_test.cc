#include "tools/bench/compile_scale.h"

#include "oneflow_core/ops/ops.h"
#include "test/support/status_matchers.h"

namespace oneflow {
namespace {

// As the case of 100,000 ops has them: values that several ops read, twice by one, and no layers that repeat.
TEST(CompileScaleTest, ARandomGraphOfAnySeedIsPlanned) {
  const OpRegistry ops = StandardOps();
  for (uint32_t seed = 1; seed <= 6; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    const ScaleCase random = {.name = "small",
                              .title = "small",
                              .pp = 1,
                              .dp = 2,
                              .tp = 2,
                              .micro_batches = 1,
                              .ops = 400,
                              .schedule = "",
                              .seed = seed};
    ASSERT_OK_AND_ASSIGN(const ScaleFigures figures, MeasureScale(random, ops));
    EXPECT_EQ(figures.ranks, 4);
    EXPECT_GT(figures.nodes, random.ops);
    EXPECT_GT(figures.plan_bytes, 0);
    EXPECT_GT(figures.largest_program_bytes, 0);
  }
}

TEST(CompileScaleTest, EveryCaseIsAGraphThatCanBeWrittenDown) {
  const OpRegistry ops = StandardOps();
  for (const ScaleCase& scale_case : ScaleCases()) {
    if (scale_case.ops > 0) continue;
    EXPECT_OK(ScaleGraph(scale_case, ops).status()) << scale_case.name;
    EXPECT_OK(ScaleOptions(scale_case).status()) << scale_case.name;
  }
}

}  // namespace
}  // namespace oneflow
