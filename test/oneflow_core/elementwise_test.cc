// Programs of elementwise ops: their text, what is refused, and where temporaries lie.
#include "oneflow_core/elementwise.h"

#include <map>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "test/support/status_matchers.h"

namespace oneflow::testing {
namespace {

TEST(ElementwiseTest, ReadsWhatItWrites) {
  for (const char* text :
       {"y0 = neg(x0)", "t0 = sigmoid(x0); t1 = mul(x0, t0); y0 = mul(t1, x1)",
        "y0 = scale(x0) {alpha=-0.1}; t0 = cast(y0) {dtype=\"bf16\"}; y1 = add_n(t0, t0, x1) {out_dtype=\"f32\"}"}) {
    ASSERT_OK_AND_ASSIGN(const ElementwiseProgram program, ParseElementwise(text));
    EXPECT_EQ(ToString(program), text);
  }
  ASSERT_OK_AND_ASSIGN(const ElementwiseProgram program, ParseElementwise("t0 = add(x1, x0); y0 = mul(t0, t0)"));
  EXPECT_EQ(program.inputs, 2);
  EXPECT_EQ(program.outputs, 1);
  EXPECT_EQ(program.temporaries, 1);
}

TEST(ElementwiseTest, AnErrorSaysWhereAndWhat) {
  std::string many = "t0 = neg(x0)", sums = "y0 = add_n(x0";
  for (int i = 1; i <= kMostElementwiseCalls; ++i) absl::StrAppend(&many, "; t", i % 16, " = neg(t", i - 1, ")");
  for (int i = 0; i < kMostElementwiseReads; ++i) absl::StrAppend(&sums, ", x0");
  for (const auto& [text, says] : std::map<std::string, std::string>{
           {"", "call 0: expected a value"},
           {"z0 = neg(x0)", "call 0: expected x, y or t with a number but found 'z0 = neg(x0)"},
           {"y = neg(x0)", "call 0: expected x, y or t with a number"},
           {"y4 = neg(x0)", "call 0: y4: there are at most 4 of y"},
           {"y0 = neg(x8)", "call 0: x8: there are at most 8 of x"},
           {"y0 neg(x0)", "call 0: expected '=' after the output"},
           {"y0 = (x0)", "call 0: expected an op"},
           {"y0 = neg x0", "call 0: expected '(' after the op"},
           {"y0 = neg()", "call 0: expected a value"},
           {"y0 = neg(x0", "call 0: expected ')' after the inputs"},
           {"y0 = neg(x0) {a}", "call 0: expected '=' after attribute 'a'"},
           {"y0 = neg(x0) y1", "expected ';' but found 'y1'"},
           {"y0 = neg(x0);", "call 1: expected a value"},
           {"x0 = neg(x1)", "call 0: x0 is an input, which no call makes"},
           {"y0 = neg(t0); t0 = neg(x0)", "call 0: t0 is read before it is made"},
           {"t0 = neg(x0); t0 = neg(t0)", "call 1: t0 is made twice"},
           {"t0 = neg(x0)", "no call makes an output"},
           {"y1 = neg(x0)", "there are 1 of y, but not those with the smallest numbers"},
           {"t1 = neg(x0); y0 = neg(t1)", "there are 1 of t, but not those with the smallest numbers"},
           {many, "call 16: there are at most 16 calls"},
           {sums + ")", "call 0: calls read more than 32 values"}}) {
    EXPECT_THAT(ParseElementwise(text), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(says))) << text;
  }
}

TEST(ElementwiseTest, ATypeIsWhatACallSaysOrThatOfItsFirstOperand) {
  ASSERT_OK_AND_ASSIGN(
      const ElementwiseProgram program,
      ParseElementwise("t0 = cast(x0) {dtype=\"bf16\"}; t1 = neg(t0); y0 = add_n(t0, t1) {out_dtype=\"f16\"}"));
  EXPECT_EQ(ElementwiseDType(program.calls[0], DType::kFloat32), DType::kBFloat16);
  EXPECT_EQ(ElementwiseDType(program.calls[1], DType::kBFloat16), DType::kBFloat16);
  EXPECT_EQ(ElementwiseDType(program.calls[2], DType::kBFloat16), DType::kFloat16);
}

TEST(ElementwiseTest, TemporariesShareMemoryWhereNoneIsStillRead) {
  ASSERT_OK_AND_ASSIGN(const ElementwiseProgram run,
                       ParseElementwise("t0 = neg(x0); t1 = neg(t0); t2 = neg(t1); t3 = mul(t2, t2); y0 = neg(t3)"));
  EXPECT_EQ(PlaceTemporaries(run).count, 2) << "what a call reads is not where it writes";
  ASSERT_OK_AND_ASSIGN(const ElementwiseProgram kept,
                       ParseElementwise("t0 = neg(x0); t1 = exp(x0); t2 = mul(t0, t1); y0 = mul(t2, t0)"));
  const TemporaryPlaces places = PlaceTemporaries(kept);
  EXPECT_EQ(places.count, 3);
  EXPECT_THAT(places.of, ElementsAre(0, 1, 2));
}

}  // namespace
}  // namespace oneflow::testing
