#include "tools/study/weights/correspondence.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"

namespace oneflow {
namespace {

// A variable that its rule places in a tensor of theirs.
struct Placed {
  int variable;
  const pb::WeightRule* rule;
  Shape shape;  // as theirs has it
};

// The rule for the variable and the tensor that it names; null: there is none.
absl::StatusOr<std::pair<const Mapping::Rule*, std::string>> RuleFor(const Mapping& mapping, const std::string& name) {
  std::pair<const Mapping::Rule*, std::string> found = {nullptr, ""};
  for (const Mapping::Rule& rule : mapping.rules) {
    const std::optional<NameNumbers> numbers = rule.ours.Match(name);
    if (!numbers.has_value()) continue;
    if (found.first != nullptr) {
      return absl::InvalidArgumentError(absl::StrCat("mapping '", mapping.name, "': variable '", name,
                                                     "' has two rules, '", found.first->ours.text(), "' and '",
                                                     rule.ours.text(), "'"));
    }
    found = {&rule, rule.theirs.Fill(*numbers)};
  }
  return found;
}

absl::StatusOr<Shape> Theirs(const pb::WeightRule& rule, const ModelVariable& variable) {
  const Shape& shape = variable.type.shape;
  const auto error = [&](absl::string_view what) {
    return absl::InvalidArgumentError(
        absl::StrCat("variable '", variable.name, "' is ", variable.type.ToString(), ", of which ", what));
  };
  if (rule.transpose() && shape.rank() != 2) return error("nothing can be transposed");
  if (rule.has_part() && rule.part().axis() >= shape.rank()) {
    return error(absl::StrCat("axis ", rule.part().axis(), " cannot be a part"));
  }
  if (rule.leading_rows() && shape.rank() == 0) return error("there are no rows");
  return rule.transpose() ? Shape{shape[1], shape[0]} : shape;
}

// One variable is the whole tensor.
absl::StatusOr<TheirTensor> Whole(const std::vector<Placed>& placed, const std::vector<ModelVariable>& variables) {
  if (placed.size() > 1) {
    return absl::InvalidArgumentError(absl::StrCat("variables '", variables[placed[0].variable].name, "' and '",
                                                   variables[placed[1].variable].name, "' are both all of it"));
  }
  const Shape& shape = placed[0].shape;
  TheirTensor tensor;
  tensor.shape = shape;
  tensor.leading_rows = placed[0].rule->leading_rows();
  tensor.pieces = {{placed[0].variable, placed[0].rule->transpose(), 0, 0, shape.rank() == 0 ? 1 : shape[0]}};
  return tensor;
}

// The sizes of all axes but one agree.
bool FitBeside(const Shape& a, const Shape& b, int axis) {
  if (a.rank() != b.rank()) return false;
  for (int d = 0; d < a.rank(); ++d) {
    if (d != axis && a[d] != b[d]) return false;
  }
  return true;
}

// Several variables follow one another.
absl::StatusOr<TheirTensor> Joined(std::vector<Placed> placed, const std::vector<ModelVariable>& variables) {
  const auto name = [&](const Placed& one) { return variables[one.variable].name; };
  std::sort(placed.begin(), placed.end(),
            [](const Placed& a, const Placed& b) { return a.rule->part().index() < b.rule->part().index(); });
  const pb::Part& first = placed[0].rule->part();
  const int axis = first.axis();
  TheirTensor tensor;
  std::vector<int64_t> dims = placed[0].shape.dims();
  dims[axis] = 0;
  for (const Placed& one : placed) {
    const pb::Part& part = one.rule->part();
    if (!one.rule->has_part() || part.axis() != axis || part.of() != first.of()) {
      return absl::InvalidArgumentError(
          absl::StrCat("'", name(placed[0]), "' and '", name(one), "' are parts of different numbers or axes"));
    }
    const int wanted = static_cast<int>(tensor.pieces.size());
    if (part.index() < wanted) {
      return absl::InvalidArgumentError(absl::StrCat("part ", part.index(), " is '", name(one), "' and another one"));
    }
    if (part.index() > wanted) {
      return absl::InvalidArgumentError(absl::StrCat("part ", wanted, " of ", first.of(), " is no variable"));
    }
    if (!FitBeside(one.shape, placed[0].shape, axis)) {
      return absl::InvalidArgumentError(absl::StrCat("'", name(placed[0]), "', ", placed[0].shape.ToString(), ", and '",
                                                     name(one), "', ", one.shape.ToString(),
                                                     ", do not fit together along axis ", axis));
    }
    tensor.pieces.push_back({one.variable, one.rule->transpose(), axis, dims[axis], one.shape[axis]});
    dims[axis] += one.shape[axis];
  }
  if (static_cast<int>(placed.size()) != first.of()) {
    return absl::InvalidArgumentError(absl::StrCat("part ", placed.size(), " of ", first.of(), " is no variable"));
  }
  tensor.shape = Shape(std::move(dims));
  return tensor;
}

}  // namespace

absl::StatusOr<Correspondence> Correspond(const Mapping& mapping, const std::vector<ModelVariable>& variables) {
  Correspondence result;
  std::map<std::string, std::vector<Placed>> by_tensor;
  for (int i = 0; i < static_cast<int>(variables.size()); ++i) {
    OF_ASSIGN_OR_RETURN(const auto rule, RuleFor(mapping, variables[i].name));
    if (rule.first == nullptr) {
      result.unnamed.push_back(i);
      continue;
    }
    OF_ASSIGN_OR_RETURN_AT(Shape shape, Theirs(rule.first->said, variables[i]),
                           absl::StrCat("mapping '", mapping.name, "'"));
    by_tensor[rule.second].push_back({i, &rule.first->said, std::move(shape)});
  }
  for (auto& [name, placed] : by_tensor) {
    const bool has_parts = placed[0].rule->has_part();
    OF_ASSIGN_OR_RETURN_AT(TheirTensor tensor, has_parts ? Joined(placed, variables) : Whole(placed, variables),
                           absl::StrCat("mapping '", mapping.name, "': tensor '", name, "'"));
    tensor.name = name;
    result.tensors.push_back(std::move(tensor));
  }
  return result;
}

}  // namespace oneflow
