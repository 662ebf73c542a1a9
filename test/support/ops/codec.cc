// What tests know of the ops of edges with a policy. addends speaks of ranks: here all are one, whose addend is x.
#include <algorithm>
#include <cmath>

#include "kernels/random.h"
#include "test/support/ops/kit.h"

namespace oneflow::testing::CodecOps {
namespace {

Tensors Addends(RefCall& c) {
  Dims dims = {c.attrs.Int("count")};
  dims.insert(dims.end(), c.in[0].dims.begin(), c.in[0].dims.end());
  RefTensor y = Zeros(dims);
  std::copy(c.in[0].values.begin(), c.in[0].values.end(), y.values.begin());
  return {y};
}

double Dot(const RefTensor& x, int64_t i, int64_t j) {
  double sum = 0;
  for (int64_t row = 0; row < x.dims[0]; ++row) sum += x.values[row * x.dims[1] + i] * x.values[row * x.dims[1] + j];
  return sum;
}

Tensors Orthonormalize(RefCall& c) {
  RefTensor q = c.in[0];
  const int64_t n = q.dims[0], r = q.dims[1];
  for (int64_t i = 0; i < r; ++i) {
    const double before = Dot(q, i, i);
    for (int turn = 0; turn < 2; ++turn) {
      for (int64_t j = 0; j < i; ++j) {
        const double product = Dot(q, i, j);
        for (int64_t row = 0; row < n; ++row) q.values[row * r + i] -= product * q.values[row * r + j];
      }
    }
    const double after = Dot(q, i, i);
    for (int64_t row = 0; row < n; ++row) q.values[row * r + i] *= after > 1e-12 * before ? 1 / std::sqrt(after) : 0;
  }
  return {q};
}

// Of bits, where operand `used` is one of the inputs.
int64_t UsedBits(const RefCall& c, size_t used) {
  const int64_t room = c.attrs.Int("bits");
  return c.in.size() > used ? std::clamp(static_cast<int64_t>(c.in[used].values[0]), int64_t{1}, room) : room;
}

// In floats, as a level that is cut off elsewhere is another one.
Tensors Quantize(RefCall& c) {
  const RefTensor& x = c.in[0];
  const int64_t columns = Columns(x), bits = UsedBits(c, 1), bytes = columns / 8 * c.attrs.Int("bits");
  const bool stochastic = c.attrs.Bool("stochastic", false);
  const uint64_t key = stochastic ? RandomKey(c.attrs.Int("seed"), c.attrs.Int("key")) : 0;
  Dims dims = x.dims, pair = x.dims;
  dims.back() = bytes;
  pair.back() = 2;
  RefTensor codes = Zeros(dims), ranges = Zeros(pair);
  codes.dtype = DType::kUInt8;
  const float levels = static_cast<float>((1 << bits) - 1);
  for (int64_t row = 0; row < Rows(x); ++row) {
    const double* const from = &x.values[row * columns];
    const bool finite = std::all_of(from, from + columns, [](double v) { return std::isfinite(v); });
    const float least = static_cast<float>(*std::min_element(from, from + columns));
    const float unit = (static_cast<float>(*std::max_element(from, from + columns)) - least) / levels;
    ranges.values[2 * row] = finite ? least : kNan;
    ranges.values[2 * row + 1] = finite ? unit : kNan;
    for (int64_t i = 0; finite && unit > 0 && i < columns; ++i) {
      const uint64_t index = c.context.micro_batch * x.count() + row * columns + i;
      const float shift = stochastic ? ToUniform(RandomBits(key, c.context.step, index)) : 0.5f;
      const float at = (static_cast<float>(from[i]) - least) / unit + shift;
      const int level = static_cast<int>(std::min(at, levels));
      for (int64_t b = 0; b < bits; ++b) {
        const int64_t place = i * bits + b;
        codes.values[row * bytes + place / 8] += (level >> b & 1) << (place % 8);
      }
    }
  }
  return {codes, ranges};
}

Tensors Dequantize(RefCall& c) {
  const RefTensor &codes = c.in[0], &ranges = c.in[1];
  const int64_t bytes = Columns(codes), bits = UsedBits(c, 2), columns = bytes / c.attrs.Int("bits") * 8;
  Dims dims = codes.dims;
  dims.back() = columns;
  RefTensor x = Zeros(dims);
  for (int64_t i = 0; i < x.count(); ++i) {
    int level = 0;
    for (int64_t b = 0; b < bits; ++b) {
      const int64_t place = i % columns * bits + b;
      const int byte = static_cast<int>(codes.values[i / columns * bytes + place / 8]);
      level |= (byte >> (place % 8) & 1) << b;
    }
    x.values[i] = ranges.values[i / columns * 2] + level * ranges.values[i / columns * 2 + 1];
  }
  return {x};
}

constexpr const char kTypes[] = R"(
quantize(f32[2,16]) {bits=4} = u8[2,8] f32[2,2]
quantize(f32[3,2,24]) {bits=3 stochastic=true key=a} = u8[3,2,9] f32[3,2,2]
quantize(f32[0,8]) {bits=8} = u8[0,8] f32[0,2]
quantize(f32[2,16] i32[]) {bits=4} = u8[2,8] f32[2,2]
quantize(f32[2,16] i32[2]) {bits=4} ! used is i32[2] but must have 0 dimensions
dequantize(u8[2,8] f32[2,2] i32[]) {bits=4} = f32[2,16]
dequantize(u8[2,8] f32[2,2] f32[]) {bits=4} ! used is f32[] but must be i32
quantize(f32[8]) {bits=9} ! attribute 'bits' is 9 but must be in [1, 8]
quantize(f32[8]) {bits=0} ! attribute 'bits' is 0 but must be at least 1
quantize(f32[2,12]) {bits=4} ! x is f32[2,12] but its last dimension must be a multiple of 8
quantize(f32[2,0]) {bits=4} ! x is f32[2,0] but its last dimension must be a multiple of 8
quantize(f32[]) {bits=4} ! x is f32[] but must have at least 1 dimensions
dequantize(u8[2,8] f32[2,2]) {bits=4} = f32[2,16]
dequantize(u8[2,9] f32[2,2]) {bits=3} = f32[2,24]
dequantize(u8[2,9] f32[2,2]) {bits=2} ! codes is u8[2,9] but its last dimension must be a multiple of the 2 bits
dequantize(i32[2,8] f32[2,2]) {bits=4} ! codes is i32[2,8] but dequantize needs u8[2,8]
dequantize(u8[2,8] f32[2]) {bits=4} ! ranges is f32[2] but codes, which is u8[2,8], needs f32[2,2]
addends(f32[2,3]) {count=4} = f32[4,2,3]
addends(f32[]) {count=1} = f32[1]
addends(f32[2]) {count=0} ! attribute 'count' is 0 but must be at least 1
addends(i32[2]) {count=2} ! x is i32[2] but must be f32
choose_codes(f32[3]) {alpha=1.0 bytes=[4,8,6] counts=[1,2,5] sizes=[2,1] usual=[1,0]} = i32[2]
choose_codes(f32[3] i32[2]) {alpha=1.0 bytes=[4,8,6] counts=[1,2,5] sizes=[2,1] usual=[1,0]} = i32[2]
choose_codes(f32[1] i32[2]) {alpha=1.0 sizes=[1] usual=[0]} ! usual is i32[2] but attribute 'sizes' needs i32[1]
choose_codes(f32[1]) {alpha=0.5 sizes=[1] usual=[0]} ! attribute 'alpha' is 0.5 but must be at least 1
choose_codes(f32[1]) {alpha=1.0 sizes=[1] usual=[]} ! attribute 'usual' has 0 numbers, but 'sizes' has 1
choose_codes(f32[1]) {alpha=1.0 sizes=[0] usual=[0]} ! attribute 'sizes' has 0 but must be in [1, 10000]
choose_codes(f32[2]) {alpha=1.0 sizes=[2] usual=[2]} ! attribute 'usual' has 2 but must be in [0, 1]
choose_codes(f32[2]) {alpha=1.0 sizes=[1] usual=[0]} ! errors is f32[2] but attribute 'sizes' needs f32[1]
choose_codes(f32[1]) {alpha=1.0 counts=[] sizes=[1] usual=[0]} ! attribute 'counts' has 0 numbers for 1 candidates
choose_codes(i32[1]) {alpha=1.0 sizes=[1] usual=[0]} ! errors is i32[1] but must be f32
orthonormalize(f32[5,2]) = f32[5,2]
orthonormalize(f32[5,2,3]) ! x is f32[5,2,3] but must have 2 dimensions
)";

void AddExamples(Random& r, OpCases& cases) {
  cases.push_back({"orthonormalize", "small", {}, {r.Uniform({7, 3})}});
  cases.push_back({"orthonormalize", "one column", {}, {r.Uniform({5, 1})}});
  for (const bool stochastic : {false, true}) {
    const AttrMap attrs = {{"bits", int64_t{3}}, {"stochastic", stochastic}, {"seed", int64_t{3}}, {"key", int64_t{8}}};
    cases.push_back({"quantize", "small", attrs, {r.Uniform({3, 5, 8})}});
  }
  cases.push_back({"dequantize",
                   "small",
                   {{"bits", int64_t{3}}},
                   {r.Integers({3, 5, 6}, 256, DType::kUInt8), r.Uniform({3, 5, 2})}});
}

void AddEdges(Random& r, OpCases& cases) {
  for (const Dims& dims : std::vector<Dims>{{}, {7}, {3, 5}, {0, 4}}) {
    for (const int64_t count : {1, 4}) cases.push_back({"addends", "counts", {{"count", count}}, {r.Uniform(dims)}, 0});
  }
  for (const Dims& dims : std::vector<Dims>{{0, 2}, {3, 0}, {1, 1}, {300, 8}, {1000, 17}, {70000, 3}}) {
    cases.push_back({"orthonormalize", "sizes", {}, {r.Uniform(dims)}, 1e-5});
  }
  for (int64_t bits = 1; bits <= 8; ++bits) {
    for (const Dims& dims : std::vector<Dims>{{1, 8}, {0, 16}, {67, 24}, {300, 128}, {3, 5000}}) {
      for (const bool stochastic : {false, true}) {
        const AttrMap attrs = {
            {"bits", bits}, {"stochastic", stochastic}, {"seed", int64_t{7}}, {"key", int64_t{-1234567890123}}};
        cases.push_back({"quantize", "sizes", attrs, {r.Uniform(dims)}, 0, {1LL << 40, 3}});
      }
      Dims codes = dims, ranges = dims;
      codes.back() = dims.back() / 8 * bits;
      ranges.back() = 2;
      cases.push_back(
          {"dequantize", "sizes", {{"bits", bits}}, {r.Integers(codes, 256, DType::kUInt8), r.Uniform(ranges)}, 1e-6});
    }
  }
  for (const double used : {1, 3, 6, 0, 99}) {
    const RefTensor number = {{}, {used}, DType::kInt32};
    const AttrMap attrs = {{"bits", int64_t{6}}, {"stochastic", true}, {"seed", int64_t{7}}, {"key", int64_t{5}}};
    cases.push_back({"quantize", "used bits", attrs, {r.Uniform({5, 136}), number}, 0});
    const RefTensor codes = r.Integers({5, 102}, 256, DType::kUInt8);
    cases.push_back({"dequantize", "used bits", {{"bits", int64_t{6}}}, {codes, r.Uniform({5, 2}), number}, 1e-6});
  }
  RefTensor rows = r.Uniform({6, 40});
  std::fill_n(rows.values.begin(), 40, 1.25);  // of one value
  rows.values[41] = kNan;
  rows.values[119] = kInfinity;
  rows.values[120] = -kInfinity;
  rows.values[170] = 1e30;
  for (double& value : rows.values) value = static_cast<float>(value);
  cases.push_back({"quantize", "rows of one value, not finite, far apart", {{"bits", int64_t{4}}}, {rows}, 0});
  RefTensor x = r.Uniform({9, 5});
  for (int64_t row = 0; row < 9; ++row) {
    double* const at = &x.values[row * 5];
    at[1] = 0;
    at[3] = 2 * at[0] - at[2];
    at[4] *= 1e12;
  }
  cases.push_back({"orthonormalize", "zero, dependent and large columns", {}, {x}, 1e-5});
  cases.push_back({"orthonormalize", "more columns than rows", {}, {r.Uniform({2, 4})}, 1e-5});
}

}  // namespace

OpFacts Facts() {
  OpFacts facts = {.types = kTypes, .examples = AddExamples, .edges = AddEdges};
  facts.reference = {
      {"addends", Addends}, {"orthonormalize", Orthonormalize}, {"quantize", Quantize}, {"dequantize", Dequantize}};
  facts.without_gradient = {{"addends", "only the compiler adds it"},
                            {"choose_codes", "only the compiler adds it"},
                            {"orthonormalize", "gradients are compressed after differentiation"},
                            {"quantize", "gradients are compressed after differentiation"},
                            {"dequantize", "gradients are compressed after differentiation"}};
  return facts;
}

}  // namespace oneflow::testing::CodecOps
