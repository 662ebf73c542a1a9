// What tests know of the sources: a constant is its values everywhere. Variables and data are the runtime's.
#include "oneflow_core/functional.h"
#include "oneflow_core/literal.h"
#include "test/support/ops/kit.h"

namespace oneflow::testing::SourceOps {
namespace {

constexpr const char kTypes[] = R"(
variable() {dtype=f32 shape=[2,3] init=normal(0.02) trainable=true} = f32[2,3]
variable() {dtype=i64 shape=[] init=zeros} = i64[]
variable() {dtype=i32 shape=[1,4] init=list(1,2,3)} = i32[1,4]
variable() {dtype=f32 shape=[0] init=list()} = f32[0]
variable(f32[]) {dtype=f32 shape=[] init=zeros} ! takes 0 inputs () but is given 1
variable() {shape=[2] init=zeros} ! attribute 'dtype' is missing
variable() {dtype=f33 shape=[2] init=zeros} ! attribute 'dtype' is 'f33' but must be f32, bf16, f16, i32, i64, u8 or
    bool
variable() {dtype=f32 shape=[2,-1] init=zeros} ! attribute 'shape' is [2,-1]: size -1 is negative
variable() {dtype=f32 shape=3 init=zeros} ! attribute 'shape' is an integer but must be a list of integers
variable() {dtype=f32 shape=[2]} ! attribute 'init' is missing
variable() {dtype=f32 shape=[2] init=twos} ! attribute 'init' is 'twos': must be zeros, ones, constant(v), normal(std),
    uniform(bound) or list(1,2,3)
variable() {dtype=f32 shape=[2] init=gauss(1)} ! attribute 'init' is 'gauss(1)': must be zeros, ones, constant(v),
    normal(std), uniform(bound) or list(1,2,3)
variable() {dtype=f32 shape=[2] init=normal(x)} ! attribute 'init' is 'normal(x)': 'x' is not a finite number
variable() {dtype=f32 shape=[2] init=normal(nan)} ! attribute 'init' is 'normal(nan)': 'nan' is not a finite number
variable() {dtype=f32 shape=[2] init=normal()} ! attribute 'init' is 'normal()': '' is not a finite number
variable() {dtype=f32 shape=[2] init=normal(1,2)} ! attribute 'init' is 'normal(1,2)': takes 1 number, not 2
variable() {dtype=i32 shape=[2] init=uniform(1)} ! attribute 'init' is 'uniform(1)': the variable is i32[2] but random
    values are floating
variable() {dtype=i32 shape=[2] init=list(1,2,3)} ! attribute 'init' is 'list(1,2,3)': 3 numbers are too many for i32[2]
variable() {dtype=i32 shape=[2] init=zeros trainable=true} ! the variable is trainable but i32[2]; only floating
    variables have gradients
variable() {dtype=f32 shape=[2] init=zeros trainable=1} ! attribute 'trainable' is an integer but must be a bool
variable() {dtype=f32 shape=[1073741824,1073741824] init=zeros} ! the result f32[1073741824,1073741824] has more than
    2^58 elements
read_data() {dataset=text batch=4 context=16 path=/a/file} = i32[4,16] i32[4,16]
read_data() {dataset=images batch=4 channels=1 height=28 width=28} = f32[4,1,28,28] i32[4]
read_data() {batch=4} ! attribute 'dataset' is missing
read_data() {dataset=prototypes batch=4 channels=1 height=8 width=8} = f32[4,1,8,8] i32[4]
read_data() {dataset=clicks batch=4 fields=3 numbers=2} = i32[4,3] f32[4,2] i32[4]
read_data() {dataset=clicks batch=4} ! attribute 'fields' is missing
read_data() {dataset=game batch=4 dimension=3 workers=8} = f32[4,3,3] f32[4,3] f32[4,3] f32[4,6]
read_data() {dataset=game batch=4} ! attribute 'dimension' is missing
read_data() {dataset=game batch=4 dimension=1024 workers=1024} ! a game of dimension 1024 with 1024 workers has 1024
    matrices of 1024 x 1024, but may have at most 16777216 numbers in them
read_data() {dataset="csv", batch=4, features="\"a\",\"b\"", label="c"} = f32[4,2] i32[4]
read_data() {dataset="csv", batch=4, features="\"a\"", target="c"} = f32[4,1] f32[4]
read_data() {dataset="csv", batch=4, features=""} ! attribute 'features' names no columns
read_data() {dataset=texts batch=4 context=16} = i32[4,16] i32[4] i32[4,16]
read_data() {dataset=texts batch=4} ! attribute 'context' is missing
read_data() {dataset=sound batch=4} ! attribute 'dataset' is 'sound' but must be 'cifar', 'clicks', 'csv', 'game',
    'images', 'prototypes', 'text' or 'texts'
read_data() {dataset=text batch=0 context=16} ! attribute 'batch' is 0 but must be at least 1
read_data() {dataset=text batch=4} ! attribute 'context' is missing
read_data() {dataset=text batch=4 context=16.5} ! attribute 'context' is a number but must be an integer
read_data() {dataset=images batch=4 channels=1 height=28 width=0} ! attribute 'width' is 0 but must be at least 1
constant() {dtype=f32 shape=[2] value=0.5} = f32[2]
constant() {dtype=i64 shape=[] value=3} = i64[]
constant() {dtype=f32 shape=[2]} ! attribute 'value' is missing
constant() {dtype=f32 shape=[2] value=one} ! attribute 'value' is a string but must be a number
literal() {dtype="f32", shape=[2], values="1,-inf"} = f32[2]
literal() {dtype="i32", shape=[0,2], values=""} = i32[0,2]
literal() {dtype="f32", shape=[2], values="1"} ! attribute 'values' has 1 numbers for f32[2]
literal() {dtype="f32", shape=[2], values="1,x"} ! attribute 'values' is '1,x', not numbers with commas
literal() {dtype="f32", shape=[2], values="1,2,"} ! attribute 'values' is '1,2,', not numbers with commas
literal() {dtype="i32", shape=[2], values="1,2.5"} ! attribute 'values' is 2.5 but the constant is of integers (i32)
literal() {dtype="f32", shape=[2]} ! attribute 'values' is missing
arange() {dtype=f32 shape=[5] start=0.5 step=0.25} = f32[5]
arange() {dtype=i32 shape=[0] start=3 step=-1} = i32[0]
arange() {dtype=i32 shape=[5] start=0 step=0.5} ! attribute 'step' is 0.5 but the constant is of integers (i32)
arange() {dtype=f32 shape=[5,2] start=0 step=1} ! makes floats, i32 or i64 along 1 dimension, not f32[5,2]
arange() {dtype=bool shape=[5] start=0 step=1} ! makes floats, i32 or i64 along 1 dimension, not bool[5]
constant() {dtype=i32 shape=[2] value=0.5} ! attribute 'value' is 0.5 but the constant is of integers (i32)
)";

constexpr const char kSignatures[] = R"(
constant() {dtype="f32", shape=[8,4], value=1.0} | ->S(0) ->S(1) | - | - | constant_op.cpp | so variable
)";

