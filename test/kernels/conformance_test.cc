// Every kernel of every device kind against the reference, on one table of cases.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <set>

#include "glog/logging.h"
#include "kernels/kernel.h"
#include "test/kernels/devices.h"
#include "test/kernels/harness.h"
#include "test/support/op_facts.h"
#include "test/support/ops/kit.h"
#include "test/support/standard_ops.h"
#include "test/support/status_matchers.h"

namespace oneflow::testing {
namespace {

constexpr uint64_t kSeed = 20240607;

class ConformanceTest : public OnDeviceTest {
 protected:
  // What a device has given out it takes back when it is gone: a new one after so many cases.
  void BeginCase() {
    if (++cases_ % 100 != 0) return;
    std::string why;
    device_ = GetParam().make(&why);
    ASSERT_NE(device_, nullptr) << why;
    device_->BindThread();
  }
  int cases_ = 0;
};

std::string Describe(const OpCase& c) { return absl::StrCat(ToString(c), ", seed ", kSeed); }

// The most that two neighbouring numbers differ by, as a part of them: a rounding may go either way.
double Rounding(DType dtype) { return dtype == DType::kBFloat16 ? 0x1p-7 : 0x1p-10; }

// The case on operands of a narrow type. Nothing is as precise as what is rounded last.
OpCase Narrowed(OpCase c, const OpDef& op, DType dtype) {
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    const bool is_full = std::count(op.full_inputs.begin(), op.full_inputs.end(), static_cast<int>(i)) > 0;
    if (c.inputs[i].dtype == DType::kFloat32 && !is_full) c.inputs[i] = Rounded(Of(dtype, std::move(c.inputs[i])));
  }
  c.tolerance = std::max(c.tolerance, Rounding(dtype));
  return c;
}

// The cases that compute on f32, on narrow types as far as the ops do so, those that mixed precision leaves alone as
// far as they have kernels; ops that say what they give give all of it.
std::vector<OpCase> NarrowCases(const std::vector<OpCase>& cases) {
  const KernelTable kernels = CpuKernels();
  std::vector<OpCase> narrow;
  for (const OpCase& c : cases) {
    const OpDef& op = *Ops().Find(c.op);
    const auto is_f32 = [](const RefTensor& x) { return x.dtype == DType::kFloat32; };
    if (op.kind != OpKind::kCompute || c.inputs.empty() || !is_f32(c.inputs[0])) continue;
    for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
      narrow.push_back(Narrowed(c, op, dtype));
      const bool has_kernel =
          op.precision != Precision::kFull || kernels.Find(c.op, narrow.back().inputs[0].dtype) != nullptr;
      if (!has_kernel || !op.infer({TypesOf(narrow.back().inputs), c.attrs}).ok()) {  // a kernel can more than its op
        narrow.pop_back();
        continue;
      }
      if (!op.has_out_dtype) continue;
      const bool stays_full = is_f32(narrow.back().inputs[0]);  // a table, whose rows are rounded
      OpCase other = narrow.back();
      other.attrs.Set("out_dtype", std::string(Name(stays_full ? dtype : DType::kFloat32)));
      if (!stays_full) other.tolerance = c.tolerance;  // nothing is rounded
      other.in_place = -1;
      if (stays_full) narrow.pop_back();
      narrow.push_back(std::move(other));
    }
  }
  return narrow;
}

// What the reference makes of a case.
struct Wanted {
  std::vector<RefTensor> outputs;  // in the types that inference gives
  std::vector<RefTensor> inputs;   // afterwards
};

absl::StatusOr<std::vector<RefTensor>> WantedOutputs(const OpCase& c, std::vector<RefTensor>& inputs) {
  const std::vector<TensorType> types = TypesOf(inputs);
  OF_ASSIGN_OR_RETURN(std::vector<RefTensor> want, Reference(c.op, c.attrs, inputs, c.context));
  const auto is_narrow = [](const TensorType& type) { return IsNarrow(type.dtype); };
  const bool mixed = std::any_of(types.begin(), types.end(), is_narrow) || c.attrs.Has("out_dtype");
  if (!mixed || c.op == "cast") return want;
  OF_ASSIGN_OR_RETURN(const std::vector<TensorType> outputs, Ops().Find(c.op)->infer({types, c.attrs}));
  for (size_t i = 0; i < want.size(); ++i) want[i].dtype = outputs[i].dtype;
  return want;
}

