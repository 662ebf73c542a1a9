// What tests know of rotary position embeddings.
#include "oneflow_core/rotary.h"

#include <cmath>

#include "oneflow_core/functional.h"
#include "test/support/ops/kit.h"

namespace oneflow::testing::RotaryOps {
namespace {

Tensors Rotary(RefCall& c) {
  RefTensor y = c.in[0];
  const int64_t t = y.dims[1], columns = y.dims[2], heads = c.attrs.Int("heads"), d = columns / heads;
  const int64_t width = c.attrs.Int("width", d);
  const bool interleaved = c.attrs.Bool("interleaved");
  const RotaryAngles angles = RotaryAnglesOf(c.attrs, width, t);
  for (int64_t row = 0; row < y.dims[0] * t; ++row) {
    for (int64_t pair = 0; pair < heads * (width / 2); ++pair) {
      const int64_t i = pair % (width / 2), head = row * columns + pair / (width / 2) * d;
      const int64_t at = interleaved ? head + 2 * i : head + i, other = interleaved ? at + 1 : at + width / 2;
      // An angle is a float: what is far from the start turns by many times what a double would keep.
      const double angle = static_cast<float>(row % t) * angles.inverse[i];
      const double cos = std::cos(angle) * angles.amplitude;
      const double sin = std::sin(c.attrs.Bool("back") ? -angle : angle) * angles.amplitude;
      const double x0 = y.values[at], x1 = y.values[other];
      y.values[at] = x0 * cos - x1 * sin;
      y.values[other] = x1 * cos + x0 * sin;
    }
  }
  return {y};
}

constexpr const char kTypes[] = R"(
rotary(f32[2,5,8]) {heads=2} = f32[2,5,8]
rotary(bf16[2,5,8]) {heads=1 width=6 interleaved=true back=true} = bf16[2,5,8]
rotary(f32[2,5,8]) {heads=2 scaling=llama3 factor=8 original_context=4} = f32[2,5,8]
rotary(f32[2,5,8]) {heads=3} ! attribute 'heads' is 3 but must divide the last dimension of x, which is f32[2,5,8]
rotary(f32[2,5,6]) {heads=2} ! 3 columns of a head are turned, but they must be pairs
rotary(f32[2,5,8]) {heads=2 width=6} ! attribute 'width' is 6 but must be in [0, 4]
rotary(f32[5,8]) {heads=2} ! x is f32[5,8] but must have 3 dimensions
rotary(f32[2,5,8]) {heads=2 scaling=ntk} ! attribute 'scaling' is 'ntk' but must be one of none, linear, dynamic,
    yarn, llama3
rotary(f32[2,5,8]) {heads=2 theta=-1.0} ! attribute 'theta' is -1 but must be positive
rotary(f32[2,5,8]) {heads=2 scaling=llama3 low_frequency=4.0} ! attribute 'low_frequency' is 4 but must be below
    high_frequency, 4
)";

constexpr const char kSignatures[] = R"(
rotary(f32[4,8,16]) {heads=4} | - | S(0)->S(0) S(1)->S(1) S(2)->S(2) P->P | - | - | it has no such op
)";

void AddExamples(Random& r, OpCases& cases) {
  for (const bool back : {false, true}) {
    cases.push_back({"rotary", "small", {{"heads", int64_t{4}}, {"back", back}}, {r.Uniform({5, 4, 16})}});
    cases.push_back({"rotary",
                     "neighbours",
                     {{"heads", int64_t{2}}, {"back", back}, {"interleaved", true}, {"width", int64_t{4}}},
                     {r.Uniform({2, 7, 12})}});
  }
}

void AddEdges(Random& r, OpCases& cases) {
  const std::vector<AttrMap> scalings = {
      {},
      {{"theta", 500000.0}, {"scaling", "llama3"}, {"factor", 8.0}, {"original_context", int64_t{16}}},
      {{"scaling", "linear"}, {"factor", 2.0}},
      {{"scaling", "dynamic"}, {"factor", 2.0}, {"original_context", int64_t{16}}},
      {{"scaling", "yarn"}, {"factor", 4.0}, {"original_context", int64_t{16}}},
      {{"scaling", "yarn"}, {"factor", 4.0}, {"original_context", int64_t{16}}, {"attention_factor", 1.25}}};
  for (AttrMap attrs : scalings) {
    for (const bool interleaved : {false, true}) {
      attrs.Set("interleaved", interleaved);
      attrs.Set("heads", int64_t{3});
      cases.push_back(InPlace({"rotary", "positions", attrs, {r.Uniform({2, 65, 3 * 38})}, 2e-6}, 0));
      AttrMap part = attrs;
      part.Set("width", int64_t{20});
      cases.push_back(InPlace({"rotary", "a part of each head", part, {r.Uniform({2, 65, 3 * 38})}, 2e-6}, 0));
    }
  }
  cases.push_back({"rotary", "several threads", {{"heads", int64_t{8}}}, {r.Uniform({2, 300, 512})}, 2e-6});
  cases.push_back(
      {"rotary", "nothing is turned", {{"heads", int64_t{2}}, {"width", int64_t{0}}}, {r.Uniform({2, 3, 6})}});
  for (const Dims& dims : {Dims{0, 3, 8}, Dims{2, 0, 8}, Dims{2, 3, 0}}) {
    cases.push_back({"rotary", "empty", {{"heads", int64_t{2}}}, {r.Uniform(dims)}});
  }
}

}  // namespace

OpFacts Facts() {
  OpFacts facts = {.types = kTypes, .signatures = kSignatures, .examples = AddExamples, .edges = AddEdges};
  facts.reference = {{"rotary", Rotary}};
  // 4 heads cannot be cut 8 times.
  facts.wrong_signatures = {{"rotary", {2, 4}, {"S(2)->S(2)", "S(2)->S(2)"}}};
  facts.dsl = {{[](Operands d) { return Rotary(d.F32({2, 5, 8}), 2); }, "rotary", "f32[2,5,8]"}};
  return facts;
}

}  // namespace oneflow::testing::RotaryOps
