#include "compiler/ring.h"

#include <algorithm>
#include <utility>

namespace oneflow {
namespace {

// The first operand of a side: its second dimension is that of tokens.
size_t FirstOf(RingSide side, const std::vector<RingSide>& sides) {
  return static_cast<size_t>(std::find(sides.begin(), sides.end(), side) - sides.begin());
}

int SizeOf(const Placement& placement, const std::vector<int>& axes) {
  int size = 1;
  for (const int axis : axes) size *= placement.axes()[axis].size;
  return size;
}

}  // namespace

std::vector<int> RingAxes(const OpDef& op, const Layout& layout, const Placement& placement) {
  if (op.ring == nullptr) return {};
  const std::vector<RingSide> sides = op.ring(layout.inputs.size(), layout.outputs.size());
  const NdSbp &queries = layout.inputs[FirstOf(RingSide::kQueries, sides)],
              &keys = layout.inputs[FirstOf(RingSide::kKeys, sides)];
  std::vector<int> axes;
  for (int a = 0; a < placement.num_axes(); ++a) {
    const bool is_ring = queries[a] == Sbp::Split(1) && keys[a] == Sbp::Split(1);
    if (is_ring && placement.axes()[a].size > 1) axes.push_back(a);
  }
  return axes;
}

std::vector<RingPart> PartsOfRing(const NodeView& view, const std::vector<int>& axes) {
  const int size = SizeOf(*view.node().placement, axes);
  const AttrMap& attrs = view.node().attrs;
  std::vector<RingPart> parts;
  if (!attrs.Bool("causal")) {
    for (int step = 1; step < size; ++step) parts.push_back({step});
    return parts;
  }
  int64_t farthest = size - 1;  // the chunk that a query may see, counted back from its own
  if (const int64_t window = attrs.Int("window"); window > 0) {
    const std::vector<RingSide> sides = view.op().ring(view.node().inputs.size(), view.node().outputs.size());
    const int64_t chunk = view.input_types()[FirstOf(RingSide::kKeys, sides)].shape[1] / size;  // the smallest
    farthest = std::min(farthest, (window - 2 + chunk) / chunk);
  }
  for (int step = 1; step <= std::min<int64_t>(size / 2, farthest); ++step) {
    const bool is_half = 2 * step == size;
    parts.push_back({step, RingSide::kKeys, is_half ? 1 : 0});
    if (size - step <= farthest) parts.push_back({step, RingSide::kQueries, is_half ? 2 : 0});
  }
  return parts;
}

Placement Turned(const Placement& placement, const std::vector<int>& axes, int by) {
  const int size = SizeOf(placement, axes);
  std::vector<int> ranks(placement.size());
  for (int i = 0; i < placement.size(); ++i) {
    std::vector<int> at = placement.Coordinates(i);
    int place = 0;
    for (const int axis : axes) place = place * placement.axes()[axis].size + at[axis];
    place = (place + by) % size;
    for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {
      at[*axis] = place % placement.axes()[*axis].size;
      place /= placement.axes()[*axis].size;
    }
    ranks[i] = placement.ranks()[placement.IndexAt(at)];
  }
  return Placement(placement.axes(), std::move(ranks));
}

}  // namespace oneflow
