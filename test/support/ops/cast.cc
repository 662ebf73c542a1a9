// What tests know of cast: floats are rounded when they are stored, towards integers they are truncated.
#include <cmath>

#include "oneflow_core/functional.h"
#include "test/support/ops/kit.h"

namespace oneflow::testing::CastOps {
namespace {

Tensors Cast(RefCall& c) {
  RefTensor y = c.in[0];
  ParseDType(c.attrs.String("dtype").c_str(), &y.dtype);
  for (double& v : y.values) {
    if (y.dtype == DType::kBool) v = v != 0;
    if (y.dtype == DType::kInt32 || y.dtype == DType::kInt64 || y.dtype == DType::kUInt8) v = std::trunc(v);
  }
  return {y};
}

constexpr const char kTypes[] = R"(
cast(f32[2]) {dtype=bf16} = bf16[2]
cast(u8[2]) {dtype=f32} = f32[2]
cast(f32[2]) {addends=true dtype=bf16} = bf16[2]
cast(f32[2]) {addends=1 dtype=bf16} ! attribute 'addends' is an integer but must be a bool
cast(f32[2]) ! attribute 'dtype' is missing
cast(f32[2]) {dtype=double} ! attribute 'dtype' is 'double' but must be f32, bf16, f16, i32, i64, u8 or bool
)";

constexpr const char kSignatures[] = R"(
cast(f32[8,4]) {dtype="f16"} | S(0)->S(0) S(1)->S(1) | - | P->P | cast_op.cpp | not P->P: addends are added before they
    are narrowed; widening passes them
cast(f32[8,4]) {dtype="i32"} | S(0)->S(0) S(1)->S(1) | - | P->P | cast_op.cpp | not P->P: a sum of rounded integers is
    not the rounded sum
)";

void AddExamples(Random& r, OpCases& cases) {
  const auto cast = [&](DType from, DType to, double tolerance) {
    RefTensor x = IsFloating(from) ? r.Uniform({7, 5}) : r.Integers({7, 5}, 100);
    x.dtype = from;
    cases.push_back({"cast", "small", {{"dtype", std::string(Name(to))}}, {x}, tolerance});
  };
  // Addends are rounded before they are summed: of twelve up to 2 the one that makes up the rest is up to 24, rounded
  // to 1/16.
  cast(DType::kFloat32, DType::kBFloat16, 7e-2);
  cast(DType::kBFloat16, DType::kFloat32, 7e-2);
  cast(DType::kFloat32, DType::kInt32, 0);
  cast(DType::kInt32, DType::kInt64, 0);
  cast(DType::kUInt8, DType::kFloat32, 0);
}

void AddEdges(Random& r, OpCases& cases) {
  for (const DType from : kAllDTypes) {
    for (const DType to : kAllDTypes) {
      cases.push_back({"cast", "all pairs", {{"dtype", std::string(Name(to))}}, {r.Small({3, 19}, from)}, 0});
    }
  }
  for (const char* to : {"bf16", "i32"}) {
    cases.push_back({"cast", "images", {{"dtype", std::string(to)}}, {r.Small({2, 16, 3, 5}, DType::kFloat32)}, 0});
  }
  for (const char* to : {"bf16", "f16"}) {
    cases.push_back({"cast", "rounding", {{"dtype", std::string(to)}}, {r.Uniform({999})}, 0});
  }
  cases.push_back({"cast", "truncation", {{"dtype", std::string("i32")}}, {r.Uniform({999}, -1000, 1000)}, 0});
}

}  // namespace

OpFacts Facts() {
  OpFacts facts = {.types = kTypes, .signatures = kSignatures, .examples = AddExamples, .edges = AddEdges};
  facts.reference = {{"cast", Cast}};
  facts.dsl = {{[](Operands d) { return Cast(d.F32({2, 3}), DType::kBFloat16); }, "cast", "bf16[2,3]"}};
  return facts;
}

}  // namespace oneflow::testing::CastOps
