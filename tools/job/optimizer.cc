#include "tools/job/optimizer.h"

#include <string>
#include <variant>

#include "absl/strings/str_cat.h"
#include "compiler/adapters.h"
#include "compiler/parameter_groups.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "tools/job/attributes.h"
#include "tools/job/custom.h"

namespace oneflow {
namespace {

using google::protobuf::FieldDescriptor;

// What the message's `kind` says of the rule; nothing where it says none.
void TakeRule(const google::protobuf::Message& message, UpdateOptions& options) {
  const FieldDescriptor* const kind = KindOf(message);
  if (kind == nullptr) return;
  options.rule = KindNameOf(message);
  options.attributes = AttrMap();
  if (CustomOf(message) != nullptr) {
    const AttrMap fields = AttributesOfKind(message);
    for (const auto& [name, value] : fields.items()) {
      if (name == "weight_decay") {
        options.weight_decay = std::get<double>(value);
      } else {
        options.attributes.Set(name, value);
      }
    }
    return;
  }
  const google::protobuf::Message& rule = message.GetReflection()->GetMessage(message, kind);
  const google::protobuf::Reflection& fields = *rule.GetReflection();
  for (int i = 0; i < kind->message_type()->field_count(); ++i) {
    const FieldDescriptor* const field = kind->message_type()->field(i);
    if (field->name() == "weight_decay") {
      options.weight_decay = fields.GetDouble(rule, field);
    } else if (field->has_presence() && !fields.HasField(rule, field)) {
      continue;
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_BOOL) {
      options.attributes.Set(field->name(), fields.GetBool(rule, field));
    } else {
      options.attributes.Set(field->name(), fields.GetDouble(rule, field));
    }
  }
}

// Of the message that `kind` names; 0 where there is none.
double WeightDecayOf(const google::protobuf::Message& message) {
  UpdateOptions options;
  TakeRule(message, options);
  return options.weight_decay;
}

}  // namespace

OptimizerOptions OptimizerOf(const pb::Optimizer& optimizer) {
  OptimizerOptions options;
  options.clip_norm = optimizer.clip_norm();
  TakeRule(optimizer, options);
  for (const pb::ParameterGroup& said : optimizer.groups()) {
    ParameterGroup group;
    static_cast<UpdateOptions&>(group) = options;
    group.match = said.match();
    group.frozen = said.frozen();
    group.ascent = said.ascent();
    if (said.has_rate()) group.rate = said.rate();
    TakeRule(said, group);
    group.is_own_rule = KindOf(said) != nullptr;
    if (said.has_weight_decay()) {
      group.weight_decay = said.weight_decay();
      group.decays_vectors = true;
    }
    options.groups.push_back(std::move(group));
  }
  return options;
}

std::optional<AdapterOptions> AdaptersOf(const pb::Train& train) {
  if (!train.has_lora()) return std::nullopt;
  const pb::Lora& lora = train.lora();
  return AdapterOptions{.match = {lora.match().begin(), lora.match().end()},
                        .rank = lora.rank(),
                        .alpha = lora.has_alpha() ? lora.alpha() : lora.rank(),
                        .dropout = lora.dropout(),
                        .also = {lora.also().begin(), lora.also().end()}};
}

absl::Status AdaptProgram(const SourcedConfig& config, const OpRegistry& ops, Program& program) {
  const std::optional<AdapterOptions> adapters = AdaptersOf(config.config.train());
  if (!adapters.has_value()) return absl::OkStatus();
  return Annotate(AddAdapters(*adapters, ops, program), config.Where("train.lora"));
}

void CheckOptimizer(const pb::Optimizer& optimizer, Checker& check) {
  const std::string path = "train.optimizer";
  const auto check_sgd = [&](const pb::Sgd& sgd, const std::string& of) {
    check.Require(!sgd.nesterov() || sgd.momentum() > 0, of + ".sgd.nesterov", "needs a momentum > 0");
  };
  check_sgd(optimizer.sgd(), path);
  for (int i = 0; i < optimizer.groups_size(); ++i) {
    const pb::ParameterGroup& group = optimizer.groups(i);
    const std::string of = absl::StrCat(path, ".groups[", i, "]");
    check_sgd(group.sgd(), of);
    const FieldDescriptor* const kind = KindOf(group);
    const std::string frozen = "is given, but the group is frozen";
    check.Require(!group.frozen() || !group.has_rate(), of + ".rate", frozen);
    check.Require(!group.frozen() || !group.has_weight_decay(), of + ".weight_decay", frozen);
    check.Require(!group.frozen() || !group.ascent(), of + ".ascent", frozen);
    check.Require(!group.frozen() || kind == nullptr, absl::StrCat(of, ".", kind == nullptr ? "" : kind->name()),
                  frozen);
    const double of_rule = WeightDecayOf(group);
    check.Require(!group.has_weight_decay() || of_rule == 0, of + ".weight_decay",
                  absl::StrCat(group.weight_decay(), " is given beside ", kind == nullptr ? "" : kind->name(),
                               ".weight_decay, ", of_rule));
  }
}

absl::Status CheckGroups(const SourcedConfig& config, const OptimizerOptions& optimizer, const Program& program,
                         const OpRegistry& ops) {
  for (const Graph& graph : program) {
    if (!graph.is_trained()) continue;
    for (size_t i = 0; i < optimizer.groups.size(); ++i) {
      OF_RETURN_IF_ERROR_AT(CheckGroup(optimizer, static_cast<int>(i), graph, ops),
                            config.Where(absl::StrCat("train.optimizer.groups[", i, "].match")));
    }
  }
  return absl::OkStatus();
}

}  // namespace oneflow