// Whether the environment asks for some of the cases only: those of the op ONEFLOW_TEST_OP, or every n-th from the i-th
// on, ONEFLOW_TEST_SHARD=i/n, for several processes.
bool AreSome() { return std::getenv("ONEFLOW_TEST_OP") != nullptr || std::getenv("ONEFLOW_TEST_SHARD") != nullptr; }

// What kernels compute: the compiler removes annotations.
std::vector<OpCase> MakeCases() {
  std::vector<OpCase> cases = ExamplesAndEdges(kSeed);
  const std::vector<OpCase> narrow = NarrowCases(cases);
  cases.insert(cases.end(), narrow.begin(), narrow.end());
  const char* const only = std::getenv("ONEFLOW_TEST_OP");
  std::erase_if(
      cases, [&](const OpCase& c) { return Ops().Is(c.op, OpKind::kAnnotation) || (only != nullptr && c.op != only); });
  int shard = 0, shards = 1;
  if (const char* const text = std::getenv("ONEFLOW_TEST_SHARD")) {
    CHECK(std::sscanf(text, "%d/%d", &shard, &shards) == 2 && shard >= 0 && shard < shards) << text;
  }
  int index = 0;
  std::erase_if(cases, [&](const OpCase&) { return index++ % shards != shard; });
  return cases;
}

// Drawn once, since several tests go through them.
const std::vector<OpCase>& Cases() {
  static const auto* const kCases = new std::vector<OpCase>(MakeCases());
  return *kCases;
}

// Of one of Cases(). The reference takes most of the time of a test, so each case asks it once.
const absl::StatusOr<Wanted>& Want(const OpCase& c) {
  static auto* const known = new std::map<const OpCase*, absl::StatusOr<Wanted>>;
  const auto found = known->find(&c);
  if (found != known->end()) return found->second;
  Wanted wanted = {{}, c.inputs};
  absl::StatusOr<std::vector<RefTensor>> outputs = WantedOutputs(c, wanted.inputs);
  if (!outputs.ok()) return known->emplace(&c, outputs.status()).first->second;
  wanted.outputs = *std::move(outputs);
  return known->emplace(&c, std::move(wanted)).first->second;
}

KernelCall CallOf(const OpCase& c, const std::vector<RefTensor>& types) {
  KernelCall call = {c.op, c.attrs, c.inputs, types};
  for (RefTensor& output : call.outputs) {
    for (double& v : output.values) v = 99;  // not what any case expects everywhere
  }
  call.context = c.context;
  return call;
}

// Where nothing asks what the case should give: without the reference, but where a kernel can more than its op.
absl::StatusOr<KernelCall> CallOf(const OpCase& c) {
  const absl::StatusOr<std::vector<TensorType>> types = Ops().Find(c.op)->infer({TypesOf(c.inputs), c.attrs});
  if (!types.ok()) {
    OF_ASSIGN_OR_RETURN(const Wanted want, Want(c));
    return CallOf(c, want.outputs);
  }
  std::vector<RefTensor> outputs;
  for (const TensorType& type : *types) {
    outputs.push_back(Zeros(type.shape.dims(), type.dtype));
    outputs.back().ragged = type.ragged;
  }
  return CallOf(c, outputs);
}

TEST_P(ConformanceTest, KernelsAgreeWithTheReference) {
  for (const OpCase& c : Cases()) {
    SCOPED_TRACE(Describe(c));
    BeginCase();
    ASSERT_OK_AND_ASSIGN(const Wanted want, Want(c));
    const KernelCall call = CallOf(c, want.outputs);
    absl::StatusOr<KernelResult> got = RunKernel(*device_, call);
    if (GetParam().make == FirstGpu && absl::IsNotFound(got.status())) continue;  // counted by EveryKernelHasACase
    ASSERT_OK(got);
    ASSERT_OK(CheckNear(got->outputs, want.outputs, c.tolerance, "output"));
    ASSERT_OK(CheckNear(got->inputs, want.inputs, c.tolerance, "input"));
  }
}

