#include "oneflow_core/nn/embedding.h"

#include "oneflow_core/functional.h"

namespace oneflow::nn {

Tensor EmbeddingTable(GraphBuilder& b, absl::string_view name, const EmbeddingOptions& options,
                      std::source_location loc) {
  const GraphBuilder::Scope scope(b, name);
  const TensorType type{DType::kFloat32, {options.rows, options.width}};
  return b.Variable("weight", type, options.init, options.hint, true, loc);
}

Tensor Embedding(const Tensor& ids, absl::string_view name, const EmbeddingOptions& options, std::source_location loc) {
  if (!ids.valid()) return Tensor();
  const Tensor table = EmbeddingTable(*ids.builder(), name, options, loc);
  const GraphBuilder::Scope scope(*ids.builder(), name);
  return oneflow::Embedding(table, ids, loc);
}

}  // namespace oneflow::nn
