#include "tools/bench/op_table.h"

#include "gmock/gmock.h"
#include "test/support/names.h"

namespace oneflow {
namespace {

TEST(OpTableTest, IsOrderedByTimeAndSaysRates) {
  Counters counters;
  counters.run_seconds = 10;
  for (const auto& [op, seconds] : std::map<std::string, double>{{"add", 1}, {"matmul", 4}}) {
    pb::OpTime& time = counters.ops.emplace_back();
    time.set_op(op);
    time.set_calls(3);
    time.set_seconds(seconds);
  }
  counters.ops.emplace_back().set_op("never");
  const std::vector<OpRow> rows = OpTable(counters, {{"matmul", {.flops = 384}}, {"add", {.bytes = 216}}});
  ASSERT_THAT(rows, SizeIs(2));
  EXPECT_EQ(rows[0].op, "matmul");
  EXPECT_THAT(rows[0].share, DoubleEq(0.4));
  EXPECT_THAT(rows[0].flops_per_s, DoubleEq(384 / 4.0));
  EXPECT_EQ(rows[1].op, "add");
  EXPECT_THAT(rows[1].bytes_per_s, DoubleEq(216));
}

}  // namespace
}  // namespace oneflow
