#include "oneflow_core/models/dlrm.h"

#include "test/oneflow_core/formula_test.h"
#include "test/support/names.h"

namespace oneflow {
namespace {

using DlrmTest = testing::FormulaTest;

// Of the authors' program, for (1,2), (3,4) and (5,6).
TEST_F(DlrmTest, MultipliesAllPairsInTheOrderOfTheAuthors) {
  const Tensor x = Given({{1, 2}, {1, 2}}), embedded = Given({{1, 2, 2}, {3, 4, 5, 6}});
  const Tensor out = DlrmInteraction(x, embedded);
  EXPECT_EQ(out.shape(), Shape({1, 5}));
  EXPECT_THAT(Values(out), ElementsAre(1, 2, 11, 17, 39));
}

}  // namespace
}  // namespace oneflow
