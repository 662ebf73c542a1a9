// Sums over ragged rows: what they give is what sums over rows of zeros give, and what they read is what is filled.
#include "actor/instruction/ragged_sum.h"

#include <cmath>
#include <cstring>

#include "gmock/gmock.h"
#include "oneflow_core/ops/ops.h"
#include "test/support/status_matchers.h"

namespace oneflow {
namespace {

// A kernel of the host that counts the rows of its first operand, and how often it is called.
struct CountedKernel {
  const Kernel* kernel = nullptr;
  int64_t elements = 0, calls = 0;
};
CountedKernel counted_sum;  // a kernel is a plain function

const char* RunCounted(const KernelArgs& args) {
  counted_sum.elements += args.in[0].count;
  ++counted_sum.calls;
  const bool prepared = args.state == nullptr || *static_cast<const int64_t*>(args.state) == args.in[0].count;
  return prepared ? counted_sum.kernel->run(args) : "called for other shapes than it has prepared for";
}

std::shared_ptr<void> PrepareCounted(const KernelArgs& args) { return std::make_shared<int64_t>(args.in[0].count); }

// Odd, so that what lies behind has to be aligned.
size_t CountedWorkspace(const KernelArgs& args) {
  const auto of_kernel = counted_sum.kernel->workspace_bytes;
  return of_kernel == nullptr ? 101 : of_kernel(args);
}

struct SummedTensor {
  SummedTensor(std::vector<int64_t> sizes, int64_t first_row)
      : dims(std::move(sizes)), logical_dims(dims), start(dims.size(), 0), first_row(first_row) {
    int64_t count = 1;
    for (const int64_t size : dims) count *= size;
    for (int64_t i = 0; i < count; ++i) values.push_back(static_cast<float>(i % 7 - 3));
  }
  TensorArg arg() {
    return {values.data(),
            DType::kFloat32,
            static_cast<int>(dims.size()),
            static_cast<int64_t>(values.size()),
            dims.data(),
            logical_dims.data(),
            start.data()};
  }
  // What is not filled of [groups..., rows, ...].
  void FillBehind(const std::vector<int32_t>& counts, float with, size_t dim) {
    start[dim] = first_row;
    logical_dims[dim] = dims[dim] + 3 * first_row;
    if (values.empty()) return;
    const int64_t rows = static_cast<int64_t>(counts.size()) * dims[dim];
    const int64_t row = static_cast<int64_t>(values.size()) / rows;
    for (int64_t r = 0; r < rows; ++r) {
      if (first_row + r % dims[dim] < counts[r / dims[dim]]) continue;
      std::fill_n(values.begin() + r * row, row, with);
    }
  }

