// x [n,1] ──► linear ──► snake ──► linear ──► estimate [n,1]; the loss is the mean squared error. Each step's loss goes
// to loss_log, if `log` names a file.
#include "oneflow_core/functional.h"
#include "oneflow_core/nn/initial.h"
#include "oneflow_core/nn/linear.h"
#include "plugin.h"

namespace waves {
namespace {

using namespace oneflow;

absl::StatusOr<Graph> BuildGraph(const ModelRequest& request, DataSplit split, int64_t batch, const OpRegistry& ops) {
  const bool trains = split == DataSplit::kTrain;
  GraphBuilder b(ops, trains ? "train" : "evaluate");
  const Batch samples = request.reads.read(b, request.data, split, batch);
  const int64_t width = request.fields.Int("width");
  const Tensor hidden = nn::Linear(samples.inputs, "up", {.width = width, .init = nn::Normal(1.0)});
  const Tensor bent = b.Op1("snake", {hidden}, {{"a", request.fields.Double("a")}});
  const Tensor estimate = nn::Linear(bent, "down", {.width = 1, .init = nn::Normal(0.1)});
  const Tensor error = Reshape(estimate, {-1}) - samples.labels;
  const Tensor loss = ReduceMean(error * error, {0});
  Fetch(loss, "loss");
  if (trains) {
    b.SetLoss(loss);
    const std::string log = request.fields.String("log");
    const Tensor best = b.Variable("log/best", {DType::kFloat32, {2}}, "zeros", {}, /*trainable=*/false);
    if (!log.empty()) b.Op("loss_log", {loss, best}, {{"path", log}});
  }
  return b.Finish();
}

absl::StatusOr<std::vector<Graph>> Build(const ModelRequest& request, const OpRegistry& ops) {
  std::vector<Graph> program;
  OF_ASSIGN_OR_RETURN(program.emplace_back(), BuildGraph(request, DataSplit::kTrain, request.batches.train, ops));
  if (request.batches.evaluate > 0) {
    OF_ASSIGN_OR_RETURN(program.emplace_back(),
                        BuildGraph(request, DataSplit::kValidation, request.batches.evaluate, ops));
  }
  return program;
}

}  // namespace

void AddWaveNet(Plugin& plugin) {
  plugin.Add(ModelDef{
      .name = "wave_net",
      .reads = {"waves"},
      .build = Build,
      .fields = {{"width", int64_t{64}, 1, 65536, "of the hidden layer"},
                 {"a", 1.0, 1e-3, 1e3, "of snake"},
                 {.name = "log", .value = std::string(), .help = "file to which every step's loss is added"}}});
}

}  // namespace waves
