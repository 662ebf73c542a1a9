#include "compiler/explain/precision.h"

#include <algorithm>
#include <optional>

#include "compiler/explain/words.h"

namespace oneflow {
namespace {

// The type that a node is asked to compute in.
DType Asked(const JobFacts& job, const Node& node) { return node.precision.value_or(job.options.precision.compute); }

bool AnyoneAsks(const JobFacts& job, const Graph& graph) {
  bool asks = IsNarrow(job.options.precision.compute);
  for (NodeId id = 0; id < graph.num_nodes(); ++id) asks = asks || IsNarrow(Asked(job, graph.node(id)));
  return asks;
}

// The type of the first computing operand, or of the result if there is none; nothing if none is floating.
std::optional<DType> ComputesIn(const JobFacts& job, const Graph& graph, const Node& node) {
  const OpDef& op = *job.ops->Find(node.op);
  std::optional<DType> widest;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const DType dtype = graph.value(node.inputs[i]).type.dtype;
    const bool full = std::count(op.full_inputs.begin(), op.full_inputs.end(), static_cast<int>(i)) > 0;
    if (!full && IsFloating(dtype) && !widest.has_value()) widest = dtype;
  }
  if (widest.has_value()) return widest;
  for (const ValueId output : node.outputs) {
    if (IsFloating(graph.value(output).type.dtype)) return graph.value(output).type.dtype;
  }
  return std::nullopt;
}

}  // namespace

std::string PrecisionText(const JobFacts& job, const Graph& graph, const Node& node) {
  const OpDef& op = *job.ops->Find(node.op);
  const std::optional<DType> dtype = ComputesIn(job, graph, node);
  if (!dtype.has_value() || op.kind == OpKind::kBoxing || !AnyoneAsks(job, graph)) return "";
  const std::string name = Name(*dtype);
  if (op.kind == OpKind::kVariable) return absl::StrCat(name, ": what is trained and saved");
  const DType to = node.outputs.empty() ? *dtype : graph.value(node.outputs[0]).type.dtype;
  if (op.packs) {
    return absl::StrCat(name, *dtype == to ? " in panels" : " rounded to bf16 in panels", ", as products read it");
  }
  if (op.kind == OpKind::kCast) {
    return absl::StrCat(name, IsNarrow(to) ? " rounded to " : " as ", Name(to), ", for readers that compute in it");
  }
  switch (op.precision) {
    case Precision::kFull:
      return absl::StrCat(name, ", whatever is asked for");
    case Precision::kFollow:
      return absl::StrCat(name, ", as what it reads");
    case Precision::kCompute:
      return absl::StrCat(name, node.precision.has_value() ? ", as the model asks" : ", as the job asks",
                          IsNarrow(*dtype) ? "; sums are f32" : "");
  }
  return "";
}

std::string PrecisionSummary(const JobFacts& job, const Graph& graph) {
  if (!AnyoneAsks(job, graph)) return "";
  int64_t products = 0, follow = 0, full = 0, casts = 0;
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    const Node& node = graph.node(id);
    const OpDef& op = *job.ops->Find(node.op);
    const std::optional<DType> dtype = ComputesIn(job, graph, node);
    if (!dtype.has_value() || op.kind == OpKind::kBoxing || op.kind == OpKind::kVariable) continue;
    if (op.kind == OpKind::kCast) {
      ++casts;
    } else if (!IsNarrow(*dtype)) {
      ++full;
    } else {
      ++(op.precision == Precision::kCompute ? products : follow);
    }
  }
  return absl::StrCat(CountText(products, "product"), " and ", CountText(follow, "op"), " that follow in 16 bits, ",
                      CountText(full, "op"), " in f32, ", CountText(casts, "cast"));
}

}  // namespace oneflow
