#include "actor/core_budget.h"

#include "gtest/gtest.h"

namespace oneflow {
namespace {

TEST(CoreBudgetTest, LendsWhatNobodyWorksWith) {
  CoreBudget cores(2);
  cores.Take(1);  // works
  EXPECT_TRUE(cores.TryTakeOne());
  EXPECT_FALSE(cores.TryTakeOne());
  EXPECT_FALSE(cores.exceeded());
  cores.Take(1);  // whoever works need not ask
  EXPECT_TRUE(cores.exceeded());
  cores.GiveBack(1);  // so the one that looked goes to sleep
  EXPECT_FALSE(cores.exceeded());
  EXPECT_FALSE(cores.TryTakeOne());
  cores.GiveBack(1);
  EXPECT_TRUE(cores.TryTakeOne());
}

TEST(CoreBudgetTest, BudgetsOfAHostCountTogether) {
  CoreBudget::Taken taken{0};
  CoreBudget a(1), b(1);
  for (CoreBudget* cores : {&a, &b}) cores->Share(2, taken);
  a.Take(1);
  b.Take(1);
  EXPECT_FALSE(a.TryTakeOne());  // though one of its two threads sleeps
  b.GiveBack(1);
  EXPECT_TRUE(a.TryTakeOne());
  b.Take(1);
  EXPECT_TRUE(a.exceeded());
}

}  // namespace
}  // namespace oneflow
