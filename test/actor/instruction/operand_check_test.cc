#include "actor/instruction/operand_check.h"

#include "gtest/gtest.h"
#include "test/support/standard_ops.h"
#include "test/support/status_matchers.h"

namespace oneflow {
namespace {

// "f32[8,4]", or with the shard's shape "f32[8,4]/[2,4]".
ShardType ParseShard(const std::string& text) {
  const size_t slash = text.find('/');
  const TensorType whole = *TensorType::Parse(text.substr(0, slash));
  return {whole.dtype, slash == std::string::npos ? whole.shape : *Shape::Parse(text.substr(slash + 1)), whole.shape};
}

absl::Status Check(const std::string& op, const AttrMap& attrs, const std::vector<std::string>& inputs,
                   const std::vector<std::string>& outputs) {
  std::vector<ShardType> in, out;
  for (const std::string& text : inputs) in.push_back(ParseShard(text));
  for (const std::string& text : outputs) out.push_back(ParseShard(text));
  return CheckCall(*Ops().Find(op), attrs, in, out);
}

struct CallOnShards {
  const char* op;
  AttrMap attrs;
  std::vector<std::string> inputs, outputs;
};

using Ints = std::vector<int64_t>;

// Where attributes speak of sizes, and where only a whole tensor must have elements.
TEST(OperandCheckTest, TakesShardsOfOpsWhoseAttributesAreSizes) {
  const AttrMap heads = {{"heads", int64_t{6}}};
  const CallOnShards calls[] = {
      {"constant", {{"dtype", "f32"}, {"shape", Ints{5, 2}}, {"value", 1.0}}, {}, {"f32[5,2]/[3,2]"}},
      {"reshape", {{"shape", Ints{6, 4}}}, {"f32[24]/[8]"}, {"f32[6,4]/[2,4]"}},
      {"reshape", {{"shape", Ints{6, 4}}}, {"f32[24]/[0]"}, {"f32[6,4]/[0,4]"}},
      {"broadcast_to", {{"shape", Ints{5, 3}}}, {"f32[3]/[2]"}, {"f32[5,3]/[5,2]"}},
      {"broadcast_to", {{"shape", Ints{5, 3}}}, {"f32[3]"}, {"f32[5,3]/[1,3]"}},
      {"sum_to", {{"shape", Ints{3}}}, {"f32[5,3]/[5,1]"}, {"f32[3]/[1]"}},
      {"sum_to", {{"shape", Ints{3}}}, {"f32[5,3]/[0,3]"}, {"f32[3]"}},
      {"embedding_grad", {{"rows", int64_t{7}}}, {"f32[4,2]", "i32[4]"}, {"f32[7,2]/[3,2]"}},
      {"scatter_add", {{"axis", int64_t{1}}, {"size", int64_t{9}}}, {"f32[2,4]", "i32[4]"}, {"f32[2,9]/[2,5]"}},
      {"put_along", {{"columns", int64_t{9}}}, {"f32[2,4]", "i32[2,4]"}, {"f32[2,9]/[2,0]"}},
      {"attention", heads, {3, "f32[2,4,12]/[2,4,4]"}, {"f32[2,4,12]/[2,4,4]", "f32[2,6,4]/[2,2,4]"}},
      {"attention", heads, {3, "f32[2,4,12]/[0,4,12]"}, {"f32[2,4,12]/[0,4,12]", "f32[2,6,4]/[0,6,4]"}},
      {"reduce_mean", {{"axes", Ints{0}}}, {"f32[2,3]/[0,3]"}, {"f32[3]"}},
      {"reduce_max", {{"axes", Ints{0}}}, {"f32[2,3]/[0,3]"}, {"f32[3]"}},
      {"channel_mean", {}, {"f32[2,3]/[0,3]"}, {"f32[3]"}},
      {"channel_variance", {}, {"f32[2,3]/[0,3]", "f32[3]"}, {"f32[3]"}},
      {"replica_digest", {{"shape", Ints{2, 3}}}, {"f32[4,4]"}, {"i32[2,3]/[1,1]"}},
      {"assert_replicas", {}, {"f32[4,4]", "i32[2,3]/[2,1]"}, {"f32[4,4]"}},
      {"read_data",
       {{"dataset", "text"}, {"batch", int64_t{4}}, {"context", int64_t{8}}},
       {},
       {"i32[4,8]/[0,8]", "i32[4,8]/[0,8]"}},
  };
  for (const CallOnShards& call : calls) {
    EXPECT_OK(Check(call.op, call.attrs, call.inputs, call.outputs)) << call.op;
  }
}

TEST(OperandCheckTest, SaysWhatIsWrongWithBothValues) {
  const AttrMap heads = {{"heads", int64_t{6}}};
  const std::vector<std::string> f8 = {"f32[8]"};
  const struct {
    CallOnShards call;
    const char* error;
  } cases[] = {
      {{"add", {}, f8, f8}, "takes 2 inputs (a, b) but is given 1"},
      {{"relu", {}, f8, {}}, "it has 0 outputs but the op gives 1"},
      {{"relu", {}, f8, {"f32[9]"}}, "output 0 is f32[9] but the op gives f32[8]"},
      {{"relu", {}, f8, {"bf16[8]"}}, "output 0 is bf16[8] but the op gives f32[8]"},
      {{"relu", {}, f8, {"f32[8]/[4]"}}, "its shards: output 0 is f32[4] but the op gives f32[8]"},
      {{"softmax_cross_entropy", {}, {"f32[4,5]", "f32[4]"}, {"f32[4]", "f32[4]"}}, "labels is f32[4] but must be i32"},
      {{"bias_add", {{"axis", int64_t{2}}}, {"f32[4,5]", "f32[5]"}, {"f32[4,5]"}},
       "attribute 'axis' is 2 but must be in [-1, 1]"},
      {{"matmul", {}, {"f32[4,6]/[4,3]", "f32[6,2]"}, {"f32[4,2]"}},
       "its shards: inner dimensions differ: a is f32[4,3], w is f32[6,2]"},
      {{"reshape", {{"shape", Ints{6, 4}}}, {"f32[24]/[8]"}, {"f32[6,4]/[3,4]"}},
       "its shards: x is f32[8] and has 8 elements, shape [3,4] has 12"},
      {{"scatter_add", {{"axis", int64_t{2}}, {"size", int64_t{9}}}, {"f32[2,4]", "i32[4]"}, {"f32[2,9]"}},
       "attribute 'axis' is 2 but must be in [0, 1]"},
      {{"attention", heads, {3, "f32[2,4,12]/[2,4,4]"}, {"f32[2,4,12]/[2,4,4]", "f32[2,6,4]/[2,3,4]"}},
       "its shards: output 1 is f32[2,3,4] but the op gives f32[2,2,4]"},
      {{"attention", heads, {3, "f32[2,4,12]/[2,4,3]"}, {"f32[2,4,12]/[2,4,3]", "f32[2,6,4]/[2,1,4]"}},
       "its shards: attribute 'heads' is 0 but must be at least 1"},
      {{"reduce_mean", {{"axes", Ints{0}}}, {"f32[0,3]"}, {"f32[3]"}}, "must have at least one element"},
  };
  for (const auto& [call, error] : cases) {
    EXPECT_THAT(Check(call.op, call.attrs, call.inputs, call.outputs),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(error)))
        << call.op;
  }
}

TEST(OperandCheckTest, BlocksAreTakenAsTheOpSays) {
  const auto check = [](const std::string& op, const AttrMap& attrs, const std::vector<std::string>& inputs,
                        const std::string& output, const std::vector<int>& in_blocks) {
    std::vector<ShardType> in, out = {ParseShard(output)};
    for (const std::string& text : inputs) in.push_back(ParseShard(text));
    for (const int i : in_blocks) {
      (i < static_cast<int>(in.size()) ? in[i] : out[i - in.size()]).layout = MemoryLayout::kChannelBlocks;
    }
    return CheckCall(*Ops().Find(op), attrs, in, out);
  };
  const std::string x = "f32[2,32,4,4]/[2,16,4,4]";
  const AttrMap window = {{"stride", int64_t{1}}, {"padding", int64_t{0}}};
  const std::vector<std::string> xk = {"f32[2,32,4,4]", "f32[16,32,1,1]"};
  EXPECT_OK(check("relu", {}, {x}, x, {0, 1}));
  EXPECT_OK(check("conv2d", window, xk, "f32[2,16,4,4]", {0}));
  EXPECT_OK(check("conv2d", window, xk, "f32[2,16,4,4]", {2}));
  EXPECT_OK(check("reorder", {}, {x}, x, {1}));
  EXPECT_THAT(check("relu", {}, {x}, x, {0}), StatusIs(absl::StatusCode::kInvalidArgument,
                                                       "operands 0 and 1 must lie alike, but only one of them lies "
                                                       "in blocks"));
  EXPECT_THAT(check("conv2d", window, xk, "f32[2,16,4,4]", {1}),
              StatusIs(absl::StatusCode::kInvalidArgument, "operand 1 lies in blocks, but must be row-major"));
  EXPECT_THAT(check("add", {}, {"f32[2,32,4,4]", "f32[4]"}, "f32[2,32,4,4]", {0, 2}),
              StatusIs(absl::StatusCode::kInvalidArgument, "operand 0 lies in blocks, but must be row-major"));
}

}  // namespace
}  // namespace oneflow
