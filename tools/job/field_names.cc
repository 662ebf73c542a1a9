#include "tools/job/field_names.h"

#include <algorithm>
#include <numeric>
#include <regex>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/job.pb.h"

namespace oneflow {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;

constexpr size_t kMostElsewhere = 3;  // paths that are offered
constexpr int kDeepest = 8;           // a config's messages do not contain themselves; a limit all the same

// How many letters to add, remove or change, or neighbours to swap.
size_t EditDistance(absl::string_view a, absl::string_view b) {
  std::vector<size_t> before, last, row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    before = std::exchange(last, row);
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row[b.size()];
}

void FindPaths(const Descriptor& type, absl::string_view name, const std::string& prefix, int depth,
               std::vector<std::string>& paths) {
  for (int i = 0; i < type.field_count() && depth < kDeepest; ++i) {
    const FieldDescriptor& field = *type.field(i);
    if (field.name() == name) paths.push_back(prefix + field.name());
    if (field.message_type() == nullptr || field.is_repeated()) continue;
    FindPaths(*field.message_type(), name, absl::StrCat(prefix, field.name(), "."), depth + 1, paths);
  }
}

// Those spelled most alike, of which a third of the letters may be wrong.
std::vector<std::string> SpelledAlike(const Descriptor& type, absl::string_view name) {
  std::vector<std::string> nearest;
  size_t least = std::max<size_t>(1, name.size() / 3);
  for (int i = 0; i < type.field_count(); ++i) {
    const std::string& field = type.field(i)->name();
    const size_t distance = EditDistance(name, field);
    if (distance > least) continue;
    if (distance < least) nearest.clear();
    least = distance;
    nearest.push_back(field);
  }
  return nearest;
}

// The enum of a field that has this name, in any message of a job config.
const EnumDescriptor* EnumOf(const Descriptor& type, absl::string_view field, int depth = 0) {
  for (int i = 0; i < type.field_count() && depth < kDeepest; ++i) {
    if (type.field(i)->name() == field && type.field(i)->enum_type() != nullptr) return type.field(i)->enum_type();
    if (type.field(i)->message_type() == nullptr) continue;
    const EnumDescriptor* const found = EnumOf(*type.field(i)->message_type(), field, depth + 1);
    if (found != nullptr) return found;
  }
  return nullptr;
}

}  // namespace

std::string NoField(const Descriptor& type, absl::string_view name) {
  std::vector<std::string> names;
  for (int i = 0; i < type.field_count(); ++i) names.push_back(type.field(i)->name());
  std::string text = absl::StrCat(type.name(), " has no field '", name, "'; it has ", absl::StrJoin(names, ", "));
  std::vector<std::string> meant = SpelledAlike(type, name);
  if (meant.empty()) FindPaths(*pb::JobConfig::descriptor(), name, "", 0, meant);
  if (meant.size() > kMostElsewhere) meant.resize(kMostElsewhere);
  if (!meant.empty()) absl::StrAppend(&text, "; did you mean '", absl::StrJoin(meant, "' or '"), "'?");
  return text;
}

std::string ValuesOf(const EnumDescriptor& type) {
  std::vector<std::string> names;
  for (int i = 0; i < type.value_count(); ++i) names.push_back(type.value(i)->name());
  return absl::StrJoin(names, ", ");
}

std::string InOurWords(const std::string& parser_message) {
  static const std::regex& no_field = *new std::regex(R"re(Message type "([^"]*)" has no field named "([^"]*)"\.)re");
  static const std::regex& no_value =
      *new std::regex(R"re(Unknown enumeration value of "([^"]*)" for field "([^"]*)"\.)re");
  std::smatch parts;
  if (std::regex_match(parser_message, parts, no_field)) {
    const Descriptor* const type = pb::JobConfig::descriptor()->file()->pool()->FindMessageTypeByName(parts.str(1));
    if (type != nullptr) return NoField(*type, parts.str(2));
  } else if (std::regex_match(parser_message, parts, no_value)) {
    const EnumDescriptor* const type = EnumOf(*pb::JobConfig::descriptor(), parts.str(2));
    if (type != nullptr) return absl::StrCat(parts.str(2), ": '", parts.str(1), "' is none of ", ValuesOf(*type));
  }
  return parser_message;
}

}  // namespace oneflow
