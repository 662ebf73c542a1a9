// What tests know of the ops that generate text.
#include <algorithm>
#include <cmath>

#include "kernels/random.h"
#include "oneflow_core/functional.h"
#include "test/support/ops/kit.h"

namespace oneflow::testing::GenerationOps {
namespace {

Tensors SampleToken(RefCall& c) {
  const int64_t t = c.in[0].dims[1], v = c.in[0].dims[2];
  const double* const x = &c.in[0].values[(std::min(static_cast<int64_t>(c.in[1].values[0]), t) - 1) * v];
  RefTensor id = Zeros({}, DType::kInt32);
  const double temperature = c.attrs.Double("temperature");
  if (temperature == 0) {
    id.values[0] = static_cast<double>(std::max_element(x, x + v) - x);
    return {id};
  }
  std::vector<double> cumulative(v);
  const double top = *std::max_element(x, x + v);
  double total = 0;
  for (int64_t i = 0; i < v; ++i) cumulative[i] = total += std::exp((x[i] - top) / temperature);
  const uint64_t key = RandomKey(c.attrs.Int("seed"), c.attrs.Int("key"));
  const double u = ToUniform(RandomBits(key, c.context.step, c.context.micro_batch)) * total;
  const auto found = std::upper_bound(cumulative.begin(), cumulative.end(), u);
  id.values[0] = static_cast<double>(std::min<int64_t>(found - cumulative.begin(), v - 1));
  return {id};
}

Tensors AppendToken(RefCall& c) {
  std::vector<double>& tokens = c.in[0].values;
  double& length = c.in[1].values[0];
  if (length == static_cast<double>(tokens.size())) {
    tokens.erase(tokens.begin());
    tokens.push_back(0);
    length -= 1;
  }
  tokens[static_cast<size_t>(length)] = c.in[2].values[0];
  length += 1;
  return {};
}

constexpr const char kTypes[] = R"(
sample_token(f32[1,8,256] i32[]) {temperature=0} = i32[]
sample_token(f32[1,8,256] i32[]) {temperature=0.8 key=draw} = i32[]
sample_token(f32[2,8,256] i32[]) {temperature=0} ! logits is f32[2,8,256] but must be one sequence of at least one token
sample_token(f32[1,8,0] i32[]) {temperature=0} ! logits is f32[1,8,0] and has no class to draw
sample_token(f32[1,8,256] i32[]) {temperature=-1} ! attribute 'temperature' is -1 but must be at least 0
sample_token(f32[1,8,256] i32[]) ! attribute 'temperature' is missing
append_token(i32[1,8] i32[] i32[]) =
append_token(i32[2,8] i32[] i32[]) ! tokens is i32[2,8] but must be one sequence of at least one token
append_token(i32[1,8] i32[1] i32[]) ! length is i32[1] but must have 0 dimensions
)";

void AddExamples(Random& r, OpCases& cases) {
  cases.push_back({"sample_token",
                   "small",
                   {{"temperature", 0.8}, {"seed", int64_t{3}}, {"key", int64_t{8}}},
                   {r.Uniform({1, 6, 9}), Scalar(4, DType::kInt32)},
                   0});
  cases.push_back(
      {"append_token", "small", {}, {r.Integers({1, 5}, 100), Scalar(3, DType::kInt32), r.Integers({}, 100)}, 0});
}

void AddEdges(Random& r, OpCases& cases) {
  for (int64_t step = 0; step < 20; ++step) {
    const AttrMap attrs = {{"temperature", step % 4 * 0.5}, {"seed", int64_t{3}}, {"key", int64_t{99}}};
    cases.push_back({"sample_token",
                     "draws",
                     attrs,
                     {r.Uniform({1, 6, 37}, -4, 4), Scalar(static_cast<double>(1 + step % 8), DType::kInt32)},
                     0,
                     {step, 0}});
  }
  for (const int64_t length : {0, 3, 5}) {
    cases.push_back({"append_token",
                     "length",
                     {},
                     {r.Integers({1, 5}, 100), Scalar(static_cast<double>(length), DType::kInt32), r.Integers({}, 100)},
                     0});
  }
}

}  // namespace

OpFacts Facts() {
  OpFacts facts = {.types = kTypes, .examples = AddExamples, .edges = AddEdges};
  facts.reference = {{"sample_token", SampleToken}, {"append_token", AppendToken}};
  facts.dsl = {{[](Operands d) { return SampleToken(d.F32({1, 8, 9}), d.I32({}), 0.5); }, "sample_token", "i32[]"}};
  facts.without_gradient = {{"sample_token", "generates"}, {"append_token", "generates"}};
  return facts;
}

}  // namespace oneflow::testing::GenerationOps
