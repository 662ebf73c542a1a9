#include "oneflow_core/op.h"

#include "glog/logging.h"

namespace oneflow {

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

OpKind OpRegistry::KindOf(absl::string_view name) const {
  const OpDef* const def = Find(name);
  return def == nullptr ? OpKind::kCompute : def->kind;
}

}  // namespace oneflow
