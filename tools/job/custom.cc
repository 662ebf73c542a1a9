#include "tools/job/custom.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "google/protobuf/descriptor.h"
#include "oneflow_core/data/data_kind.h"
#include "oneflow_core/models/model.h"
#include "oneflow_core/optimizer_rules.h"

namespace oneflow {
namespace {

// What a plugin describes.
struct Described {
  std::vector<FieldDef> fields;
  std::vector<std::string> paths = {};  // of the fields, those that name files
  std::set<std::string> below = {};     // of the fields, those that are below their `most`
};

template <typename Rows>
std::string NamesOf(const Rows& rows) {
  return absl::StrJoin(rows, ", ", [](std::string* out, const auto& row) { out->append(row.name); });
}

// That the plugins add no `what` of this name, but these: the rows that are no messages of the config.
template <typename Table>
absl::Status Unknown(absl::string_view what, const std::string& name, const Table& table,
                     const google::protobuf::Descriptor& type) {
  std::vector<typename Table::value_type> added;
  for (const auto& row : table) {
    if (type.FindFieldByName(row.name) == nullptr) added.push_back(row);
  }
  return absl::InvalidArgumentError(absl::StrCat("the job's plugins add no ", what, " '", name, "'; they add ",
                                                 added.empty() ? "none" : NamesOf(added)));
}

Described DescribedBy(const OptimizerRule& rule) {
  Described described{{{.name = "weight_decay", .value = 0.0, .least = 0}}};
  for (const OptimizerAttribute& attribute : rule.attributes) {
    FieldDef& field = described.fields.emplace_back();
    field.name = attribute.name;
    if (attribute.is_flag) {
      field.value = attribute.value != 0;
    } else {
      field.value = attribute.value;
      field.least = 0;
      if (attribute.below > 0) {
        field.most = attribute.below;
        described.below.insert(field.name);
      }
    }
  }
  return described;
}

absl::StatusOr<Described> Find(const google::protobuf::Message& message, const std::string& name) {
  const google::protobuf::Descriptor* const type = message.GetDescriptor();
  if (type->FindFieldByName(name) != nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("'", name, "' is of no plugin: say ", name, " { ... } instead"));
  }
  if (type == pb::Model::descriptor()) {
    if (const ModelDef* const model = FindModel(name)) return Described{model->fields};
    return Unknown("model", name, Models(), *type);
  }
  if (type == pb::Data::descriptor()) {
    const absl::StatusOr<DataKind> kind = FindDataKind(name);
    if (kind.ok()) return Described{kind->fields, kind->paths};
    return Unknown("data", name, DataKinds(), *type);
  }
  if (const OptimizerRule* const rule = FindOptimizerRule(name)) return DescribedBy(*rule);
  return Unknown("optimizer", name, OptimizerRules(), *type);
}

absl::StatusOr<Attr> ParseValue(const std::string& text, const FieldDef& field, bool below) {
  const auto wrong = [&](absl::string_view type) {
    return absl::InvalidArgumentError(absl::StrCat(field.name, ": '", text, "' is no ", type));
  };
  if (std::holds_alternative<bool>(field.value)) {
    if (text == "true" || text == "false") return Attr(text == "true");
    return wrong("true or false");
  }
  if (std::holds_alternative<std::string>(field.value)) return Attr(text);
  if (std::holds_alternative<std::vector<int64_t>>(field.value)) {
    std::vector<int64_t> numbers;
    for (const absl::string_view part : absl::StrSplit(text, ',', absl::SkipEmpty())) {
      if (!absl::SimpleAtoi(part, &numbers.emplace_back())) return wrong("list of integers, such as 64,32");
    }
    return Attr(std::move(numbers));
  }
  double number = 0;
  int64_t integer = 0;
  const bool whole = std::holds_alternative<int64_t>(field.value);
  if (whole ? !absl::SimpleAtoi(text, &integer) : !absl::SimpleAtod(text, &number)) {
    return wrong(whole ? "integer" : "number");
  }
  const double value = whole ? static_cast<double>(integer) : number;
  if (!(value >= field.least && (below ? value < field.most : value <= field.most))) {
    return absl::InvalidArgumentError(
        absl::StrCat(field.name, ": ", text, " is not in [", field.least, ", ", field.most, below ? ")" : "]"));
  }
  return whole ? Attr(integer) : Attr(number);
}

}  // namespace

