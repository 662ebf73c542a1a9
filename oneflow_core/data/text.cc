#include "oneflow_core/data/data_kind.h"
#include "oneflow_core/data/deal_out.h"
#include "oneflow_core/functional.h"
#include "oneflow_core/ops/check.h"

namespace oneflow {
namespace {

absl::StatusOr<std::vector<TensorType>> TextTypes(const AttrMap& attributes, int64_t batch) {
  OF_ASSIGN_OR_RETURN(const int64_t context, ops::IntAttr(attributes, "context", 1));
  return std::vector<TensorType>{{DType::kInt32, {batch, context}}, {DType::kInt32, {batch, context}}};
}

}  // namespace

TextData TextDataOf(const AttrMap& fields) { return {fields.String("path"), fields.Double("validation_fraction")}; }

Batch ReadTextBatch(GraphBuilder& b, const TextData& data, DataSplit split, int64_t batch, int64_t context,
                    int64_t vocabulary, std::source_location loc) {
  const TextBatch read = ReadText(b, batch, context,
                                  {{"path", data.path},
                                   {"split", SplitName(split)},
                                   {"validation_fraction", data.validation_fraction},
                                   {"vocabulary", vocabulary}},
                                  loc);
  return TokensDealtOut(read.tokens, read.labels, loc);
}

// No `read`: a language model says how many tokens a sample has, and of which vocabulary they are.
DataKind TextKind() {
  return {.name = "text",
          .types = TextTypes,
          .paths = {"path"},
          .unit = "tokens",
          .counts_elements = true,
          .has_parts = true};
}

}  // namespace oneflow
