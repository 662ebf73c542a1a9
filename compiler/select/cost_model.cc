#include "compiler/select/cost_model.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "compiler/ring.h"
#include "sbp/boxing.h"
#include "sbp/boxing_price.h"

namespace oneflow {
namespace {

// The most tensors that share a bucket: were small ones free, every gradient would be gathered to save the reduction of
// one sum of squares.
constexpr double kMostInBucket = 8;

Topology WithoutLatency(const Topology& topology) {
  if (topology.num_ranks() == 0) return topology;
  std::vector<HostGroup> hosts = topology.groups();
  for (HostGroup& group : hosts) {
    for (Link* link : {&group.device.same_process, &group.device.same_host}) link->alpha_s = 0;
    for (Nics& nics : group.nics) nics.link.alpha_s = 0;
  }
  return *Topology::Create(topology.num_ranks(), topology.ranks_per_process(), std::move(hosts));
}

}  // namespace

CostModel::CostModel(const Topology& topology)
    : topology_(topology), without_latency_(WithoutLatency(topology)), device_(topology.device()) {}

int CostModel::TypeId(const TensorType& type) {
  const auto [it, inserted] = type_ids_.try_emplace({type.dtype, type.shape.dims()}, static_cast<int>(types_.size()));
  if (inserted) {
    types_.push_back(type);
    for (const Travel travel : {Travel::kAlone, Travel::kInBucket}) boxing_[travel].emplace_back();
  }
  return it->second;
}

int CostModel::DistId(const DistType& dist) {
  std::vector<int>& ids = dist_ids_[{dist.placement.ranks()[0], dist.sbp}];
  for (int id : ids) {
    if (dists_[id].placement == dist.placement) return id;
  }
  ids.push_back(static_cast<int>(dists_.size()));
  dists_.push_back(dist);
  return ids.back();
}

// A boxing in a bucket pays the share of its latency that it fills.
double CostModel::PriceOf(const TensorType& type, const DistType& from, const DistType& to, Travel travel) const {
  double seconds = BoxingSeconds(type, from, to, topology_) + device_.act_s;
  if (seconds >= kImpossible) return kImpossible;
  if (travel == Travel::kInBucket) {
    const double moving = BoxingSeconds(type, from, to, without_latency_), beginning = seconds - moving;
    seconds = moving + std::min(beginning, std::max(moving / kBucketTimes, beginning / kMostInBucket));
  }
  const double written = static_cast<double>(type.num_bytes()) / Parts(to.sbp, to.placement.axes());
  return std::min(kImpossible, seconds + written * (1 / device_.memory_bytes_per_s));
}

double CostModel::Boxing(int type, int from, int to, Travel travel) {
  if (from == to) return 0;
  const uint64_t key = (static_cast<uint64_t>(from) << 32) | static_cast<uint32_t>(to);
  const auto [it, inserted] = boxing_[travel][type].try_emplace(key, 0);
  if (inserted) {
    it->second = PriceOf(types_[type], dists_[from], dists_[to], travel);
    ++num_prices_;
  }
  return it->second;
}

double CostModel::Compute(const Graph& graph, const Node& node, const OpDef& op, const Layout& layout) const {
  if (op.kind == OpKind::kVariable || op.kind == OpKind::kAnnotation) return 0;  // neither acts
  const NodeWork share = NodeView(graph, node, op).even_share(layout);
  const double rate = device_.flops(node.inputs.empty() ? DType::kFloat32 : graph.value(node.inputs[0]).type.dtype);
  const double alone = share.flops * (1 / rate) + share.bytes * (1 / device_.memory_bytes_per_s);
  const std::vector<int> axes = RingAxes(op, layout, *node.placement);
  if (axes.empty()) return alone;
  const double passed = PassedOn(graph, node, op, layout, axes);
  // What goes on around a ring travels while parts are computed; but within a host of processors by the cores that
  // compute.
  const std::vector<int>& ranks = node.placement->ranks();
  const bool takes_cores =
      device_.device == DeviceKind::kCpu && topology_.HostOf(ranks.front()) == topology_.HostOf(ranks.back());
  return takes_cores ? alone + passed : std::max(alone, passed);
}

double CostModel::PassedOn(const Graph& graph, const Node& node, const OpDef& op, const Layout& layout,
                           const std::vector<int>& axes) const {
  const std::vector<RingSide> sides = op.ring(node.inputs.size(), node.outputs.size());
  double seconds = 0;
  for (const RingPart& part : PartsOfRing(NodeView(graph, node, op), axes)) {
    const Placement there = Turned(*node.placement, axes, part.step);
    const auto add = [&](const std::vector<ValueId>& values, const std::vector<NdSbp>& sbps, size_t first) {
      for (size_t i = 0; i < values.size(); ++i) {
        if (sides[first + i] != part.moves) continue;
        seconds += BoxingSeconds(graph.value(values[i]).type, {*node.placement, sbps[i]}, {there, sbps[i]}, topology_);
      }
    };
    add(node.inputs, layout.inputs, 0);
    add(node.outputs, layout.outputs, node.inputs.size());
  }
  return seconds;
}

CostModel::Travel TravelOf(const Graph& graph, ValueId value, const std::vector<std::vector<NodeId>>& readers) {
  const bool for_updates = IsBackward(graph.node(graph.value(value).producer)) && !readers[value].empty() &&
                           std::all_of(readers[value].begin(), readers[value].end(),
                                       [&](NodeId reader) { return IsUpdate(graph.node(reader)); });
  return for_updates ? CostModel::Travel::kInBucket : CostModel::Travel::kAlone;
}

}  // namespace oneflow
