// DLRM (Naumov et al., "Deep Learning Recommendation Model", 2019): the probability of a click from categorical fields
// and numbers, by the products of their embeddings.
//
//   numbers [n,numbers] ──► bottom mlp ──► x [n,width] ─┬─────────────────────────────┐
//   ids [n,fields] ──► table [v,width] ──► e1, e2, ... ─┴─► products of all pairs ────┴─► top mlp ──► logit [n,1]
//
// A ReLU is behind every layer but the last. The table holds the rows of all fields, one field behind the other, and
// may be split (split_table.h). Weights start as normal with variance 2 / (inputs + outputs), biases as zeros, the
// table as uniform within sqrt(fields / v): the root of the inverse of a field's rows.
//
// Variables: "table", "bottom/fc0/{weight,bias}", "top/fc0/...", "head/...".
#include "oneflow_core/models/dlrm.h"

#include <cmath>

#include "oneflow_core/functional.h"
#include "oneflow_core/models/classifier.h"
#include "oneflow_core/models/model.h"
#include "oneflow_core/models/split_table.h"
#include "oneflow_core/nn/initial.h"
#include "oneflow_core/nn/linear.h"

namespace oneflow {

Tensor DlrmInteraction(const Tensor& dense, const Tensor& embedded) {
  if (!dense.valid() || !embedded.valid()) return Tensor();
  const int64_t rows = dense.shape()[0], width = dense.shape()[1], vectors = embedded.shape()[1] + 1;
  const Tensor all = Concat({Reshape(dense, {rows, 1, width}), embedded}, 1);
  const Tensor products = Reshape(BatchMatMul(all, all, false, /*transpose_b=*/true), {rows, vectors * vectors});
  std::vector<double> below;  // the diagonal, row by row
  for (int64_t i = 1; i < vectors; ++i) {
    for (int64_t j = 0; j < i; ++j) below.push_back(static_cast<double>(i * vectors + j));
  }
  const TensorType type = {DType::kInt32, {static_cast<int64_t>(below.size())}};
  return Concat({dense, Gather(products, Constant(*dense.builder(), type, below), 1)}, 1);
}

namespace {

Tensor DlrmLinear(const Tensor& x, absl::string_view name, int64_t width) {
  if (!x.valid()) return Tensor();
  const auto sizes = static_cast<double>(x.shape()[1] + width);
  return nn::Linear(x, name, {.width = width, .init = nn::Normal(std::sqrt(2 / sizes))});
}

// Layers "<scope>/fc0", ... with a ReLU behind each.
Tensor HiddenLayers(Tensor x, absl::string_view scope_name, const std::vector<int64_t>& widths) {
  if (!x.valid()) return Tensor();
  const GraphBuilder::Scope scope(*x.builder(), scope_name);
  for (size_t i = 0; i < widths.size(); ++i) x = Relu(DlrmLinear(x, absl::StrCat("fc", i), widths[i]));
  return x;
}

Tensor DlrmLogits(const AttrMap& fields, const ClickData& data, const ClickBatch& batch) {
  const int64_t width = fields.Int("embedding");
  std::vector<int64_t> bottom = fields.Ints("bottom");
  bottom.push_back(width);
  const Tensor x = HiddenLayers(batch.numbers, "bottom", bottom);
  const double bound = std::sqrt(static_cast<double>(data.fields) / static_cast<double>(data.vocabulary));
  const Tensor embedded =
      LookUp(batch.ids, data, width, TableSplitOf(fields.String("table_split")), nn::Uniform(bound));
  return DlrmLinear(HiddenLayers(DlrmInteraction(x, embedded), "top", fields.Ints("top")), "head", 1);
}

absl::StatusOr<std::vector<Graph>> BuildDlrm(const ModelRequest& request, const OpRegistry& ops) {
  const ClickData data = ClickDataOf(request.data);
  OF_RETURN_IF_ERROR(CheckClicks("dlrm", data));
  OF_RETURN_IF_ERROR(CheckBatches("dlrm", request.batches));
  const auto classifier = [&](GraphBuilder& b, DataSplit split, int64_t batch) {
    const ClickBatch samples = ReadClickBatch(b, data, split, batch);
    return Classified{DlrmLogits(request.fields, data, samples), samples.clicked};
  };
  return ClassifierProgram(classifier, request.batches, ops);
}

}  // namespace

ModelDef DlrmModel() {
  return {.name = "dlrm", .reads = {"clicks"}, .build = BuildDlrm, .small = "embedding: 6 bottom: [12] top: [16, 8]"};
}

}  // namespace oneflow
