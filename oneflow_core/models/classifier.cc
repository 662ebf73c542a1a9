#include "oneflow_core/models/classifier.h"

#include "oneflow_core/functional.h"

namespace oneflow {
namespace {

Tensor MeanLoss(const Tensor& logits, const Tensor& labels) {
  return ReduceMean(SoftmaxCrossEntropy(logits, labels), {0});
}

absl::StatusOr<Graph> TrainGraph(const ClassifierModel& model, const ImageData& data, int64_t batch,
                                 const OpRegistry& ops) {
  GraphBuilder b(ops, "train");
  const Batch samples = ReadImageBatch(b, data, DataSplit::kTrain, batch);
  const Tensor loss = MeanLoss(model(samples.inputs, /*training=*/true), samples.labels);
  b.SetLoss(loss);
  Fetch(loss, "loss");
  return b.Finish();
}

absl::StatusOr<Graph> EvaluateGraph(const ClassifierModel& model, const ImageData& data, int64_t batch,
                                    const OpRegistry& ops) {
  GraphBuilder b(ops, "evaluate");
  const Batch samples = ReadImageBatch(b, data, DataSplit::kValidation, batch);
  const Tensor logits = model(samples.inputs, /*training=*/false);
  Fetch(MeanLoss(logits, samples.labels), "loss");
  Fetch(ReduceMean(Top1Correct(logits, samples.labels), {0}), "accuracy");
  return b.Finish();
}

}  // namespace

absl::StatusOr<std::vector<Graph>> ClassifierProgram(const ClassifierModel& model, const ImageData& data,
                                                     const BatchSizes& batches, const OpRegistry& ops) {
  std::vector<Graph> program;
  OF_ASSIGN_OR_RETURN(Graph train, TrainGraph(model, data, batches.train, ops));
  program.push_back(std::move(train));
  if (batches.evaluate > 0) {
    OF_ASSIGN_OR_RETURN(Graph evaluate, EvaluateGraph(model, data, batches.evaluate, ops));
    program.push_back(std::move(evaluate));
  }
  return program;
}

}  // namespace oneflow
