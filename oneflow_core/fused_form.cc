#include "oneflow_core/fused_form.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "glog/logging.h"

namespace oneflow {
namespace {

std::string ToString(const PatternCall& call) {
  return absl::StrCat(absl::StrJoin(call.outputs, ", "), " = ", call.op, "(", absl::StrJoin(call.inputs, ", "), ")");
}

// The value of a fixed attribute.
Attr FixedAttr(const std::string& text, const TensorType& first, const TypesByName& types) {
  if (text == "false") return false;
  const int64_t last = first.shape.rank() - 1;
  if (text == "last") return last;
  if (text == "[last]") return std::vector<int64_t>{last};
  const auto value = types.find(text);
  return value == types.end() ? text : std::string(Name(value->second.dtype));
}

// Values that must lie alike in memory: a group is named by one of its values.
class LayoutGroups {
 public:
  void Join(const std::string& a, const std::string& b) {
    const std::string from = Find(a), to = Find(b);
    if (from == to) return;
    group_[from] = to;
    if (row_major_.count(from) > 0) row_major_.insert(to);
  }
  void SetRowMajor(const std::string& name) { row_major_.insert(Find(name)); }
  std::string Find(const std::string& name) {
    const auto [it, is_new] = group_.emplace(name, name);
    return it->second == name ? name : Find(std::string(it->second));
  }
  bool IsRowMajor(const std::string& name) { return row_major_.count(Find(name)) > 0; }

