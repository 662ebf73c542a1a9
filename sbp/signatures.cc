#include "sbp/signatures.h"

#include <algorithm>
#include <iterator>
#include <numeric>

#include "absl/strings/str_join.h"
#include "oneflow_core/ragged.h"
#include "sbp/rules/rules.h"

namespace oneflow {
namespace {

using Mark = FactorRule::Mark;

Reduction ReductionOf(Mark mark) {
  return mark == Mark::kMax ? Reduction::kMax : mark == Mark::kMin ? Reduction::kMin : Reduction::kSum;
}

// Whether addends of that type may be added (or compared) later: bool and u8 would wrap.
bool CanBePartial(DType dtype) { return IsFloating(dtype) || dtype == DType::kInt32 || dtype == DType::kInt64; }

bool PartialsAreSound(absl::Span<const Sbp> sbps, absl::Span<const TensorType> types) {
  for (size_t i = 0; i < sbps.size(); ++i) {
    if (sbps[i].is_partial() && !CanBePartial(types[i].dtype)) return false;
  }
  return true;
}

// Whether addends would be rounded to a narrower type one by one, and not their sum: each would bring a rounding of its
// own. A cast may say that this is what it is for.
bool NarrowsAddends(const Signature& signature, absl::Span<const TensorType> inputs,
                    absl::Span<const TensorType> outputs) {
  size_t given = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const bool addends = IsFloating(inputs[i].dtype) && signature.inputs[i] == Sbp::Partial();
    if (addends) given = std::max(given, SizeOf(inputs[i].dtype));
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    const bool addends = IsFloating(outputs[i].dtype) && signature.outputs[i] == Sbp::Partial();
    if (addends && SizeOf(outputs[i].dtype) < given) return true;
  }
  return false;
}

// S where the operand has the letter, `otherwise` where not.
std::vector<Sbp> SplitLetter(const std::vector<std::vector<int>>& operands, int letter, Sbp otherwise) {
  std::vector<Sbp> sbps;
  for (const std::vector<int>& dims : operands) {
    const auto it = std::find(dims.begin(), dims.end(), letter);
    sbps.push_back(it == dims.end() ? otherwise : Sbp::Split(static_cast<int>(it - dims.begin())));
  }
  return sbps;
}

// The size that the letter has in the first of `operands` that has it, or -1.
int64_t SizeOfLetter(const std::vector<std::vector<int>>& operands, absl::Span<const TensorType> types, int letter) {
  for (size_t i = 0; i < operands.size(); ++i) {
    for (size_t d = 0; d < operands[i].size(); ++d) {
      if (operands[i][d] == letter) return types[i].shape[static_cast<int>(d)];
    }
  }
  return -1;
}

Signature LinearSignature(const std::vector<int>& operands, size_t num_inputs, size_t num_outputs) {
  Signature signature{std::vector<Sbp>(num_inputs), std::vector<Sbp>(num_outputs, Sbp::Partial()),
                      absl::StrCat("linear ", absl::StrJoin(operands, " "))};
  for (int i : operands) signature.inputs[i] = Sbp::Partial();
  return signature;
}

// What the op's own rule or else its text offers. The counts of ragged operands have the letters of the groups.
absl::StatusOr<std::vector<Signature>> Offered(const OpDef& op, const RuleContext& context) {
  if (TakesCounts(op, context.inputs)) {
    const absl::Span<const TensorType> inputs = context.inputs.first(context.inputs.size() - 1);
    OF_ASSIGN_OR_RETURN(RaggedRule ragged, RaggedRuleOf(op, {inputs, context.attrs}));
    ragged.rule.inputs.push_back(ragged.groups);
    return FromFactors(ragged.rule, context);
  }
  if (const RuleFn rule = FindRule(op.name); rule != nullptr) return rule(context);
  if (op.forms != nullptr) return FromParts(*op.forms, context);
  if (RunsOnOneRank(op)) return std::vector<Signature>{};
  OF_ASSIGN_OR_RETURN(const std::optional<FactorRule> rule,
                      FactorRuleOf(op, context.inputs, context.outputs, context.attrs));
  if (!rule.has_value()) return absl::InvalidArgumentError("it has neither a rule text nor a rule in sbp/rules/");
  return FromFactors(*rule, context);
}

Signature Broadcast(size_t num_inputs, size_t num_outputs) {
  return {std::vector<Sbp>(num_inputs), std::vector<Sbp>(num_outputs), "broadcast"};
}

}  // namespace

FactorRule OneLetterPerDimension(const Shape& shape) {
  FactorRule rule;
  for (int d = 0; d < shape.rank(); ++d) rule.letters.push_back({absl::StrCat("d", d)});
  return rule;
}

std::vector<int> AllLetters(const FactorRule& rule) {
  std::vector<int> letters(rule.letters.size());
  std::iota(letters.begin(), letters.end(), 0);
  return letters;
}

