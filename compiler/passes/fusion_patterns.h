// What may be fused, as a table: a row is a small sub-graph of ops, and the op whose kernel does the same in one go.
//
//   parts   h = batch_norm(x, gamma, beta, mean, var); y = relu(h)
//   whole   y = batch_norm_relu(x, gamma, beta, mean, var)
//
// Names stand for values. What the whole does not give (h) is gone, so nothing but parts may read it. A row may ask for
// a node that is there anyway and stays: what it says of its values is `given`. Parts are in their order, and every one
// but the last makes what a later one reads, or reads what such a one makes.
//
// Attributes of the whole are those of its parts, and `made_of`: the parts as the row has them. A call may say which of
// its attributes the whole has, and under which name: `y = matmul{transpose_b: turned}(x, w)`; the others are gone.
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
  absl::string_view saves;  // of memory, in tensors that are neither read nor written any more
  // Parts have several roles, as a forward node and its gradient have: fused where no schedule tells these apart.
  bool across_roles = false;
  // The devices that have a kernel for the whole; not set: all.
  std::optional<DeviceKind> only = std::nullopt;
  // The last part is the sum over micro-batches of what the others give.
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
// "y = op(a, b); z = op(y)". InvalidArgument if that is not what `text` is. Nothing of an empty text.
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
// All rows, in their order: where two want a node, the first has it.
const std::vector<Fusion>& Fusions();

}  // namespace oneflow
