#include "compiler/options.h"

#include <algorithm>

namespace oneflow {

PlanMesh CompileOptions::MeshOf(const std::string& graph) const {
  const auto own = meshes.find(graph);
  return own == meshes.end() ? PlanMesh(mesh) : own->second;
}

StepOptions CompileOptions::StepOf(const Graph& graph) const {
  if (!graph.is_trained()) return StepOptions();
  const auto own = own_steps.find(graph.name());
  return own == own_steps.end() ? StepOptions{micro_batches, pipeline} : own->second;
}

int CompileOptions::NumRanks() const {
  if (num_ranks > 0) return num_ranks;
  int ranks = mesh.size();
  for (const auto& [graph, own] : meshes) ranks = std::max(ranks, own.last_rank() + 1);
  return ranks;
}

}  // namespace oneflow
