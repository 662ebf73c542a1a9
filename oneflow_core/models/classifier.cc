#include "oneflow_core/models/classifier.h"

#include "oneflow_core/composed.h"

namespace oneflow {
namespace {

bool EstimatesNumbers(const Classified& classified) {
  return classified.labels.valid() && classified.labels.type().dtype == DType::kFloat32;
}

bool IsOfOneLogit(const Classified& classified) {
  const Tensor& logits = classified.logits;
  return logits.valid() && logits.shape().rank() == 2 && logits.shape()[1] == 1 && !EstimatesNumbers(classified);
}

Tensor MeanLoss(const Classified& classified) {
  if (EstimatesNumbers(classified)) {
    const Tensor error = Sub(Reshape(classified.logits, {-1}), classified.labels);
    return ReduceMean(Mul(error, error), {0});
  }
  if (IsOfOneLogit(classified)) {
    const Tensor logits = Cast(Reshape(classified.logits, {-1}), DType::kFloat32);
    return ReduceMean(BinaryCrossEntropy(logits, Cast(classified.labels, DType::kFloat32)), {0});
  }
  return ReduceMean(SoftmaxCrossEntropy(classified.logits, classified.labels), {0});
}

// Logits of each class.
Tensor OfClasses(const Classified& classified) {
  if (!IsOfOneLogit(classified)) return classified.logits;
  return Concat({Scale(classified.logits, 0), classified.logits}, 1);
}

absl::StatusOr<Graph> TrainGraph(const Classifier& classifier, int64_t batch, const OpRegistry& ops) {
  GraphBuilder b(ops, "train");
  const Classified classified = classifier(b, DataSplit::kTrain, batch);
  const Tensor loss = MeanLoss(classified);
  b.SetLoss(loss);
  Fetch(loss, "loss");
  return b.Finish();
}

absl::StatusOr<Graph> EvaluateGraph(const Classifier& classifier, int64_t batch, const OpRegistry& ops) {
  GraphBuilder b(ops, "evaluate");
  const Classified classified = classifier(b, DataSplit::kValidation, batch);
  Fetch(MeanLoss(classified), "loss");
  if (!EstimatesNumbers(classified)) {
    Fetch(ReduceMean(Top1Correct(OfClasses(classified), classified.labels), {0}), "accuracy");
  }
  return b.Finish();
}

}  // namespace

Classifier OnImages(ImageModel model, ImageData data) {
  return [model = std::move(model), data = std::move(data)](GraphBuilder& b, DataSplit split, int64_t batch) {
    const Batch samples = ReadImageBatch(b, data, split, batch);
    return Classified{model(samples.inputs, /*training=*/split == DataSplit::kTrain), samples.labels};
  };
}

Classifier OnSamples(ImageModel model, const ModelRequest& request) {
  const auto read = request.reads.read;
  return [model = std::move(model), read, fields = request.data](GraphBuilder& b, DataSplit split, int64_t batch) {
    const Batch samples = read(b, fields, split, batch);
    return Classified{model(samples.inputs, /*training=*/split == DataSplit::kTrain), samples.labels};
  };
}

absl::StatusOr<std::vector<Graph>> ClassifierProgram(const Classifier& classifier, const BatchSizes& batches,
                                                     const OpRegistry& ops) {
  std::vector<Graph> program;
  OF_ASSIGN_OR_RETURN(Graph train, TrainGraph(classifier, batches.train, ops));
  program.push_back(std::move(train));
  if (batches.evaluate > 0) {
    OF_ASSIGN_OR_RETURN(Graph evaluate, EvaluateGraph(classifier, batches.evaluate, ops));
    program.push_back(std::move(evaluate));
  }
  return program;
}

}  // namespace oneflow
