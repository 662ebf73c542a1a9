#include <algorithm>
#include <map>

#include "oneflow_core/fused_form.h"
#include "sbp/rules/rules.h"

namespace oneflow {
namespace {

// How values lie along the axis, by their names in the row.
using Laid = std::map<std::string, Sbp>;

bool LayAll(const std::vector<std::string>& names, const std::vector<Sbp>& sbps, Laid& laid) {
  for (size_t i = 0; i < names.size(); ++i) {
    if (laid.emplace(names[i], sbps[i]).first->second != sbps[i]) return false;
  }
  return true;
}

std::vector<Sbp> Of(const std::vector<std::string>& names, const Laid& laid) {
  std::vector<Sbp> sbps;
  for (const std::string& name : names) sbps.push_back(laid.at(name));
  return sbps;
}

// The ways in which all values of the form may lie along an axis of that size.
absl::StatusOr<std::vector<Laid>> LayoutsOf(const AppliedForm& applied, const AttrMap& attrs, int axis_size) {
  std::vector<Laid> layouts = {{}};
  for (const FormCall* const it : applied.form->calls()) {
    const PatternCall& call = *it->call;
    OF_ASSIGN_OR_RETURN(const std::vector<Signature> offered,
                        Signatures1d(it->op, TypesOf(call.inputs, applied.types), TypesOf(call.outputs, applied.types),
                                     AttributesOfPart(call, attrs, applied.types), axis_size));
    std::vector<Laid> longer;
    for (const Laid& layout : layouts) {
      for (const Signature& signature : offered) {
        Laid laid = layout;
        if (LayAll(call.inputs, signature.inputs, laid) && LayAll(call.outputs, signature.outputs, laid)) {
          longer.push_back(std::move(laid));
        }
      }
    }
    layouts = std::move(longer);
  }
  return layouts;
}

// The signature of a call, or of the whole.
Signature SignatureOf(const PatternCall& call, const Laid& laid) {
  return {Of(call.inputs, laid), Of(call.outputs, laid), "its parts"};
}

// Whether every part may lie so, `per_axis` being how all values lie along each axis.
absl::Status CheckParts(const AppliedForm& applied, const AttrMap& attrs, absl::Span<const int> axis_sizes,
                        const std::vector<const Laid*>& per_axis) {
  for (const FormCall* const it : applied.form->calls()) {
    const PatternCall& call = *it->call;
    std::vector<Signature> of_part;
    for (const Laid* const laid : per_axis) of_part.push_back(SignatureOf(call, *laid));
    OF_RETURN_IF_ERROR(CheckNdSignature(it->op, TypesOf(call.inputs, applied.types),
                                        TypesOf(call.outputs, applied.types),
                                        AttributesOfPart(call, attrs, applied.types), axis_sizes, of_part));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<Signature>> FromParts(const FusedForms& forms, const RuleContext& context) {
  OF_ASSIGN_OR_RETURN(const AppliedForm applied, FormOf(forms, {context.inputs, context.attrs}));
  OF_ASSIGN_OR_RETURN(const std::vector<Laid> layouts, LayoutsOf(applied, context.attrs, context.axis_size));
  std::vector<Signature> signatures;
  for (const Laid& laid : layouts) {
    const auto is_whole = [](const auto& value) { return value.second == Sbp::Broadcast(); };
    if (std::all_of(laid.begin(), laid.end(), is_whole)) continue;  // what every op has
    signatures.push_back(SignatureOf(applied.form->fusion->whole, laid));
  }
  return signatures;
}

absl::Status CheckNdOfParts(const FusedForms& forms, const InferContext& whole, absl::Span<const int> axis_sizes,
                            absl::Span<const Signature> per_axis) {
  OF_ASSIGN_OR_RETURN(const AppliedForm applied, FormOf(forms, whole));
  std::vector<std::vector<Laid>> layouts;  // by axis: those with its signature
  std::vector<std::vector<const Laid*>> choices = {{}};
  layouts.reserve(per_axis.size());
  for (size_t a = 0; a < per_axis.size(); ++a) {
    OF_ASSIGN_OR_RETURN(std::vector<Laid> of_axis, LayoutsOf(applied, whole.attrs, axis_sizes[a]));
    const auto is_other = [&](const Laid& laid) {
      return !(SignatureOf(applied.form->fusion->whole, laid) == per_axis[a]);
    };
    of_axis.erase(std::remove_if(of_axis.begin(), of_axis.end(), is_other), of_axis.end());
    layouts.push_back(std::move(of_axis));
    std::vector<std::vector<const Laid*>> longer;
    for (const std::vector<const Laid*>& choice : choices) {
      for (const Laid& laid : layouts.back()) {
        longer.push_back(choice);
        longer.back().push_back(&laid);
      }
    }
    choices = std::move(longer);
  }
  absl::Status refused = absl::InvalidArgumentError("no layout of its parts is like that");
  for (const std::vector<const Laid*>& choice : choices) {
    refused = CheckParts(applied, whole.attrs, axis_sizes, choice);
    if (refused.ok()) return refused;
  }
  return refused;
}

}  // namespace oneflow
