// The law of fusion: a model trains alike whether its ops are fused or not, under any layout, and a plan has the memory
// that its fused kernels take.
#include <random>
#include <set>

#include "absl/strings/match.h"
#include "kernels/kernel.h"
#include "oneflow_core/functional.h"
#include "oneflow_core/fusions.h"
#include "oneflow_core/models/data.h"
#include "oneflow_core/nn/batch_norm.h"
#include "oneflow_core/nn/conv2d.h"
#include "oneflow_core/zones.h"
#include "test/laws/layouts_law.h"

namespace oneflow {
namespace {

constexpr int kSteps = 6;

class FusionLawTest : public testing::LayoutsLaw {
 protected:
  // A small residual net: a stem, and blocks with an addition before their last ReLU, one of them with a norm on either
  // side of it.
  absl::StatusOr<Graph> ResidualNet(int64_t channels) {
    GraphBuilder b(ops_, "train");
    const Batch batch = ReadPrototypeBatch(b, {.classes = 5, .samples = 64, .height = 6, .width = 6, .noise = 0.3},
                                           DataSplit::kTrain, 8);
    const auto norm = [&](const Tensor& x, const std::string& name, int64_t width) {
      const Tensor y = nn::Conv2d(x, name + "/conv", {.channels = width, .kernel = 3, .padding = 1, .bias = false});
      return nn::BatchNorm(y, name + "/norm", {.training = true});
    };
    Tensor x = Relu(norm(batch.inputs, "stem", channels));
    x = Relu(norm(Relu(norm(x, "a0", channels)), "a1", channels) + x);
    x = Relu(norm(x, "b0", 2 * channels) + norm(x, "shortcut", 2 * channels));
    const Tensor w = b.Variable("head", {DType::kFloat32, {2 * channels, 5}}, "normal(0.1)");
    const Tensor loss = ReduceMean(SoftmaxCrossEntropy(MatMul(ReduceMean(x, {2, 3}), w), batch.labels));
    b.SetLoss(loss);
    Fetch(loss, "loss");
    return b.Finish();
  }

  // The losses of a job of this graph, fused or not; adds to `fused` whether anything was.
  absl::StatusOr<std::vector<double>> Losses(const Graph& graph, const std::string& config,
                                             const std::vector<std::string>& layout, bool unfused, int* fused) {
    OF_ASSIGN_OR_RETURN(SourcedConfig sourced, ParseConfig(config, "law"));
    for (const std::string& one : layout) OF_RETURN_IF_ERROR(ApplyOverride(one, sourced));
    if (unfused) OF_RETURN_IF_ERROR(ApplyOverride("unfused=true", sourced));
    OF_ASSIGN_OR_RETURN(Job job, MakeJob(std::move(sourced), {graph}));
    OF_ASSIGN_OR_RETURN(pb::Program program, CompileToProgram(job, ops_));
    *fused += absl::StrContains(job.spec.plan(), "made_of");
    int64_t planned_bytes = 0;
    for (const pb::Rank& rank : program.ranks()) {
      planned_bytes += BytesOfZones(rank);
    }
    std::vector<double> losses;
    OF_ASSIGN_OR_RETURN(const EngineStats stats,
                        RunInPlace(job.spec, std::move(program), [&](const pb::JobEvent& event) {
                          if (event.fetched().name() == "loss") losses.push_back(event.fetched().values(0));
                        }));
    EXPECT_EQ(stats.register_bytes, planned_bytes);
    EXPECT_EQ(stats.scratch_bytes, 0) << "nothing asks for more than the plan has";
    return losses;
  }

  // Relative; both are nan where no loss is a number.
  static void ExpectAlike(const std::vector<double>& got, const std::vector<double>& want, double bar) {
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < want.size(); ++i) {
      if (std::isnan(want[i]) && std::isnan(got[i])) continue;
      EXPECT_NEAR(got[i], want[i], bar * (1 + std::abs(want[i]))) << "step " << i + 1;
    }
  }

