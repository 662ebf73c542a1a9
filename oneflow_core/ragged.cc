#include "oneflow_core/ragged.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace oneflow {
namespace {

template <typename... Parts>
absl::Status Refused(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(parts...));
}

std::vector<TensorType> AllDense(absl::Span<const TensorType> types) {
  std::vector<TensorType> dense;
  for (const TensorType& type : types) dense.push_back(Dense(type));
  return dense;
}

int FirstRagged(absl::Span<const TensorType> types) {
  const auto it = std::find_if(types.begin(), types.end(), [](const TensorType& type) { return type.is_ragged(); });
  return it == types.end() ? -1 : static_cast<int>(it - types.begin());
}

bool Has(const std::vector<int>& dims, int letter) { return std::find(dims.begin(), dims.end(), letter) != dims.end(); }

// Whether the first dimensions of an operand are the groups, then the rows.
bool BeginsWith(const RaggedRule& ragged, const std::vector<int>& dims) {
  return dims.size() > ragged.groups.size() && dims[ragged.groups.size()] == ragged.rows &&
         std::equal(ragged.groups.begin(), ragged.groups.end(), dims.begin());
}

absl::Status FindRows(absl::Span<const TensorType> inputs, RaggedRule& ragged) {
  const int first = FirstRagged(inputs);
  const std::vector<int>& dims = ragged.rule.inputs[first];
  ragged.groups.assign(dims.begin(), dims.begin() + inputs[first].ragged);
  ragged.rows = dims[inputs[first].ragged];
  if (ragged.rows == FactorRule::kNone || Has(ragged.groups, FactorRule::kNone)) {
    return Refused("input ", first, " is ", inputs[first].ToString(), ", which is repeated along a larger operand");
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].is_ragged()) continue;
    const bool alike = inputs[i].ragged == inputs[first].ragged && BeginsWith(ragged, ragged.rule.inputs[i]);
    if (!alike) {
      return Refused("inputs ", first, " and ", i, ", ", inputs[first].ToString(), " and ", inputs[i].ToString(),
                     ", have different rows");
    }
  }
  return absl::OkStatus();
}

// Whether rows of zeros add nothing: the op is linear in operands that all have the rows, padded.
bool ZerosAddNothing(const RaggedRule& ragged, absl::Span<const TensorType> inputs) {
  const auto padded = [&](int i) { return inputs[i].is_ragged(); };
  return ragged.rule.letters[ragged.rows].mark != FactorRule::Mark::kMax &&
         ragged.rule.letters[ragged.rows].mark != FactorRule::Mark::kMin &&
         std::any_of(ragged.rule.linear.begin(), ragged.rule.linear.end(),
                     [&](const std::vector<int>& set) { return std::all_of(set.begin(), set.end(), padded); });
}

// Whether what belongs to a group of an output is a run of its memory, all of the rows if it has them.
bool SumLiesByGroups(const RaggedRule& ragged, const std::vector<int>& dims) {
  std::vector<int> groups = dims;
  if (ragged.keeps_rows) groups.erase(std::find(groups.begin(), groups.end(), ragged.rows));
  const bool rows_follow = !ragged.keeps_rows || dims[NumGroupDims(ragged, dims)] == ragged.rows;
  return rows_follow && !Has(groups, ragged.rows) && LiesByGroups(ragged, groups);
}

// Whether every output has the same groups, or rows of them, and what has no rows belongs to these: then the others can
// be added in any order or, where outputs have no rows, lie one behind the other as one.
bool SumsByGroups(RaggedRule& ragged) {
  const FactorRule& rule = ragged.rule;
  ragged.kept.clear();
  for (const int group : ragged.groups) ragged.kept.push_back(Has(rule.outputs[0], group));
  ragged.keeps_rows = Has(rule.outputs[0], ragged.rows);
  for (const std::vector<int>& dims : rule.outputs) {
    for (size_t g = 0; g < ragged.groups.size(); ++g) {
      if (Has(dims, ragged.groups[g]) != ragged.kept[g]) return false;
    }
    if (Has(dims, ragged.rows) != ragged.keeps_rows || !SumLiesByGroups(ragged, dims)) return false;
  }
  const auto is_sum = [&](int letter) { return rule.letters[letter].mark == FactorRule::Mark::kSum; };
  if (!ragged.keeps_rows && !is_sum(ragged.rows)) return false;
  for (size_t g = 0; g < ragged.groups.size(); ++g) {
    const auto is_foreign = [&](const std::vector<int>& dims) {
      return Has(dims, ragged.groups[g]) && !Has(dims, ragged.rows);
    };
    if (ragged.kept[g]) continue;
    if (!is_sum(ragged.groups[g]) || std::any_of(rule.inputs.begin(), rule.inputs.end(), is_foreign)) return false;
  }
  return std::all_of(rule.inputs.begin(), rule.inputs.end(),
                     [&](const std::vector<int>& dims) { return LiesByGroups(ragged, dims); });
}

