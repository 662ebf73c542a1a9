#include "tools/job/config.h"

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/io/tokenizer.h"
#include "google/protobuf/text_format.h"
#include "tools/job/field_names.h"
#include "tools/job/first_error.h"
#include "tools/job/read_text.h"
#include "tools/job/visible_text.h"

namespace oneflow {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::TextFormat;

std::string Join(absl::string_view prefix, absl::string_view name) {
  return prefix.empty() ? std::string(name) : absl::StrCat(prefix, ".", name);
}

// Records file:line of every field set in `message`.
void CollectPlaces(const google::protobuf::Message& message, TextFormat::ParseInfoTree* tree, const std::string& prefix,
                   const std::string& file, std::map<std::string, std::string>& places) {
  std::vector<const FieldDescriptor*> fields;
  message.GetReflection()->ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    const std::string path = Join(prefix, field->name());
    const int index = field->is_repeated() ? 0 : -1;
    const TextFormat::ParseLocation location = tree->GetLocation(field, index);
    if (location.line >= 0) places[path] = absl::StrCat(file, ":", location.line + 1);
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE || field->is_repeated()) continue;
    if (TextFormat::ParseInfoTree* nested = tree->GetTreeForNested(field, index)) {
      CollectPlaces(message.GetReflection()->GetMessage(message, field), nested, path, file, places);
    }
  }
}

// What a value of the field is called.
std::string Kind(const FieldDescriptor& field) {
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_ENUM:
      return ValuesOf(*field.enum_type());
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return field.message_type()->name();
    default:
      return field.cpp_type_name();
  }
}

// "'ten' is no int64 (why)"; of an enum all its values say why.
std::string NotOfItsKind(absl::string_view value, const FieldDescriptor& field, const std::string& why) {
  if (field.enum_type() != nullptr) return absl::StrCat("'", value, "' is none of ", Kind(field));
  return absl::StrCat("'", value, "' is no ", field.is_repeated() ? "list of " : "", Kind(field), " (", InOurWords(why),
                      ")");
}

// The path of a text that is not UTF-8, as the text fields of messages must be; empty: all are.
std::string FindNotUtf8(const google::protobuf::Message& message, const std::string& prefix) {
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    const std::string path = Join(prefix, field->name());
    const int count = field->is_repeated() ? reflection.FieldSize(message, field) : 1;
    for (int i = 0; i < count; ++i) {
      if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
        const std::string inner = FindNotUtf8(field->is_repeated() ? reflection.GetRepeatedMessage(message, field, i)
                                                                   : reflection.GetMessage(message, field),
                                              path);
        if (!inner.empty()) return inner;
      } else if (field->type() == FieldDescriptor::TYPE_STRING) {
        const std::string text = field->is_repeated() ? reflection.GetRepeatedString(message, field, i)
                                                      : reflection.GetString(message, field);
        if (!IsUtf8(text)) return path;
      }
    }
  }
  return "";
}

// "cluster.hosts[1].count" -> "cluster.hosts.count": places are those of the first element.
std::string WithoutIndices(absl::string_view path) {
  std::string name;
  bool inside = false;
  for (const char c : path) {
    inside |= c == '[';
    if (!inside) name += c;
    inside &= c != ']';
  }
  return name;
}

// Whether the text would be read as something else than a bare string.
bool IsQuoted(absl::string_view value) { return value.size() >= 2 && (value.front() == '"' || value.front() == '\''); }

std::string QuoteText(absl::string_view value) {
  std::string quoted = "\"";
  for (const char c : value) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + "\"";
}

}  // namespace

std::string SourcedConfig::Where(absl::string_view path) const {
  std::string place = file;
  for (std::string prefix = WithoutIndices(path); !prefix.empty();) {
    if (const auto it = places.find(prefix); it != places.end()) {
      place = it->second;
      break;
    }
    const size_t dot = prefix.rfind('.');
    prefix.resize(dot == std::string::npos ? 0 : dot);
  }
  return absl::StrCat(place, ": ", path);
}

absl::StatusOr<SourcedConfig> ParseConfig(absl::string_view text, const std::string& file) {
  SourcedConfig result;
  result.file = file;
  FirstError error;
  TextFormat::ParseInfoTree tree;
  TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  parser.WriteLocationsTo(&tree);
  if (!parser.ParseFromString(std::string(text), &result.config) || !error.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(file, ":", error.line(), ":", error.column(), ": ", InOurWords(error.message())));
  }
  CollectPlaces(result.config, &tree, "", file, result.places);
  return result;
}

absl::Status ApplyOverride(absl::string_view assignment, SourcedConfig& config) {
  return ApplyOverride(assignment, config, absl::StrCat("--set ", assignment));
}

absl::Status ApplyOverride(absl::string_view assignment, SourcedConfig& config, const std::string& place) {
  const auto error = [&](const std::string& what) {
    return absl::InvalidArgumentError(absl::StrCat(place, ": ", what));
  };
  const size_t equals = assignment.find('=');
  if (equals == absl::string_view::npos || equals == 0) return error("not of the form path.to.field=value");
  const absl::string_view path = assignment.substr(0, equals);
  absl::string_view value = assignment.substr(equals + 1);

  google::protobuf::Message* message = &config.config;
  const std::vector<std::string> parts = absl::StrSplit(path, '.');
  const FieldDescriptor* field = nullptr;
  for (size_t i = 0; i < parts.size(); ++i) {
    const Descriptor& type = *message->GetDescriptor();
    field = type.FindFieldByName(parts[i]);
    if (field == nullptr) return error(NoField(type, parts[i]));
    if (i + 1 == parts.size()) break;
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE || field->is_repeated()) {
      return error(absl::StrCat("'", parts[i], "' is a ", field->cpp_type_name(), " and has no fields"));
    }
    message = message->GetReflection()->MutableMessage(message, field);
  }
  std::string text;
  const bool is_list = field->is_repeated() && absl::StartsWith(value, "[");
  if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE && !is_list) {
    text = absl::StrCat(field->name(),
                        value.empty() || value.front() != '{' ? absl::StrCat("{", value, "}") : std::string(value));
  } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_STRING && !IsQuoted(value) && !is_list) {
    text = absl::StrCat(field->name(), ": ", QuoteText(value));
  } else {
    text = absl::StrCat(field->name(), ": ", value);
  }
  message->GetReflection()->ClearField(message, field);
  FirstError parse_error;
  TextFormat::Parser parser;
  parser.RecordErrorsTo(&parse_error);
  if (!parser.MergeFromString(text, message) || !parse_error.empty()) {
    return error(NotOfItsKind(value, *field, parse_error.message()));
  }
  config.places[std::string(path)] = place;
  return absl::OkStatus();
}

absl::Status CheckTexts(const SourcedConfig& config) {
  const std::string path = FindNotUtf8(config.config, "");
  if (path.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      VisibleText(absl::StrCat(config.Where(path), ": is not UTF-8, as all texts and paths of a job must be")));
}

absl::StatusOr<SourcedConfig> LoadConfig(const std::string& path, const std::vector<std::string>& overrides) {
  OF_ASSIGN_OR_RETURN(const std::string text, ReadText("job config", path));
  OF_ASSIGN_OR_RETURN(SourcedConfig config, ParseConfig(text, path));
  for (const std::string& assignment : overrides) OF_RETURN_IF_ERROR(ApplyOverride(assignment, config));
  return config;
}

}  // namespace oneflow