AttrMap Literal(DType dtype, const Dims& shape, const std::vector<double>& values) {
  return {{"dtype", std::string(Name(dtype))}, {"shape", shape}, {"values", LiteralText(values)}};
}
AttrMap Arange(DType dtype, int64_t size, double start, double step) {
  return {{"dtype", std::string(Name(dtype))}, {"shape", Dims{size}}, {"start", start}, {"step", step}};
}

void AddExamples(Random& r, OpCases& cases) {
  cases.push_back({"literal", "small", Literal(DType::kFloat32, {7, 5}, r.Uniform({35}).values), {}});
  cases.push_back({"literal", "integers", Literal(DType::kInt32, {7}, r.Integers({7}, 100).values), {}, 0});
  cases.push_back({"arange", "small", Arange(DType::kFloat32, 7, 0.5, -0.25), {}});
  cases.push_back({"arange", "integers", Arange(DType::kInt32, 7, -3, 2), {}, 0});
  for (const DType dtype : {DType::kFloat32, DType::kInt64}) {
    cases.push_back(
        {"constant", "small", {{"dtype", std::string(Name(dtype))}, {"shape", Dims{7, 5}}, {"value", 3.0}}, {}});
  }
}

void AddEdges(Random& r, OpCases& cases) {
  for (const DType dtype : kAllDTypes) {
    cases.push_back({"literal", "dtypes", Literal(dtype, {3, 19}, r.Small({3, 19}, dtype).values), {}, 0});
    if (dtype == DType::kUInt8 || dtype == DType::kBool) continue;
    cases.push_back({"arange", "dtypes", Arange(dtype, 37, 2, 3), {}, 0});
  }
  cases.push_back({"literal", "many", Literal(DType::kFloat32, {1000}, r.Uniform({1000}).values), {}, 1e-7});
  cases.push_back({"literal", "none", Literal(DType::kFloat32, {0, 3}, {}), {}, 0});
  cases.push_back({"arange", "none", Arange(DType::kFloat32, 0, 1, 1), {}, 0});
  for (const DType dtype : kAllDTypes) {
    cases.push_back(
        {"constant", "dtypes", {{"dtype", std::string(Name(dtype))}, {"shape", Dims{3, 7}}, {"value", 1.0}}, {}, 0});
  }
  cases.push_back({"constant", "empty", {{"dtype", std::string("f32")}, {"shape", Dims{0}}, {"value", 1.0}}, {}, 0});
}

}  // namespace

