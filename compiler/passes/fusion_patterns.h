// The table of fusions: a row is a small sub-graph of ops, and the op whose kernel computes the same in one pass.
//
//   parts   h = batch_norm(x, gamma, beta, mean, var); y = relu(h)
//   whole   y = batch_norm_relu(x, gamma, beta, mean, var)
//
// Names stand for values. Values that the whole does not give (h) disappear, so only parts may read them. A row may
// require a node that exists anyway and stays; `given` states what it computes. Parts are in order, and each except the
// last makes a value that a later one reads, or reads a value of such a part.
//
// The whole has the attributes of its parts, and `made_of`: the parts as the row has them. A call may list the
// attributes that the whole keeps, and rename them: `y = matmul{transpose_b: turned}(x, w)`; the others are dropped.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "oneflow_core/mesh.h"
#include "oneflow_core/status.h"

namespace oneflow {

struct FusionRow {
  absl::string_view parts;
  absl::string_view given;  // empty: nothing
  absl::string_view whole;
  absl::string_view saves;  // in memory traffic: tensors that are neither read nor written any more
  // Parts have several roles, such as a forward node and its gradient. Such parts are fused only where no schedule
  // separates these roles.
  bool across_roles = false;
  // The devices that have a kernel for the whole; not set: all.
  std::optional<DeviceKind> only = std::nullopt;
  // The last part is the sum over micro-batches of the result of the others.
  bool of_sums = false;
};
absl::Span<const FusionRow> FusionRows();

// "y, z = op(a, b)", "y = op{attribute, attribute: name}(a, b)".
struct PatternCall {
  std::vector<std::string> outputs;
  std::string op;
  std::vector<std::string> inputs;
  // By attribute of the node: its name in the whole. Not set: all, under their own names.
  std::optional<std::map<std::string, std::string>> attributes = std::nullopt;
};
// "y = op(a, b); z = op(y)". InvalidArgument if `text` has another form. An empty text has no calls.
absl::StatusOr<std::vector<PatternCall>> ParseCalls(absl::string_view text);

// A row, read.
struct Fusion {
  std::vector<PatternCall> parts, given;
  PatternCall whole;
  std::string made_of;  // the attribute's value
  bool across_roles = false;
  std::optional<DeviceKind> only;
  bool of_sums = false;
};
// All rows, in order: where two match a node, the first gets it.
const std::vector<Fusion>& Fusions();

}  // namespace oneflow
