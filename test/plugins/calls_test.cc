// Host functions in jobs: where and how often they are called, their gradients, and their state.
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "absl/strings/str_cat.h"
#include "actor/plugin.h"
#include "kernels/device.h"
#include "oneflow_core/functional.h"
#include "oneflow_core/grad_context.h"
#include "oneflow_core/nn/linear.h"
#include "oneflow_core/ops/check.h"
#include "oneflow_core/ops/ops.h"
#include "test/support/status_matchers.h"
#include "test/support/test_dir.h"
#include "tools/control/local/run_in_place.h"
#include "tools/job/job.h"
#include "tools/job/plugins.h"

namespace oneflow {
namespace {

using Types = std::vector<TensorType>;

// What tally() was called with, in order.
struct Tallied {
  int64_t step;
  float value;
  int64_t count;  // of calls, itself included, as its state says
  bool operator==(const Tallied&) const = default;
};
std::mutex mu;
std::vector<Tallied> tallies;
// The part of its logical tensor that a call has.
struct Part {
  std::vector<int64_t> start, dims;
  auto operator<=>(const Part&) const = default;
};
std::map<Part, int> parts;  // what Doubled was called with, and how often

// Counts in a variable how often it was called.
class Tally : public HostFunction {
 public:
  absl::Status Call(const HostCall& call) override {
    auto* const count = call.in[1].as<int64_t>();
    ++*count;
    const std::lock_guard<std::mutex> lock(mu);
    tallies.push_back({call.step, *call.in[0].as<const float>(), *count});
    return absl::OkStatus();
  }
};

// y = 2 x.
class Doubled : public HostFunction {
 public:
  absl::Status Call(const HostCall& call) override {
    const TensorArg &x = call.in[0], &y = call.out[0];
    for (int64_t i = 0; i < y.count; ++i) y.as<float>()[i] = 2 * x.as<const float>()[i];
    const std::lock_guard<std::mutex> lock(mu);
    ++parts[{{x.start, x.start + x.rank}, {x.dims, x.dims + x.rank}}];
    return absl::OkStatus();
  }
};

class Throws : public HostFunction {
 public:
  absl::Status Call(const HostCall&) override { throw std::runtime_error("no such luck"); }
};

template <typename T>
absl::StatusOr<std::unique_ptr<HostFunction>> Open(const AttrMap&) {
  return std::make_unique<T>();
}

absl::StatusOr<Types> InferTally(const InferContext& c) {
  OF_RETURN_IF_ERROR(ops::CheckOperands(c, {{"x", ops::kFloat32}, {"count", ops::kCounter}}));
  return Types();
}
absl::StatusOr<Types> InferSame(const InferContext& c) {
  OF_RETURN_IF_ERROR(ops::CheckOperands(c, {{"x", ops::kFloat32}}));
  return Types{c.inputs[0]};
}
// The gradient is the function itself: of parts, or of whole tensors.
template <bool whole>
absl::Status DoubledGrad(GradContext& c) {
  c.SetInputGrad(0, c.Call1(whole ? "doubled_whole" : "doubled", {*c.output_grad(0)}));
  return absl::OkStatus();
}

void DeclareCalls(Plugin& plugin) {
  plugin.Add(OpDef{.name = "tally",
                   .kind = OpKind::kCall,
                   .infer = InferTally,
                   .mutates = {1},
                   .averages = {0},
                   .has_effect = true});
  plugin.Add(HostFunctionKind{"tally", Open<Tally>});
  plugin.Add(OpDef{.name = "doubled",
                   .kind = OpKind::kCall,
                   .rule = "...->...; linear 0",
                   .infer = InferSame,
                   .grad = DoubledGrad<false>});
  plugin.Add(OpDef{.name = "doubled_whole", .kind = OpKind::kCall, .infer = InferSame, .grad = DoubledGrad<true>});
  for (const char* name : {"doubled", "doubled_whole"}) plugin.Add(HostFunctionKind{name, Open<Doubled>});
  plugin.Add(OpDef{.name = "throws", .kind = OpKind::kCall, .infer = InferSame, .grad = DoubledGrad<false>});
  plugin.Add(HostFunctionKind{"throws", Open<Throws>});
}

const OpRegistry& Ops() {
  static const auto* const ops = [] {
    EXPECT_OK(AddPlugin("of calls_test", DeclareCalls));
    return new OpRegistry(StandardOps());
  }();
  return *ops;
}

// Two layers with `between` of them: an op that doubles, or none for Scale(x, 2).
absl::StatusOr<Graph> Model(int64_t batch, const std::string& between) {
  GraphBuilder b(Ops(), "train");
  const Batch samples = ReadPrototypeBatch(b, {.classes = 4, .samples = 256}, DataSplit::kTrain, batch);
  const Tensor hidden = nn::Linear(Reshape(samples.inputs, {batch, 64}), "a", {.width = 16, .init = "normal(0.1)"});
  const Tensor doubled = between.empty() ? Scale(hidden, 2) : b.Op1(between, {hidden});
  const Tensor logits = nn::Linear(Relu(doubled), "b", {.width = 4, .init = "normal(0.1)"});
  const Tensor loss = ReduceMean(SoftmaxCrossEntropy(logits, samples.labels), {0});
  b.SetLoss(loss);
  Fetch(loss, "loss");
  if (between != "throws") {
    b.Op("tally", {loss, b.Variable("calls", {DType::kInt64, {}}, "zeros", {}, /*trainable=*/false)});
  }
  return b.Finish();
}

struct Ran {
  std::vector<double> losses;
  std::vector<Tallied> tallies;
  std::map<Part, int> parts;
};

// `more`: config fields.
absl::StatusOr<Ran> RunJob(const std::string& between, const std::string& more, int steps = 6, int micro_batches = 1) {
  const std::string text = absl::StrCat("train { steps: ", steps, " batch_size: 8 micro_batches: ", micro_batches,
                                        " optimizer { adamw {} } schedule { learning_rate: 0.01 } } ", more);
  OF_ASSIGN_OR_RETURN(SourcedConfig config, ParseConfig(text, "calls"));
  OF_ASSIGN_OR_RETURN(Graph graph, Model(8 / micro_batches, between));
  OF_ASSIGN_OR_RETURN(Job job, MakeJob(std::move(config), {std::move(graph)}));
  OF_ASSIGN_OR_RETURN(const pb::Program program, CompileToProgram(job, Ops()));
  Ran ran;
  tallies.clear();
  parts.clear();
  OF_RETURN_IF_ERROR(RunInPlace(job.spec, program, [&](const pb::JobEvent& event) {
                       if (event.fetched().name() == "loss") ran.losses.push_back(event.fetched().values(0));
                     }).status());
  ran.tallies = tallies;
  ran.parts = parts;
  return ran;
}

constexpr char kOnCuda[] = " cluster { device: 'cuda' }";

struct Layout {
  std::string mesh;
  int devices;
  int parts;  // into which it divides samples
};

// The layouts of these tests; on GPUs those for which there are enough. Where there is none, the test is skipped.
std::vector<Layout> Layouts(const std::string& more) {
  std::vector<Layout> layouts = {{"", 1, 1},
                                 {"mesh { dp: 2 }", 2, 2},
                                 {"mesh { pp: 2 }", 2, 1},
                                 {"mesh { dp: 3 }", 3, 3},  // 8 samples are 3, 3 and 2
                                 {"mesh { dp: 2 tp: 2 }", 4, 4}};
  if (more != kOnCuda) return layouts;
  int devices = 0;
  std::string why;
  while (devices < 4 && CudaMemory(devices, &why).has_value()) ++devices;
  std::erase_if(layouts, [&](const Layout& layout) { return layout.devices > devices; });
  return layouts;
}

// The calls of 6 steps, forward and backward: each rank that has work is called with its part of [rows,16], and the
// parts, however they lie, are the whole.
void ExpectPartsAreTheWhole(const std::map<Part, int>& parts, int64_t rows, int micro_batches, int row_parts) {
  std::vector<int> covered(rows * 16, 0);
  std::set<std::pair<int64_t, int64_t>> bands;
  for (const auto& [part, calls] : parts) {
    EXPECT_EQ(calls % (2 * 6 * micro_batches), 0) << calls << " calls with one part";
    bands.insert({part.start[0], part.dims[0]});
    for (int64_t i = 0; i < part.dims[0]; ++i) {
      for (int64_t j = 0; j < part.dims[1]; ++j) ++covered[(part.start[0] + i) * 16 + part.start[1] + j];
    }
  }
  EXPECT_THAT(covered, Each(1));
  std::set<std::pair<int64_t, int64_t>> expected;  // the first have one more where rows do not divide
  for (int64_t i = 0, start = 0; i < row_parts; ++i) {
    const int64_t size = rows / row_parts + (i < rows % row_parts ? 1 : 0);
    expected.insert({start, size});
    start += size;
  }
  EXPECT_EQ(bands, expected);
}

void ExpectCallsEqualKernels(const std::string& more) {
  for (const Layout& layout : Layouts(more)) {
    for (const int micro_batches : {1, 2}) {
      SCOPED_TRACE(absl::StrCat(layout.mesh, " ", micro_batches, " micro-batches"));
      ASSERT_OK_AND_ASSIGN(const Ran with_kernel, RunJob("", layout.mesh + more, 6, micro_batches));
      for (const char* op : {"doubled", "doubled_whole"}) {
        SCOPED_TRACE(op);
        ASSERT_OK_AND_ASSIGN(const Ran with_call, RunJob(op, layout.mesh + more, 6, micro_batches));
        ASSERT_EQ(with_call.losses.size(), 6u);
        for (int i = 0; i < 6; ++i) EXPECT_NEAR(with_call.losses[i], with_kernel.losses[i], 1e-6);
        const bool whole = op == std::string("doubled_whole");
        ExpectPartsAreTheWhole(with_call.parts, 8 / micro_batches, micro_batches, whole ? 1 : layout.parts);
        if (whole) {
          EXPECT_EQ(with_call.parts.begin()->second, 2 * 6 * micro_batches) << "one rank is called, and no other";
        }
      }
    }
  }
}

TEST(CallsTest, AFunctionOfTheHostComputesAndHasAGradient) { ExpectCallsEqualKernels(""); }

TEST(CallsTest, OnCudaAFunctionOfTheHostComputesAndHasAGradient) {
  if (Layouts(kOnCuda).empty()) GTEST_SKIP() << "no GPU";
  ExpectCallsEqualKernels(kOnCuda);
}

void ExpectOneCallAStep(const std::string& more) {
  for (const Layout& layout : Layouts(more)) {
    SCOPED_TRACE(layout.mesh);
    ASSERT_OK_AND_ASSIGN(const Ran ran, RunJob("", layout.mesh + more));
    ASSERT_THAT(ran.tallies, SizeIs(6));
    for (int i = 0; i < 6; ++i) {
      EXPECT_EQ(ran.tallies[i].step, i);
      EXPECT_EQ(ran.tallies[i].value, static_cast<float>(ran.losses[i]));
      EXPECT_EQ(ran.tallies[i].count, i + 1);
    }
  }
}

TEST(CallsTest, WithoutARuleItIsCalledOnceAStepOnWholeTensors) { ExpectOneCallAStep(""); }

TEST(CallsTest, OnCudaWithoutARuleItIsCalledOnceAStepOnWholeTensors) {
  if (Layouts(kOnCuda).empty()) GTEST_SKIP() << "no GPU";
  ExpectOneCallAStep(kOnCuda);
}

TEST(CallsTest, MicroBatchesAreAveragedForOneCall) {
  ASSERT_OK_AND_ASSIGN(const Ran ran, RunJob("", "mesh { dp: 2 }", 4, 4));
  ASSERT_THAT(ran.tallies, SizeIs(4));
  for (int i = 0; i < 4; ++i) EXPECT_NEAR(ran.tallies[i].value, ran.losses[i], 1e-6);
}

TEST(CallsTest, StateGoesOnFromACheckpointOnAnotherMesh) {
  const TestDir dir;
  const std::string checkpoint = absl::StrCat(" checkpoint { path: '", dir.File("c"), "' every: 3 }");
  ASSERT_OK(RunJob("", "mesh { dp: 2 }" + checkpoint, 3).status());
  const std::string text =
      absl::StrCat("train { steps: 6 batch_size: 8 optimizer { adamw {} } schedule { learning_rate: 0.01 } } ",
                   "mesh { dp: 2 tp: 2 }", checkpoint);
  ASSERT_OK_AND_ASSIGN(SourcedConfig config, ParseConfig(text, "calls"));
  ASSERT_OK_AND_ASSIGN(Graph graph, Model(8, ""));
  ASSERT_OK_AND_ASSIGN(Job job, MakeJob(std::move(config), {std::move(graph)}));
  ASSERT_OK_AND_ASSIGN(const pb::Program program, CompileToProgram(job, Ops()));
  job.spec.set_resume(true);
  tallies.clear();
  ASSERT_OK(RunInPlace(job.spec, program, nullptr).status());
  ASSERT_THAT(tallies, SizeIs(3));
  EXPECT_EQ(tallies[0].step, 3);
  EXPECT_EQ(tallies[0].count, 4) << "three calls before the checkpoint";
  EXPECT_EQ(tallies[2].count, 6);
}

TEST(CallsTest, WhatAFunctionThrowsIsTheJobsErrorWithItsNode) {
  EXPECT_THAT(RunJob("throws", "mesh { dp: 2 }").status(),
              StatusIs(absl::StatusCode::kInternal, AllOf(HasSubstr("throws"), HasSubstr("no such luck"))));
}

}  // namespace
}  // namespace oneflow
