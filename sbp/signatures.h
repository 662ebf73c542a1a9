// Signatures: the legal ways to lay out an op's operands along one mesh axis, derived from its factor rule.
//
//   letter     a      b      out          for "mk,kn->mn"
//   m         S(0)    B      S(0)
//   k         S(1)   S(0)    P            k is summed away
//   n          B     S(1)    S(1)
//
// plus the marks of linearity (P in, P out) and all-B, which every op has. On several axes a signature is chosen per axis
// independently, as long as nested splits of one dimension are understood by the op (they are for every rule here).
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
  // "S(0),B->S(0)".
  std::string ToString() const;
  bool operator==(const Signature& o) const { return inputs == o.inputs && outputs == o.outputs; }
};

// All signatures of `node` along one mesh axis of `axis_size` ranks, in a fixed order, without duplicates; the last is all-B.
// Offered are only signatures that hold for these types with uneven splits: a rule that needs divisibility (heads of an
// attention, factors of a reshape) checks it against `axis_size`. Internal if the op's rule cannot be parsed (our bug; a test
// parses all).
absl::StatusOr<std::vector<Signature>> Signatures1d(const OpRegistry& ops, const Graph& graph, NodeId node, int axis_size);

// The same for types given directly, as laws and tables need it.
absl::StatusOr<std::vector<Signature>> Signatures1d(const OpDef& op, absl::Span<const TensorType> inputs,
                                                    absl::Span<const TensorType> outputs, const AttrMap& attrs,
                                                    int axis_size);

}  // namespace oneflow
