#include "test/support/fused_reference.h"

#include <algorithm>
#include <map>

#include "glog/logging.h"
#include "oneflow_core/fused_form.h"

namespace oneflow::testing {
namespace {

Tensors Computed(const OpDef& op, RefCall& c) {
  const absl::StatusOr<AppliedForm> applied = FormOf(*op.forms, {TypesOf(c.in), c.attrs});
  CHECK(applied.ok()) << op.name << ": " << applied.status();
  const PatternCall& whole = applied->form->fusion->whole;
  std::map<std::string, RefTensor> values;
  for (size_t i = 0; i < c.in.size(); ++i) values[whole.inputs[i]] = c.in[i];
  for (const FormCall* const it : applied->form->calls()) {
    Tensors inputs;
    for (const std::string& name : it->call->inputs) inputs.push_back(values.at(name));
    const absl::StatusOr<Tensors> outputs =
        Reference(it->op.name, AttributesOfPart(*it->call, c.attrs, applied->types), inputs);
    CHECK(outputs.ok()) << it->op.name << ": " << outputs.status();
    for (size_t i = 0; i < outputs->size(); ++i) {
      const std::string& name = it->call->outputs[i];
      RefTensor value = (*outputs)[i];
      value.dtype = applied->types.at(name).dtype;
      const bool is_given = std::count(whole.outputs.begin(), whole.outputs.end(), name) > 0;
      values[name] = is_given || it->op.kind == OpKind::kCast ? Rounded(std::move(value)) : std::move(value);
    }
  }
  Tensors results;
  for (const std::string& name : whole.outputs) results.push_back(values.at(name));
  return results;
}

}  // namespace

ReferenceFn FusedReference(const OpDef& op) {
  return [&op](RefCall& c) { return Computed(op, c); };
}

}  // namespace oneflow::testing