// Whether addends of several groups would be rounded one by one.
bool RoundsAddends(const RaggedRule& ragged, absl::Span<const TensorType> outputs) {
  const bool adds = std::find(ragged.kept.begin(), ragged.kept.end(), false) != ragged.kept.end();
  return adds && ragged.keeps_rows && std::any_of(outputs.begin(), outputs.end(), [](const TensorType& y) {
           return SizeOf(y.dtype) < SizeOf(DType::kFloat32);
         });
}

}  // namespace

int NumGroupDims(const RaggedRule& rule, const std::vector<int>& letters) {
  const auto end = std::find_if(letters.begin(), letters.end(),
                                [&](int letter) { return letter != FactorRule::kNone && !Has(rule.groups, letter); });
  return static_cast<int>(end - letters.begin());
}

bool LiesByGroups(const RaggedRule& rule, const std::vector<int>& letters) {
  const size_t first = NumGroupDims(rule, letters);
  const bool has_rows = first < letters.size() && letters[first] == rule.rows;
  for (size_t d = first + has_rows; d < letters.size(); ++d) {
    if (letters[d] == rule.rows || Has(rule.groups, letters[d])) return false;
  }
  // Rows lie one behind the other only within a group.
  return !has_rows || std::all_of(rule.groups.begin(), rule.groups.end(), [&](int g) { return Has(letters, g); });
}

TensorType Dense(const TensorType& type) { return {type.dtype, type.shape}; }

TensorType CountsType(const TensorType& type) {
  const std::vector<int64_t>& dims = type.shape.dims();
  return {DType::kInt32, Shape(std::vector<int64_t>(dims.begin(), dims.begin() + type.ragged))};
}

bool AnyRagged(absl::Span<const TensorType> types) { return FirstRagged(types) >= 0; }

bool TakesCounts(const OpDef& op, absl::Span<const TensorType> inputs) {
  return op.ragged != RaggedUse::kOwn && AnyRagged(inputs);
}

ValueId CountsOf(const Graph& graph, ValueId value) { return graph.node(graph.value(value).producer).inputs.back(); }

std::vector<ValueId> WithCounts(const Graph& graph, ValueId value) {
  if (!graph.value(value).type.is_ragged()) return {value};
  return {value, CountsOf(graph, value)};
}

absl::Span<const ValueId> InputsOfOp(const Graph& graph, const Node& node, const OpRegistry& ops) {
  const OpDef* const op = ops.Find(node.op);
  const bool ragged =
      std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId id) { return graph.value(id).type.is_ragged(); });
  const absl::Span<const ValueId> inputs = node.inputs;
  return ragged && op != nullptr && op->ragged != RaggedUse::kOwn ? inputs.first(inputs.size() - 1) : inputs;
}

DistType CountsDist(const TensorType& type, const DistType& dist) {
  DistType counts = dist;
  for (Sbp& sbp : counts.sbp) {
    if (sbp.is_mean()) continue;  // rows of its own on each rank, and their counts
    if (!sbp.is_split() || sbp.dim() >= type.ragged) sbp = Sbp::Broadcast();
  }
  return counts;
}