TEST_P(ConformanceTest, OutputsMayLieInInputsWhereOpsSaySo) {
  int cases = 0;
  for (const OpCase& c : Cases()) {
    if (c.in_place < 0) continue;
    SCOPED_TRACE(Describe(c));
    BeginCase();
    ASSERT_OK_AND_ASSIGN(const Wanted want, Want(c));
    if (device_->kernels().Find(c.op, c.inputs[0].dtype) == nullptr) continue;
    KernelCall call = CallOf(c, want.outputs);
    call.output_in_input = c.in_place;
    ASSERT_OK_AND_ASSIGN(const KernelResult got, RunKernel(*device_, call));
    ASSERT_OK(CheckNear(got.outputs, want.outputs, c.tolerance, "output"));
    ++cases;
  }
  EXPECT_GT(cases, AreSome() ? -1 : 20);
}

// All ways in which the operands may lie, but for all of them row-major.
std::vector<std::vector<MemoryLayout>> LayoutsOf(const OpCase& c, const std::vector<RefTensor>& outputs) {
  const std::vector<int> groups = BlockGroups(*Ops().Find(c.op), TypesOf(c.inputs), TypesOf(outputs), c.attrs);
  std::vector<RefTensor> operands = c.inputs;
  operands.insert(operands.end(), outputs.begin(), outputs.end());
  std::vector<std::vector<MemoryLayout>> ways;
  for (const int in_blocks : {1, 2, 3}) {  // the groups, one bit each: no op has more than two
    std::vector<MemoryLayout> way(groups.size(), MemoryLayout::kRowMajor);
    bool fits = true, any = false;
    for (size_t i = 0; i < groups.size(); ++i) {
      if (groups[i] < 0 || (in_blocks >> groups[i] & 1) == 0) continue;
      way[i] = MemoryLayout::kChannelBlocks;
      fits = fits && FitsBlocks(operands[i].dims, static_cast<int>(operands[i].dims.size()));
      any = true;
    }
    const bool is_new = std::find(ways.begin(), ways.end(), way) == ways.end();
    if (fits && any && is_new) ways.push_back(std::move(way));
  }
  return ways;
}

TEST_P(ConformanceTest, OperandsMayLieInBlocksWhereOpsSaySo) {
  if (GetParam().make == FirstGpu) GTEST_SKIP() << "only CPUs have blocks";
  std::set<std::string> seen;
  for (const OpCase& c : Cases()) {
    SCOPED_TRACE(Describe(c));
    ASSERT_OK_AND_ASSIGN(KernelCall call, CallOf(c));
    for (const std::vector<MemoryLayout>& layouts : LayoutsOf(c, call.outputs)) {
      BeginCase();
      ASSERT_OK_AND_ASSIGN(const Wanted want, Want(c));
      call.layouts = layouts;
      ASSERT_OK_AND_ASSIGN(const KernelResult got, RunKernel(*device_, call));
      ASSERT_OK(CheckNear(got.outputs, want.outputs, c.tolerance, "output"));
      seen.insert(c.op);
    }
  }
  if (AreSome()) return;
  for (const auto& [name, op] : Ops().all()) {
    EXPECT_EQ(seen.count(name) > 0, op.blocks != nullptr) << name << " has no case in blocks";
  }
}

// Of a device that captures work the second is one of what was captured, in another act. GPUs run every eighth case of
// an op: those in software take minutes for all.
TEST_P(ConformanceTest, TwoRunsAreBitwiseEqual) {
  const int every = GetParam().make == FirstGpu ? 8 : 1;
  std::map<std::string, int> seen;
  for (const OpCase& c : Cases()) {
    if (seen[c.op]++ % every != 0) continue;
    SCOPED_TRACE(Describe(c));
    BeginCase();
    ASSERT_OK_AND_ASSIGN(KernelCall call, CallOf(c));
    const DType dtype = call.inputs.empty() ? call.outputs[0].dtype : call.inputs[0].dtype;
    if (device_->kernels().Find(c.op, dtype) == nullptr) continue;
    ASSERT_OK_AND_ASSIGN(const KernelResult first, RunKernel(*device_, call));
    call.captured = c.op != "assert_replicas";  // the host waits for it: jobs that check copies capture nothing
    ASSERT_OK_AND_ASSIGN(const KernelResult second, RunKernel(*device_, call));
    ASSERT_EQ(first.bytes, second.bytes);
  }
}

