#include "compiler/plan/boxings.h"

#include <algorithm>

namespace oneflow {
namespace {

std::vector<int> SourcesOf(const std::vector<BoxingPiece>& pieces) {
  std::vector<int> sources;
  for (const BoxingPiece& piece : pieces) {
    if (piece.region.count() == 0) continue;
    if (std::find(sources.begin(), sources.end(), piece.source) == sources.end()) sources.push_back(piece.source);
  }
  return sources;
}

}  // namespace

absl::StatusOr<Boxings> AnalyseBoxings(const Graph& graph, const Topology& topology, DeviceKind device) {
  Boxings result;
  result.by_sending = device != DeviceKind::kCpu;
  result.needed.resize(graph.num_values());
  for (ValueId v = 0; v < graph.num_values(); ++v) {
    if (!graph.value(v).dist.has_value()) {
      return absl::InternalError(absl::StrCat(Where(graph.node(graph.value(v).producer)), ": an output has no dist"));
    }
    result.needed[v].assign(graph.value(v).dist->placement.size(), false);
  }
  // Readers have larger ids than what they read, so from the end every answer is known when it is asked for.
  for (NodeId id = graph.num_nodes() - 1; id >= 0; --id) {
    const Node& node = graph.node(id);
    if (node.op != "boxing") {
      for (ValueId input : node.inputs) {
        std::vector<bool>& needed = result.needed[input];
        for (size_t i = 0; i < needed.size(); ++i) needed[i] = needed[i] || Executes(node, static_cast<int>(i));
      }
      continue;
    }
    const Value& from = graph.value(node.inputs[0]);
    const Value& to = graph.value(node.outputs[0]);
    BoxingUse use;
    OF_ASSIGN_OR_RETURN_AT(use.step, OneBoxingStep(from.type, *from.dist, *to.dist, topology), Where(node));
    use.sources.resize(use.step.pieces.size());
    for (size_t d = 0; d < use.sources.size(); ++d) {
      if (!result.needed[node.outputs[0]][d]) continue;
      use.sources[d] = SourcesOf(use.step.pieces[d]);
      for (int source : use.sources[d]) result.needed[node.inputs[0]][source] = true;
    }
    if (result.by_sending) use.shares = ShareOut(from.type.shape, use.step, result.needed[node.outputs[0]]);
    result.by_node.emplace(id, std::move(use));
  }
  return result;
}

}  // namespace oneflow
