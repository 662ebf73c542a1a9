// What a fused op is: a row of the table of fusions (fusions.h) with the definitions of the ops that its parts call.
// Everything about the op follows from them. Types are those that the parts infer one after another; work is the sum of
// theirs; its signatures are those of the parts that agree on every value between them (sbp/rules/parts.cc).
#pragma once

#include <map>
#include <string>
#include <vector>

#include "oneflow_core/fusions.h"
#include "oneflow_core/op.h"

namespace oneflow {

// Values of a row by their names.
using TypesByName = std::map<std::string, TensorType>;

// A call of a row and the op that it calls.
struct FormCall {
  const PatternCall* call;
  OpDef op;
};

struct FusedForm {
  const Fusion* fusion;
  std::vector<FormCall> given, parts;
  // Both, in the order in which they can be computed.
  std::vector<const FormCall*> calls() const;
};

// The rows of one op, in the order of the table.
struct FusedForms {
  std::vector<FusedForm> forms;
};

// The attributes of a part. REQUIRES: `types` has the values that fixed attributes and the part's inputs name.
AttrMap AttributesOfPart(const PatternCall& call, const AttrMap& of_whole, const TypesByName& types);
// The types of the inputs or outputs of a call. REQUIRES: `types` has them.
std::vector<TensorType> TypesOf(const std::vector<std::string>& names, const TypesByName& types);

// The types of all values of a form whose whole has these inputs. InvalidArgument that names the part if they do not
// fit together.
absl::StatusOr<TypesByName> InferForm(const FusedForm& form, const InferContext& whole);

struct AppliedForm {
  const FusedForm* form;
  TypesByName types;
};
// The form that a whole of these inputs has: the one that its attribute `made_of` says, else the first that fits.
// InvalidArgument if none does, about the first with as many inputs.
absl::StatusOr<AppliedForm> FormOf(const FusedForms& forms, const InferContext& whole);

// The definition of the op of these rows. REQUIRES: `ops` has the ops that they call.
OpDef FusedOp(const std::vector<const Fusion*>& rows, const OpRegistry& ops);

}  // namespace oneflow
