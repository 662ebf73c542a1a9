#include "tools/control/worker/config_difference.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/io/tokenizer.h"
#include "google/protobuf/text_format.h"
#include "proto/job.pb.h"
#include "tools/job/schedule.h"

namespace oneflow {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::TextFormat;

constexpr size_t kLongestValue = 60;
constexpr size_t kMostFields = 8;

bool Parse(const std::string& text, pb::JobConfig* config) {
  struct Silent : google::protobuf::io::ErrorCollector {
    void AddError(int, int, const std::string&) override {}
  } silent;
  TextFormat::Parser parser;
  parser.RecordErrorsTo(&silent);
  parser.AllowUnknownField(true);
  return parser.ParseFromString(text, config);
}

std::string ValueText(const google::protobuf::Message& message, const FieldDescriptor& field) {
  const auto* const reflection = message.GetReflection();
  if (field.is_repeated()) {
    std::vector<std::string> values(static_cast<size_t>(reflection->FieldSize(message, &field)));
    for (size_t i = 0; i < values.size(); ++i) {
      TextFormat::PrintFieldValueToString(message, &field, static_cast<int>(i), &values[i]);
    }
    return absl::StrCat("[", absl::StrJoin(values, ", "), "]");
  }
  if (field.has_presence() && !reflection->HasField(message, &field)) return "default";
  std::string text;
  TextFormat::PrintFieldValueToString(message, &field, -1, &text);
  return text;
}

std::string Short(const std::string& text) {
  return text.size() <= kLongestValue ? text : absl::StrCat(text.substr(0, kLongestValue - 3), "...");
}

void Compare(const google::protobuf::Message& a, const google::protobuf::Message& b, const std::string& path,
             std::vector<std::string>& found) {
  for (int i = 0; i < a.GetDescriptor()->field_count(); ++i) {
    const FieldDescriptor& field = *a.GetDescriptor()->field(i);
    const std::string name = absl::StrCat(path, ".", field.name());
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE && !field.is_repeated()) {
      if (!a.GetReflection()->HasField(a, &field) && !b.GetReflection()->HasField(b, &field)) continue;
      Compare(a.GetReflection()->GetMessage(a, &field), b.GetReflection()->GetMessage(b, &field), name, found);
      continue;
    }
    const std::string saved = ValueText(a, field), now = ValueText(b, field);
    if (saved != now) found.push_back(absl::StrCat(name, " ", Short(saved), " -> ", Short(now)));
  }
}

// What of training does not change where it goes: how it is cut into micro-batches, and what ends it.
void LeaveOut(pb::JobConfig& config) {
  config.mutable_data()->clear_least_read_ms();
  config.mutable_train()->clear_micro_batches();
  config.mutable_train()->clear_stop();
  if (!RateNeedsSteps(config.train())) config.mutable_train()->clear_steps();
}

}  // namespace

std::string ConfigDifference(const std::string& saved, const std::string& now) {
  pb::JobConfig a, b;
  if (saved.empty() || now.empty() || !Parse(saved, &a) || !Parse(now, &b)) return "";
  LeaveOut(a);
  LeaveOut(b);
  std::vector<std::string> found;
  Compare(a.model(), b.model(), "model", found);
  Compare(a.data(), b.data(), "data", found);
  Compare(a.train(), b.train(), "train", found);
  Compare(a.precision(), b.precision(), "precision", found);
  const size_t all = found.size();
  if (all > kMostFields) {
    found.resize(kMostFields);
    found.push_back(absl::StrCat("and ", all - kMostFields, " more"));
  }
  return absl::StrJoin(found, ", ");
}

}  // namespace oneflow
