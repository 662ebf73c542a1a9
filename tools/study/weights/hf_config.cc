#include "tools/study/weights/hf_config.h"

#include <algorithm>
#include <cstdint>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "tools/job/read_text.h"

namespace oneflow {
namespace {

using Json = nlohmann::json;

// Of lists and objects in config.json: copying a value takes stack for each.
constexpr int kMostNesting = 100;

// Of a text of the table, which was checked.
Json FromTable(const std::string& text) { return Json::parse(text, nullptr, /*allow_exceptions=*/false); }

Json ToJson(const Attr& attr) {
  return std::visit([](const auto& value) { return Json(value); }, attr);
}

// 500000 and 500000.0 are the same.
bool Same(const Json& a, const Json& b) {
  if (a.is_number() && b.is_number()) return a.get<double>() == b.get<double>();
  return a == b;
}

// The field at a path with dots; null: config.json has none.
const Json* Find(const Json& config, const std::string& path) {
  const Json* at = &config;
  for (const absl::string_view name : absl::StrSplit(path, '.')) {
    if (!at->is_object()) return nullptr;
    const auto it = at->find(std::string(name));
    if (it == at->end()) return nullptr;
    at = &*it;
  }
  return at;
}

bool IsZero(const Json& json) { return json.is_number() && json.get<double>() == 0; }

// What the term is of the values of fields. InvalidArgument if these are no whole numbers, or do not divide.
template <typename Value>
absl::StatusOr<Json> Evaluate(const pb::Term& term, const Value& value_of) {
  const auto whole = [&](const std::string& name) -> absl::StatusOr<int64_t> {
    OF_ASSIGN_OR_RETURN(const Json value, value_of(name));
    if (value.is_number_integer() && value >= 0 && value < (int64_t{1} << 31)) return value.template get<int64_t>();
    return absl::InvalidArgumentError(absl::StrCat("'", name, "' is ", ValueText(value), ", and no whole number"));
  };
  OF_ASSIGN_OR_RETURN(int64_t result, whole(term.of()));
  result *= std::max<int64_t>(1, term.times());
  if (term.over().empty()) return Json(result);
  OF_ASSIGN_OR_RETURN(const int64_t over, whole(term.over()));
  if (over > 0 && result % over == 0) return Json(result / over);
  return absl::InvalidArgumentError(absl::StrCat("'", term.of(), "' is no multiple of '", term.over(), "', ", over));
}

bool IsOf(const pb::ConfigField& field, const pb::Family& family) {
  return field.families().empty() ||
         std::find(field.families().begin(), field.families().end(), family.model_type()) != field.families().end();
}

absl::StatusOr<Json> OurField(const AttrMap& fields, const std::string& name) {
  const auto it = fields.items().find(name);
  if (it != fields.items().end()) return ToJson(it->second);
  return absl::InvalidArgumentError(absl::StrCat("the model has no value of its field '", name, "'"));
}

bool IsSo(const pb::FieldIs& condition, const AttrMap& fields) {
  const absl::StatusOr<Json> ours = OurField(fields, condition.ours());
  return ours.ok() && Same(*ours, FromTable(condition.is()));
}

bool Allow(const pb::Family& family, const AttrMap& fields) {
  return std::all_of(family.where().begin(), family.where().end(),
                     [&](const pb::FieldIs& field) { return IsSo(field, fields); });
}

// Whether the field is one of such a model of the family.
bool IsOf(const pb::ConfigField& field, const pb::Family& family, const AttrMap& fields) {
  const auto so = [&](const pb::FieldIs& condition) { return IsSo(condition, fields); };
  return IsOf(field, family) && (field.where().empty() || std::any_of(field.where().begin(), field.where().end(), so));
}

// Our value as theirs would say it.
absl::StatusOr<Json> Ours(const pb::ConfigField& field, const AttrMap& fields) {
  if (!field.value().empty()) return FromTable(field.value());
  const auto of = [&](const std::string& name) { return OurField(fields, name); };
  if (!field.ours_list().empty()) {
    Json list = Json::array();
    for (const pb::Term& term : field.ours_list()) {
      OF_ASSIGN_OR_RETURN(const Json element, Evaluate(term, of));
      list.push_back(element);
    }
    return list;
  }
  if (!field.ours().empty()) {
    absl::StatusOr<Json> said = of(field.ours());
    const bool is_unset = !said.ok() || IsZero(*said);
    if (!field.has_ours_unset() || !is_unset) {
      OF_RETURN_IF_ERROR(said.status());
      for (const pb::SameValue& same : field.values()) {
        if (Same(FromTable(same.ours()), *said)) return FromTable(same.theirs());
      }
      return said;
    }
  }
  return Evaluate(field.ours_unset(), of);
}

const pb::ConfigField* FieldNamed(const Mapping& mapping, const pb::Family& family, const std::string& theirs) {
  for (const pb::ConfigField& field : mapping.table.fields()) {
    if (IsOf(field, family) && !field.theirs().empty() && field.theirs(0) == theirs) return &field;
  }
  return nullptr;
}

// What config.json says of the field, with its default. `depth` ends terms that go round in a circle.
absl::StatusOr<Json> Theirs(const Mapping& mapping, const pb::Family& family, const pb::ConfigField& field,
                            const Json& config, int depth = 0) {
  for (const std::string& path : field.theirs()) {
    const Json* const said = Find(config, path);
    if (said == nullptr || (said->is_null() && field.has_absent_term())) continue;
    return *said;
  }
  if (field.has_absent_term()) {
    if (depth > 8) return absl::InvalidArgumentError(absl::StrCat("'", field.theirs(0), "': its default has no end"));
    return Evaluate(field.absent_term(), [&](const std::string& name) -> absl::StatusOr<Json> {
      if (const pb::ConfigField* const other = FieldNamed(mapping, family, name); other != nullptr) {
        return Theirs(mapping, family, *other, config, depth + 1);
      }
      if (const Json* const said = Find(config, name); said != nullptr) return *said;
      return absl::InvalidArgumentError(absl::StrCat("has no '", name, "'"));
    });
  }
  if (!field.absent().empty()) return FromTable(field.absent());
  return absl::InvalidArgumentError(absl::StrCat("has no '", field.theirs(0), "'"));
}

// Of several names that they have for one value of ours, the first.
Json FirstName(const pb::ConfigField& field, const Json& theirs) {
  for (const pb::SameValue& same : field.values()) {
    if (!Same(FromTable(same.theirs()), theirs)) continue;
    for (const pb::SameValue& first : field.values()) {
      if (first.ours() == same.ours()) return FromTable(first.theirs());
    }
  }
  return theirs;
}

bool Agree(const pb::ConfigField& field, const Json& theirs, const Json& ours) {
  if (field.relation() == pb::ConfigField::AT_LEAST && theirs.is_number() && ours.is_number()) {
    return theirs.get<double>() >= ours.get<double>();
  }
  return Same(theirs, ours);
}

// Sets the field at a path with dots.
void Set(nlohmann::ordered_json& config, const std::string& path, const Json& value) {
  nlohmann::ordered_json* at = &config;
  for (const absl::string_view name : absl::StrSplit(path, '.')) at = &(*at)[std::string(name)];
  *at = value;
}

std::string ConditionsOf(const pb::Family& family) {
  return absl::StrCat(family.model_type(), " (",
                      absl::StrJoin(family.where(), ", ",
                                    [](std::string* out, const pb::FieldIs& field) {
                                      absl::StrAppend(out, field.ours(), " is ", field.is());
                                    }),
                      ")");
}

}  // namespace

std::string ValueText(const nlohmann::json& value) {
  if (value.is_structured()) return value.is_array() ? "a list" : "an object";
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

absl::StatusOr<nlohmann::json> ReadHfConfig(const std::string& folder, const std::string& file) {
  const std::string path = absl::StrCat(folder, "/", file);
  OF_ASSIGN_OR_RETURN(const std::string text, ReadText("config of a model", path));
  bool too_deep = false;
  Json config = Json::parse(
      text,
      [&too_deep](int depth, Json::parse_event_t, Json&) {
        too_deep |= depth > kMostNesting;
        return !too_deep;
      },
      /*allow_exceptions=*/false);
  if (too_deep) {
    return absl::InvalidArgumentError(
        absl::StrCat("config of a model '", path, "': is nested more than ", kMostNesting, " deep"));
  }
  if (config.is_object()) return config;
  return absl::InvalidArgumentError(absl::StrCat("config of a model '", path, "': is not a JSON object"));
}

const pb::Family* FamilyOf(const Mapping& mapping, const nlohmann::json& config, const AttrMap& fields) {
  const Json* const type = Find(config, "model_type");
  const Json* const architectures = Find(config, "architectures");
  const auto is_of = [&](const pb::Family& family) {
    if (type != nullptr && type->is_string()) return *type == family.model_type();
    if (architectures == nullptr || !architectures->is_array() || family.architecture().empty()) return false;
    return std::find(architectures->begin(), architectures->end(), family.architecture()) != architectures->end();
  };
  const pb::Family* first = nullptr;
  for (const pb::Family& family : mapping.table.families()) {
    if (!is_of(family)) continue;
    if (Allow(family, fields)) return &family;
    if (first == nullptr) first = &family;
  }
  return first;
}

absl::StatusOr<const pb::Family*> FamilyFor(const Mapping& mapping, const AttrMap& fields) {
  for (const pb::Family& family : mapping.table.families()) {
    if (Allow(family, fields)) return &family;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "mapping '", mapping.name, "': the model is of none of its families: ",
      absl::StrJoin(mapping.table.families(), ", ",
                    [](std::string* out, const pb::Family& family) { out->append(ConditionsOf(family)); })));
}

absl::StatusOr<std::vector<ConfigDifference>> CompareConfig(const Mapping& mapping, const pb::Family& family,
                                                            const nlohmann::json& config, const AttrMap& fields) {
  std::vector<ConfigDifference> differences;
  for (const pb::FieldIs& field : family.where()) {
    OF_ASSIGN_OR_RETURN(const Json ours, OurField(fields, field.ours()));
    const Json theirs = FromTable(field.is());
    if (Same(theirs, ours)) continue;
    differences.push_back({absl::StrCat("model_type \"", family.model_type(), "\", where ", field.ours()),
                           ValueText(theirs), field.ours(), ValueText(ours)});
  }
  for (const pb::ConfigField& field : mapping.table.fields()) {
    if (field.relation() == pb::ConfigField::WRITTEN || !IsOf(field, family, fields)) continue;
    const std::string where = absl::StrCat("field '", field.theirs(0), "'");
    OF_ASSIGN_OR_RETURN_AT(const Json theirs, Theirs(mapping, family, field, config), where);
    OF_ASSIGN_OR_RETURN_AT(const Json ours, Ours(field, fields), where);
    if (!Agree(field, FirstName(field, theirs), ours)) {
      differences.push_back({field.theirs(0), ValueText(theirs), field.ours(), ValueText(ours)});
    }
  }
  return differences;
}

absl::StatusOr<nlohmann::ordered_json> MakeHfConfig(const Mapping& mapping, const pb::Family& family,
                                                    const AttrMap& fields, DType dtype) {
  nlohmann::ordered_json config;
  if (!family.architecture().empty()) config["architectures"] = {family.architecture()};
  config["model_type"] = family.model_type();
  config["dtype"] = dtype == DType::kFloat32 ? "float32" : dtype == DType::kBFloat16 ? "bfloat16" : "float16";
  for (const pb::ConfigField& field : mapping.table.fields()) {
    if (!IsOf(field, family, fields)) continue;
    if (!field.written_with().empty() && Find(Json(config), field.written_with()) == nullptr) continue;
    OF_ASSIGN_OR_RETURN_AT(const Json ours, Ours(field, fields), absl::StrCat("field '", field.theirs(0), "'"));
    const bool says_nothing = !field.absent().empty() && Same(FromTable(field.absent()), ours);
    if (field.relation() == pb::ConfigField::SPARSE && says_nothing) continue;
    Set(config, field.theirs(0), ours);
  }
  return config;
}

}  // namespace oneflow
