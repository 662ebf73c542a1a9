// The table of fusions: a row is a small sub-graph of ops, and the op that is the same in one kernel.
//
//   parts   h = batch_norm(x, gamma, beta, mean, var); y = relu(h)
//   whole   y = batch_norm_relu(x, gamma, beta, mean, var)
//
// Names stand for values. Values that the whole does not give (h) disappear, so only parts may read them. A row may
// require a node that exists anyway and stays; `given` states what it computes. Parts are in order, and each except the
// last makes a value that a later one reads, or reads a value of such a part.
//
// A row defines the op of its whole: types, signatures, work, memory layouts and reference follow from the parts
// (fused_form.h). What is left to say is what a kernel promises: `in_place`, `full`, `blocks`, `only`, `check`.
// Several rows may have the same op; the first says these for all.
//
// Attributes. Without braces a part and the whole have the same. In braces stand those that a part has:
//
//   {a}  {a: b}   the whole has it too, under the name b if there is one
//   {a=v}         it is v, in the part alone: `false`; `f32` or another element type; `x`, a value whose element type
//                 is meant; `last`, the last axis of the part's first input; `[last]`, the list of it
//   {}            none
//
// A node whose attribute is another than the row says is no such part. One that lacks it is: v is the default of each.
// The whole has `made_of` besides: the parts as the row has them.
//
// A composite is a row that is read in the other direction too: the user's graph has the whole, which is an op of its
// own, and selection sees the parts (compiler/passes/composites.cc).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "oneflow_core/mesh.h"
#include "oneflow_core/op.h"
#include "oneflow_core/status.h"

namespace oneflow {

struct FusionRow {
  absl::string_view parts;
  absl::string_view given = "";  // empty: nothing
  absl::string_view whole;
  absl::string_view saves;  // in memory traffic: tensors that are neither read nor written any more
  // "x->y, r->y": the outputs that may take the memory of an input, as OpDef::in_place.
  absl::string_view in_place = "";
  // "a, b": the inputs that are f32 whatever the others are, beside those that are so in the parts.
  absl::string_view full = "";
  // Operands may lie in blocks of channels (memory_layout.h) where those of all parts may.
  bool blocks = false;
  // Parts have several roles, such as a forward node and its gradient. Such parts are fused only where no schedule
  // separates these roles.
  bool across_roles = false;
  // The last part is the sum over micro-batches of the result of the others.
  bool of_sums = false;
  bool composite = false;
  // The devices that have a kernel for the whole; not set: all.
  std::optional<DeviceKind> only = std::nullopt;
  // What the kernel cannot do although the parts could: InvalidArgument says so. Null: nothing.
  absl::Status (*check)(const InferContext& whole) = nullptr;
};
absl::Span<const FusionRow> FusionRows();

// An attribute of a part.
struct PatternAttribute {
  std::string name;
  std::string in_whole;  // its name there; empty: it is fixed
  std::string fixed;     // "false", "f32", "x", "last", "[last]"
};

// "y, z = op(a, b)", "y = op{attribute, attribute: name, attribute=false}(a, b)".
struct PatternCall {
  std::vector<std::string> outputs;
  std::string op;
  std::vector<std::string> inputs;
  std::optional<std::vector<PatternAttribute>> attributes = std::nullopt;  // not set: all, under their own names
};
// "y = op(a, b); z = op(y)". InvalidArgument if `text` has another form. An empty text has no calls.
absl::StatusOr<std::vector<PatternCall>> ParseCalls(absl::string_view text);

// A row, read.
struct Fusion {
  std::vector<PatternCall> parts, given;
  PatternCall whole;
  std::string made_of;  // the attribute's value
  std::vector<std::pair<int, int>> in_place;
  std::vector<int> full;
  const FusionRow* row;
};
// All rows, in order: where two match a node, the first gets it.
const std::vector<Fusion>& Fusions();

}  // namespace oneflow
