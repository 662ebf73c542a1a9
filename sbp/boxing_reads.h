// Who reads what of whom in one boxing step, for one rank at a time: what whoever plans or spells out a boxing asks, at
// the cost of the ranks that the one rank has to do with. OneBoxingStep (boxing.h) is the same for all destinations at
// once.
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
  // The same two types on axes that match where those do not (host_axes.h), over the same lists of ranks.
  const DistType& matched_from() const { return common_.first; }
  const DistType& matched_to() const { return common_.second; }
  Reduction reduction() const { return reduction_; }

  // The boxes, none empty, that a destination reads, in the order in which overlapping ones are to be combined. Two
  // boxes are the same or have nothing in common: what a source holds depends only on its coordinates along axes that
  // cut, and so do its limits.
  std::vector<BoxingPiece> PiecesOf(int destination);
  // The box that a destination reads from a source, if it reads any.
  std::optional<Region> BoxOf(int destination, int source);
  // Whether it reads nothing, whatever the sizes: along an axis of addends the others hold zeros.
  bool ReadsNothing(int destination) { return !geometry_.Reads(destination); }
  // Whether slices become addends along some axis: each destination reads its own slice there, the rest of its addend
  // is zero.
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
