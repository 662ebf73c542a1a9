// Predicted seconds of computing and of boxing, for comparing layouts. Only ratios matter: a layout is better if it
// trades little communication for much divided work.
#pragma once

#include <cstdint>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "compiler/select/candidates.h"
#include "oneflow_core/graph.h"
#include "oneflow_core/op.h"
#include "sbp/topology.h"

namespace oneflow {

// Types and dists are numbered, so that a search compares and looks up integers. Not thread-safe; borrows the topology.
class CostModel {
 public:
  enum class Travel : uint8_t {
    kAlone,
    kInBucket,  // with enough others to fill a bucket, of whose beginning it takes its share (compiler/plan/buckets.h)
  };

  explicit CostModel(const Topology& topology);

  int TypeId(const TensorType& type);
  int DistId(const DistType& dist);
  const DistType& dist(int id) const { return dists_[id]; }

  // Seconds to change a tensor of that type from one dist to another; kImpossible if there is no way. Memoised.
  double Boxing(int type, int from, int to, Travel travel = Travel::kAlone);
  // Seconds of one act of `node` on the largest shard.
  double Compute(const Graph& graph, const Node& node, const OpDef& op, const Layout& layout) const;

  // How many boxings were priced, not counting repetitions.
  int num_prices() const { return num_prices_; }

  // Greater than any sum of real costs, small enough that sums of it still distinguish real costs.
  static constexpr double kImpossible = 1e6;

 private:
  double PassedOn(const Graph& graph, const Node& node, const OpDef& op, const Layout& layout,
                  const std::vector<int>& axes) const;
  double PriceOf(const TensorType& type, const DistType& from, const DistType& to, Travel travel) const;

  const Topology& topology_;
  const Topology without_latency_;  // bytes take their time on it, messages none
  const DeviceSpeeds& device_;
  std::map<std::pair<DType, std::vector<int64_t>>, int> type_ids_;
  std::map<std::pair<int, NdSbp>, std::vector<int>> dist_ids_;  // by first rank
  std::vector<TensorType> types_;
  std::vector<DistType> dists_;
  std::map<Travel, std::vector<std::unordered_map<uint64_t, double>>> boxing_;  // by type; of two dists, 32 bits each
  int num_prices_ = 0;
};

// How boxings of `value` will travel, in a graph without boxings: in a bucket if it is a gradient that only updates
// read. `readers`: Graph::Consumers().
CostModel::Travel TravelOf(const Graph& graph, ValueId value, const std::vector<std::vector<NodeId>>& readers);

}  // namespace oneflow
