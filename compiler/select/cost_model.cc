#include "compiler/select/cost_model.h"

#include <algorithm>
#include <cmath>

#include "sbp/boxing.h"

namespace oneflow {
namespace {

// A boxing is an activity of its own, with messages and a place in the schedule, even where nothing crosses a link.
constexpr double kBoxingSeconds = 20e-6;

// Into how many parts the axes cut a tensor that lies as `sbp`.
double Parts(const NdSbp& sbp, const std::vector<Axis>& axes) {
  double parts = 1;
  for (size_t i = 0; i < axes.size(); ++i) {
    if (sbp[i].is_split()) parts *= axes[i].size;
  }
  return parts;
}

// Along an axis on which any operand is split, the ranks share the work; otherwise they repeat it.
double Workers(const Layout& layout, const std::vector<Axis>& axes) {
  double workers = 1;
  for (size_t i = 0; i < axes.size(); ++i) {
    const auto split = [i](const NdSbp& sbp) { return sbp[i].is_split(); };
    if (std::any_of(layout.inputs.begin(), layout.inputs.end(), split) ||
        std::any_of(layout.outputs.begin(), layout.outputs.end(), split)) {
      workers *= axes[i].size;
    }
  }
  return workers;
}

}  // namespace

CostModel::CostModel(const Topology& topology, DeviceKind device)
    : topology_(topology),
      // f32 matrix products of a processor core with wide vectors, and of a data-centre GPU in TF32; tensors of one
      // micro-batch mostly stay in a processor's outer caches.
      seconds_per_flop_(device == DeviceKind::kCpu ? 1 / 50e9 : 1 / 200e12),
      seconds_per_byte_(device == DeviceKind::kCpu ? 1 / 20e9 : 1 / 2.5e12) {}

int CostModel::TypeId(const TensorType& type) {
  const auto [it, inserted] = type_ids_.emplace(type.ToString(), static_cast<int>(types_.size()));
  if (inserted) types_.push_back(type);
  return it->second;
}

int CostModel::DistId(const DistType& dist) {
  const auto [it, inserted] = dist_ids_.emplace(dist.ToString(), static_cast<int>(dists_.size()));
  if (inserted) dists_.push_back(dist);
  return it->second;
}

double CostModel::Boxing(int type, int from, int to) {
  if (from == to) return 0;
  const uint64_t key =
      (static_cast<uint64_t>(type) << 40) | (static_cast<uint64_t>(from) << 20) | static_cast<uint64_t>(to);
  const auto [it, inserted] = boxing_.emplace(key, 0);
  if (inserted) {
    const double transfer = BoxingSeconds(types_[type], dists_[from], dists_[to], topology_);
    const double written =
        static_cast<double>(types_[type].num_bytes()) / Parts(dists_[to].sbp, dists_[to].placement.axes());
    it->second = std::min(kImpossible, transfer + kBoxingSeconds + written * seconds_per_byte_);
  }
  return it->second;
}

double CostModel::Compute(const Graph& graph, const Node& node, const OpDef& op, const Layout& layout) const {
  if (node.op == "variable" || node.op == "to") return 0;  // neither acts
  const std::vector<Axis>& axes = node.placement->axes();
  std::vector<TensorType> inputs, outputs;
  double bytes = 0, elements = 0;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    inputs.push_back(graph.value(node.inputs[i]).type);
    bytes += static_cast<double>(inputs.back().num_bytes()) / Parts(layout.inputs[i], axes);
  }
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    outputs.push_back(graph.value(node.outputs[i]).type);
    bytes += static_cast<double>(outputs.back().num_bytes()) / Parts(layout.outputs[i], axes);
    elements += static_cast<double>(outputs.back().shape.count());
  }
  const double flops = op.flops == nullptr ? elements : op.flops(inputs, outputs, node.attrs);
  return flops / Workers(layout, axes) * seconds_per_flop_ + bytes * seconds_per_byte_;
}

}  // namespace oneflow