const pb::Custom* CustomOf(const google::protobuf::Message& message) {
  const auto* const field = message.GetDescriptor()->FindFieldByName("custom");
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  if (field == nullptr || !reflection.HasField(message, field)) return nullptr;
  return static_cast<const pb::Custom*>(&reflection.GetMessage(message, field));
}

absl::StatusOr<AttrMap> CustomFields(const google::protobuf::Message& message) {
  const pb::Custom& custom = *CustomOf(message);
  OF_ASSIGN_OR_RETURN(const Described described, Find(message, custom.name()));
  AttrMap values;
  for (const FieldDef& field : described.fields) values.Set(field.name, field.value);
  std::set<std::string> said;
  for (const std::string& text : custom.set()) {
    const std::pair<std::string, std::string> of = absl::StrSplit(text, absl::MaxSplits('=', 1));
    if (text.find('=') == std::string::npos) {
      return absl::InvalidArgumentError(absl::StrCat("'", text, "' is not of the form field=value"));
    }
    const auto field = std::find_if(described.fields.begin(), described.fields.end(),
                                    [&](const FieldDef& it) { return it.name == of.first; });
    if (field == described.fields.end()) {
      return absl::InvalidArgumentError(absl::StrCat("'", custom.name(), "' has no field '", of.first, "'; it has ",
                                                     described.fields.empty() ? "none" : NamesOf(described.fields)));
    }
    if (!said.insert(of.first).second) {
      return absl::InvalidArgumentError(absl::StrCat("'", of.first, "' is said twice"));
    }
    OF_ASSIGN_OR_RETURN(Attr value, ParseValue(of.second, *field, described.below.count(field->name) > 0));
    values.Set(of.first, std::move(value));
  }
  for (const std::string& path : described.paths) {
    std::error_code ignored;
    const std::string given = values.String(path);
    if (!given.empty()) values.Set(path, std::filesystem::absolute(given, ignored).lexically_normal().string());
  }
  return values;
}

std::vector<FieldHelp> FieldsOf(const std::vector<FieldDef>& fields) {
  std::vector<FieldHelp> helps;
  for (const FieldDef& field : fields) {
    FieldHelp& help = helps.emplace_back();
    help.path = field.name;
    help.help = field.help;
    const auto number = [&](auto value, const char* type) {
      help.type = type;
      help.usual = absl::StrCat(value);
      if (std::isfinite(field.least) || std::isfinite(field.most)) {
        help.allowed = absl::StrCat("[", field.least, ", ", field.most, "]");
      }
    };
    if (const auto* const integer = std::get_if<int64_t>(&field.value)) number(*integer, "int64");
    if (const auto* const real = std::get_if<double>(&field.value)) number(*real, "double");
    if (const auto* const flag = std::get_if<bool>(&field.value)) {
      help.type = "bool";
      help.usual = *flag ? "true" : "false";
    }
    if (const auto* const text = std::get_if<std::string>(&field.value)) {
      help.type = "string";
      if (!text->empty()) help.usual = absl::StrCat("'", *text, "'");
    }
    if (const auto* const list = std::get_if<std::vector<int64_t>>(&field.value)) {
      help.type = "list of int64";
      help.usual = absl::StrJoin(*list, ",");
    }
  }
  return helps;
}

void CheckCustom(const pb::JobConfig& config, Checker& check) {
  const auto look = [&](const google::protobuf::Message& message, const std::string& path) {
    if (CustomOf(message) == nullptr) return;
    const absl::Status status = CustomFields(message).status();
    check.Require(status.ok(), path + ".custom", status.message());
  };
  look(config.model(), "model");
  look(config.data(), "data");
  look(config.train().optimizer(), "train.optimizer");
  for (int i = 0; i < config.train().optimizer().groups_size(); ++i) {
    look(config.train().optimizer().groups(i), absl::StrCat("train.optimizer.groups[", i, "]"));
  }
}

}  // namespace oneflow
