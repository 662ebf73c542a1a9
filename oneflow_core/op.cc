#include "oneflow_core/op.h"

#include "glog/logging.h"

namespace oneflow {

bool RunsOnOneRank(const OpDef& op) {
  return op.kind == OpKind::kFetch || (op.kind == OpKind::kCall && op.rule.empty() && op.rule_for == nullptr);
}

void OpRegistry::Add(OpDef def) {
  CHECK(Find(def.name) == nullptr) << "op '" << def.name << "' is defined twice";
  CHECK(def.infer != nullptr) << "op '" << def.name << "' has no type inference";
  ops_.emplace(def.name, std::move(def));
}

const OpDef* OpRegistry::Find(absl::string_view name) const {
  const auto it = ops_.find(name);
  return it == ops_.end() ? nullptr : &it->second;
}

absl::StatusOr<const OpDef*> OpRegistry::Get(absl::string_view name) const {
  if (const OpDef* def = Find(name)) return def;
  return absl::InvalidArgumentError(absl::StrCat("no op '", name, "'"));
}

double FlopsOf(const OpDef& op, absl::Span<const TensorType> inputs, absl::Span<const TensorType> outputs,
               const AttrMap& attrs) {
  if (op.flops != nullptr) return op.flops(inputs, outputs, attrs);
  double elements = 0;
  for (const TensorType& output : outputs) elements += static_cast<double>(output.shape.count());
  return elements;
}

std::vector<int> BlockGroups(const OpDef& op, absl::Span<const TensorType> inputs, absl::Span<const TensorType> outputs,
                             const AttrMap& attrs) {
  if (op.blocks != nullptr) return op.blocks(inputs, outputs, attrs);
  return std::vector<int>(inputs.size() + outputs.size(), -1);
}

absl::Status CheckLayouts(absl::Span<const int> groups, absl::Span<const MemoryLayout> layouts) {
  if (groups.size() != layouts.size()) {
    return absl::InvalidArgumentError(absl::StrCat(layouts.size(), " operands, the op has ", groups.size()));
  }
  for (size_t i = 0; i < groups.size(); ++i) {
    if (groups[i] < 0 && layouts[i] != MemoryLayout::kRowMajor) {
      return absl::InvalidArgumentError(absl::StrCat("operand ", i, " lies in blocks, but must be row-major"));
    }
    for (size_t j = 0; j < i; ++j) {
      if (groups[i] < 0 || groups[j] != groups[i] || layouts[j] == layouts[i]) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("operands ", j, " and ", i, " must lie alike, but only one of them lies in blocks"));
    }
  }
  return absl::OkStatus();
}

OpKind OpRegistry::KindOf(absl::string_view name) const {
  const OpDef* const def = Find(name);
  return def == nullptr ? OpKind::kCompute : def->kind;
}

}  // namespace oneflow