 private:
  std::map<std::string, std::string> group_;
  std::set<std::string> row_major_;
};

// OpDef::blocks of a whole: values that some part wants alike are alike, and row-major if some part wants that.
std::vector<int> BlocksOfParts(const AppliedForm& applied, const AttrMap& attrs) {
  LayoutGroups groups;
  for (const FormCall* const it : applied.form->calls()) {
    const PatternCall& call = *it->call;
    std::vector<std::string> operands = call.inputs;
    operands.insert(operands.end(), call.outputs.begin(), call.outputs.end());
    const std::vector<int> of_part =
        BlockGroups(it->op, TypesOf(call.inputs, applied.types), TypesOf(call.outputs, applied.types),
                    AttributesOfPart(call, attrs, applied.types));
    std::map<int, std::string> first;
    for (size_t i = 0; i < operands.size(); ++i) {
      if (of_part[i] < 0) {
        groups.SetRowMajor(operands[i]);
      } else {
        groups.Join(operands[i], first.emplace(of_part[i], operands[i]).first->second);
      }
    }
  }
  const PatternCall& whole = applied.form->fusion->whole;
  std::vector<std::string> operands = whole.inputs;
  operands.insert(operands.end(), whole.outputs.begin(), whole.outputs.end());
  std::vector<int> result;
  std::map<std::string, int> numbers;
  for (const std::string& operand : operands) {
    const int next = static_cast<int>(numbers.size());
    result.push_back(groups.IsRowMajor(operand) ? -1 : numbers.emplace(groups.Find(operand), next).first->second);
  }
  return result;
}

double FlopsOfParts(const AppliedForm& applied, const AttrMap& attrs) {
  double flops = 0;
  for (const FormCall& it : applied.form->parts) {
    flops += FlopsOf(it.op, TypesOf(it.call->inputs, applied.types), TypesOf(it.call->outputs, applied.types),
                     AttributesOfPart(*it.call, attrs, applied.types));
  }
  return flops;
}

Precision PrecisionOf(const std::vector<FormCall>& parts) {
  const auto any = [&](Precision precision) {
    return std::any_of(parts.begin(), parts.end(), [&](const FormCall& it) { return it.op.precision == precision; });
  };
  return any(Precision::kCompute)  ? Precision::kCompute
         : any(Precision::kFollow) ? Precision::kFollow
                                   : Precision::kFull;
}

// The inputs that are f32 in some part, and those that the row names.
std::vector<int> FullInputs(const FusedForm& form) {
  std::set<int> full(form.fusion->full.begin(), form.fusion->full.end());
  const std::vector<std::string>& inputs = form.fusion->whole.inputs;
  for (const FormCall* const it : form.calls()) {
    for (const int i : it->op.full_inputs) {
      const auto input = std::find(inputs.begin(), inputs.end(), it->call->inputs[i]);
      if (input != inputs.end()) full.insert(static_cast<int>(input - inputs.begin()));
    }
  }
  return {full.begin(), full.end()};
}

bool HasOutDType(const std::vector<FormCall>& parts) {
  return std::any_of(parts.begin(), parts.end(), [](const FormCall& it) {
    if (!it.op.has_out_dtype) return false;
    if (!it.call->attributes.has_value()) return true;
    return std::any_of(it.call->attributes->begin(), it.call->attributes->end(),
                       [](const PatternAttribute& attribute) { return attribute.in_whole == "out_dtype"; });
  });
}

// A part of the table's that has attributes of a shard: each such attribute is a size of an output, which lies like the
// whole's.
AttrMap ShardAttrsOfParts(const FusedForms& forms, const AttrMap& attrs, absl::Span<const ShardType> inputs,
                          absl::Span<const ShardType> outputs) {
  AttrMap result = attrs;
  for (const FormCall& it : forms.forms[0].parts) {
    if (it.op.shard_attrs == nullptr) continue;
    const std::vector<ShardType> outputs_of_part(it.call->outputs.size(), outputs[0]);
    const AttrMap of_part = it.op.shard_attrs(attrs, inputs, outputs_of_part);
    for (const auto& [name, value] : of_part.items()) result.Set(name, value);
  }
  return result;
}

// Kernels of fused ops go over memory once, so that their elementwise parts do not broadcast.
absl::Status CheckSameShapes(const FormCall& it, absl::Span<const TensorType> inputs) {
  if (!it.op.is_elementwise) return absl::OkStatus();
  for (size_t i = 1; i < inputs.size(); ++i) {
    if (inputs[i].shape == inputs[0].shape) continue;
    return absl::InvalidArgumentError(absl::StrCat(it.call->inputs[0], " is ", inputs[0].ToString(), ", ",
                                                   it.call->inputs[i], " is ", inputs[i].ToString(),
                                                   "; within a fused op they must have the same sizes"));
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<const FormCall*> FusedForm::calls() const {
  std::vector<const FormCall*> all;
  for (const FormCall& it : given) all.push_back(&it);
  for (const FormCall& it : parts) all.push_back(&it);
  return all;
}

std::vector<TensorType> TypesOf(const std::vector<std::string>& names, const TypesByName& types) {
  std::vector<TensorType> result;
  for (const std::string& name : names) result.push_back(types.at(name));
  return result;
}

AttrMap AttributesOfPart(const PatternCall& call, const AttrMap& of_whole, const TypesByName& types) {
  AttrMap attrs;
  if (!call.attributes.has_value()) {
    for (const auto& [name, value] : of_whole.items()) {
      if (name != "made_of") attrs.Set(name, value);
    }
    return attrs;
  }
  for (const PatternAttribute& attribute : *call.attributes) {
    if (attribute.in_whole.empty()) {
      attrs.Set(attribute.name, FixedAttr(attribute.fixed, types.at(call.inputs[0]), types));
      continue;
    }
    const auto it = of_whole.items().find(attribute.in_whole);
    if (it != of_whole.items().end()) attrs.Set(attribute.name, it->second);
  }
  return attrs;
}

absl::StatusOr<TypesByName> InferForm(const FusedForm& form, const InferContext& whole) {
  const PatternCall& as = form.fusion->whole;
  if (whole.inputs.size() != as.inputs.size()) {
    return absl::InvalidArgumentError(absl::StrCat("it has ", whole.inputs.size(), " inputs but must have ",
                                                   as.inputs.size(), ": ", absl::StrJoin(as.inputs, ", ")));
  }
  TypesByName types;
  for (size_t i = 0; i < as.inputs.size(); ++i) types[as.inputs[i]] = whole.inputs[i];
  for (const FormCall* const it : form.calls()) {
    const AttrMap attrs = AttributesOfPart(*it->call, whole.attrs, types);
    const std::vector<TensorType> inputs = TypesOf(it->call->inputs, types);
    OF_ASSIGN_OR_RETURN_AT(const std::vector<TensorType> outputs, it->op.infer({inputs, attrs, whole.of_shards}),
                           ToString(*it->call));
    OF_RETURN_IF_ERROR(CheckSameShapes(*it, inputs));
    for (size_t i = 0; i < outputs.size(); ++i) types[it->call->outputs[i]] = outputs[i];
  }
  if (form.fusion->row->check != nullptr) OF_RETURN_IF_ERROR(form.fusion->row->check(whole));
  return types;
}

absl::StatusOr<AppliedForm> FormOf(const FusedForms& forms, const InferContext& whole) {
  const std::string made_of = whole.attrs.String("made_of");
  absl::Status refused =
      absl::InvalidArgumentError(absl::StrCat("attribute 'made_of' is '", made_of, "', which is no fusion of it"));
  bool has_as_many = false;  // whether `refused` is about a form with as many inputs
  for (const FusedForm& form : forms.forms) {
    if (!made_of.empty() && made_of != form.fusion->made_of) continue;
    absl::StatusOr<TypesByName> types = InferForm(form, whole);
    if (types.ok()) return AppliedForm{&form, *std::move(types)};
    if (has_as_many) continue;
    has_as_many = whole.inputs.size() == form.fusion->whole.inputs.size();
    refused = types.status();
  }
  return refused;
}

OpDef FusedOp(const std::vector<const Fusion*>& rows, const OpRegistry& ops) {
  const auto forms = std::make_shared<FusedForms>();
  const auto called = [&](const std::vector<PatternCall>& calls) {
    std::vector<FormCall> result;
    for (const PatternCall& call : calls) {
      const OpDef* const op = ops.Find(call.op);
      CHECK(op != nullptr) << "a row calls '" << call.op << "', which is no op or stands behind it";
      result.push_back({&call, *op});
    }
    return result;
  };
  for (const Fusion* const row : rows) forms->forms.push_back({row, called(row->given), called(row->parts)});
  const FusedForm& first = forms->forms[0];
  const bool has_shard_attrs = std::any_of(first.parts.begin(), first.parts.end(),
                                           [](const FormCall& it) { return it.op.shard_attrs != nullptr; });
  OpDef def;
  def.name = first.fusion->whole.op;
  def.kind = first.parts.back().op.kind;
  def.infer = [forms](const InferContext& c) -> absl::StatusOr<std::vector<TensorType>> {
    OF_ASSIGN_OR_RETURN(const AppliedForm applied, FormOf(*forms, c));
    return TypesOf(applied.form->fusion->whole.outputs, applied.types);
  };
  if (has_shard_attrs) {
    def.shard_attrs = [forms](const AttrMap& attrs, absl::Span<const ShardType> inputs,
                              absl::Span<const ShardType> outputs) {
      return ShardAttrsOfParts(*forms, attrs, inputs, outputs);
    };
  }
  def.flops = [forms](absl::Span<const TensorType> inputs, absl::Span<const TensorType>, const AttrMap& attrs) {
    const absl::StatusOr<AppliedForm> applied = FormOf(*forms, {inputs, attrs});
    return applied.ok() ? FlopsOfParts(*applied, attrs) : 0;
  };
  def.in_place = first.fusion->in_place;
  def.precision = PrecisionOf(first.parts);
  def.full_inputs = FullInputs(first);
  def.has_out_dtype = HasOutDType(first.parts);
  if (first.fusion->row->blocks) {
    def.blocks = [forms](absl::Span<const TensorType> inputs, absl::Span<const TensorType> outputs,
                         const AttrMap& attrs) {
      const absl::StatusOr<AppliedForm> applied = FormOf(*forms, {inputs, attrs});
      return applied.ok() ? BlocksOfParts(*applied, attrs) : std::vector<int>(inputs.size() + outputs.size(), -1);
    };
  }
  def.forms = forms;
  return def;
}

}  // namespace oneflow
