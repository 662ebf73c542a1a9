#include "tools/study/weights/mapping.h"

#include <fnmatch.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "google/protobuf/text_format.h"
#include "nlohmann/json.hpp"
#include "proto/job.pb.h"
#include "tools/job/first_error.h"
#include "tools/job/read_text.h"

namespace oneflow {

// The files of mappings/ by their stems, from the build.
std::map<std::string, std::string_view> EmbeddedMappings();

namespace {

constexpr int64_t kMostTimes = 1'000'000;  // so that a product with a field cannot overflow

absl::Status CheckRule(const pb::WeightRule& rule, const Mapping::Rule& names) {
  if (rule.ours().empty() || rule.theirs().empty()) return absl::InvalidArgumentError("'ours' or 'theirs' is missing");
  if (names.ours.has_offsets()) return absl::InvalidArgumentError("'ours' adds something to a number");
  if (!names.theirs.UsesOnly(names.ours)) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", rule.theirs(), "' has a number that '", rule.ours(), "' does not have"));
  }
  const pb::Part& part = rule.part();
  if (rule.has_part() && (part.axis() < 0 || part.index() < 0 || part.index() >= part.of())) {
    return absl::InvalidArgumentError(
        absl::StrCat("part ", part.index(), " of ", part.of(), " along axis ", part.axis(), " is none"));
  }
  if (rule.leading_rows() && (rule.has_part() || rule.transpose())) {
    return absl::InvalidArgumentError("leading_rows goes with neither 'part' nor 'transpose'");
  }
  return absl::OkStatus();
}

absl::Status CheckJson(const std::string& text) {
  if (text.empty() || nlohmann::json::accept(text)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("'", text, "' is not JSON"));
}

// The message of the model; null: the model is a graph of one's own, or there is none of that name.
const google::protobuf::Descriptor* FieldsOfModel(const std::string& model) {
  const google::protobuf::FieldDescriptor* const field = pb::Model::descriptor()->FindFieldByName(model);
  return field == nullptr ? nullptr : field->message_type();
}

absl::Status CheckOurs(const google::protobuf::Descriptor* model, const std::string& field) {
  if (model == nullptr || field.empty() || model->FindFieldByName(field) != nullptr) return absl::OkStatus();
  if (std::count(std::begin(kFieldsOfImages), std::end(kFieldsOfImages), field) > 0) return absl::OkStatus();
  if (field == kKindOfData) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("model ", model->name(), " has no field '", field, "'"));
}

absl::Status CheckTimes(const pb::Term& term) {
  if (term.times() >= 0 && term.times() <= kMostTimes) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("times ", term.times(), " is not in [0, ", kMostTimes, "]"));
}

absl::Status CheckField(const pb::ConfigField& field, const google::protobuf::Descriptor* model) {
  if (field.theirs().empty()) return absl::InvalidArgumentError("'theirs' is missing");
  if (field.value().empty() && field.ours().empty() && !field.has_ours_unset() && field.ours_list().empty()) {
    return absl::InvalidArgumentError("says neither 'value' nor 'ours' nor 'ours_unset' nor 'ours_list'");
  }
  for (const std::string* const text : {&field.value(), &field.absent()}) OF_RETURN_IF_ERROR(CheckJson(*text));
  std::vector<pb::Term> terms(field.ours_list().begin(), field.ours_list().end());
  terms.push_back(field.ours_unset());
  for (const pb::Term& term : terms) {
    OF_RETURN_IF_ERROR(CheckTimes(term));
    for (const std::string* const ours : {&term.of(), &term.over()}) OF_RETURN_IF_ERROR(CheckOurs(model, *ours));
  }
  OF_RETURN_IF_ERROR(CheckTimes(field.absent_term()));
  for (const pb::SameValue& same : field.values()) {
    OF_RETURN_IF_ERROR(CheckJson(same.theirs()));
    OF_RETURN_IF_ERROR(CheckJson(same.ours()));
  }
  for (const pb::FieldIs& condition : field.where()) {
    OF_RETURN_IF_ERROR(CheckOurs(model, condition.ours()));
    OF_RETURN_IF_ERROR(CheckJson(condition.is()));
  }
  return CheckOurs(model, field.ours());
}

