// The places of a job's variables: the same memory in all its plans.
//
// Shards come first in their zone, in the order in which the program names the variables. So every plan finds them at
// the same offsets and may overlay its registers behind them. A variable lies in the shared zone exactly if a boxing of
// some plan may read it from another process. It has room for its largest shard, so that all ranks of a class agree.
#pragma once

#include <array>
#include <map>
#include <string>
#include <vector>

#include "compiler/plan/boxings.h"
#include "compiler/plan/rank_classes.h"
#include "oneflow_core/graph.h"
#include "oneflow_core/variable_role.h"
#include "oneflow_core/zones.h"
#include "sbp/slices.h"

namespace oneflow {

// The purpose of memory.
enum class MemoryUse : uint8_t { kWeights, kOptimizer, kGradients, kActivations, kTransfers, kScratch };
inline constexpr int kNumMemoryUses = 6;
const char* Name(MemoryUse use);  // "weights", "optimizer", ...

// Kernels want their operands on cache lines.
inline constexpr int64_t kAlignment = 64;
constexpr int64_t Align(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// The room of a tensor with others behind it. Large tensors of whole pages are set apart: a cache finds a line by the
// low bits of its address, so the rows of one attention head in eight tensors that begin alike would lie in few of its
// sets. With an odd number of lines between any two, 64 of them begin at 64 places of a page.
constexpr int64_t Room(int64_t bytes) {
  constexpr int64_t kPage = 4096, kLarge = 16 * kPage;
  const int64_t lines = Align(bytes);
  return lines >= kLarge && lines % kPage == 0 ? lines + 3 * kAlignment : lines;
}

// The same in any zone: in a file they begin and end with whole blocks.
constexpr int64_t RoomIn(Zone zone, int64_t bytes) {
  if (!ZoneKindOf(zone).in_file) return Room(bytes);
  return (bytes + kFileBlock - 1) / kFileBlock * kFileBlock;
}

struct PlannedVariable {
  std::string name;
  TensorType type;
  DistType dist;
  std::string init;
  VariableRole role = VariableRole::kState;
  MemoryUse use = MemoryUse::kWeights;  // or kOptimizer
  Zone zone = kPrivateZone;
  int64_t num_bytes = 0;         // of the largest shard
  std::vector<int64_t> offsets;  // by class; -1 where there is none
};

struct VariableTable {
  std::vector<PlannedVariable> variables;
  std::map<std::string, int> index;                       // by name
  std::vector<std::array<int64_t, kNumZones>> num_bytes;  // per class: what variables take of each zone

  const PlannedVariable& Find(const std::string& name) const { return variables[index.at(name)]; }
};

// InvalidArgument if two graphs disagree on a variable's type or dist.
absl::StatusOr<VariableTable> LayOutVariables(const std::vector<const Graph*>& graphs, const OpRegistry& ops,
                                              const RankClasses& classes, const Boxings& boxings);

}  // namespace oneflow
