#include "tools/job/field_help.h"

#include <map>
#include <string_view>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "glog/logging.h"
#include "google/protobuf/descriptor.pb.h"
#include "proto/job.pb.h"
#include "tools/job/field_names.h"
#include "tools/job/field_rules.h"
#include "tools/job/interval.h"

namespace oneflow {

namespace pb {
std::string_view JobDescribed();  // a FileDescriptorSet of proto/job.proto, with comments (tools/dev/cmake/rooms.cmake)
}  // namespace pb

namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

constexpr size_t kColumns = 100;  // of a paragraph

// "4,2,2,1": the place of a declaration in its file, as descriptors name it.
using Places = std::map<std::string, std::string>;

std::string InOneLine(const google::protobuf::SourceCodeInfo::Location& location) {
  const std::string both = absl::StrCat(location.leading_comments(), " ", location.trailing_comments());
  return absl::StrJoin(absl::StrSplit(both, absl::ByAnyChar(" \n"), absl::SkipEmpty()), " ");
}

const Places& Comments() {
  static const Places* const comments = [] {
    auto* const result = new Places;
    const std::string_view bytes = pb::JobDescribed();
    google::protobuf::FileDescriptorSet set;
    CHECK(set.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())));
    for (const auto& location : set.file(0).source_code_info().location())
      (*result)[absl::StrJoin(location.path(), ",")] = InOneLine(location);
    return result;
  }();
  return *comments;
}

std::string CommentAt(const std::string& place) {
  const auto it = Comments().find(place);
  return it == Comments().end() ? "" : it->second;
}

std::string PlaceOf(const Descriptor& message) { return absl::StrCat("4,", message.index()); }

std::string TypeOf(const FieldDescriptor& field) {
  std::string type = field.type_name();
  if (field.message_type() != nullptr) type = field.message_type()->name();
  if (field.enum_type() != nullptr) {
    const Descriptor* const within = field.enum_type()->containing_type();
    type = absl::StrCat(within == nullptr ? "" : within->name() + ".", field.enum_type()->name());
  }
  return absl::StrCat(field.is_repeated() ? "repeated " : "", type);
}

// Of a path.
std::string UseText(pb::FieldRule::Path path) {
  switch (path) {
    case pb::FieldRule::READS_FILE:
      return "file, read";
    case pb::FieldRule::READS_FOLDER:
      return "folder, read";
    case pb::FieldRule::WRITES_FILE:
      return "file, written";
    case pb::FieldRule::WRITES_FOLDER:
      return "folder, written";
    default:
      return "";
  }
}

std::string AllowedIn(const FieldDescriptor& field, const pb::FieldRule& rule) {
  if (field.enum_type() != nullptr) return ValuesOf(*field.enum_type());
  if (!rule.one_of().empty()) return absl::StrCat("'", absl::StrJoin(rule.one_of(), "', '"), "'");
  if (!UseText(rule.path()).empty()) return UseText(rule.path());
  const absl::StatusOr<Interval> interval = Interval::Parse(rule.in());
  return interval.ok() && rule.in() != "any" ? interval->ToString() : "";
}

FieldHelp Describe(const FieldDescriptor& field, const std::string& path) {
  const pb::FieldRule rule = RuleOf(field);
  FieldHelp help{path, TypeOf(field), AllowedIn(field, rule), rule.default_()};
  help.help = CommentAt(absl::StrCat(PlaceOf(*field.containing_type()), ",2,", field.index()));
  if (help.help.empty() && field.message_type() != nullptr) help.help = CommentOf(*field.message_type());
  return help;
}

// `text` in lines that begin with `indent`.
std::string Paragraph(const std::string& text, const std::string& indent) {
  std::string result, line = indent;
  for (const absl::string_view word : absl::StrSplit(text, ' ', absl::SkipEmpty())) {
    if (line.size() + 1 + word.size() > kColumns && line != indent) {
      absl::StrAppend(&result, line, "\n");
      line = indent;
    }
    absl::StrAppend(&line, line == indent ? "" : " ", word);
  }
  return line == indent ? result : absl::StrCat(result, line, "\n");
}

}  // namespace

std::string CommentOf(const Descriptor& message) { return CommentAt(PlaceOf(message)); }

std::vector<FieldHelp> FieldsOf(const Descriptor& message, const std::string& prefix) {
  std::vector<FieldHelp> fields;
  for (int f = 0; f < message.field_count(); ++f) {
    const FieldDescriptor& field = *message.field(f);
    fields.push_back(Describe(field, prefix + field.name()));
    if (field.message_type() == nullptr) continue;
    const std::vector<FieldHelp> inner = FieldsOf(*field.message_type(), fields.back().path + ".");
    fields.insert(fields.end(), inner.begin(), inner.end());
  }
  return fields;
}

absl::StatusOr<std::vector<FieldHelp>> ConfigFields(absl::string_view prefix) {
  const Descriptor* message = pb::JobConfig::descriptor();
  if (prefix.empty()) return FieldsOf(*message, "");
  std::vector<FieldHelp> fields;
  std::string path;
  for (const absl::string_view part : absl::StrSplit(prefix, '.')) {
    if (message == nullptr) return absl::NotFoundError(absl::StrCat("'", path, "' has no fields"));
    const FieldDescriptor* const field = message->FindFieldByName(std::string(part));
    if (field == nullptr) return absl::NotFoundError(NoField(*message, part));
    absl::StrAppend(&path, path.empty() ? "" : ".", part);
    fields = {Describe(*field, path)};
    message = field->message_type();
  }
  if (message == nullptr) return fields;
  const std::vector<FieldHelp> inner = FieldsOf(*message, path + ".");
  fields.insert(fields.end(), inner.begin(), inner.end());
  return fields;
}

std::string FieldsText(const std::vector<FieldHelp>& fields) {
  std::string text;
  for (const FieldHelp& field : fields) {
    absl::StrAppend(&text, field.path, "  ", field.type);
    if (!field.allowed.empty()) absl::StrAppend(&text, "  ", field.allowed);
    if (!field.usual.empty()) absl::StrAppend(&text, "  default ", field.usual);
    absl::StrAppend(&text, "\n", Paragraph(field.help, "    "));
  }
  return text;
}

}  // namespace oneflow
