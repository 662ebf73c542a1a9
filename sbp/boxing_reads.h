// What one rank reads in one boxing step, and from whom. Plans and programs are written rank by rank, so the cost of an
// answer depends only on the ranks that this rank exchanges data with. OneBoxingStep (boxing.h) gives the same for all
// destinations at once.
//
//   f32[6] [dp=3](S(0)) -> [dp=3](B)      PiecesOf(1): 0 [0,2), 1 [2,4), 2 [4,6)        BoxOf(1, 2): [4,6)
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "sbp/boxing.h"
#include "sbp/boxing_geometry.h"

namespace oneflow {

class BoxingReads {
 public:
  // Errors of CheckOneBoxingStep. Borrows the topology.
  static absl::StatusOr<std::unique_ptr<BoxingReads>> Create(const TensorType& type, const DistType& from,
                                                             const DistType& to, const Topology& topology);
  BoxingReads(const BoxingReads&) = delete;

  const Shape& shape() const { return shape_; }
  const DistType& from() const { return from_; }
  const DistType& to() const { return to_; }
  // The same two types over the same ranks. Where their axes do not match, they are factored until they do
  // (host_axes.h).
  const DistType& matched_from() const { return common_.first; }
  const DistType& matched_to() const { return common_.second; }
  Reduction reduction() const { return reduction_; }

  // The boxes that a destination reads; none is empty. Overlapping boxes are combined in this order. Two boxes are
  // equal or disjoint, because the region of a source depends only on its coordinates along the axes that split.
  std::vector<BoxingPiece> PiecesOf(int destination);
  // The box that a destination reads from a source, if it reads any.
  std::optional<Region> BoxOf(int destination, int source);
  // Whether it reads nothing for tensors of any size: its addend is zero.
  bool ReadsNothing(int destination) { return !geometry_.Reads(destination); }
  // Whether slices become addends along some axis. Each destination then reads its own slice; the rest of its addend is
  // zero.
  bool MakesAddends() const;

 private:
  BoxingReads(Shape shape, DistType from, DistType to, std::pair<DistType, DistType> common, Reduction reduction,
              const Topology& topology);

  const Shape shape_;
  const DistType from_, to_;
  const std::pair<DistType, DistType> common_;
  const Reduction reduction_;
  BoxingGeometry geometry_;
};

}  // namespace oneflow
