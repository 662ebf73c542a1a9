#include "oneflow_core/models/wide_deep.h"

#include "oneflow_core/functional.h"
#include "oneflow_core/models/classifier.h"
#include "oneflow_core/models/model.h"
#include "oneflow_core/nn/initial.h"
#include "oneflow_core/nn/linear.h"

namespace oneflow {
namespace {

constexpr double kTableDeviation = 0.05;

absl::Status Check(const WideDeepConfig& config, const ClickData& data, const BatchSizes& batches) {
  const absl::string_view model = "wide_deep";
  OF_RETURN_IF_ERROR(CheckSize(model, "the embedding's width", config.embedding));
  for (size_t i = 0; i < config.widths.size(); ++i) {
    OF_RETURN_IF_ERROR(CheckSize(model, absl::StrCat("width ", i), config.widths[i]));
  }
  OF_RETURN_IF_ERROR(CheckClicks(model, data));
  return CheckBatches(model, batches);
}

// f32[n,2]: no click, click.
Tensor Logits(const WideDeepConfig& config, const ClickData& data, const ClickBatch& batch) {
  if (!batch.ids.valid() || !batch.numbers.valid()) return Tensor();
  GraphBuilder& b = *batch.ids.builder();
  Tensor wide;
  {
    GraphBuilder::Scope scope(b, "wide");
    const TableSplit split = config.split == TableSplit::kColumns ? TableSplit::kRows : config.split;
    wide = ReduceSum(LookUp(batch.ids, data, 2, split, nn::Normal(kTableDeviation)), {1});
  }
  GraphBuilder::Scope scope(b, "deep");
  const Tensor embedded = LookUp(batch.ids, data, config.embedding, config.split, nn::Normal(kTableDeviation));
  if (!embedded.valid()) return Tensor();
  const int64_t rows = batch.ids.shape()[0];
  Tensor x = Concat({Reshape(embedded, {rows, -1}), batch.numbers}, 1);
  for (size_t i = 0; i < config.widths.size() && x.valid(); ++i) {
    x = Relu(nn::Linear(x, absl::StrCat("fc", i), {.width = config.widths[i], .init = nn::HeUniform(x.shape()[1])}));
  }
  if (!x.valid()) return Tensor();
  return Add(wide, nn::Linear(x, "head", {.width = 2, .init = nn::LecunUniform(x.shape()[1])}));
}

}  // namespace

absl::StatusOr<std::vector<Graph>> WideDeepProgram(const WideDeepConfig& config, const ClickData& data,
                                                   const BatchSizes& batches, const OpRegistry& ops) {
  OF_RETURN_IF_ERROR(Check(config, data, batches));
  const auto classifier = [&](GraphBuilder& b, DataSplit split, int64_t batch) {
    const ClickBatch samples = ReadClickBatch(b, data, split, batch);
    return Classified{Logits(config, data, samples), samples.clicked};
  };
  return ClassifierProgram(classifier, batches, ops);
}

namespace {

absl::StatusOr<std::vector<Graph>> BuildWideDeep(const ModelRequest& request, const OpRegistry& ops) {
  const AttrMap& fields = request.fields;
  const WideDeepConfig config = {.embedding = fields.Int("embedding"),
                                 .widths = fields.Ints("widths"),
                                 .split = TableSplitOf(fields.String("table_split"))};
  return WideDeepProgram(config, ClickDataOf(request.data), request.batches, ops);
}

}  // namespace

ModelDef WideDeepModel() {
  return {.name = "wide_deep", .reads = {"clicks"}, .build = BuildWideDeep, .small = "embedding: 6 widths: [20]"};
}

}  // namespace oneflow
