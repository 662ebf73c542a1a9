// Signatures: the legal ways to lay out an op's operands along one mesh axis, derived from its factor rule.
//
//   letter     a      b      out          for "mk,kn->mn"
//   m         S(0)    B      S(0)
//   k         S(1)   S(0)    P            k is summed away
//   n          B     S(1)    S(1)
//
// plus the marks of linearity (P in, P out) and all-B, which every op has. An output that lacks a letter which another
// output has is partial too (the gamma gradient of a layer norm). A letter that only outputs have (the rows of an
// embedding's gradient) splits them while the inputs stay B: kernels know which part of the logical tensor they make.
// Whatever a rule says, P never passes from a floating type to a narrower one: what is narrowed is the sum.
//
// On several axes a signature is chosen per axis independently. One case needs care: a rule that wants divisibility
// (heads of an attention, factors of a reshape) checks one axis at a time, but two axes that split the same heads cut
// them p1 * p2 times; CheckNdSignature() knows.
#pragma once

#include <string>
#include <vector>

#include "oneflow_core/graph.h"
#include "oneflow_core/op.h"

namespace oneflow {

struct Signature {
  std::vector<Sbp> inputs;
  std::vector<Sbp> outputs;
  // Why it holds: "letter m", "linear 0", "broadcast", or a rule's own words.
  std::string reason;
  // No rank can make its outputs of its inputs alone: ranks along the axis pass inputs on in a ring, and the op becomes
  // several (compiler/passes/ring_attention.cc). Along axes for sequences only.
  bool is_ring = false;
  // How much each rank then does depends on the data, as with documents of any length; another signature of the axis
  // lets all do the same.
  bool is_uneven = false;
  // "S(0),B->S(0)".
  std::string ToString() const;
  bool operator==(const Signature& o) const { return inputs == o.inputs && outputs == o.outputs; }
};

// Whether ranks along the axis go on by themselves, as any op may: what it reads is whole or each rank's own, what it
// makes is each rank's own.
bool IsByThemselves(const Signature& signature);

// All signatures of `node` along one mesh axis of `axis_size` ranks, in a fixed order, without duplicates; the last is
// all-B. Offered are only signatures that hold for these types with uneven splits: a rule that needs divisibility
// (heads of an attention, factors of a reshape) checks it against `axis_size`. Internal if the op's rule cannot be
// parsed (our bug; a test parses all).
absl::StatusOr<std::vector<Signature>> Signatures1d(const OpRegistry& ops, const Graph& graph, NodeId node,
                                                    int axis_size);

// The same for types given directly, as laws and tables need it.
absl::StatusOr<std::vector<Signature>> Signatures1d(const OpDef& op, absl::Span<const TensorType> inputs,
                                                    absl::Span<const TensorType> outputs, const AttrMap& attrs,
                                                    int axis_size);

// Whether `per_axis`, one signature for each axis of `axis_sizes`, may be used together: each is offered for its axis,
// and one that several axes share is offered for the product of their sizes too, so that the nested split is as good as
// a single one. InvalidArgument naming the axis sizes and the signature if not.
absl::Status CheckNdSignature(const OpDef& op, absl::Span<const TensorType> inputs,
                              absl::Span<const TensorType> outputs, const AttrMap& attrs,
                              absl::Span<const int> axis_sizes, absl::Span<const Signature> per_axis);

}  // namespace oneflow
