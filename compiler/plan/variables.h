// Where a job's variables lie: the same memory in all its plans.
//
// Shards come first in their zone, in the order in which the program names the variables, so that every plan finds them
// at the same offsets and may overlay its registers behind them. A shard lies in the shared zone exactly if in some
// plan a boxing of another process reads it.
#pragma once

#include <array>
#include <map>
#include <string>
#include <vector>

#include "compiler/plan/boxings.h"
#include "oneflow_core/graph.h"
#include "sbp/slices.h"
#include "sbp/topology.h"

namespace oneflow {

enum class Zone : uint8_t { kPrivate = 0, kShared = 1 };
inline constexpr int kNumZones = 2;
const char* Name(Zone zone);  // "private", "shared"

// Kernels want their operands on cache lines.
inline constexpr int64_t kAlignment = 64;
constexpr int64_t Align(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

struct VariableShard {
  int rank = 0;
  Region region;
  Zone zone = Zone::kPrivate;
  int64_t offset = 0;
  int64_t num_bytes = 0;
  bool owner = false;  // writes this part of a checkpoint: of equal copies the one at coordinate 0 of every B axis
};

struct PlannedVariable {
  std::string name;
  TensorType type;
  DistType dist;
  std::string init;
  bool trainable = false;
  std::vector<VariableShard> shards;  // index = position in dist.placement
};

struct VariableTable {
  std::vector<PlannedVariable> variables;
  std::map<std::string, int> index;                       // by name
  std::vector<std::array<int64_t, kNumZones>> num_bytes;  // per rank: what variables take of each zone

  const PlannedVariable& Find(const std::string& name) const { return variables[index.at(name)]; }
};

// `boxings` belongs to `graphs`, in the same order. InvalidArgument if two graphs disagree on a variable's type or
// dist.
absl::StatusOr<VariableTable> LayOutVariables(const std::vector<const Graph*>& graphs,
                                              const std::vector<Boxings>& boxings, const Topology& topology);

}  // namespace oneflow
