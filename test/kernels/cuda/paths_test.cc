// Shapes for which the CUDA kernels take other paths than on the small ones of the conformance cases: rows that a whole
// block shares, heads beyond 64, cut dropout, box copies. Every device computes them, against the same reference.
#include <cmath>
#include <cstring>
#include <memory>
#include <random>

#include "absl/strings/str_join.h"
#include "kernels/copy.h"
#include "test/kernels/devices.h"
#include "test/kernels/harness.h"
#include "test/support/ops/kit.h"
#include "test/support/status_matchers.h"

namespace oneflow::testing {
namespace {

constexpr uint64_t kPathsSeed = 4711;

class PathsTest : public OnDeviceTest {
 protected:
  void ExpectReference(const OpCase& c, int rows_before = 0) {
    SCOPED_TRACE(absl::StrCat(c.op, " (", c.what, "), seed ", kPathsSeed));
    std::vector<RefTensor> inputs;
    for (const RefTensor& x : c.inputs) inputs.push_back(Rounded(x));
    KernelCall call = {c.op, c.attrs, inputs};
    ASSERT_OK_AND_ASSIGN(const std::vector<RefTensor> want, Reference(c.op, c.attrs, inputs, c.context));
    call.outputs = want;
    for (RefTensor& output : call.outputs) {
      for (double& v : output.values) v = 99;
    }
    call.context = c.context;
    call.rows_before = rows_before;
    ASSERT_OK_AND_ASSIGN(const KernelResult got, RunKernel(*device_, call));
    for (size_t i = 0; i < want.size(); ++i) {
      for (int64_t j = 0; j < want[i].count(); ++j) {
        const double a = got.outputs[i].values[j], b = want[i].values[j];
        ASSERT_LE(std::abs(a - b), c.tolerance * (1 + std::abs(b)))
            << "output " << i << " element " << j << ": " << a << " is not " << b;
      }
    }
  }
};

TEST_P(PathsTest, ChannelsMayHaveMoreElementsThanABlockSums) {
  Random r(kPathsSeed);
  for (const std::vector<int64_t>& dims :
       std::vector<std::vector<int64_t>>{{40, 3, 33, 34}, {5000, 70}, {2, 3, 9000}}) {
    const std::vector<int64_t> c = {dims[1]};
    const RefTensor x = r.Uniform(dims), mean = r.Uniform(c), var = r.Uniform(c, 0.5, 2);
    ExpectReference({"channel_mean", "many elements", {}, {x}, 2e-6});
    ExpectReference({"channel_variance", "many elements", {}, {x, mean}, 2e-6});
    ExpectReference({"batch_norm_sums", "many elements", {{"epsilon", 1e-3}}, {r.Uniform(dims), x, mean, var}, 5e-4});
    for (const std::vector<int64_t>& axes : {std::vector<int64_t>{0}, {0, 1}}) {
      const AttrMap attrs = {{"axes", axes}};
      std::vector<RefTensor> ties = {r.Integers(dims, 50)};
      ties[0].dtype = DType::kFloat32;
      ties.push_back(Reference("reduce_min", attrs, ties)->at(0));
      ExpectReference({"extremum_count", "many elements", attrs, ties, 0});
    }
  }
}

TEST_P(PathsTest, RowsMayBeLongerThanAWarpTakes) {
  Random r(kPathsSeed);
  for (const int64_t c : {1025, 3001}) {
    ExpectReference({"softmax", "long rows", {}, {r.Uniform({3, c}, -9, 9)}, 1e-6});
    ExpectReference({"softmax_grad", "long rows", {}, {r.Uniform({3, c}), r.Uniform({3, c}, 0, 1)}, 2e-4});
    ExpectReference({"layer_norm", "long rows", {}, {r.Uniform({70, c}), r.Uniform({c}), r.Uniform({c})}, 2e-5});
    ExpectReference(
        {"layer_norm_grad",
         "long rows",
         {},
         {r.Uniform({200, c}), r.Uniform({200, c}), r.Uniform({c}), r.Uniform({200}), r.Uniform({200}, 0.5, 1)},
         2e-4});
    ExpectReference({"softmax_cross_entropy", "long rows", {}, {r.Uniform({3, c}, -9, 9), r.Integers({3}, c)}, 2e-6});
    ExpectReference({"top1_correct", "long rows", {}, {r.Uniform({3, c}), r.Integers({3}, c)}, 0});
    const RefTensor m = r.Uniform({3}, 2, 3);
    ExpectReference({"softmax_sums", "long rows", {}, {r.Uniform({3, c}), r.Integers({3}, c), m}, 5e-6});
    ExpectReference({"exp_sum", "long rows", {}, {r.Uniform({3, c}), m}, 5e-6});
    ExpectReference({"row_dot", "long rows", {}, {r.Uniform({3, c}), r.Uniform({3, c})}, 2e-4});
    RefTensor ties = r.Integers({3, c}, 700), wanted = r.Integers({3}, 700);
    ties.dtype = wanted.dtype = DType::kFloat32;
    ExpectReference({"first_index", "long rows", {}, {ties, wanted}, 0});
    ExpectReference({"top_k", "long rows", {{"k", int64_t{9}}}, {ties}, 0});
    ExpectReference(
        {"put_along", "long rows", {{"columns", c}}, {r.Uniform({3, 4000}), r.Integers({3, 4000}, c)}, 2e-5});
  }
}

TEST_P(PathsTest, ScattersMayHaveMoreRowsThanABlockOwns) {
  Random r(kPathsSeed);
  for (const int64_t size : {1, 8, 9, 100}) {
    ExpectReference({"scatter_add",
                     "many indices",
                     {{"axis", int64_t{1}}, {"size", size}},
                     {r.Uniform({3, 1000, 5}), r.Integers({1000}, size)},
                     2e-4});
    ExpectReference(
        {"embedding_grad", "many indices", {{"rows", size}}, {r.Uniform({1000, 5}), r.Integers({1000}, size)}, 2e-4});
  }
}

// Where numbers alone do not say what is larger.
TEST_P(PathsTest, TheLargestAreNansFirstAndEqualZerosByIndex) {
  const double nan = std::nan("");
  RefTensor x = Zeros({1, 7});
  x.values = {-0.0, 3, nan, 0.0, -1, nan, -INFINITY};
  ASSERT_OK_AND_ASSIGN(
      const KernelResult result,
      RunKernel(*device_, {"top_k", {{"k", int64_t{7}}}, {x}, {Zeros({1, 7}), Zeros({1, 7}, DType::kInt32)}}));
  EXPECT_EQ(result.outputs[1].values, (std::vector<double>{2, 5, 1, 0, 3, 4, 6}));
  std::swap(x.values[0], x.values[2]);
  ASSERT_OK_AND_ASSIGN(
      const KernelResult first,
      RunKernel(*device_, {"top_k", {{"k", int64_t{2}}}, {x}, {Zeros({1, 2}), Zeros({1, 2}, DType::kInt32)}}));
  EXPECT_EQ(first.outputs[1].values, (std::vector<double>{0, 5})) << "the first may be one";
}

// What a launched kernel cannot refuse is seen in the numbers, of the rows it belongs to.
TEST_P(PathsTest, IndicesOutsideOfAllShardsAreErrorsOrNans) {
  const bool is_cpu = GetParam().make == OneCore;
  RefTensor ids = Zeros({2, 2}, DType::kInt32), x = Zeros({2, 3});
  ids.values = {0, 2, 3, 1};
  x.values = {1, 2, 3, 4, 5, 6};
  const auto run = [&](const std::string& op, const AttrMap& attrs, const RefTensor& input, const RefTensor& index,
                       const RefTensor& output) -> std::string {
    const absl::StatusOr<KernelResult> result = RunKernel(*device_, {op, attrs, {input, index}, {output}});
    if (!result.ok()) return std::string(result.status().message());
    return absl::StrJoin(result->outputs[0].values, " ", [](std::string* out, double value) {
      absl::StrAppend(out, std::isnan(value) ? "nan" : absl::StrCat(value));
    });
  };
  RefTensor row = Zeros({2}, DType::kInt32);
  row.values = {1, 2};
  EXPECT_EQ(run("take_along", {}, x, ids, Zeros({2, 2})), is_cpu ? "take_along: an index is no column" : "1 3 nan 5");
  EXPECT_EQ(run("put_along", {}, Cut(x, {0, 0}, {2, 2}), ids, Zeros({2, 3})),
            is_cpu ? "put_along: an index is no column" : "1 0 2 nan nan nan");
  EXPECT_EQ(run("gather", {{"axis", int64_t{0}}}, x, row, Zeros({2, 3})),
            is_cpu ? "gather: an index is outside the dimension" : "4 5 6 nan nan nan");
  EXPECT_EQ(run("scatter_add", {{"axis", int64_t{0}}}, x, row, Zeros({2, 3})),
            is_cpu ? "scatter_add: an index is outside the dimension" : "nan nan nan nan nan nan");
  RefTensor dy = Zeros({1, 2, 1, 2}), position = Zeros({1, 2, 1, 2}, DType::kInt32);
  dy.values = {1, 2, 3, 4};
  for (const double bad : {-1, 4}) {
    position.values = {3, 3, 0, bad};
    EXPECT_EQ(run("max_pool2d_grad", {}, dy, position, Zeros({1, 2, 2, 2})),
              is_cpu ? "max_pool2d_grad: an index is outside the plane" : "0 0 0 3 nan nan nan nan");
  }
}

// Single floats would lose most of the small terms. A processor's vectors of them add up neighbours, and lose a few.
TEST_P(PathsTest, SumsKeepSmallTermsBesideLargeOnes) {
  constexpr int64_t kTerms = 5000;
  const double tolerance = GetParam().make == OneCore ? 2e-3 : 0;
  for (const int64_t lines : {1, 3}) {
    for (const bool inner : {true, false}) {
      RefTensor x = Zeros(inner ? std::vector<int64_t>{lines, kTerms} : std::vector<int64_t>{kTerms, lines});
      for (double& value : x.values) value = 1;
      for (int64_t line = 0; line < lines; ++line) {
        x.values[inner ? line * kTerms : line] = 1e9;
        x.values[inner ? line * kTerms + kTerms - 1 : (kTerms - 1) * lines + line] = -1e9;
      }
      const int64_t axis = inner ? 1 : 0;
      ExpectReference(
          {"reduce_sum", "large terms that cancel", {{"axes", std::vector<int64_t>{axis}}}, {x}, tolerance});
    }
  }
}

TEST_P(PathsTest, SumsOfInfinitiesAreInfinite) {
  RefTensor x = Zeros({4, 300});
  x.values[7] = x.values[310] = x.values[620] = INFINITY;
  x.values[320] = -INFINITY;
  x.values[900] = x.values[901] = 3e38;
  const KernelCall call = {"reduce_sum", {{"axes", std::vector<int64_t>{1}}}, {x}, {Zeros({4})}};
  ASSERT_OK_AND_ASSIGN(const KernelResult sum, RunKernel(*device_, call));
  EXPECT_EQ(sum.outputs[0].values[0], INFINITY);
  EXPECT_TRUE(std::isnan(sum.outputs[0].values[1]));
  EXPECT_EQ(sum.outputs[0].values[2], INFINITY);
  EXPECT_EQ(sum.outputs[0].values[3], INFINITY);
}

// A NaN is the trace of an error; an op that swallows it hides where training went wrong.
TEST_P(PathsTest, NansAreNotLost) {
  for (const int64_t at : {0, 5, 70}) {
    RefTensor x = Zeros({1, 1, 9, 8}, DType::kFloat32);
    for (int64_t i = 0; i < x.count(); ++i) x.values[i] = 0.1 * static_cast<double>(i % 7) - 0.3;
    x.values[at] = std::nan("");
    struct Op {
      std::string name;
      AttrMap attrs;
      std::vector<int64_t> dims;
    };
    const std::vector<int64_t> all = {0, 1, 2, 3};
    const Op ops[] = {{"relu", {}, x.dims},
                      {"tanh", {}, x.dims},
                      {"gelu", {}, x.dims},
                      {"sigmoid", {}, x.dims},
                      {"exp", {}, x.dims},
                      {"sqrt", {}, x.dims},
                      {"softmax", {}, x.dims},
                      {"reduce_sum", {{"axes", all}, {"keepdims", false}}, {}},
                      {"reduce_max", {{"axes", all}, {"keepdims", false}}, {}},
                      {"reduce_min", {{"axes", all}, {"keepdims", false}}, {}},
                      {"reduce_max", {{"axes", std::vector<int64_t>{2}}, {"keepdims", false}}, {1, 1, 8}}};
    for (const Op& op : ops) {
      KernelCall call = {op.name, op.attrs, {x}, {Zeros(op.dims, DType::kFloat32)}};
      ASSERT_OK_AND_ASSIGN(const KernelResult result, RunKernel(*device_, call));
      const std::vector<double>& values = result.outputs[0].values;
      EXPECT_TRUE(std::any_of(values.begin(), values.end(), [](double v) { return std::isnan(v); }))
          << op.name << " of a NaN at " << at;
    }
    KernelCall pool = {"max_pool2d",
                       {{"kernel", int64_t{3}}, {"stride", int64_t{1}}},
                       {x},
                       {Zeros({1, 1, 7, 6}, DType::kFloat32), Zeros({1, 1, 7, 6}, DType::kInt32)}};
    ASSERT_OK_AND_ASSIGN(const KernelResult pooled, RunKernel(*device_, pool));
    EXPECT_TRUE(std::isnan(pooled.outputs[0].values[at == 70 ? 41 : at])) << "max_pool2d of a NaN at " << at;
  }
}

TEST_P(PathsTest, HeadsMayHaveUpTo256Columns) {
  Random r(kPathsSeed);
  for (const auto& [t, d] : std::vector<std::pair<int64_t, int64_t>>{{70, 65}, {131, 128}, {40, 130}, {67, 256}}) {
    for (const bool causal : {false, true}) {
      const AttrMap attrs = {{"heads", int64_t{2}}, {"causal", causal}};
      const std::vector<int64_t> dims = {1, t, 2 * d};
      std::vector<RefTensor> in = {Rounded(r.Uniform(dims)), Rounded(r.Uniform(dims)), Rounded(r.Uniform(dims))};
      ExpectReference({"attention", "large heads", attrs, in, 2e-5});
      const std::vector<RefTensor> out = *Reference("attention", attrs, in);
      ExpectReference(
          {"attention_grad", "large heads", attrs, {r.Uniform(dims), in[0], in[1], in[2], out[0], out[1]}, 2e-4});
    }
  }
}

TEST_P(PathsTest, SamplingWorksOnLargeVocabularies) {
  Random r(kPathsSeed);
  for (int64_t step = 0; step < 30; ++step) {
    RefTensor length = Zeros({}, DType::kInt32);
    length.values[0] = 2;
    const AttrMap attrs = {{"temperature", step % 3 * 0.7}, {"seed", int64_t{1}}, {"key", step}};
    ExpectReference({"sample_token", "many tokens", attrs, {r.Uniform({1, 3, 1009}), length}, 0, {step, 0}});
  }
}

TEST_P(PathsTest, DropoutOfAShardIsTheShardOfDropout) {
  Random r(kPathsSeed);
  const AttrMap attrs = {{"rate", 0.5}, {"seed", int64_t{7}}, {"key", int64_t{5}}};  // scales by 2: exact
  const std::vector<int64_t> dims = {5, 6, 7};
  std::vector<RefTensor> whole = {Rounded(r.Uniform(dims))};
  const RefContext context = {3, 2};
  ASSERT_OK_AND_ASSIGN(const std::vector<RefTensor> want, Reference("dropout", attrs, whole, context));
  for (const auto& [start, extent] :
       std::vector<std::pair<std::vector<int64_t>, std::vector<int64_t>>>{{{0, 0, 0}, {5, 6, 7}},
                                                                          {{2, 0, 0}, {3, 6, 7}},
                                                                          {{0, 1, 0}, {5, 4, 7}},
                                                                          {{1, 2, 3}, {2, 3, 4}},
                                                                          {{0, 0, 6}, {5, 6, 1}}}) {
    KernelCall call = {"dropout", attrs, {Cut(whole[0], start, extent)}, {Zeros(extent)}};
    call.input_parts = call.output_parts = {{dims, start}};
    call.context = context;
    ASSERT_OK_AND_ASSIGN(const KernelResult got, RunKernel(*device_, call));
    EXPECT_EQ(got.outputs[0].values, Rounded(Cut(want[0], start, extent)).values);
  }
}

// A random permuted, strided, possibly repeating box of at most four dimensions.
struct Box {
  std::vector<int64_t> extent, source_stride, target_stride;
  int64_t source_size = 1, target_size = 1;
};

Box RandomBox(std::mt19937_64& engine) {
  const auto draw = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(engine);
  };
  Box box;
  const int rank = static_cast<int>(draw(0, 4));
  for (int i = 0; i < rank; ++i) box.extent.push_back(draw(0, 9) == 0 ? 0 : draw(1, rank < 3 ? 70 : 12));
  std::vector<int> order(rank);
  for (int i = 0; i < rank; ++i) order[i] = i;
  const auto strides = [&](bool may_repeat, int64_t* size) {
    std::shuffle(order.begin(), order.end(), engine);
    std::vector<int64_t> result(rank);
    for (const int i : order) {
      if (may_repeat && draw(0, 4) == 0) continue;  // stride 0
      result[i] = *size;
      *size *= std::max<int64_t>(1, box.extent[i]) + draw(0, 3) / 3;  // sometimes a gap
    }
    return result;
  };
  box.source_stride = strides(true, &box.source_size);
  box.target_stride = strides(false, &box.target_size);
  return box;
}

TEST_P(PathsTest, BoxCopiesAgreeWithTheHosts) {
  std::mt19937_64 engine(kPathsSeed);
  for (int round = 0; round < 300; ++round) {
    const DType dtype = kAllDTypes[round % 7];
    const Box box = RandomBox(engine);
    const size_t size = SizeOf(dtype);
    std::vector<char> source(box.source_size * size), host(box.target_size * size);
    // Small integers mean something in every dtype but 16-bit floats, where they are tiny numbers; bools are 0 and 1.
    for (char& byte : source) byte = static_cast<char>(engine() % 2);
    for (char& byte : host) byte = static_cast<char>(engine() % 2);
    CopyRegionArgs args = {dtype, box.extent, source.data(), box.source_stride, host.data(), box.target_stride};
    args.accumulate = dtype != DType::kBool && round % 2 == 0;
    args.reduce = static_cast<Reduction>(round % 3);
    char* const device_source = static_cast<char*>(device_->Allocate(source.size()));
    char* const device_target = static_cast<char*>(device_->Allocate(host.size()));
    ASSERT_EQ(device_->CopyFromHost(device_source, source.data(), source.size()), nullptr);
    ASSERT_EQ(device_->CopyFromHost(device_target, host.data(), host.size()), nullptr);
    ASSERT_EQ(CopyRegion(args), nullptr);
    args.source = device_source;
    args.target = device_target;
    ASSERT_EQ(device_->CopyRegion(args), nullptr);
    std::vector<char> got(host.size());
    ASSERT_EQ(device_->CopyToHost(got.data(), device_target, got.size()), nullptr);
    ASSERT_EQ(got, host) << "round " << round << " of seed " << kPathsSeed << ", " << Name(dtype);
  }
}

// On CUDA one has at least 2048 rows, and 4 million logits.
TEST_P(PathsTest, AHeadMayHaveSeveralBlocks) {
  Random r(kPathsSeed);
  const int64_t rows = 2085, k = 2, n = 2049;
  const RefTensor x = r.Uniform({rows, k}), w = r.Uniform({k, n}), labels = r.Integers({rows}, n);
  const AttrMap attrs = {{"dx_transpose_b", true}};
  ExpectReference({"matmul_cross_entropy_grad", "two blocks", attrs, {x, w, labels, r.Uniform({rows}, 0, 1e-3)}, 1e-4});
  const auto half = [](const RefTensor& of) { return Of(DType::kBFloat16, of); };
  ExpectReference({"matmul_cross_entropy", "two blocks", {}, {half(x), half(w), labels}, 1e-4});
  const RefTensor dloss = r.Uniform({rows}, 0.5, 1), transposed = half(r.Uniform({n, k}));
  ExpectReference({"matmul_cross_entropy_grad", "16 bits", attrs, {half(x), half(w), labels, dloss}, 1e-2});
  const AttrMap of_rows = {{"transpose_b", true}, {"dw_transpose", true}};
  ExpectReference(
      {"matmul_cross_entropy_grad", "16 bits, by rows", of_rows, {half(x), transposed, labels, dloss}, 1e-2});
}

// As the groups of ragged rows do: anywhere but at boundaries.
TEST_P(PathsTest, OperandsMayBeginWhereARowDoes) {
  Random r(kPathsSeed);
  const auto in = [&](DType dtype, std::vector<int64_t> dims) { return Of(dtype, r.Uniform(std::move(dims))); };
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    const double tolerance = dtype == DType::kFloat32 ? 1e-5 : 1e-2;
    for (const int64_t c : {3, 5, 6, 64}) {
      for (int rows_before : {1, 2}) {
        const std::vector<int64_t> dims = {7, c};
        const auto x = [&] { return in(dtype, dims); };
        ExpectReference({"scale", "between rows", {{"alpha", 2.0}}, {x()}, tolerance}, rows_before);
        ExpectReference({"gelu", "between rows", {}, {x()}, tolerance}, rows_before);
        ExpectReference({"add", "between rows", {}, {x(), x()}, tolerance}, rows_before);
        ExpectReference({"matmul", "between rows", {}, {x(), in(dtype, {c, 9})}, tolerance}, rows_before);
        ExpectReference({"matmul", "between rows", {}, {x(), in(dtype, {c, 8})}, tolerance}, rows_before);
        ExpectReference({"batch_matmul", "between rows", {}, {in(dtype, {2, 7, c}), in(dtype, {2, c, 8})}, tolerance},
                        rows_before);
      }
    }
  }
}

TEST_P(PathsTest, FillZeroClearsExactlyTheBytesAsked) {
  char* const data = static_cast<char*>(device_->Allocate(64));
  const std::vector<char> ones(64, 1);
  ASSERT_EQ(device_->CopyFromHost(data, ones.data(), 64), nullptr);
  ASSERT_EQ(device_->FillZero(data + 8, 33), nullptr);
  ASSERT_EQ(device_->FillZero(data, 0), nullptr);
  std::vector<char> got(64), want(64, 1);
  std::fill(want.begin() + 8, want.begin() + 41, 0);
  ASSERT_EQ(device_->CopyToHost(got.data(), data, 64), nullptr);
  EXPECT_EQ(got, want);
}

INSTANTIATE_TEST_SUITE_P(Devices, PathsTest,
                         ::testing::Values(DeviceUnderTest{"cpu", OneCore}, DeviceUnderTest{"cuda", FirstGpu}), NameOf);

}  // namespace
}  // namespace oneflow::testing
