// How a logical tensor lies across the ranks of a placement: one Sbp per mesh axis.
//
//   S(i)  split      rank r owns the r-th slice of dimension i
//   B     broadcast  every rank owns a full copy
//   P     partial    every rank owns an addend (or candidate); the tensor is their sum (max, min)
//   P(mean)          every rank has a tensor of its own, which it goes on with by itself; the tensor is their mean.
//                    So are weights between two exchanges of local training
//
// Here are only the values, because a user's annotation is part of the graph; their mathematics is in sbp/.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "oneflow_core/status.h"

namespace oneflow {

enum class Reduction : uint8_t { kSum = 0, kMax = 1, kMin = 2 };

// The state along one mesh axis. A small immutable value.
class Sbp {
 public:
  enum class Kind : uint8_t { kSplit, kBroadcast, kPartial, kMean };

  Sbp() = default;  // B
  static Sbp Split(int dim) { return Sbp(Kind::kSplit, dim, Reduction::kSum); }
  static Sbp Broadcast() { return Sbp(); }
  static Sbp Partial(Reduction reduction = Reduction::kSum) { return Sbp(Kind::kPartial, 0, reduction); }

  static Sbp Mean() { return Sbp(Kind::kMean, 0, Reduction::kSum); }

  Kind kind() const { return kind_; }
  bool is_split() const { return kind_ == Kind::kSplit; }
  bool is_broadcast() const { return kind_ == Kind::kBroadcast; }
  bool is_partial() const { return kind_ == Kind::kPartial; }  // not P(mean), of which ranks have no addends
  bool is_mean() const { return kind_ == Kind::kMean; }
  // The dimension being split. REQUIRES: is_split().
  int dim() const { return dim_; }
  // How the addends combine. REQUIRES: is_partial().
  Reduction reduction() const { return reduction_; }

  // "S(0)", "B", "P" (sum), "P(max)", "P(min)", "P(mean)".
  std::string ToString() const;
  // Inverse of ToString(); "P(sum)" is read too. InvalidArgument if `text` is not an SBP.
  static absl::StatusOr<Sbp> Parse(absl::string_view text);

  bool operator==(const Sbp& o) const { return kind_ == o.kind_ && dim_ == o.dim_ && reduction_ == o.reduction_; }
  bool operator!=(const Sbp& o) const { return !(*this == o); }
  // A total order for deterministic tie-breaks: B < S(0) < S(1) < ... < P < P(max) < P(min) < P(mean).
  bool operator<(const Sbp& o) const;

 private:
  Sbp(Kind kind, int dim, Reduction reduction) : kind_(kind), dim_(dim), reduction_(reduction) {}

  Kind kind_ = Kind::kBroadcast;
  int dim_ = 0;
  Reduction reduction_ = Reduction::kSum;
};

// One Sbp per axis of a placement, outermost axis first; splits nest in that order.
using NdSbp = std::vector<Sbp>;

// "(S(0),B)"; "()" on a placement of one rank without axes.
std::string ToString(const NdSbp& sbp);
// Inverse of ToString(). InvalidArgument if `text` is not a parenthesised list of SBPs.
absl::StatusOr<NdSbp> ParseNdSbp(absl::string_view text);

// A user's wish for one named mesh axis. Axes that a job's mesh does not have are ignored, so that a model can be
// written once for all meshes; axes that no hint names are left to the compiler.
//
// A wish of priority 0 must be met. Where wishes contradict one another, those with greater numbers yield: on one op,
// or where two propagated splits meet.
struct AxisSbp {
  std::string axis;
  Sbp sbp;
  int priority = 0;  // not negative
  bool operator==(const AxisSbp& o) const { return axis == o.axis && sbp == o.sbp && priority == o.priority; }
};
using SbpHint = std::vector<AxisSbp>;

// "dp:S(0),tp:B@1", the priority left out if it is 0; "" for an empty hint.
std::string ToString(const SbpHint& hint);
// Inverse of ToString(). InvalidArgument if an item is not axis:SBP or axis:SBP@priority, or an axis is named twice.
absl::StatusOr<SbpHint> ParseSbpHint(absl::string_view text);

}  // namespace oneflow
