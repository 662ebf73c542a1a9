// A user's program: a model of its own with its own annotations, compiled, explained, trained in this process, and
// submitted to a scheduler.
//
//   own_model IMAGES LABELS [SCHEDULER]
#include <cstdio>
#include <iostream>
#include <vector>

#include "compiler/lower/plan_text.h"
#include "oneflow_core/functional.h"
#include "oneflow_core/models/data.h"
#include "oneflow_core/ops/ops.h"
#include "tools/control/client.h"
#include "tools/control/local/run_in_place.h"
#include "tools/job/job.h"

namespace {

using namespace oneflow;

constexpr char kConfig[] = R"(
name: "own-model"
mesh { dp: 2 tp: 2 }
train {
  steps: 30
  batch_size: 60
  optimizer { sgd { momentum: 0.9 } }
  schedule { learning_rate: 0.05 }
}
)";

// A gated layer, which the model zoo does not have: relu(x U) * sigmoid(x G), both split by columns over "tp".
Tensor Gated(GraphBuilder& b, const Tensor& x, int64_t width) {
  const TensorType type{DType::kFloat32, {x.shape()[1], width}};
  const SbpHint columns = {{"tp", Sbp::Split(1)}};
  const Tensor up = b.Variable("up", type, "normal(0.05)", columns);
  const Tensor gate = b.Variable("gate", type, "normal(0.05)", columns);
  return Mul(Relu(MatMul(x, up)), Sigmoid(MatMul(x, gate)));
}

absl::StatusOr<Graph> OwnModel(const ImageData& data, int64_t batch, const OpRegistry& ops) {
  GraphBuilder b(ops, "train");
  const Batch samples = ReadImageBatch(b, data, DataSplit::kTrain, batch);
  const Tensor x = Reshape(samples.inputs, {batch, 28 * 28});
  const Tensor hidden = Gated(b, x, 64).To({{"dp", Sbp::Split(0)}});
  const Tensor head = b.Variable("head", {DType::kFloat32, {64, 10}}, "normal(0.05)", {{"tp", Sbp::Split(0)}});
  const Tensor loss = ReduceMean(SoftmaxCrossEntropy(MatMul(hidden, head), samples.labels), {0});
  b.SetLoss(loss);
  Fetch(loss, "loss");
  return b.Finish();
}

absl::Status Main(const ImageData& data, const std::string& scheduler) {
  const OpRegistry ops = StandardOps();
  OF_ASSIGN_OR_RETURN(SourcedConfig config, ParseConfig(kConfig, "own-model"));
  OF_ASSIGN_OR_RETURN(Graph graph, OwnModel(data, 60, ops));
  OF_ASSIGN_OR_RETURN(Job job, MakeJob(std::move(config), {std::move(graph)}));
  OF_ASSIGN_OR_RETURN(const pb::PlanSet plan, CompileJob(job, ops));
  OF_ASSIGN_OR_RETURN(const std::string text, PlanText(plan));
  std::cout << text;

  std::vector<double> losses;
  OF_RETURN_IF_ERROR(RunInPlace(job.spec, plan, [&](const pb::JobEvent& event) {
                       if (event.fetched().name() == "loss") losses.push_back(event.fetched().values(0));
                     }).status());
  std::printf("trained in place: loss %.4f -> %.4f\n", losses.front(), losses.back());
  if (losses.back() > 0.7 * losses.front()) return absl::InternalError("the model did not learn");
  if (scheduler.empty()) return absl::OkStatus();

  OF_ASSIGN_OR_RETURN(const std::unique_ptr<Client> client, Client::Connect(scheduler));
  OF_ASSIGN_OR_RETURN(const int64_t id, client->Submit(job.spec));
  size_t same = 0;
  pb::StateChange last;
  OF_RETURN_IF_ERROR(client->Watch(id, 0, [&](const pb::JobEvent& event) {
    const pb::FetchedValue& value = event.fetched();
    if (value.name() == "loss" && value.values(0) == losses[value.step()]) ++same;
    if (event.has_state()) last = event.state();
    return true;
  }));
  std::printf("job %d: %s, %zu of %zu losses bitwise as in place\n", static_cast<int>(id),
              pb::JobState_Name(last.state()).c_str(), same, losses.size());
  return last.state() == pb::FINISHED && same == losses.size() ? absl::OkStatus() : absl::InternalError(last.message());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  oneflow::ImageData data;
  data.train_images = argv[1];
  data.train_labels = argv[2];
  const absl::Status status = Main(data, argc > 3 ? argv[3] : "");
  if (!status.ok()) std::cerr << "own_model: " << status.message() << "\n";
  return status.ok() ? 0 : 1;
}
