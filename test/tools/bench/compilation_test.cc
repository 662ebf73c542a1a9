#include "tools/bench/compilation.h"

#include <fstream>

#include "oneflow_core/ops/ops.h"
#include "test/support/status_matchers.h"
#include "tools/control/process/temp_dir.h"

namespace oneflow {
namespace {

TEST(CompilationTest, ASelectionSaysHowLargeTheGraphIsAndHowGoodTheLayouts) {
  const OpRegistry ops = StandardOps();
  ASSERT_OK_AND_ASSIGN(const Compilation one, MeasureSelection(1, ops));
  ASSERT_OK_AND_ASSIGN(const Compilation two, MeasureSelection(2, ops));
  // Every layer brings the same nodes: so many that 40 layers have more than 5,000.
  EXPECT_GT(one.work.nodes + 39 * (two.work.nodes - one.work.nodes), 5000);
  EXPECT_GT(one.work.prices, 0);
  EXPECT_GT(one.work.predicted_seconds, 0);
  EXPECT_LE(one.work.lower_bound, one.work.predicted_seconds);
  EXPECT_EQ(one.work.exact, one.work.lower_bound == one.work.predicted_seconds);
  EXPECT_EQ(one.work.ranks, 0) << "nothing is planned";
  EXPECT_GT(one.round.cpu_seconds, 0);
  EXPECT_GT(one.round.wall_seconds, 0);
}

class CompileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(dir_, TempDir::Make("compilation-test"));
    std::ofstream(dir_->path() + "/text.txt") << std::string(1000, 'a');
  }
  absl::StatusOr<Compilation> Measure(const std::string& rest) {
    OF_ASSIGN_OR_RETURN(
        const SourcedConfig config,
        ParseConfig(absl::StrCat("name: 'small' model { gpt { layers: 1 width: 8 heads: 2 context: 4 } } "
                                 "data { text { path: '",
                                 dir_->path(), "/text.txt' } } ", rest),
                    "small"));
    return MeasureCompile(config, ops_);
  }

  const OpRegistry ops_ = StandardOps();
  std::unique_ptr<TempDir> dir_;
};

TEST_F(CompileTest, AJobIsCompiledAsItIsAskedFor) {
  const std::string train = "train { steps: 2 batch_size: 4 optimizer { adamw {} } schedule { learning_rate: 1e-3 } } ";
  ASSERT_OK_AND_ASSIGN(const Compilation one, Measure(train));
  ASSERT_OK_AND_ASSIGN(const Compilation four,
                       Measure(train + "mesh { dp: 2 tp: 2 } generate { tokens: 3 prompt: 'a' }"));
  EXPECT_EQ(one.work.ranks, 1);
  EXPECT_EQ(four.work.ranks, 4);
  EXPECT_GT(four.work.nodes, one.work.nodes) << "it has a second graph";
  EXPECT_GT(four.work.actors, one.work.actors);
  EXPECT_GT(four.work.plan_bytes, one.work.plan_bytes);
  EXPECT_GT(four.round.cpu_seconds, 0);
  EXPECT_EQ(four.work.prices, 0) << "belongs to a selection";
}

TEST_F(CompileTest, WhatIsWrongWithTheJobIsSaid) {
  EXPECT_THAT(Measure("train { steps: 2 batch_size: 0 optimizer { adamw {} } schedule { learning_rate: 1e-3 } }"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("batch_size")));
}

}  // namespace
}  // namespace oneflow
