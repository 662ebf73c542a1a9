// The kernels that go by tiles, on shapes that do, against the reference: of variant amx_twin, and, where the processor
// has tiles, of amx, whose bits are the same.
#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gtest/gtest.h"
#include "kernels/cpu/variant.h"
#include "oneflow_core/memory_layout.h"
#include "oneflow_core/packed.h"
#include "test/kernels/harness.h"
#include "test/support/op_facts.h"
#include "test/support/ops/kit.h"
#include "test/support/standard_ops.h"
#include "test/support/status_matchers.h"
#include "test/support/tile_trap.h"

namespace oneflow::testing {
namespace {

constexpr uint64_t kTileSeed = 7;
constexpr DType kBf16 = DType::kBFloat16;

const CpuVariant* Variant(const char* name) {
  const auto found = FindCpuVariant(name);
  return found.ok() ? *found : nullptr;
}

RefTensor Bf16(RefTensor x) { return Rounded(Of(kBf16, std::move(x))); }

struct TileCase {
  std::string what, op;
  AttrMap attrs;
  std::vector<RefTensor> inputs;
  double tolerance = 0x1p-6;               // of a number and 1: two roundings to bf16
  bool depends_on_cores = false;           // its bits do
  std::vector<MemoryLayout> layouts = {};  // empty: all are row-major
};

struct AttentionCase {
  int64_t b, t, heads, d;
  bool causal;
  int64_t kv_heads = 0, window = 0, keys = 0;  // 0: heads, none, t
};

void AddAttention(Random& r, const AttentionCase& x, std::vector<TileCase>& cases) {
  const int64_t kv_heads = x.kv_heads > 0 ? x.kv_heads : x.heads, keys = x.keys > 0 ? x.keys : x.t;
  AttrMap attrs = {{"heads", x.heads}, {"kv_heads", kv_heads}, {"causal", x.causal}};
  if (x.window > 0) attrs.Set("window", x.window);
  const std::string what = absl::StrCat("attention of ", x.b, " samples, ", x.t, " tokens, ", keys, " keys, ", x.heads,
                                        " heads of ", x.d, ", ", kv_heads, " of keys", x.causal ? ", causal" : "",
                                        x.window > 0 ? absl::StrCat(", window ", x.window) : "");
  const auto draw = [&](int64_t rows, int64_t heads, double most) {
    return Bf16(r.Uniform({x.b, rows, heads * x.d}, -most, most));
  };
  std::vector<RefTensor> in = {draw(x.t, x.heads, 2), draw(keys, kv_heads, 2), draw(keys, kv_heads, 1)};
  std::vector<RefTensor> copy = in;
  const std::vector<RefTensor> out = *Reference("attention", attrs, copy);
  cases.push_back({what, "attention", attrs, in});
  // Of as many heads dk and dv are sums.
  const double most = std::sqrt(static_cast<double>(kv_heads) / static_cast<double>(x.heads));
  cases.push_back({absl::StrCat("gradient of ", what),
                   "attention_grad",
                   attrs,
                   {draw(x.t, x.heads, most), in[0], in[1], in[2], Bf16(out[0]), out[1]}});
  cases.push_back(cases.back());
  cases.back().what += ", through lse too";
  cases.back().inputs.push_back(r.Uniform(out[1].dims, -most, most));
}

RefTensor Labels(Random& r, int64_t rows, int64_t n) {
  RefTensor labels = r.Uniform({rows}, 0, static_cast<double>(n));
  labels.dtype = DType::kInt32;
  for (double& label : labels.values) label = std::min(std::floor(label), static_cast<double>(n - 1));
  return labels;
}

enum class Weight { kPlain, kTransposed, kPacked, kPackedTurned };

// `outlier`: what every seventh class's weights are multiplied by, so that its logits lie far above all others.
void AddHead(Random& r, int64_t rows, int64_t k, int64_t n, Weight weight, double outlier,
             std::vector<TileCase>& cases) {
  const bool packed = weight == Weight::kPacked || weight == Weight::kPackedTurned;
  const bool turned = weight == Weight::kTransposed || weight == Weight::kPackedTurned;
  const double size = 2 / std::sqrt(static_cast<double>(k));
  RefTensor x = Bf16(r.Uniform({rows, k}, -2, 2)), w = r.Uniform({k, n}, -size, size);
  for (int64_t i = 0; i < k * n; ++i) w.values[i] *= i % n % 97 == 96 ? outlier : 1;
  w = Bf16(std::move(w));
  RefTensor wt = Zeros({n, k}, kBf16);
  for (int64_t i = 0; i < k * n; ++i) wt.values[i % n * k + i / n] = w.values[i];
  const RefTensor labels = Labels(r, rows, n);
  RefTensor dloss = r.Uniform({rows}, 0, 1);
  dloss.values[0] = 0;
  const auto pack = [](const RefTensor& x, bool transpose) {
    std::vector<RefTensor> in = {x};
    return (*Reference("pack_weight", {{"transpose", transpose}}, in))[0];
  };
  TileCase head;
  head.what = absl::StrCat("head of ", rows, " rows of ", k, ", ", n, " classes, weight ", static_cast<int>(weight),
                           outlier > 1 ? ", outliers" : "");
  head.tolerance = 0x1p-6;
  if (packed) {
    head.op = "packed_matmul_cross_entropy_grad";
    head.attrs = {{"dw_transpose", turned}};
    head.inputs = {x, pack(w, false), pack(w, true), labels, dloss};
  } else {
    head.op = "matmul_cross_entropy_grad";
    head.attrs = {{"transpose_b", turned}, {"dx_transpose_b", !turned}, {"dw_transpose", turned}};
    head.inputs = {x, turned ? wt : w, labels, dloss};
  }
  TileCase loss = head;
  loss.op = packed ? "packed_matmul_cross_entropy" : "matmul_cross_entropy";
  loss.attrs = packed ? AttrMap{} : AttrMap{{"transpose_b", turned}};
  loss.inputs.pop_back();
  if (packed) loss.inputs.erase(loss.inputs.begin() + 2);
  head.attrs.Set("out_dtype", std::string("f32"));
  cases.push_back(std::move(loss));
  cases.push_back(std::move(head));
}

// Products by weights in panels, with all that may follow, and the gradient of a weight.
void AddProducts(Random& r, int64_t rows, int64_t k, int64_t n, std::vector<TileCase>& cases) {
  const std::string of = absl::StrCat("[", rows, ",", k, "] [", k, ",", n, "]");
  const auto a = [&](int64_t columns) { return Bf16(r.Uniform({rows, columns})); };
  const auto w = [&] {
    const double size = 1 / std::sqrt(static_cast<double>(k));
    return Bf16(r.Uniform({n / kPanelColumns, k / 2, kPanelColumns, 2}, -size, size));
  };
  const RefTensor bias = r.Uniform({n});
  cases.push_back({"product " + of, "packed_matmul", {}, {a(k), w()}});
  cases.push_back({"sums " + of, "packed_matmul", {{"out_dtype", std::string("f32")}}, {a(k), w()}});
  cases.push_back({"bias " + of, "packed_matmul_bias", {}, {a(k), w(), bias}});
  cases.push_back({"gelu " + of, "packed_matmul_bias_gelu", {}, {a(k), w(), bias}});
  cases.push_back({"gradient of gelu " + of, "packed_matmul_gelu_bias_grad", {}, {a(k), w(), a(n)}});
  cases.push_back({"sum of three " + of, "sum_packed_matmul", {}, {a(k), w(), a(k), w(), a(k), w()}});
  cases.push_back({"gradient of a weight " + of, "matmul_wgrad", {{"out_dtype", std::string("f32")}}, {a(k), a(n)}});
  cases.back().depends_on_cores = true;
}

// A convolution of x[n,c,h,w] with k[o,c,i,j] in blocks of channels, and both of its gradients.
void AddConvolutions(Random& r, const std::vector<int64_t>& x, const std::vector<int64_t>& k, int64_t stride,
                     int64_t padding, std::vector<TileCase>& cases) {
  const double size = 1 / std::sqrt(static_cast<double>(k[1] * k[2] * k[3]));
  std::vector<RefTensor> in = {Bf16(r.Uniform(x)), Bf16(r.Uniform(k, -size, size))};
  const AttrMap attrs = {{"stride", stride}, {"padding", padding}};
  const RefTensor dy = Bf16(r.Uniform(Reference("conv2d", attrs, in)->at(0).dims));
  AttrMap dgrad = attrs, wgrad = attrs;
  dgrad.Set("height", x[2]);
  dgrad.Set("width", x[3]);
  wgrad.Set("kernel_height", k[2]);
  wgrad.Set("kernel_width", k[3]);
  wgrad.Set("out_dtype", std::string("f32"));
  const std::string of = absl::StrCat("[", absl::StrJoin(x, ","), "] [", absl::StrJoin(k, ","), "] by ", stride);
  constexpr MemoryLayout kRows = MemoryLayout::kRowMajor, kBlocks = MemoryLayout::kChannelBlocks;
  cases.push_back({"convolution " + of, "conv2d", attrs, in, 0x1p-6, false, {kBlocks, kRows, kBlocks}});
  cases.push_back({"its gradient " + of, "conv2d_dgrad", dgrad, {dy, in[1]}, 0x1p-6, false, {kBlocks, kRows, kBlocks}});
  cases.push_back({"of its kernel " + of, "conv2d_wgrad", wgrad, {in[0], dy}, 0x1p-6, true, {kBlocks, kBlocks, kRows}});
}

std::vector<TileCase> TileCases() {
  Random r(kTileSeed);
  std::vector<TileCase> cases;
  AddProducts(r, 37, 64, 128, cases);
  AddProducts(r, 700, 64, 64, cases);    // gradients of weights by rows
  AddProducts(r, 1100, 32, 512, cases);  // past the caches
  AddProducts(r, 33, 320, 256, cases);
  for (const bool causal : {false, true}) {
    AddAttention(r, {2, 64, 2, 32, causal}, cases);
    AddAttention(r, {1, 1, 1, 32, causal}, cases);
    AddAttention(r, {1, 45, 3, 64, causal}, cases);
    AddAttention(r, {1, 33, 1, 96, causal}, cases);
    AddAttention(r, {1, 300, 1, 32, causal}, cases);  // of keys that make two passes of dQ
  }
  for (const AttentionCase& x :
       {AttentionCase{1, 150, 2, 32, true, 1, 1}, AttentionCase{2, 150, 2, 32, true, 2, 37},
        AttentionCase{1, 131, 4, 64, true, 2, 64}, AttentionCase{1, 600, 1, 32, true, 1, 300},
        AttentionCase{1, 40, 2, 32, true, 1, 100}, AttentionCase{2, 33, 2, 32, false, 1, 0, 5},
        AttentionCase{1, 5, 4, 32, false, 4, 0, 333}, AttentionCase{1, 300, 2, 32, false, 2, 0, 40}}) {
    AddAttention(r, x, cases);
  }
  for (const Weight weight : {Weight::kPlain, Weight::kTransposed, Weight::kPacked, Weight::kPackedTurned}) {
    const bool packed = weight == Weight::kPacked || weight == Weight::kPackedTurned;
    AddHead(r, 40, 64, packed ? 320 : 301, weight, 1, cases);
    AddHead(r, 300, 64, packed ? 1152 : 1100, weight, 40, cases);
    AddHead(r, 1056, 64, packed ? 64 : 33, weight, 1, cases);  // two blocks of rows
  }
  AddHead(r, 3, 32, 1, Weight::kPlain, 1, cases);
  AddConvolutions(r, {2, 32, 9, 7}, {64, 32, 3, 3}, 1, 1, cases);
  AddConvolutions(r, {2, 64, 9, 7}, {32, 64, 3, 3}, 2, 1, cases);
  AddConvolutions(r, {2, 64, 6, 6}, {64, 64, 1, 1}, 2, 0, cases);
  return cases;
}

absl::StatusOr<KernelResult> RunOn(const CpuVariant& variant, int cores, const TileCase& c,
                                   const std::vector<RefTensor>& outputs) {
  const auto device = MakeCpuDevice(cores, variant);
  device->BindThread();
  KernelCall call = {c.op, c.attrs, c.inputs, outputs};
  call.layouts = c.layouts;
  return RunKernel(*device, call);
}

std::vector<RefTensor> Want(const TileCase& c) {
  std::vector<RefTensor> inputs = c.inputs;
  std::vector<RefTensor> want = *Reference(c.op, c.attrs, inputs);
  const std::vector<TensorType> types = *Ops().Find(c.op)->infer({TypesOf(c.inputs), c.attrs});
  for (size_t i = 0; i < want.size(); ++i) want[i].dtype = types[i].dtype;
  return want;
}

TEST(TileKernelsTest, AgreeWithTheReference) {
  const CpuVariant* const twin = Variant("amx_twin");
  if (twin == nullptr) GTEST_SKIP() << "the twin's vectors are those of a processor with avx512_bf16";
  for (const TileCase& c : TileCases()) {
    SCOPED_TRACE(absl::StrCat(c.what, ", seed ", kTileSeed));
    const std::vector<RefTensor> want = Want(c);
    twin->take_tile_counts();
    ASSERT_OK_AND_ASSIGN(const KernelResult got, RunOn(*twin, 1, c, want));
    EXPECT_GT(twin->take_tile_counts().dots, 0) << "it did not go by tiles";
    for (size_t i = 0; i < want.size(); ++i) {
      double most = 0;  // sums are as precise as their terms
      for (const double x : want[i].values) most = std::max(most, std::abs(x));
      for (int64_t j = 0; j < want[i].count(); ++j) {
        const double a = got.outputs[i].values[j], b = want[i].values[j];
        ASSERT_LE(std::abs(a - b), 1e-6 + c.tolerance * std::max(most, std::abs(b)))
            << "output " << i << ", element " << j << ": " << a << " is not " << b;
      }
    }
    if (c.depends_on_cores) continue;
    ASSERT_OK_AND_ASSIGN(const KernelResult again, RunOn(*twin, 2, c, want));
    EXPECT_EQ(again.bytes, got.bytes) << "of two cores";
  }
}

TEST(TileKernelsTest, TheProcessorGivesTheTwinsBits) {
  const CpuVariant *const twin = Variant("amx_twin"), *const amx = Variant("amx");
  if (amx == nullptr || twin == nullptr) GTEST_SKIP() << "this processor has no tiles";
  for (const TileCase& c : TileCases()) {
    SCOPED_TRACE(absl::StrCat(c.what, ", seed ", kTileSeed));
    const std::vector<RefTensor> want = Want(c);
    ASSERT_OK_AND_ASSIGN(const KernelResult expected, RunOn(*twin, 1, c, want));
    ASSERT_OK_AND_ASSIGN(const KernelResult got, RunOn(*amx, c.depends_on_cores ? 1 : 2, c, want));
    EXPECT_EQ(got.bytes, expected.bytes);
  }
}

// The code of variant amx itself, whose instructions on tiles are carried out one by one by a trap where the processor
// does not know them.
TEST(TileKernelsTest, TheCodeForAmxGivesTheTwinsBits) {
  const CpuVariant* const twin = Variant("amx_twin");
  if (twin == nullptr) GTEST_SKIP() << "its vectors are those of a processor with avx512_bf16";
  if (Variant("amx") != nullptr) GTEST_SKIP() << "this processor has tiles";
  const CpuVariant* amx = nullptr;
  for (const CpuVariant* const variant : BuiltCpuVariants()) amx = variant->name == std::string("amx") ? variant : amx;
  ASSERT_NE(amx, nullptr);
  const TileTrap trap;
  for (const TileCase& c : TileCases()) {
    SCOPED_TRACE(absl::StrCat(c.what, ", seed ", kTileSeed));
    const std::vector<RefTensor> want = Want(c);
    ASSERT_OK_AND_ASSIGN(const KernelResult expected, RunOn(*twin, 1, c, want));
    const int64_t before = trap.count();
    ASSERT_OK_AND_ASSIGN(const KernelResult got, RunOn(*amx, c.depends_on_cores ? 1 : 2, c, want));
    EXPECT_EQ(got.bytes, expected.bytes);
    EXPECT_GT(trap.count(), before);
  }
}

// A model that is sure of its labels: the gradient at the label is what p lacks to 1, far below p's own rounding.
TEST(TileKernelsTest, TheGradientOfASureModelIsPrecise) {
  const CpuVariant* const twin = Variant("amx_twin");
  if (twin == nullptr) GTEST_SKIP() << "the twin's vectors are those of a processor with avx512_bf16";
  constexpr int64_t kRows = 8, kK = 32, kClasses = 40;
  TileCase c = {"a sure model",
                "matmul_cross_entropy_grad",
                {{"transpose_b", true}, {"dw_transpose", true}, {"out_dtype", std::string("f32")}},
                {Zeros({kRows, kK}, kBf16), Zeros({kClasses, kK}, kBf16), Zeros({kRows}, DType::kInt32),
                 Of(DType::kFloat32, Zeros({kRows}))}};
  for (int64_t i = 0; i < kRows; ++i) {
    c.inputs[0].values[i * kK] = 8;
    c.inputs[2].values[i] = 3;
    c.inputs[3].values[i] = 1;
  }
  c.inputs[1].values[3 * kK] = 1.5;  // a logit of 12, all others 0: 1 - p is 39 e^-12
  const std::vector<RefTensor> want = Want(c);
  ASSERT_OK_AND_ASSIGN(const KernelResult got, RunOn(*twin, 1, c, want));
  const double lacks = 39 * std::exp(-12.0) / (1 + 39 * std::exp(-12.0));
  EXPECT_NEAR(got.outputs[0].values[0], -std::log(1 - lacks), 1e-6);
  EXPECT_NEAR(got.outputs[2].values[3 * kK] / (-8 * kRows * lacks), 1, 0x1p-7);
}

TEST(TileKernelsTest, ANumberThatIsNoneIsFound) {
  const CpuVariant* const twin = Variant("amx_twin");
  if (twin == nullptr) GTEST_SKIP() << "the twin's vectors are those of a processor with avx512_bf16";
  Random r(kTileSeed);
  std::vector<TileCase> cases;
  AddAttention(r, {1, 64, 1, 32, true}, cases);
  AddHead(r, 40, 64, 301, Weight::kTransposed, 1, cases);
  for (TileCase& c : cases) {
    SCOPED_TRACE(c.what);
    const size_t x = c.op == "attention_grad" ? 1 : 0;
    c.inputs[x].values[5] = kNan;
    const std::vector<RefTensor> types = Want(c);
    ASSERT_OK_AND_ASSIGN(const KernelResult got, RunOn(*twin, 1, c, types));
    EXPECT_TRUE(std::any_of(got.outputs[0].values.begin(), got.outputs[0].values.end(),
                            [](double v) { return std::isnan(v); }));
  }
}

}  // namespace
}  // namespace oneflow::testing