  const std::string sgd_ = absl::StrCat("name: 'fusion' train { steps: ", kSteps,
                                        " batch_size: 8 optimizer { sgd { momentum: 0.9 } } schedule { learning_rate: "
                                        "0.02 } }");
};

TEST_F(FusionLawTest, AResidualNetTrainsAlikeUnderEveryLayout) {
  const struct {
    std::vector<std::string> layout;
    double bar;
  } kCases[] = {{{}, 1e-5},
                {{"mesh={dp:2}"}, 1e-5},
                {{"mesh={tp:2}"}, 1e-5},
                {{"mesh={dp:2}", "train.micro_batches=2"}, 1e-5},
                {{"mesh={pp:2}", "train.micro_batches=4", "pipeline={schedule:'zb-h1'}"}, 1e-5},
                {{"precision.compute=BF16"}, 1e-2},
                {{"precision.compute=F16"}, 1e-3}};
  for (const int64_t channels : {6, 16}) {  // as rows, and in blocks
    ASSERT_OK_AND_ASSIGN(const Graph graph, ResidualNet(channels));
    for (const auto& c : kCases) {
      SCOPED_TRACE(absl::StrCat(channels, " channels, ", absl::StrJoin(c.layout, " ")));
      int fused = 0, unfused = 0;
      ASSERT_OK_AND_ASSIGN(const auto apart, Losses(graph, sgd_, c.layout, /*unfused=*/true, &unfused));
      ASSERT_OK_AND_ASSIGN(const auto together, Losses(graph, sgd_, c.layout, /*unfused=*/false, &fused));
      EXPECT_EQ(fused, 1);
      EXPECT_EQ(unfused, 0);
      ASSERT_LT(apart.back(), apart.front()) << "the model learns nothing, so equality would say nothing";
      ExpectAlike(together, apart, c.bar);
    }
  }
}

// Rows, a product, and a random net of elementwise ops on what it gives, which a second product mixes.
absl::StatusOr<Graph> ElementwiseNet(const OpRegistry& ops, std::mt19937& engine) {
  GraphBuilder b(ops, "train");
  const Batch batch =
      ReadPrototypeBatch(b, {.classes = 5, .samples = 64, .height = 4, .width = 4, .noise = 0.3}, DataSplit::kTrain, 8);
  const auto draw = [&](size_t below) { return std::uniform_int_distribution<size_t>(0, below - 1)(engine); };
  const auto mixed = [&](const Tensor& x, const std::string& name) {
    return MatMul(x, b.Variable(name, {DType::kFloat32, {16, 16}}, "normal(0.3)"));
  };
  const auto grow = [&](std::vector<Tensor> values) {
    for (int i = 0; i < 10; ++i) {
      const Tensor x = values[draw(values.size())], y = values[draw(values.size())];
      const Tensor made[] = {Tanh(x), Sigmoid(x), Relu(x),        Gelu(x), Scale(x, -0.5), AddScalar(x, 0.25),
                             Neg(x),  x + y,      x * Sigmoid(y), x - y,   Maximum(x, y),  Minimum(x, y)};
      values.push_back(made[draw(std::size(made))]);
    }
    Tensor sum = values.back();
    for (const size_t i : {draw(values.size()), draw(values.size())}) sum = sum + values[i];
    return Tanh(sum);
  };
  const Tensor scalar = b.Variable("scalar", {DType::kFloat32, {}}, "ones");
  const Tensor first = mixed(Reshape(batch.inputs, {8, 16}), "first");
  const Tensor second = mixed(grow({first, first * scalar}), "second");
  const Tensor logits = MatMul(grow({second, first}), b.Variable("head", {DType::kFloat32, {16, 5}}, "normal(0.3)"));
  const Tensor loss = ReduceMean(SoftmaxCrossEntropy(logits, batch.labels));
  b.SetLoss(loss);
  Fetch(loss, "loss");
  return b.Finish();
}

// Each part rounds what it gives, so that nothing differs at all, in narrow types neither.
TEST_F(FusionLawTest, ElementwiseOpsTrainAlikeToTheBit) {
  const unsigned seed = 20261125;
  std::mt19937 engine(seed);
  const std::vector<std::string> kLayouts[] = {{},
                                               {"mesh={dp:2}"},
                                               {"mesh={tp:2}"},
                                               {"train.micro_batches=2"},
                                               {"precision.compute=BF16"},
                                               {"precision.compute=F16"}};
  for (int model = 0; model < 8; ++model) {
    ASSERT_OK_AND_ASSIGN(const Graph graph, ElementwiseNet(ops_, engine));
    for (const std::vector<std::string>& layout : kLayouts) {
      SCOPED_TRACE(absl::StrCat("seed ", seed, ", model ", model, ", ", absl::StrJoin(layout, " ")));
      int fused = 0, unfused = 0;
      ASSERT_OK_AND_ASSIGN(const auto apart, Losses(graph, sgd_, layout, /*unfused=*/true, &unfused));
      ASSERT_OK_AND_ASSIGN(const auto together, Losses(graph, sgd_, layout, /*unfused=*/false, &fused));
      EXPECT_EQ(fused, 1);
      EXPECT_EQ(unfused, 0);
      EXPECT_EQ(together, apart);
      EXPECT_NE(apart.back(), apart.front()) << "equality would say nothing";
    }
  }
}

TEST(FusionKernelsTest, EveryWholeHasAKernelOnItsDevices) {
  for (const DeviceKind device : {DeviceKind::kCpu, DeviceKind::kCuda}) {
    const KernelTable table = device == DeviceKind::kCpu ? CpuKernels() : CudaKernels();
    if (table.all().empty()) continue;  // built without the toolkit
    std::set<std::string> ops;
    for (const Kernel& kernel : table.all()) ops.insert(kernel.op);
    for (const Fusion& row : Fusions()) {
      if (row.row->only.value_or(device) == device) {
        EXPECT_TRUE(ops.count(row.whole.op)) << row.whole.op;
      }
    }
  }
}

// The sums and norms of a GPT are computed as they are apart, to the bit.
TEST_F(FusionLawTest, AGptTrainsAlikeToTheBit) {
  steps_ = 4;
  const std::vector<std::string> layouts[] = {{},
                                              {"mesh={dp:2 tp:2}"},
                                              {"mesh={pp:2}", "train.micro_batches=2"},
                                              {"recompute.what=layers", "train.micro_batches=2"}};
  for (std::vector<std::string> layout : layouts) {
    SCOPED_TRACE(absl::StrJoin(layout, " "));
    ASSERT_OK_AND_ASSIGN(const testing::Outcome together, Run(Gpt(), layout));
    layout.push_back("unfused=true");
    ASSERT_OK_AND_ASSIGN(const testing::Outcome apart, Run(Gpt(), layout));
    EXPECT_EQ(together.losses, apart.losses);
    EXPECT_EQ(together.stats.register_bytes, together.planned_bytes);
    EXPECT_LE(together.planned_bytes, 1.01 * apart.planned_bytes);
    ASSERT_OK_AND_ASSIGN(SourcedConfig sourced, ParseConfig(Gpt(), "law"));
    layout.pop_back();
    for (const std::string& one : layout) ASSERT_OK(ApplyOverride(one, sourced));
    ASSERT_OK_AND_ASSIGN(Job job, MakeJob(std::move(sourced), JobKind::kTrain, ops_));
    ASSERT_OK(CompleteSpec(job, ops_));
    for (const char* op : {"add_layer_norm", "add_layer_norm_grad", "matmul_cross_entropy_grad"}) {
      EXPECT_TRUE(absl::StrContains(job.spec.plan(), op)) << op;
    }
  }
}

// Of more rows and classes than are a block: whatever is computed in, and where rows are split or come one part after
// the other. Logits and their gradient take no memory.
TEST_F(FusionLawTest, AHeadInBlocksTrainsAlikeAndTakesLessMemory) {
  steps_ = 4;
  const std::string gpt = absl::StrCat(
      "name: 'head' model { gpt { vocabulary: 4160 layers: 1 width: 64 heads: 4 context: 24 } } data { text { path: '",
      text_, "' } } train { batch_size: 48 optimizer { adamw {} } schedule { learning_rate: 3e-3 } }");
  const struct {
    std::vector<std::string> layout;
    double bar;
  } kCases[] = {{{}, 1e-5},
                {{"model.gpt.tied_embedding=true"}, 1e-5},
                {{"mesh={dp:2}"}, 1e-5},
                {{"train.micro_batches=2"}, 1e-5},
                {{"mesh={pp:2}", "train.micro_batches=2"}, 1e-5},
                {{"precision.compute=BF16"}, 1e-2},
                {{"precision.compute=BF16", "model.gpt.vocabulary=4111", "mesh={dp:2}"}, 1e-2},
                {{"precision.compute=F16", "train.micro_batches=2"}, 1e-3}};
  for (auto [layout, bar] : kCases) {
    SCOPED_TRACE(absl::StrJoin(layout, " "));
    ASSERT_OK_AND_ASSIGN(const testing::Outcome together, Run(gpt, layout));
    ASSERT_OK_AND_ASSIGN(const testing::Outcome again, Run(gpt, layout));
    layout.push_back("unfused=true");
    ASSERT_OK_AND_ASSIGN(const testing::Outcome apart, Run(gpt, layout));
    ASSERT_LT(apart.losses.back(), apart.losses.front()) << "the model learns nothing, so equality would say nothing";
    ExpectAlike(together.losses, apart.losses, bar);
    EXPECT_EQ(together.losses, again.losses);
    EXPECT_EQ(together.stats.register_bytes, together.planned_bytes);
    EXPECT_LT(together.planned_bytes, 0.9 * apart.planned_bytes);
  }
}

}  // namespace
}  // namespace oneflow
