// Linear regression whose inputs an adversary moves, all by the same shift (Beznosikov, Samokhin and Gasnikov,
// "Distributed saddle-point problems", 2020):
//
//   min over w, max over r:  mean (w (x + r) - target)^2 / 2 + decay / 2 |w|^2 - penalty / 2 |r|^2
//
// There is a solution where the penalty is larger than |w|^2: otherwise a larger shift is always better. Besides the
// loss a step tells "error", the mean squared error of the samples as they are.
//
// Variables, zeros at first: "weight" [f,1]; "shift" [1,f], which a group of the optimizer lets ascend.
#include "oneflow_core/functional.h"
#include "oneflow_core/models/model.h"

namespace oneflow {
namespace {

absl::StatusOr<Graph> RegressionGraph(const ModelRequest& request, DataSplit split, int64_t batch,
                                      const OpRegistry& ops) {
  const bool trains = split == DataSplit::kTrain;
  GraphBuilder b(ops, trains ? "train" : "evaluate");
  const Batch read = request.reads.read(b, request.data, split, batch);
  if (!read.inputs.valid()) return b.Finish();
  const Tensor x = Reshape(read.inputs, {batch, -1}), target = Cast(read.labels, DType::kFloat32);
  const int64_t features = x.shape()[1];
  const Tensor w = b.Variable("weight", {DType::kFloat32, {features, 1}}, "zeros");
  const Tensor shift = b.Variable("shift", {DType::kFloat32, {1, features}}, "zeros");
  const auto error_of = [&](const Tensor& inputs) {
    return ReduceMean(Square(Reshape(MatMul(inputs, w), {batch}) - target), {0});
  };
  const Tensor bounds = ReduceSum(Square(w)) * (request.fields.Double("decay") / 2) -
                        ReduceSum(Square(shift)) * (request.fields.Double("penalty") / 2);
  const Tensor loss = error_of(x + shift) * 0.5 + bounds;
  if (trains) b.SetLoss(loss);
  Fetch(loss, "loss");
  Fetch(error_of(x), "error");
  return b.Finish();
}

absl::StatusOr<std::vector<Graph>> BuildRobustRegression(const ModelRequest& request, const OpRegistry& ops) {
  return ProgramOf("robust_regression", request, RegressionGraph, ops);
}

}  // namespace

ModelDef RobustRegressionModel() {
  return {.name = "robust_regression", .reads = {"csv"}, .build = BuildRobustRegression};
}

}  // namespace oneflow