absl::StatusOr<RaggedRule> RaggedRuleOf(const OpDef& op, const InferContext& context) {
  const absl::Span<const TensorType> inputs = context.inputs;
  const std::vector<TensorType> dense = AllDense(inputs);
  OF_ASSIGN_OR_RETURN(const std::vector<TensorType> outputs, op.infer({dense, context.attrs, context.of_shards}));
  OF_ASSIGN_OR_RETURN(std::optional<FactorRule> rule, FactorRuleOf(op, dense, outputs, context.attrs));
  if (!rule.has_value()) {
    const int first = FirstRagged(inputs);
    return Refused("input ", first, " is ", inputs[first].ToString(),
                   ", but the op takes no ragged operands; pad_rows makes them dense");
  }
  if (outputs.empty()) {
    return Refused("the op gives nothing, so that nobody would know which rows of input ", FirstRagged(inputs), ", ",
                   inputs[FirstRagged(inputs)].ToString(), ", are filled; pad_rows makes it dense");
  }
  RaggedRule ragged{*std::move(rule)};
  OF_RETURN_IF_ERROR(FindRows(inputs, ragged));
  if (ragged.rule.letters[ragged.rows].mark == FactorRule::Mark::kWhole) {
    return Refused("the op works along the ragged dimension of ", inputs[FirstRagged(inputs)].ToString(),
                   "; pad_rows makes it dense");
  }
  const bool knows_zeros = op.ragged == RaggedUse::kSums || op.ragged == RaggedUse::kPads;
  ragged.sums = knows_zeros;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const std::vector<int>& dims = ragged.rule.outputs[i];
    if (!Has(dims, ragged.rows)) {
      if (op.ragged == RaggedUse::kRows) {
        return Refused("'", op.name, "' over the ragged rows of ", inputs[FirstRagged(inputs)].ToString(),
                       " would count those that are not filled; reduce_sum does not, and the counts say how many are");
      }
      ragged.sums = true;
    } else if (!knows_zeros && !BeginsWith(ragged, dims)) {
      return Refused("output ", i, " would be ", outputs[i].ToString(),
                     ", whose ragged rows are behind other dimensions");
    }
  }
  ragged.by_groups =
      ragged.sums && op.ragged != RaggedUse::kPads && SumsByGroups(ragged) && !RoundsAddends(ragged, outputs);
  if (ragged.sums && !knows_zeros && !ZerosAddNothing(ragged, inputs)) {
    return Refused("the op reduces the ragged dimension of ", inputs[FirstRagged(inputs)].ToString(),
                   ", and rows of zeros would change the result; pad_rows says that they may");
  }
  return ragged;
}

namespace {

absl::Status CheckRanks(absl::Span<const TensorType> types, absl::string_view side) {
  for (size_t i = 0; i < types.size(); ++i) {
    if (types[i].shape.rank() <= kMaxDims) continue;
    return Refused(side, " ", i, " has ", types[i].shape.rank(), " dimensions: ", types[i].ToString(),
                   "; the most are ", kMaxDims);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<TensorType>> InferAnyTypes(const OpDef& op, const InferContext& context) {
  if (!TakesCounts(op, context.inputs)) return op.infer(context);
  const absl::Span<const TensorType> inputs = context.inputs.first(context.inputs.size() - 1);
  const TensorType& counts = context.inputs.back();
  const int first = FirstRagged(inputs);
  if (first < 0) return Refused("the counts are ragged themselves: ", counts.ToString());
  if (counts != CountsType(inputs[first])) {
    return Refused("the last input is ", counts.ToString(), " but input ", first, ", which is ",
                   inputs[first].ToString(), ", has counts ", CountsType(inputs[first]).ToString());
  }
  const std::vector<TensorType> dense = AllDense(inputs);
  OF_ASSIGN_OR_RETURN(std::vector<TensorType> outputs, op.infer({dense, context.attrs, context.of_shards}));
  OF_ASSIGN_OR_RETURN(const RaggedRule ragged, RaggedRuleOf(op, {inputs, context.attrs, context.of_shards}));
  if (ragged.by_groups) return outputs;
  if (ragged.sums) return Refused("the op adds ragged rows up, of ", inputs[first].ToString(), ": pad_rows first");
  for (TensorType& output : outputs) output.ragged = static_cast<int>(ragged.groups.size());
  return outputs;
}

}  // namespace

absl::StatusOr<std::vector<TensorType>> InferTypes(const OpDef& op, const InferContext& context) {
  OF_RETURN_IF_ERROR(CheckRanks(context.inputs, "input"));
  OF_ASSIGN_OR_RETURN(std::vector<TensorType> outputs, InferAnyTypes(op, context));
  OF_RETURN_IF_ERROR(CheckRanks(outputs, "output"));
  return outputs;
}

}  // namespace oneflow