std::vector<Signature> FromFactors(const FactorRule& rule, const RuleContext& context) {
  std::vector<Signature> result, small;
  const auto offer = [&](Signature signature, std::vector<Signature>& where) {
    if (PartialsAreSound(signature.inputs, context.inputs) && PartialsAreSound(signature.outputs, context.outputs)) {
      where.push_back(std::move(signature));
    }
  };
  for (int letter = 0; letter < static_cast<int>(rule.letters.size()); ++letter) {
    const FactorRule::Letter& it = rule.letters[letter];
    const int64_t input_size = SizeOfLetter(rule.inputs, context.inputs, letter);
    const int64_t output_size = SizeOfLetter(rule.outputs, context.outputs, letter);
    if (it.mark == Mark::kWhole || (input_size < 0 && output_size < 0)) continue;
    // An output without the letter sums over it if the inputs are split, and is computed by every rank if they are not.
    const Sbp rest = input_size < 0 ? Sbp::Broadcast() : Sbp::Partial(ReductionOf(it.mark));
    offer({SplitLetter(rule.inputs, letter, Sbp::Broadcast()), SplitLetter(rule.outputs, letter, rest),
           absl::StrCat("letter ", it.name)},
          std::max(input_size, output_size) >= context.axis_size ? result : small);
  }
  for (const std::vector<int>& operands : rule.linear) {
    offer(LinearSignature(operands, rule.inputs.size(), rule.outputs.size()), result);
  }
  std::move(small.begin(), small.end(), std::back_inserter(result));
  return result;
}

absl::StatusOr<std::vector<Signature>> FromText(absl::string_view text, const RuleContext& context) {
  OF_ASSIGN_OR_RETURN(const FactorRule rule, ParseFactorRule(text, context.inputs, context.outputs));
  return FromFactors(rule, context);
}

std::string Signature::ToString() const {
  const auto list = [](const std::vector<Sbp>& sbps) {
    return absl::StrJoin(sbps, ",", [](std::string* s, const Sbp& sbp) { s->append(sbp.ToString()); });
  };
  return absl::StrCat(list(inputs), "->", list(outputs));
}

bool IsByThemselves(const Signature& signature) {
  const auto is_mean = [](const Sbp& sbp) { return sbp.is_mean(); };
  const auto may_be_read = [](const Sbp& sbp) { return sbp.is_mean() || sbp.is_broadcast(); };
  const bool any = std::any_of(signature.inputs.begin(), signature.inputs.end(), is_mean) || !signature.outputs.empty();
  return any && std::all_of(signature.inputs.begin(), signature.inputs.end(), may_be_read) &&
         std::all_of(signature.outputs.begin(), signature.outputs.end(), is_mean);
}

absl::StatusOr<std::vector<Signature>> Signatures1d(const OpDef& op, absl::Span<const TensorType> inputs,
                                                    absl::Span<const TensorType> outputs, const AttrMap& attrs,
                                                    int axis_size) {
  absl::StatusOr<std::vector<Signature>> offered = Offered(op, {inputs, outputs, attrs, axis_size});
  if (!offered.ok()) return absl::InternalError(absl::StrCat("op '", op.name, "': ", offered.status().message()));
  offered->push_back(Broadcast(inputs.size(), outputs.size()));
  std::vector<Signature> result;
  for (Signature& signature : *offered) {
    if (!attrs.Bool("addends") && NarrowsAddends(signature, inputs, outputs)) continue;
    if (std::find(result.begin(), result.end(), signature) == result.end()) result.push_back(std::move(signature));
  }
  return result;
}

absl::StatusOr<std::vector<Signature>> Signatures1d(const OpRegistry& ops, const Graph& graph, NodeId node,
                                                    int axis_size) {
  const Node& it = graph.node(node);
  OF_ASSIGN_OR_RETURN_AT(const OpDef* op, ops.Get(it.op), Where(it));
  std::vector<TensorType> inputs, outputs;
  for (ValueId id : it.inputs) inputs.push_back(graph.value(id).type);
  for (ValueId id : it.outputs) outputs.push_back(graph.value(id).type);
  auto result = Signatures1d(*op, inputs, outputs, it.attrs, axis_size);
  if (!result.ok()) return Annotate(result.status(), Where(it));
  return result;
}

absl::Status CheckNdSignature(const OpDef& op, absl::Span<const TensorType> inputs,
                              absl::Span<const TensorType> outputs, const AttrMap& attrs,
                              absl::Span<const int> all_sizes, absl::Span<const Signature> all) {
  // Where ranks go on by themselves, nothing is divided.
  std::vector<int> axis_sizes;
  std::vector<Signature> per_axis;
  for (size_t a = 0; a < all.size(); ++a) {
    if (IsByThemselves(all[a])) continue;
    axis_sizes.push_back(all_sizes[a]);
    per_axis.push_back(all[a]);
  }
  if (op.forms != nullptr) {
    const absl::Status checked = CheckNdOfParts(*op.forms, {inputs, attrs}, axis_sizes, per_axis);
    return checked.ok() ? checked : Annotate(checked, absl::StrCat("op '", op.name, "'"));
  }
  for (size_t a = 0; a < per_axis.size(); ++a) {
    // Together with the earlier axes of the same signature; the last of them checks them all.
    int size = 1;
    for (size_t b = 0; b <= a; ++b) {
      if (per_axis[b] == per_axis[a]) size *= axis_sizes[b];
    }
    for (const int parts : {axis_sizes[a], size}) {
      OF_ASSIGN_OR_RETURN(const std::vector<Signature> offered, Signatures1d(op, inputs, outputs, attrs, parts));
      if (std::find(offered.begin(), offered.end(), per_axis[a]) == offered.end()) {
        return absl::InvalidArgumentError(absl::StrCat("op '", op.name, "' has no signature ", per_axis[a].ToString(),
                                                       " on ", parts, " ranks (axes of ",
                                                       absl::StrJoin(axis_sizes, ","), ")"));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace oneflow
