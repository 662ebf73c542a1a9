// What OneFlow lists by hand is derived here, and the table of sbp/README.md that compares the two says of both what is so.
//
// Listed below are the signatures besides all-B that the OneFlow paper (arXiv 2110.15032, tables 1 and 3) and OneFlow's source
// (user/ops/, commit 25c8978c) give for an op with operands of these ranks, in this project's words: operands that only one side has
// (a normalisation's statistics, an attention's log-sum-exp) lie as what they belong to. An empty list: no such op there.
#include <algorithm>
#include <fstream>
#include <map>

#include "absl/strings/str_join.h"
#include "test/sbp/rules/calls.h"
#include "test/support/paths.h"

namespace oneflow::testing {
namespace {

using ::testing::Contains;
using ::testing::Not;
using ::testing::UnorderedElementsAreArray;

using Texts = std::vector<std::string>;

struct Published {
  std::string call;
  std::string source;
  Texts signatures;
  Texts refused = {};  // published too, and not offered here: the README says why
};

// Sizes are such that a split may be nested on two axes of two.
const Published kPublished[] = {
    {"matmul(f32[8,4], f32[4,16])",
     "the paper's table 1",
     {"S(0),B->S(0)", "B,S(1)->S(1)", "S(1),S(0)->P", "P,B->P", "B,P->P"}},
    {"matmul(f32[8,4], f32[16,4]) {transpose_b=true}",
     "matmul_op.cpp",
     {"S(0),B->S(0)", "B,S(0)->S(1)", "S(1),S(1)->P", "P,B->P", "B,P->P"}},
    {"matmul(f32[4,8,4], f32[4,16])",
     "matmul_op.cpp, broadcast_matmul",
     {"S(0),B->S(0)", "S(1),B->S(1)", "B,S(1)->S(2)", "S(2),S(0)->P", "P,B->P", "B,P->P"}},
    {"matmul_wgrad(f32[4,8,4], f32[4,8,16])",
     "matmul_op.cpp, broadcast_matmul_grad_b",
     {"S(0),S(0)->P", "S(1),S(1)->P", "S(2),B->S(0)", "B,S(2)->S(1)"}},
    {"batch_matmul(f32[4,8,4], f32[4,4,16])",
     "matmul_op.cpp",
     {"S(0),S(0)->S(0)", "S(1),B->S(1)", "B,S(2)->S(2)", "S(2),S(1)->P", "P,B->P", "B,P->P"}},
    {"relu(f32[8,4])", "relu_op.cpp", {"S(0)->S(0)", "S(1)->S(1)"}},
    {"scale(f32[8,4]) {alpha=2.0}", "scalar_mul_op.cpp", {"S(0)->S(0)", "S(1)->S(1)", "P->P"}},
    {"cast(f32[8,4]) {dtype=\"f16\"}", "cast_op.cpp", {"S(0)->S(0)", "S(1)->S(1)"}, {"P->P"}},
    {"cast(f32[8,4]) {dtype=\"i32\"}", "cast_op.cpp", {"S(0)->S(0)", "S(1)->S(1)"}, {"P->P"}},
    {"add(f32[8,4], f32[4])", "math_binary_broadcast_ops.cpp", {"S(0),B->S(0)", "S(1),S(0)->S(1)", "P,P->P"}},
    {"mul(f32[8,4], f32[8,1])",
     "math_binary_broadcast_ops.cpp",
     {"S(0),S(0)->S(0)", "S(1),B->S(1)", "P,B->P", "B,P->P"}},
    {"div(f32[8,4], f32[8,4])", "math_binary_broadcast_ops.cpp", {"S(0),S(0)->S(0)", "S(1),S(1)->S(1)", "P,B->P"}},
    {"maximum(f32[8,4], f32[8,4])", "math_binary_broadcast_ops.cpp", {"S(0),S(0)->S(0)", "S(1),S(1)->S(1)"}},
    {"add_n(f32[8,4], f32[8,4], f32[8,4])",
     "add_n_op.cpp",
     {"S(0),S(0),S(0)->S(0)", "S(1),S(1),S(1)->S(1)", "P,P,P->P"}},
    {"bias_add(f32[8,4,16], f32[4]) {axis=1}", "bias_add_op.cpp", {"S(0),B->S(0)", "S(1),S(0)->S(1)", "S(2),B->S(2)"}},
    {"layer_norm(f32[8,4,16], f32[16], f32[16]) {epsilon=1e-5}",
     "layer_norm_op.cpp",
     {"S(0),B,B->S(0),S(0),S(0)", "S(1),B,B->S(1),S(1),S(1)"}},
    {"layer_norm_grad(f32[8,4,16], f32[8,4,16], f32[16], f32[8,4], f32[8,4])",
     "layer_norm_op.cpp, the fused gradient",
     {"S(0),S(0),B,S(0),S(0)->S(0),P,P", "S(1),S(1),B,S(1),S(1)->S(1),P,P"}},
    {"rms_norm(f32[8,4,16], f32[16]) {epsilon=1e-5}", "rms_norm_op.cpp", {"S(0),B->S(0),S(0)", "S(1),B->S(1),S(1)"}},
    {"rms_norm_grad(f32[8,4,16], f32[8,4,16], f32[16], f32[8,4])",
     "rms_norm_op.cpp, the gradients of x and of the weight together",
     {"S(0),S(0),B,S(0)->S(0),P", "S(1),S(1),B,S(1)->S(1),P"}},
    {"softmax(f32[8,4,16])", "softmax_op.cpp", {"S(0)->S(0)", "S(1)->S(1)"}},
    {"softmax_cross_entropy(f32[8,16], i32[8])", "sparse_softmax_cross_entropy_op.cpp", {"S(0),S(0)->S(0),S(0)"}},
    {"softmax_sums(f32[8,16], i32[8], f32[8])",
     "sparse_softmax_cross_entropy_op.cpp, the variant for split classes, of which the rewriting pass makes parts",
     {"S(0),S(0),S(0)->S(0),S(0)", "S(1),B,B->P,P"}},
    {"exp_sum(f32[8,16], f32[8])", "", {}},
    {"softmax_apply(f32[8,16], f32[8], f32[8])", "", {}},
    {"row_dot(f32[8,16], f32[8,16])", "", {}},
    {"softmax_grad_apply(f32[8,16], f32[8,16], f32[8])", "", {}},
    {"first_index(f32[8,16], f32[8])", "", {}},
    {"top1_correct(f32[8,16], i32[8])", "in_top_k_op.cpp", {"S(0),S(0)->S(0)"}},
    {"gather(f32[16,8], i32[8,4]) {axis=0}",
     "gather_op.cpp",
     {"B,S(0)->S(0)", "B,S(1)->S(1)", "S(1),B->S(2)", "S(0),B->P"}},
    {"gather(f32[4,16,8], i32[8]) {axis=1}",
     "gather_op.cpp",
     {"B,S(0)->S(1)", "S(0),B->S(0)", "S(2),B->S(2)", "S(1),B->P"}},
    {"embedding(f32[16,8], i32[8,4])", "embedding_op.cpp", {"B,S(0)->S(0)", "B,S(1)->S(1)"}},
    {"embedding_grad(f32[8,4,8], i32[8,4]) {rows=16}", "embedding_op.cpp", {"S(0),S(0)->P", "S(1),S(1)->P"}},
    {"scatter_add(f32[4,8,4], i32[8]) {axis=1, size=16}",
     "unsorted_segment_sum_op.cpp",
     {"S(1),S(0)->P", "S(0),B->S(0)", "S(2),B->S(2)", "P,B->P"}},
    {"take_along(f32[8,16], i32[8,4])", "dim_gather_op.cpp", {"S(0),S(0)->S(0)", "B,S(1)->S(1)", "P,B->P"}},
    {"top_k(f32[8,16]) {k=4}", "top_k_op.cpp", {"S(0)->S(0),S(0)"}},
    {"reduce_sum(f32[8,4,16]) {axes=[1]}", "reduce_ops.cpp", {"S(0)->S(0)", "S(2)->S(1)", "S(1)->P", "P->P"}},
    {"reduce_mean(f32[8,4,16]) {axes=[1]}", "", {}},
    {"reduce_max(f32[8,4,16]) {axes=[1]}", "reduce_ops.cpp", {"S(0)->S(0)", "S(2)->S(1)"}},
    {"reduce_min(f32[8,4,16]) {axes=[1]}", "reduce_ops.cpp", {"S(0)->S(0)", "S(2)->S(1)"}},
    {"reshape(f32[8,16]) {shape=[8,4,4]}", "reshape_op.cpp", {"S(0)->S(0)", "S(1)->S(1)", "P->P"}},
    {"reshape(f32[8,4,16]) {shape=[32,16]}", "reshape_op.cpp", {"S(0)->S(0)", "S(2)->S(1)", "P->P"}},
    {"reshape(f32[8,16,4]) {shape=[4,2,64]}", "reshape_op.cpp", {"S(0)->S(0)", "S(1)->S(2)", "P->P"}},
    {"transpose(f32[8,4,16]) {perm=[2,0,1]}", "transpose_ops.cpp", {"S(0)->S(1)", "S(1)->S(2)", "S(2)->S(0)", "P->P"}},
    {"concat(f32[8,4], f32[8,16]) {axis=1}", "concat_op.cpp", {"S(0),S(0)->S(0)", "P,P->P"}},
    {"slice(f32[8,16]) {axis=1, start=4, size=8}", "slice_op.cpp", {"S(0)->S(0)", "P->P"}, {"S(1)->P"}},
    {"pad(f32[8,4]) {before=[0,1], after=[0,3]}", "pad_op.cpp", {"S(0)->S(0)"}},
    {"conv2d(f32[8,4,8,8], f32[16,4,3,3]) {stride=1, padding=1}", "conv_op.cpp", {"S(0),B->S(0)"}},
    {"conv2d_dgrad(f32[8,16,8,8], f32[16,4,3,3]) {stride=1, padding=1, height=8, width=8}",
     "deconv_op.cpp",
     {"S(0),B->S(0)"}},
    {"conv2d_wgrad(f32[8,4,8,8], f32[8,16,8,8]) {stride=1, padding=1, kernel_height=3, kernel_width=3}",
     "conv_op.cpp, the gradient of the filter",
     {"S(0),S(0)->P"}},
    {"max_pool2d(f32[8,4,8,8]) {kernel=2, stride=2}", "pool_op.cpp", {"S(0)->S(0),S(0)", "S(1)->S(1),S(1)"}},
    {"batch_norm(f32[8,4,16], f32[4], f32[4], f32[4], f32[4]) {epsilon=1e-5}",
     "normalization_op.cpp",
     {"S(0),B,B,B,B->S(0)"}},
    {"channel_variance(f32[8,4,16], f32[4])",
     "normalization_op.cpp, which gives the statistics as its outputs",
     {},
     {"S(0),B->B"}},
    {"batch_norm_sums(f32[8,4,16], f32[8,4,16], f32[4], f32[4]) {epsilon=1e-5}", "", {}},
    {"batch_norm_dx(f32[8,4,16], f32[8,4,16], f32[4], f32[4], f32[4], f32[4], f32[4]) {epsilon=1e-5}", "", {}},
    {"attention(f32[4,8,16], f32[4,8,16], f32[4,8,16]) {heads=4}",
     "fused_attention_ops.cpp",
     {"S(0),S(0),S(0)->S(0),S(0)", "S(2),S(2),S(2)->S(2),S(1)"}},
    {"dropout(f32[8,4]) {rate=0.5}", "dropout_op.cpp", {"S(0)->S(0)", "S(1)->S(1)"}},
    {"cumsum(f32[8,4,16]) {axis=1}", "cum_ops.cpp", {"S(2)->S(2)"}},
    {"adamw_update(f32[8,4], f32[8,4], f32[8,4], f32[8,4], f32[], f32[], i64[]) {beta1=0.9, beta2=0.95, epsilon=1e-8}",
     "model_update_ops.cpp",
     {"S(0),S(0),S(0),S(0),B,B,B->", "S(1),S(1),S(1),S(1),B,B,B->"}},
    {"sgd_update(f32[8,4], f32[8,4], f32[8,4], f32[], f32[])",
     "model_update_ops.cpp",
     {"S(0),S(0),S(0),B,B->", "S(1),S(1),S(1),B,B->"}},
    {"accumulate(f32[8,4])", "acc_op.cpp", {"S(0)->S(0)", "S(1)->S(1)", "P->P"}},
    {"constant() {dtype=\"f32\", shape=[8,4], value=1.0}", "constant_op.cpp", {"->S(0)", "->S(1)"}},
};

class OneFlowSignaturesTest : public ::testing::Test {
 protected:
  // Those besides all-B on an axis of two, which is the last.
  Texts Ours(const std::string& text) const {
    const absl::StatusOr<Call> call = ParseCall(ops_, text);
    EXPECT_OK(call);
    if (!call.ok()) return {};
    const auto signatures = Signatures1d(*call->op, call->inputs, call->outputs, call->attrs, 2);
    EXPECT_OK(signatures);
    if (!signatures.ok()) return {};
    EXPECT_EQ(signatures->back().reason, "broadcast");
    Texts texts;
    for (size_t i = 0; i + 1 < signatures->size(); ++i) texts.push_back((*signatures)[i].ToString());
    return texts;
  }

