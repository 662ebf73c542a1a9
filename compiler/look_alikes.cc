#include "compiler/look_alikes.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace oneflow {
namespace {

// The attributes on which a node's signatures may depend: those for random numbers do not matter.
std::string AttributesText(const Node& node) {
  std::string text;
  for (const auto& [name, attr] : node.attrs.items()) {
    if (name == "init" || name == "seed" || name == "key") continue;
    absl::StrAppend(&text, ";", name, "=");
    if (const auto* b = std::get_if<bool>(&attr)) absl::StrAppend(&text, *b);
    if (const auto* i = std::get_if<int64_t>(&attr)) absl::StrAppend(&text, *i);
    if (const auto* d = std::get_if<double>(&attr)) absl::StrAppend(&text, *d);
    if (const auto* s = std::get_if<std::string>(&attr)) absl::StrAppend(&text, *s);
    if (const auto* v = std::get_if<std::vector<int64_t>>(&attr)) absl::StrAppend(&text, absl::StrJoin(*v, " "));
  }
  return text;
}

}  // namespace

std::vector<int> LookAlikes::Key(const Node& node) {
  std::vector<int> key{Number(node.op), Number(AttributesText(node)), static_cast<int>(node.inputs.size())};
  for (ValueId input : node.inputs) key.push_back(TypeNumber(input));
  for (ValueId output : node.outputs) key.push_back(TypeNumber(output));
  return key;
}

int LookAlikes::Number(const std::string& text) {
  return texts_.try_emplace(text, static_cast<int>(texts_.size())).first->second;
}

int LookAlikes::TypeNumber(ValueId value) {
  const TensorType& type = graph_.value(value).type;
  return types_.try_emplace({type.dtype, type.shape.dims(), type.ragged}, static_cast<int>(types_.size()))
      .first->second;
}

}  // namespace oneflow
