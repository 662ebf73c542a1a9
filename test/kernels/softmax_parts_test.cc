// A softmax, its gradient, its cross entropy and its best class, made of their parts: with all columns in one place
// they are what the whole kernels compute, and so they are with the columns cut unevenly over several shards, one of
// them empty.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "test/kernels/devices.h"
#include "test/kernels/harness.h"
#include "test/support/op_facts.h"
#include "test/support/status_matchers.h"

namespace oneflow::testing {
namespace {

constexpr uint64_t kPartsSeed = 1231;
using Ints = std::vector<int64_t>;

double Sum(double a, double b) { return a + b; }
double Largest(double a, double b) { return std::max(a, b); }
double Least(double a, double b) { return std::min(a, b); }

void ExpectNear(const RefTensor& got, const RefTensor& want, double tolerance, const char* what) {
  ASSERT_EQ(got.dims, want.dims) << what;
  for (int64_t i = 0; i < want.count(); ++i) {
    ASSERT_NEAR(got.values[i], want.values[i], tolerance * (1 + std::abs(want.values[i]))) << what << " " << i;
  }
}

class SoftmaxPartsTest : public OnDeviceTest {
 protected:
  // Output `index` of a kernel that gets whole tensors.
  RefTensor Whole(const std::string& op, std::vector<RefTensor> inputs, size_t index = 0) {
    const std::vector<RefTensor> outputs = *Reference(op, {}, inputs);
    const absl::StatusOr<KernelResult> result = RunKernel(*device_, {op, {}, inputs, outputs});
    EXPECT_OK(result);
    return result.ok() ? result->outputs[index] : outputs[index];
  }