  absl::Status CheckOnTwoAxes(const std::string& text, const std::string& outer, const std::string& inner) const {
    OF_ASSIGN_OR_RETURN(const Call call, ParseCall(ops_, text));
    OF_ASSIGN_OR_RETURN(const Signature first, ParseSignature(outer));
    OF_ASSIGN_OR_RETURN(const Signature second, ParseSignature(inner));
    return CheckNdSignature(*call.op, call.inputs, call.outputs, call.attrs, {2, 2}, {first, second});
  }

  const OpRegistry ops_ = StandardOps();
};

TEST_F(OneFlowSignaturesTest, EveryOneThatItPublishesIsOfferedUnlessItIsListedAsRefused) {
  for (const Published& it : kPublished) {
    const Texts ours = Ours(it.call);
    for (const std::string& signature : it.signatures) {
      EXPECT_THAT(ours, Contains(signature)) << it.call << ", " << it.source;
    }
    for (const std::string& signature : it.refused) {
      EXPECT_THAT(ours, Not(Contains(signature))) << it.call << " has it after all, " << it.source;
    }
  }
}

// OneFlow's candidates on several axes are the products of those on one.
TEST_F(OneFlowSignaturesTest, EveryPairOfThemIsOfferedOnTwoAxes) {
  for (const Published& it : kPublished) {
    for (const std::string& outer : it.signatures) {
      for (const std::string& inner : it.signatures) EXPECT_OK(CheckOnTwoAxes(it.call, outer, inner)) << it.source;
    }
  }
}

TEST_F(OneFlowSignaturesTest, AMatmulOnTwoAxesHasThoseOfThePapersTable3) {
  struct TwoAxes {
    const char *x, *w, *y;
  };
  for (const TwoAxes& it :
       {TwoAxes{"(S(0),B)", "(B,S(1))", "(S(0),S(1))"}, TwoAxes{"(S(0),S(1))", "(B,S(0))", "(S(0),P)"}}) {
    ASSERT_OK_AND_ASSIGN(const Call call, ParseCall(ops_, "matmul(f32[8,4], f32[4,16])"));
    ASSERT_OK_AND_ASSIGN(const NdSbp x, ParseNdSbp(it.x));
    ASSERT_OK_AND_ASSIGN(const NdSbp w, ParseNdSbp(it.w));
    ASSERT_OK_AND_ASSIGN(const NdSbp y, ParseNdSbp(it.y));
    for (const std::vector<int>& sizes : {std::vector<int>{2, 2}, {2, 3}, {4, 2}}) {
      EXPECT_OK(CheckNdSignature(*call.op, call.inputs, call.outputs, call.attrs, sizes,
                                 {{{x[0], w[0]}, {y[0]}, ""}, {{x[1], w[1]}, {y[1]}, ""}}));
    }
  }
  EXPECT_THAT(CheckOnTwoAxes("matmul(f32[8,4], f32[4,16])", "S(0),B->S(0)", "P,P->P"),
              StatusIs(absl::StatusCode::kInvalidArgument, ::testing::HasSubstr("no signature P,P->P")));
}

// "`a` `b`" to {a, b}.
Texts Quoted(const std::string& cell) {
  Texts texts;
  const Texts parts = absl::StrSplit(cell, '`');
  for (size_t i = 1; i < parts.size(); i += 2) texts.push_back(parts[i]);
  return texts;
}

std::string Joined(const Texts& texts) {
  return texts.empty() ? "–" : absl::StrCat("`", absl::StrJoin(texts, "` `"), "`");
}

struct Row {
  std::string call;
  Texts as_oneflow, more;
  std::string remark;
};

// The rows under "| op and operands |".
std::vector<Row> ReadmeRows() {
  std::ifstream file(SourceDir() + "/sbp/README.md");
  std::vector<Row> rows;
  bool inside = false;
  for (std::string line; std::getline(file, line);) {
    if (absl::StartsWith(line, "| op and operands |")) inside = true;
    if (!absl::StartsWith(line, "|")) inside = false;
    const Texts cells = absl::StrSplit(line, '|');
    if (!inside || cells.size() != 6) continue;
    const Texts call = Quoted(cells[1]);
    if (call.size() == 1) rows.push_back({call[0], Quoted(cells[2]), Quoted(cells[3]), cells[4]});
  }
  return rows;
}

TEST_F(OneFlowSignaturesTest, TheReadmesTableSaysWhatIsSo) {
  std::map<std::string, const Published*> published;
  for (const Published& it : kPublished) {
    EXPECT_TRUE(published.emplace(it.call, &it).second) << "twice: " << it.call;
  }
  Texts rows;
  for (const Row& row : ReadmeRows()) {
    rows.push_back(row.call);
    if (published.count(row.call) == 0) continue;  // told below
    const Published& theirs = *published[row.call];
    const auto is_theirs = [&](const std::string& signature) {
      return std::find(theirs.signatures.begin(), theirs.signatures.end(), signature) != theirs.signatures.end();
    };
    Texts as_oneflow, more;
    for (const std::string& signature : Ours(row.call)) {
      (is_theirs(signature) ? as_oneflow : more).push_back(signature);
    }
    EXPECT_TRUE(row.as_oneflow == as_oneflow && row.more == more)
        << "the row must begin\n| `" << row.call << "` | " << Joined(as_oneflow) << " | " << Joined(more) << " |";
    EXPECT_THAT(Quoted(row.remark), ::testing::IsSupersetOf(theirs.refused))
        << "the remark of '" << row.call << "' must say why not";
  }
  Texts calls;
  for (const auto& [call, it] : published) calls.push_back(call);
  EXPECT_THAT(rows, UnorderedElementsAreArray(calls)) << "a row for each list above";
}

}  // namespace
}  // namespace oneflow::testing