  std::vector<int64_t> dims, logical_dims, start;
  int64_t first_row;
  std::vector<float> values;
};

struct SumCase {
  const char* what;
  const char* op;
  AttrMap attrs;
  std::vector<std::vector<int64_t>> inputs;
  std::vector<int64_t> output;
  std::vector<int32_t> counts;
  int64_t elements = 0, calls = 0;  // of the first input, by all calls
  bool prepares = false;
  int64_t first_row = 0;
  size_t group_dims = 1;
};

void ExpectSum(const SumCase& c) {
  SCOPED_TRACE(c.what);
  const OpRegistry ops = StandardOps();
  const KernelTable kernels = CpuKernels();
  counted_sum = {kernels.Find(c.op, DType::kFloat32)};
  std::vector<SummedTensor> ragged, padded;
  std::vector<TensorType> types;
  for (const std::vector<int64_t>& dims : c.inputs) {
    ragged.emplace_back(dims, c.first_row).FillBehind(c.counts, NAN, c.group_dims);
    padded.emplace_back(dims, c.first_row).FillBehind(c.counts, 0, c.group_dims);
    types.push_back({DType::kFloat32, Shape(dims), static_cast<int>(c.group_dims)});
  }
  SummedTensor sum(c.output, 0), want(c.output, 0);
  std::vector<TensorArg> in, whole;
  for (size_t i = 0; i < ragged.size(); ++i) in.push_back(ragged[i].arg()), whole.push_back(padded[i].arg());
  const TensorArg out[] = {sum.arg()}, wanted[] = {want.arg()};
  KernelArgs dense{.in = whole, .out = wanted, .attrs = &c.attrs};
  std::vector<char> workspace(CountedWorkspace(dense));
  dense.workspace = workspace.data();
  ASSERT_EQ(counted_sum.kernel->run(dense), nullptr);

  ASSERT_OK_AND_ASSIGN(const RaggedRule rule, RaggedRuleOf(**ops.Get(c.op), {types, c.attrs, true}));
  ASSERT_TRUE(rule.by_groups);
  const Kernel kernel{c.op, DType::kFloat32, RunCounted, CountedWorkspace, c.prepares ? PrepareCounted : nullptr};
  KernelArgs args{.in = in, .out = out, .attrs = &c.attrs};
  RaggedSum call(rule, kernel, args);
  const int64_t planned = call.ScratchBytes(args);
  ASSERT_OK_AND_ASSIGN(const int64_t bytes, call.Prepare(args));
  EXPECT_LE(bytes, planned);
  std::vector<char> scratch(bytes + 1, 77);
  args.workspace = scratch.data();
  const std::vector<int64_t> groups(c.inputs[0].begin(), c.inputs[0].begin() + static_cast<int64_t>(c.group_dims));
  const TensorArg counts{const_cast<int32_t*>(c.counts.data()), DType::kInt32, static_cast<int>(c.group_dims),
                         static_cast<int64_t>(c.counts.size()), groups.data()};
  const std::unique_ptr<DeviceContext> device = MakeCpuDevice(1);
  for (int run = 0; run < 2; ++run) {
    counted_sum.elements = counted_sum.calls = 0;
    ASSERT_OK(call.Run(*device, args, counts, c.counts.data()));
    EXPECT_THAT(sum.values, Pointwise(FloatNear(1e-5F), want.values));
    EXPECT_EQ(counted_sum.elements, c.elements);
    EXPECT_EQ(counted_sum.calls, c.calls);
    EXPECT_EQ(scratch.back(), 77) << "behind the scratch memory";
  }
}

TEST(RaggedSumTest, ReadsWhatIsFilled) {
  const AttrMap all = {{"axes", std::vector<int64_t>{0, 1}}}, rows = {{"axes", std::vector<int64_t>{1}}};
  const AttrMap transposed = {{"transpose_a", true}};
  const std::vector<int32_t> some = {2, 0, 3}, none = {0, 0, 0};
  const SumCase kCases[] = {
      {"groups that are added up", "reduce_sum", all, {{3, 4, 5}}, {5}, some, 25, 2},
      {"each group by itself", "reduce_sum", rows, {{3, 4, 5}}, {3, 5}, some, 25, 2},
      {"nothing", "reduce_sum", rows, {{3, 4, 5}}, {3, 5}, none, 0, 0},
      {"no groups", "reduce_sum", all, {{0, 4, 5}}, {5}, {}, 0, 0},
      {"no groups of their own", "reduce_sum", rows, {{0, 4, 5}}, {0, 5}, {}, 0, 0},
      {"no groups, packed", "matmul_wgrad", {}, {{0, 4, 15}, {0, 4, 16}}, {15, 16}, {}, 0, 0},
      {"no groups, prepared", "matmul_wgrad", {}, {{0, 16, 5}, {0, 16, 6}}, {5, 6}, {}, 0, 0, true},
      {"a bias", "bias_grad", {}, {{3, 4, 5}}, {5}, some, 25, 2},
      {"products of few numbers", "matmul_wgrad", {}, {{3, 4, 5}, {3, 4, 6}}, {5, 6}, some, 25, 2},
      {"packed groups", "matmul_wgrad", {}, {{3, 4, 15}, {3, 4, 16}}, {15, 16}, some, 75, 1},
      {"nothing packed", "matmul_wgrad", {}, {{3, 4, 15}, {3, 4, 16}}, {15, 16}, none, 0, 0},
      {"all packed", "matmul_wgrad", {}, {{3, 4, 15}, {3, 4, 16}}, {15, 16}, {4, 4, 4}, 180, 1},
      {"products of groups", "batch_matmul", transposed, {{3, 4, 5}, {3, 4, 6}}, {3, 5, 6}, some, 25, 2},
      // Prepared for every third of 48 rows.
      {"prepared, packed", "matmul_wgrad", {}, {{3, 16, 5}, {3, 16, 6}}, {5, 6}, some, 30, 1, true},
      {"prepared, all", "matmul_wgrad", {}, {{3, 16, 5}, {3, 16, 6}}, {5, 6}, {16, 16, 16}, 240, 1, true},
      // For every second of 17 rows, of which the last is alone.
      {"prepared, of groups",
       "batch_matmul",
       transposed,
       {{3, 17, 5}, {3, 17, 6}},
       {3, 5, 6},
       {3, 17, 0},
       105,
       2,
       true},
      // Rows 2 to 5 of those that are counted.
      {"a part of the rows", "bias_grad", {}, {{3, 4, 5}}, {5}, {5, 1, 9}, 35, 2, false, 2},
      {"a part of the rows, packed",
       "matmul_wgrad",
       {},
       {{3, 4, 15}, {3, 4, 16}},
       {15, 16},
       {5, 1, 9},
       105,
       1,
       false,
       2},
  };
  for (const SumCase& c : kCases) ExpectSum(c);
}

// Of groups [2,3] some are added up and some are not; outputs may have the rows.
TEST(RaggedSumTest, MixesGroups) {
  const auto axes = [](std::vector<int64_t> axes) { return AttrMap{{"axes", std::move(axes)}}; };
  const auto shape = [](std::vector<int64_t> shape) { return AttrMap{{"shape", std::move(shape)}}; };
  const std::vector<int64_t> x = {2, 3, 4, 5};
  const std::vector<int32_t> some = {2, 0, 3, 4, 1, 0}, none(6, 0);
  const SumCase kCases[] = {
      {"the second groups", "reduce_sum", axes({0, 2}), {x}, {3, 5}, some, 50, 4, false, 0, 2},
      {"the first groups", "reduce_sum", axes({1, 2}), {x}, {2, 5}, some, 50, 4, false, 0, 2},
      {"rows of all groups", "reduce_sum", axes({3}), {x}, {2, 3, 4}, some, 50, 4, false, 0, 2},
      {"rows of some groups", "reduce_sum", axes({0}), {x}, {3, 4, 5}, some, 50, 4, false, 0, 2},
      {"rows of nothing", "reduce_sum", axes({0}), {x}, {3, 4, 5}, none, 0, 0, false, 0, 2},
      {"a number for each group", "sum_to", shape({3, 1, 1}), {x}, {3, 1, 1}, some, 50, 4, false, 0, 2},
      {"ones in front", "sum_to", shape({1, 3, 1, 5}), {x}, {1, 3, 1, 5}, some, 50, 4, false, 0, 2},
      {"rows alone", "sum_to", shape({4, 5}), {x}, {4, 5}, some, 50, 4, false, 0, 2},
      {"some of the rows", "sum_to", shape({4, 1}), {x}, {4, 1}, {3, 2, 9, 4, 1, 6}, 55, 4, false, 2, 2},
      {"a micro-batch", "accumulate", {}, {x}, x, some, 50, 4, false, 0, 2},
      {"packed", "matmul_wgrad", {}, {{2, 3, 4, 15}, {2, 3, 4, 16}}, {15, 16}, some, 150, 1, false, 0, 2},
  };
  for (const SumCase& c : kCases) ExpectSum(c);
}

// The first micro-batch leaves zeros behind its rows, whatever was there; the others add to theirs.
TEST(RaggedSumTest, AccumulatesMicroBatches) {
  const OpRegistry ops = StandardOps();
  const KernelTable kernels = CpuKernels();
  SummedTensor x({2, 3, 1}, 0), sum({2, 3, 1}, 0);
  const TensorType types[] = {{DType::kFloat32, {2, 3, 1}, /*ragged=*/1}};
  const AttrMap attrs;
  ASSERT_OK_AND_ASSIGN(const RaggedRule rule, RaggedRuleOf(**ops.Get("accumulate"), {types, attrs, true}));
  const TensorArg in[] = {x.arg()}, out[] = {sum.arg()};
  KernelArgs args{.in = in, .out = out, .attrs = &attrs};
  RaggedSum call(rule, *kernels.Find("accumulate", DType::kFloat32), args, /*accumulates=*/true);
  const std::unique_ptr<DeviceContext> device = MakeCpuDevice(1);
  const int64_t groups[] = {2};
  for (int step = 0; step < 2; ++step) {
    for (std::vector<int32_t> counts : std::vector<std::vector<int32_t>>{{2, 0}, {3, 1}, {0, 2}}) {
      std::fill(x.values.begin(), x.values.end(), 1);
      x.FillBehind(counts, NAN, 1);
      ASSERT_OK(call.Run(*device, args, {counts.data(), DType::kInt32, 1, 2, groups}, counts.data()));
      ++args.micro_batch;
    }
    EXPECT_THAT(sum.values, ::testing::ElementsAre(2, 2, 1, 2, 1, 0));
    args.micro_batch = 0;
  }
}

TEST(RaggedSumTest, RefusesCountsThatAreNoNumberOfRows) {
  const OpRegistry ops = StandardOps();
  const KernelTable kernels = CpuKernels();
  const AttrMap attrs = {{"axes", std::vector<int64_t>{1}}};
  SummedTensor x({3, 4, 5}, 0), sum({3, 5}, 0);
  const TensorType types[] = {{DType::kFloat32, {3, 4, 5}, /*ragged=*/1}};
  ASSERT_OK_AND_ASSIGN(const RaggedRule rule, RaggedRuleOf(**ops.Get("reduce_sum"), {types, attrs, true}));
  const TensorArg in[] = {x.arg()}, out[] = {sum.arg()};
  const KernelArgs args{.in = in, .out = out, .attrs = &attrs};
  RaggedSum call(rule, *kernels.Find("reduce_sum", DType::kFloat32), args);
  const std::unique_ptr<DeviceContext> device = MakeCpuDevice(1);
  for (const int32_t bad : {-1, 5}) {
    int32_t values[] = {4, bad, 0};
    const int64_t groups[] = {3};
    EXPECT_THAT(call.Run(*device, args, {values, DType::kInt32, 1, 3, groups}, values),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         absl::StrCat("the count of group 1 of its shard is ", bad, ", of 4 rows")));
  }
}

}  // namespace
}  // namespace oneflow
