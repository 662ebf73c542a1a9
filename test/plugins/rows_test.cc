// An op with kernels, an optimizer of a kernel and a source of data, as a library adds them, in jobs: what the engine's
// own rows do, these do.
#include <cmath>

#include "absl/strings/str_cat.h"
#include "actor/data/sample_range.h"
#include "oneflow_core/functional.h"
#include "oneflow_core/grad_context.h"
#include "oneflow_core/nn/linear.h"
#include "oneflow_core/ops/check.h"
#include "test/support/status_matchers.h"
#include "tools/control/local/run_in_place.h"
#include "tools/job/job.h"
#include "tools/job/plugins.h"

namespace oneflow {
namespace {

using Types = std::vector<TensorType>;

// --- bend: what silu computes ---

absl::StatusOr<Types> InferBend(const InferContext& c) {
  OF_RETURN_IF_ERROR(ops::CheckOperands(c, {{"x", ops::kFloat32}}));
  return Types{c.inputs[0]};
}
absl::StatusOr<Types> InferBendGrad(const InferContext& c) {
  OF_RETURN_IF_ERROR(ops::CheckOperands(c, {{"dy", ops::kFloat32}, {"x", ops::kFloat32}}));
  return Types{c.inputs[1]};
}
absl::Status BendGradient(GradContext& c) {
  c.SetInputGrad(0, c.Call1("bend_grad", {*c.output_grad(0), c.input(0)}));
  return absl::OkStatus();
}
const char* Bend(const KernelArgs& args) {
  for (int64_t i = 0; i < args.out[0].count; ++i) {
    const float x = args.in[0].as<float>()[i];
    args.out[0].as<float>()[i] = x / (1 + std::exp(-x));
  }
  return nullptr;
}
const char* BendGrad(const KernelArgs& args) {
  for (int64_t i = 0; i < args.out[0].count; ++i) {
    const float x = args.in[1].as<float>()[i], s = 1 / (1 + std::exp(-x));
    args.out[0].as<float>()[i] = args.in[0].as<float>()[i] * (s + x * s * (1 - s));
  }
  return nullptr;
}

// --- plain: w -= rate scale g, in place, as an op of its own; sgd without momentum ---

const char* PlainUpdate(const KernelArgs& args) {
  const float rate = *args.in[2].as<float>(), scale = *args.in[3].as<float>();
  if (std::isnan(scale)) return nullptr;
  for (int64_t i = 0; i < args.in[0].count; ++i) args.in[0].as<float>()[i] -= rate * scale * args.in[1].as<float>()[i];
  return nullptr;
}

// --- dots: points of a circle and whether they are right of the middle ---

class Dots : public Source {
 public:
  int64_t num_samples() const override { return 128; }
  absl::Status Read(int64_t step, int64_t micro_batch, int64_t micro_batches, std::span<const TensorArg> outputs,
                    int64_t row_shift) override {
    const int64_t first = FirstSample(step, micro_batch, micro_batches, outputs[0], row_shift);
    for (int64_t i = 0; i < outputs[0].dims[0]; ++i) {
      const double angle = static_cast<double>((first + i) % 128) * 0.7;
      outputs[0].as<float>()[2 * i] = static_cast<float>(std::cos(angle));
      outputs[0].as<float>()[2 * i + 1] = static_cast<float>(std::sin(angle));
      outputs[1].as<int32_t>()[i] = std::cos(angle) > 0;
    }
    return absl::OkStatus();
  }
};
absl::StatusOr<std::unique_ptr<Source>> OpenDots(const AttrMap&) { return std::make_unique<Dots>(); }
absl::StatusOr<Types> TypesOfDots(const AttrMap&, int64_t batch) {
  return Types{{DType::kFloat32, {batch, 2}}, {DType::kInt32, {batch}}};
}
Batch ReadDots(GraphBuilder& b, const AttrMap&, DataSplit, int64_t batch) {
  const std::vector<Tensor> read = b.Op("read_data", {}, {{"dataset", "dots"}, {"batch", batch}, {"split", "train"}});
  const SbpHint by_sample = {{"dp", Sbp::Split(0)}};
  return {read[0].To(by_sample), read[1].To(by_sample)};
}

// --- dot_net ---

absl::StatusOr<std::vector<Graph>> BuildDotNet(const ModelRequest& request, const OpRegistry& ops) {
  GraphBuilder b(ops, "train");
  const Batch samples = request.reads.read(b, request.data, DataSplit::kTrain, request.batches.train);
  const Tensor hidden = nn::Linear(samples.inputs, "a", {.width = request.fields.Int("width"), .init = "normal(0.5)"});
  const bool bends = request.fields.Bool("bends");
  const Tensor logits =
      nn::Linear(bends ? b.Op1("bend", {hidden}) : Silu(hidden), "b", {.width = 2, .init = "normal(0.5)"});
  const Tensor loss = ReduceMean(SoftmaxCrossEntropy(logits, samples.labels), {0});
  b.SetLoss(loss);
  Fetch(loss, "loss");
  std::vector<Graph> program;
  OF_ASSIGN_OR_RETURN(program.emplace_back(), b.Finish());
  return program;
}

void DeclareRows(Plugin& plugin) {
  plugin.Add(OpDef{.name = "bend", .rule = "...->...", .infer = InferBend, .grad = BendGradient});
  plugin.Add(OpDef{.name = "bend_grad", .rule = "...,...->...; linear 0", .infer = InferBendGrad});
  plugin.AddCpu({"bend", DType::kFloat32, Bend});
  plugin.AddCpu({"bend_grad", DType::kFloat32, BendGrad});
  plugin.Add(OptimizerRule{.name = "plain"});
  plugin.AddCpu({"plain_update", DType::kFloat32, PlainUpdate});
  plugin.Add(DataKind{.name = "dots", .types = TypesOfDots, .read = ReadDots, .labels = 1}, {"dots", OpenDots});
  plugin.Add(ModelDef{.name = "dot_net",
                      .reads = {"dots"},
                      .build = BuildDotNet,
                      .fields = {{"width", int64_t{8}, 1, 100}, {"bends", true}}});
}

absl::StatusOr<std::vector<double>> Losses(const std::string& model, const std::string& optimizer,
                                           const std::string& more) {
  static const absl::Status added = AddPlugin("of rows_test", DeclareRows);
  OF_RETURN_IF_ERROR(added);
  OF_ASSIGN_OR_RETURN(
      SourcedConfig config,
      ParseConfig(absl::StrCat("model { custom { name: 'dot_net' ", model, " } } data { custom { name: 'dots' } } ",
                               "train { steps: 12 batch_size: 16 optimizer { ", optimizer,
                               " } schedule { learning_rate: 0.3 } } ", more),
                  "rows"));
  OF_ASSIGN_OR_RETURN(const OpRegistry ops, OpsOf(config));
  OF_ASSIGN_OR_RETURN(Job job, MakeJob(std::move(config), JobKind::kTrain, ops));
  OF_ASSIGN_OR_RETURN(const pb::Program program, CompileToProgram(job, ops));
  std::vector<double> losses;
  OF_RETURN_IF_ERROR(RunInPlace(job.spec, program, [&](const pb::JobEvent& event) {
                       if (event.fetched().name() == "loss") losses.push_back(event.fetched().values(0));
                     }).status());
  return losses;
}

TEST(RowsTest, TheyTrainAsTheEnginesOwnDo) {
  ASSERT_OK_AND_ASSIGN(const std::vector<double> expected, Losses("set: 'bends=false'", "sgd {}", ""));
  ASSERT_THAT(expected, SizeIs(12));
  EXPECT_LT(expected.back(), expected.front() / 2);
  for (const char* mesh : {"", "mesh { dp: 2 }", "mesh { tp: 2 }", "mesh { dp: 2 tp: 2 }", "mesh { pp: 2 }"}) {
    SCOPED_TRACE(mesh);
    ASSERT_OK_AND_ASSIGN(const std::vector<double> losses, Losses("", "custom { name: 'plain' }", mesh));
    ASSERT_EQ(losses.size(), expected.size());
    for (size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(losses[i], expected[i], 1e-5) << "step " << i;
  }
}

}  // namespace
}  // namespace oneflow