  // Rows of `columns` columns in shards of these sizes, and a kernel's outputs put together of what each shard gives.
  struct Cut {
    Ints sizes;
    int64_t rows, columns;
  };
  // An input with columns is cut, one with an element per row goes to all shards.
  std::vector<RefTensor> InShards(const std::string& op, const AttrMap& attrs, const std::vector<RefTensor>& inputs,
                                  const std::vector<RefTensor>& like, const Cut& cut,
                                  double (*combine)(double, double)) {
    std::vector<RefTensor> whole;
    int64_t first = 0;
    for (const int64_t size : cut.sizes) {
      KernelCall call = {op, attrs, {}, {}};
      const Part columns = {{cut.rows, cut.columns}, {0, first}}, rows = {{cut.rows}, {0}};
      for (const RefTensor& x : inputs) {
        const bool is_cut = x.dims.size() == 2;
        call.inputs.push_back(is_cut ? testing::Cut(x, {0, first}, {cut.rows, size}) : x);
        call.input_parts.push_back(is_cut ? columns : rows);
      }
      for (const RefTensor& y : like) {
        const bool is_cut = y.dims.size() == 2;
        call.outputs.push_back(is_cut ? Zeros({cut.rows, size}, y.dtype) : y);
        call.output_parts.push_back(is_cut ? columns : rows);
      }
      const absl::StatusOr<KernelResult> result = RunKernel(*device_, call);
      EXPECT_OK(result);
      if (!result.ok()) return like;
      if (whole.empty()) whole = like;
      for (size_t i = 0; i < like.size(); ++i) {
        const RefTensor& part = result->outputs[i];
        if (like[i].dims.size() == 2) {
          Paste(part, {0, first}, &whole[i]);
        } else {
          for (int64_t row = 0; row < cut.rows; ++row) {
            whole[i].values[row] = first == 0 ? part.values[row] : combine(whole[i].values[row], part.values[row]);
          }
        }
      }
      first += size;
    }
    return whole;
  }
};

// On a cpu the parts add in the order of the whole.
TEST_P(SoftmaxPartsTest, WithAllColumnsTheyAreTheWholeKernels) {
  const double tolerance = GetParam().make == OneCore ? 0 : 1e-6;
  Random r(kPartsSeed);
  for (const int64_t c : {1, 7, 300, 1500}) {
    SCOPED_TRACE(absl::StrCat(c, " columns, seed ", kPartsSeed));
    const RefTensor x = Rounded(r.Uniform({9, c}, -9, 9)), dy = Rounded(r.Uniform({9, c}));
    const RefTensor labels = r.Integers({9}, c);
    std::vector<RefTensor> in = {x};
    const RefTensor m = (*Reference("reduce_max", {{"axes", Ints{1}}}, in))[0];
    const RefTensor s = Whole("softmax_sums", {x, labels, m}, 0), z = Whole("softmax_sums", {x, labels, m}, 1);
    for (const size_t output : {0, 1}) {
      ExpectNear(Whole("softmax_loss", {m, s, z}, output), Whole("softmax_cross_entropy", {x, labels}, output),
                 tolerance, output == 0 ? "loss" : "lse");
    }
    ExpectNear(Whole("exp_sum", {x, m}), s, 0, "sum");
    const RefTensor y = Whole("softmax", {x});
    ExpectNear(Whole("softmax_apply", {x, m, s}), y, tolerance, "y");
    ExpectNear(Whole("softmax_grad_apply", {dy, y, Whole("row_dot", {dy, y})}), Whole("softmax_grad", {dy, y}),
               tolerance, "dx");
    ExpectNear(Whole("same_index", {Whole("first_index", {x, m}), labels}), Whole("top1_correct", {x, labels}), 0,
               "top 1");
  }
}

TEST_P(SoftmaxPartsTest, OfUnevenShardsTheyAddUpToTheWhole) {
  Random r(kPartsSeed);
  for (const Ints& sizes : {Ints{7}, Ints{3, 2, 2}, Ints{3, 0, 4}, Ints{1, 1, 1, 1, 1, 1, 1}}) {
    SCOPED_TRACE(absl::StrCat(sizes.size(), " shards, seed ", kPartsSeed));
    const Cut cut = {sizes, 40, 7};
    RefTensor x = r.Integers({40, 7}, 4);  // the largest often stands in several shards
    x.dtype = DType::kFloat32;
    const RefTensor dy = Rounded(r.Uniform({40, 7})), labels = r.Integers({40}, 7);
    const RefTensor per_row = Zeros({40}), per_element = Zeros({40, 7}), indices = Zeros({40}, DType::kInt32);

    const RefTensor m = InShards("reduce_max", {{"axes", Ints{1}}}, {x}, {per_row}, cut, Largest)[0];
    const std::vector<RefTensor> sums = InShards("softmax_sums", {}, {x, labels, m}, {per_row, per_row}, cut, Sum);
    std::vector<RefTensor> in = {x, labels};
    const std::vector<RefTensor> want = *Reference("softmax_cross_entropy", {}, in);
    ExpectNear(Whole("softmax_loss", {m, sums[0], sums[1]}, 0), want[0], 2e-6, "loss");
    ExpectNear(Whole("softmax_loss", {m, sums[0], sums[1]}, 1), want[1], 2e-6, "lse");

    const RefTensor best = InShards("first_index", {}, {x, m}, {indices}, cut, Least)[0];
    ExpectNear(Whole("same_index", {best, labels}), (*Reference("top1_correct", {}, in))[0], 0, "top 1");

    const RefTensor s = InShards("exp_sum", {}, {x, m}, {per_row}, cut, Sum)[0];
    const RefTensor y = InShards("softmax_apply", {}, {x, m, s}, {per_element}, cut, nullptr)[0];
    in = {x};
    ExpectNear(y, (*Reference("softmax", {}, in))[0], 1e-6, "y");
    const RefTensor d = InShards("row_dot", {}, {dy, y}, {per_row}, cut, Sum)[0];
    in = {dy, y};
    ExpectNear(InShards("softmax_grad_apply", {}, {dy, y, d}, {per_element}, cut, nullptr)[0],
               (*Reference("softmax_grad", {}, in))[0], 2e-6, "dx");
  }
}

// Of a row whose largest element another shard has, a shard knows no index.
TEST_P(SoftmaxPartsTest, WithoutTheLargestElementThereIsNoIndex) {
  RefTensor x = Zeros({2, 3}), m = Zeros({2});
  x.values = {1, 5, 5, 1, 2, 3};
  m.values = {5, 9};
  const KernelCall call = {"first_index", {}, {x, m}, {Zeros({2}, DType::kInt32)}, {{{2, 8}, {0, 4}}, {{2}, {0}}}};
  ASSERT_OK_AND_ASSIGN(const KernelResult result, RunKernel(*device_, call));
  EXPECT_EQ(result.outputs[0].values, (std::vector<double>{5, std::numeric_limits<int32_t>::max()}));
}

INSTANTIATE_TEST_SUITE_P(Devices, SoftmaxPartsTest,
                         ::testing::Values(DeviceUnderTest{"cpu", OneCore}, DeviceUnderTest{"cuda", FirstGpu}), NameOf);

}  // namespace
}  // namespace oneflow::testing