bool HasFamily(const pb::WeightMapping& table, const std::string& model_type) {
  return std::any_of(table.families().begin(), table.families().end(),
                     [&](const pb::Family& family) { return family.model_type() == model_type; });
}

absl::Status CheckTable(const pb::WeightMapping& table) {
  if (table.model().empty()) return absl::InvalidArgumentError("model: is missing");
  if (table.families().empty()) return absl::InvalidArgumentError("families: there is none");
  if (table.rules().empty()) return absl::InvalidArgumentError("rules: there is none");
  const google::protobuf::Descriptor* const model = FieldsOfModel(table.model());
  for (const pb::Family& family : table.families()) {
    if (family.model_type().empty()) return absl::InvalidArgumentError("families: a model_type is missing");
    for (const pb::FieldIs& field : family.where()) {
      const std::string where = absl::StrCat("family '", family.model_type(), "'");
      OF_RETURN_IF_ERROR_AT(CheckOurs(model, field.ours()), where);
      OF_RETURN_IF_ERROR_AT(CheckJson(field.is()), where);
    }
  }
  for (const pb::ConfigField& field : table.fields()) {
    const std::string where = absl::StrCat("field '", field.theirs().empty() ? "" : field.theirs(0), "'");
    OF_RETURN_IF_ERROR_AT(CheckField(field, model), where);
    for (const std::string& family : field.families()) {
      if (HasFamily(table, family)) continue;
      return absl::InvalidArgumentError(absl::StrCat(where, ": there is no family '", family, "'"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

bool Matches(const std::string& pattern, const std::string& name) {
  return fnmatch(pattern.c_str(), name.c_str(), FNM_NOESCAPE) == 0;
}

bool Mapping::Skips(const std::string& theirs) const {
  return std::any_of(table.skip().begin(), table.skip().end(),
                     [&](const std::string& pattern) { return Matches(pattern, theirs); });
}

absl::StatusOr<Mapping> ParseMapping(absl::string_view text, const std::string& file) {
  const std::string where = absl::StrCat("mapping '", file, "'");
  Mapping mapping;
  mapping.name = file;
  FirstError error;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  if (!parser.ParseFromString(std::string(text), &mapping.table)) {
    return absl::InvalidArgumentError(absl::StrCat(where, ":", error.line(), ": ", error.message()));
  }
  OF_RETURN_IF_ERROR_AT(CheckTable(mapping.table), where);
  for (const pb::WeightRule& rule : mapping.table.rules()) {
    const std::string of_rule = absl::StrCat(where, ": rule for '", rule.ours(), "'");
    Mapping::Rule names;
    OF_ASSIGN_OR_RETURN_AT(names.ours, NamePattern::Parse(rule.ours()), of_rule);
    OF_ASSIGN_OR_RETURN_AT(names.theirs, NamePattern::Parse(rule.theirs()), of_rule);
    names.said = rule;
    OF_RETURN_IF_ERROR_AT(CheckRule(rule, names), of_rule);
    mapping.rules.push_back(std::move(names));
  }
  return mapping;
}

absl::StatusOr<Mapping> ReadMapping(const std::string& path) {
  OF_ASSIGN_OR_RETURN(const std::string text, ReadText("mapping", path));
  return ParseMapping(text, path);
}

absl::StatusOr<std::vector<Mapping>> BuiltInMappings() {
  std::vector<Mapping> mappings;
  for (const auto& [name, text] : EmbeddedMappings()) {
    absl::StatusOr<Mapping> mapping = ParseMapping({text.data(), text.size()}, name);
    if (!mapping.ok()) return absl::InternalError(mapping.status().message());
    mappings.push_back(*std::move(mapping));
  }
  return mappings;
}

}  // namespace oneflow