OpFacts Facts() {
  OpFacts facts = {.types = kTypes, .signatures = kSignatures, .examples = AddExamples, .edges = AddEdges};
  facts.reference = {{"constant", [](RefCall& c) {
                        RefTensor x = Zeros(c.attrs.Ints("shape"));
                        ParseDType(c.attrs.String("dtype").c_str(), &x.dtype);
                        std::fill(x.values.begin(), x.values.end(), c.attrs.Double("value"));
                        return Tensors{x};
                      }}};
  facts.reference.emplace_back("literal", [](RefCall& c) {
    RefTensor x = Zeros(c.attrs.Ints("shape"));
    ParseDType(c.attrs.String("dtype").c_str(), &x.dtype);
    x.values = *ParseLiteral(c.attrs.String("values"));
    return Tensors{x};
  });
  facts.reference.emplace_back("arange", [](RefCall& c) {
    RefTensor x = Zeros(c.attrs.Ints("shape"));
    ParseDType(c.attrs.String("dtype").c_str(), &x.dtype);
    for (size_t i = 0; i < x.values.size(); ++i) {
      x.values[i] = c.attrs.Double("start") + c.attrs.Double("step") * static_cast<double>(i);
    }
    return Tensors{x};
  });
  facts.dsl = {{[](Operands d) {
                  return ReadText(d.b, 4, 8, {{"path", std::string("f")}}).labels;
                },
                "read_data", "i32[4,8]"},
               {[](Operands d) { return ReadImages(d.b, 4, 1, 28, 28).images; }, "read_data", "f32[4,1,28,28]"},
               {[](Operands d) { return ReadImages(d.b, 4, 1, 28, 28).labels; }, "read_data", "i32[4]"},
               {[](Operands d) {
                  return Constant(d.b, {DType::kInt64, {2}}, 3);
                },
                "constant", "i64[2]"},
               {[](Operands d) {
                  return Constant(d.b, {DType::kFloat32, {3}}, std::vector<double>{0.1, -2, 3});
                },
                "literal", "f32[3]"},
               {[](Operands d) { return Arange(d.b, DType::kInt32, 5); }, "arange", "i32[5]"}};
  facts.without_gradient = {{"variable", "a source"},
                            {"read_data", "a source"},
                            {"constant", "a source"},
                            {"literal", "a source"},
                            {"arange", "a source"}};
  return facts;
}

}  // namespace oneflow::testing::SourceOps