// Products and convolutions belong to oneDNN, which divides sums among threads.
TEST(CpuTest, OurOwnKernelsDoNotDependOnTheNumberOfCores) {
  const std::set<std::string> library = {"matmul",
                                         "matmul_bias",
                                         "packed_matmul",
                                         "packed_matmul_bias",
                                         "packed_matmul_bias_gelu",
                                         "packed_matmul_gelu_bias_grad",
                                         "sum_packed_matmul",
                                         "matmul_wgrad",
                                         "accumulate_matmul_wgrad",
                                         "batch_matmul",
                                         "conv2d",
                                         "conv2d_dgrad",
                                         "conv2d_wgrad",
                                         "matmul_cross_entropy",
                                         "matmul_cross_entropy_grad",
                                         "packed_matmul_cross_entropy",
                                         "packed_matmul_cross_entropy_grad"};
  const auto one = MakeCpuDevice(1), two = MakeCpuDevice(2);
  for (const OpCase& c : Cases()) {
    if (library.count(c.op)) continue;
    SCOPED_TRACE(Describe(c));
    ASSERT_OK_AND_ASSIGN(const KernelCall call, CallOf(c));
    one->BindThread();
    ASSERT_OK_AND_ASSIGN(const KernelResult first, RunKernel(*one, call));
    two->BindThread();
    ASSERT_OK_AND_ASSIGN(const KernelResult second, RunKernel(*two, call));
    ASSERT_EQ(first.bytes, second.bytes);
  }
}

// The reference has the first.
TEST_P(ConformanceTest, LaterMicroBatchesAreAdded) {
  Random r(kSeed);
  std::set<std::string> tried;
  for (const OpCase& c : Cases()) {
    if (!Ops().Is(c.op, OpKind::kAccumulate)) continue;
    SCOPED_TRACE(Describe(c));
    ASSERT_OK(Want(c));
    std::vector<RefTensor> want = Want(c)->outputs;
    KernelCall call = {c.op, c.attrs, c.inputs, {Rounded(Of(want[0].dtype, r.Uniform(want[0].dims)))}};
    call.context.micro_batch = 1;
    ASSERT_OK_AND_ASSIGN(const KernelResult got, RunKernel(*device_, call));
    for (int64_t i = 0; i < want[0].count(); ++i) want[0].values[i] += call.outputs[0].values[i];
    ASSERT_OK(CheckNear(got.outputs, want, std::max(c.tolerance, 1e-6), "output"));
    tried.insert(c.op);
  }
  EXPECT_THAT(tried, ::testing::ElementsAre("accumulate", "accumulate_matmul_wgrad"));
}

TEST_P(ConformanceTest, EveryKernelHasACase) {
  std::set<std::pair<std::string, DType>> covered;
  for (const OpCase& c : Cases()) {
    const DType dtype = c.inputs.empty() ? Want(c)->outputs[0].dtype : c.inputs[0].dtype;
    covered.insert({c.op, dtype});
  }
  for (const Kernel& kernel : device_->kernels().all()) {
    EXPECT_TRUE(covered.count({kernel.op, kernel.dtype}))
        << kernel.op << " for " << Name(kernel.dtype) << " has no case";
  }
}

TEST_P(ConformanceTest, EveryOpWithAReferenceHasAKernel) {
  std::set<std::string> listed;
  for (const Kernel& kernel : device_->kernels().all()) listed.insert(kernel.op);
  for (const std::string& op : ReferenceOps()) {
    if (Ops().Is(op, OpKind::kAnnotation)) continue;  // removed by the compiler
    if (GetParam().make == FirstGpu && CpuOps().count(op) > 0) continue;
    EXPECT_TRUE(listed.count(op)) << op;
  }
}

TEST_P(ConformanceTest, NoKernelIsListedTwice) {
  std::set<std::pair<std::string, DType>> seen;
  for (const Kernel& kernel : device_->kernels().all()) {
    EXPECT_TRUE(seen.insert({kernel.op, kernel.dtype}).second) << kernel.op << " for " << Name(kernel.dtype);
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, ConformanceTest,
                         ::testing::Values(DeviceUnderTest{"cpu", OneCore},
                                           DeviceUnderTest{"cpu_of_two_cores", TwoCores},
                                           DeviceUnderTest{"cuda", FirstGpu}),
                         NameOf);

}  // namespace
}  // namespace oneflow::testing
