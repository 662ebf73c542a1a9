#include "tools/job/field_rules.h"

#include <algorithm>
#include <filesystem>
#include <type_traits>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "glog/logging.h"
#include "google/protobuf/text_format.h"
#include "oneflow_core/optimizer_rules.h"
#include "proto/job.pb.h"
#include "tools/job/attributes.h"
#include "tools/job/checker.h"
#include "tools/job/interval.h"

namespace oneflow {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Reflection;
using google::protobuf::TextFormat;

// The optimizer's rule whose attributes are the fields of `message`; null: they are not.
const OptimizerRule* OptimizerOfMessage(const Descriptor& message) {
  const google::protobuf::OneofDescriptor& kinds = *pb::Optimizer::descriptor()->FindOneofByName("kind");
  for (int i = 0; i < kinds.field_count(); ++i) {
    if (kinds.field(i)->message_type() == &message) return FindOptimizerRule(kinds.field(i)->name());
  }
  return nullptr;
}

pb::FieldRule RuleOfAttribute(const OptimizerAttribute& attribute) {
  pb::FieldRule rule;
  if (attribute.is_flag) return rule;
  rule.set_in(attribute.below > 0 ? absl::StrCat("[0, ", attribute.below, ")") : "[0, inf)");
  rule.set_default_(ShortestText(attribute.value));
  return rule;
}

bool IsInteger(const FieldDescriptor& field) {
  return field.cpp_type() != FieldDescriptor::CPPTYPE_DOUBLE && field.cpp_type() != FieldDescriptor::CPPTYPE_FLOAT;
}

// The number of a field, exactly; of a repeated one that of element `i`. `text` is how it is printed.
struct Number {
  long double value;
  std::string text;
};
template <typename T>
Number NumberOf(T value) {
  return {static_cast<long double>(value), absl::StrCat(value)};
}
Number GetNumber(const google::protobuf::Message& message, const FieldDescriptor& field, int i) {
  const Reflection& r = *message.GetReflection();
  const bool many = field.is_repeated();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return NumberOf(many ? r.GetRepeatedInt32(message, &field, i) : r.GetInt32(message, &field));
    case FieldDescriptor::CPPTYPE_INT64:
      return NumberOf(many ? r.GetRepeatedInt64(message, &field, i) : r.GetInt64(message, &field));
    case FieldDescriptor::CPPTYPE_UINT64:
      return NumberOf(many ? r.GetRepeatedUInt64(message, &field, i) : r.GetUInt64(message, &field));
    default:
      return NumberOf(many ? r.GetRepeatedDouble(message, &field, i) : r.GetDouble(message, &field));
  }
}

// The message that a field holds; of a repeated one its element `i`.
const google::protobuf::Message& Inner(const google::protobuf::Message& message, const FieldDescriptor& field, int i) {
  const Reflection& r = *message.GetReflection();
  return field.is_repeated() ? r.GetRepeatedMessage(message, &field, i) : r.GetMessage(message, &field);
}
google::protobuf::Message& Inner(google::protobuf::Message& message, const FieldDescriptor& field, int i) {
  const Reflection& r = *message.GetReflection();
  return field.is_repeated() ? *r.MutableRepeatedMessage(&message, &field, i) : *r.MutableMessage(&message, &field);
}

// Calls visit(message, prefix) for the message and for all in it, those before these: of what is only read, also for
// required ones that are absent. `prefix` is what the paths of its fields begin with: "cluster.hosts[1].".
template <typename M, typename Visit>
void ForEachMessage(M& message, const std::string& prefix, const Visit& visit) {
  visit(message, prefix);
  const Reflection& reflection = *message.GetReflection();
  for (int f = 0; f < message.GetDescriptor()->field_count(); ++f) {
    const FieldDescriptor& field = *message.GetDescriptor()->field(f);
    if (field.message_type() == nullptr) continue;
    const bool required = std::is_const_v<M> && RuleOf(field).required();
    const int count = field.is_repeated() ? reflection.FieldSize(message, &field)
                                          : static_cast<int>(required || reflection.HasField(message, &field));
    for (int i = 0; i < count; ++i) {
      const std::string index = field.is_repeated() ? absl::StrCat("[", i, "]") : "";
      ForEachMessage(Inner(message, field, i), absl::StrCat(prefix, field.name(), index, "."), visit);
    }
  }
}

// Calls visit(field, its rule) for the fields of a message that hold no messages.
template <typename Visit>
void ForEachPlainField(const google::protobuf::Message& message, const Visit& visit) {
  for (int f = 0; f < message.GetDescriptor()->field_count(); ++f) {
    const FieldDescriptor& field = *message.GetDescriptor()->field(f);
    if (field.message_type() == nullptr) visit(field, RuleOf(field));
  }
}

std::string GetText(const google::protobuf::Message& message, const FieldDescriptor& field, int i) {
  const Reflection& r = *message.GetReflection();
  return field.is_repeated() ? r.GetRepeatedString(message, &field, i) : r.GetString(message, &field);
}

// "'a'", "neither 'a' nor 'b'", "none of 'a', 'b', 'c'".
std::string NoneOf(const google::protobuf::RepeatedPtrField<std::string>& texts) {
  if (texts.size() == 2) return absl::StrCat("neither '", texts[0], "' nor '", texts[1], "'");
  return absl::StrCat("none of '", absl::StrJoin(texts, "', '"), "'");
}

void CheckText(const std::string& text, const pb::FieldRule& rule, const std::string& path, Checker& check) {
  check.Require(!rule.required() || !text.empty(), path, "is missing");
  if (text.empty() || rule.one_of().empty()) return;
  const bool known = std::find(rule.one_of().begin(), rule.one_of().end(), text) != rule.one_of().end();
  check.Require(known, path, absl::StrCat("'", text, "' is ", NoneOf(rule.one_of())));
}

void CheckNumber(const Number& number, const FieldDescriptor& field, const Interval& allowed, const std::string& path,
                 Checker& check) {
  if (allowed.Contains(number.value)) return;
  check.Require(false, path, absl::StrCat(number.text, " ", allowed.Complaint(IsInteger(field))));
}

bool IsNumber(const FieldDescriptor& field) {
  return field.cpp_type() == FieldDescriptor::CPPTYPE_INT32 || field.cpp_type() == FieldDescriptor::CPPTYPE_INT64 ||
         field.cpp_type() == FieldDescriptor::CPPTYPE_UINT64 || field.cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE;
}

// How many values the field has here: of a single field 1, or 0 if it is `optional` and absent.
int NumValues(const google::protobuf::Message& message, const FieldDescriptor& field) {
  const Reflection& reflection = *message.GetReflection();
  if (field.is_repeated()) return reflection.FieldSize(message, &field);
  return field.has_presence() && !reflection.HasField(message, &field) ? 0 : 1;
}

void CheckField(const google::protobuf::Message& message, const FieldDescriptor& field, const pb::FieldRule& rule,
                const std::string& path, Checker& check) {
  if (field.type() == FieldDescriptor::TYPE_STRING) {
    for (int i = 0; i < NumValues(message, field); ++i) CheckText(GetText(message, field, i), rule, path, check);
  }
  if (!IsNumber(field) || rule.in().empty()) return;
  const absl::StatusOr<Interval> allowed = Interval::Parse(rule.in());
  CHECK(allowed.ok()) << field.full_name() << ": " << allowed.status();
  for (int i = 0; i < NumValues(message, field); ++i) {
    CheckNumber(GetNumber(message, field, i), field, *allowed, path, check);
  }
}

bool SaysNothing(const google::protobuf::Message& message, const FieldDescriptor& field) {
  const Reflection& reflection = *message.GetReflection();
  if (field.is_repeated()) return reflection.FieldSize(message, &field) == 0;
  return !reflection.HasField(message, &field);  // of one without presence: it is 0 or empty
}

void FillDefault(google::protobuf::Message& message, const FieldDescriptor& field, const std::string& value) {
  const std::string quote = field.type() == FieldDescriptor::TYPE_STRING ? "'" : "";
  CHECK(TextFormat::MergeFromString(absl::StrCat(field.name(), ": ", quote, value, quote), &message))
      << field.full_name() << ": its default '" << value << "' is no value of it";
}

bool IsPath(const pb::FieldRule& rule) {
  return rule.path() != pb::FieldRule::UNSAID && rule.path() != pb::FieldRule::NONE;
}

void SetText(google::protobuf::Message& message, const FieldDescriptor& field, int i, const std::string& text) {
  const Reflection& r = *message.GetReflection();
  if (field.is_repeated()) {
    r.SetRepeatedString(&message, &field, i, text);
  } else {
    r.SetString(&message, &field, text);
  }
}

// Calls visit(message, field, rule, i, prefix) for every text that is a path.
template <typename M, typename Visit>
void ForEachPathText(M& all, const Visit& visit) {
  ForEachMessage(all, "", [&](M& message, const std::string& prefix) {
    ForEachPlainField(message, [&](const FieldDescriptor& field, const pb::FieldRule& rule) {
      for (int i = 0; IsPath(rule) && i < NumValues(message, field); ++i) {
        const std::string text = GetText(message, field, i);
        if (!text.empty() && absl::StartsWith(text, rule.path_after())) visit(message, field, rule, i, prefix);
      }
    });
  });
}

std::string PathIn(const google::protobuf::Message& message, const FieldDescriptor& field, const pb::FieldRule& rule,
                   int i) {
  return GetText(message, field, i).substr(rule.path_after().size());
}

}  // namespace

pb::FieldRule RuleOf(const FieldDescriptor& field) {
  if (const OptimizerRule* const optimizer = OptimizerOfMessage(*field.containing_type())) {
    for (const OptimizerAttribute& attribute : optimizer->attributes) {
      if (attribute.name == field.name()) return RuleOfAttribute(attribute);
    }
  }
  return field.options().GetExtension(pb::field);
}

namespace {

// Of a message that has to say one of several things: that it does.
void CheckKind(const google::protobuf::Message& message, const std::string& path, Checker& check) {
  const google::protobuf::OneofDescriptor* const kinds = message.GetDescriptor()->FindOneofByName("kind");
  if (kinds == nullptr || message.GetReflection()->HasOneof(message, kinds)) return;
  std::vector<std::string> names;
  for (int i = 0; i < kinds->field_count(); ++i) names.push_back(kinds->field(i)->name());
  check.Require(false, path, absl::StrCat("is missing: one of ", absl::StrJoin(names, ", ")));
}

}  // namespace

absl::Status CheckFields(const SourcedConfig& config) {
  Checker check(config);
  const google::protobuf::Message& all = config.config;
  ForEachMessage(all, "", [&](const google::protobuf::Message& message, const std::string& prefix) {
    ForEachPlainField(message, [&](const FieldDescriptor& field, const pb::FieldRule& rule) {
      CheckField(message, field, rule, prefix + field.name(), check);
    });
    for (int f = 0; f < message.GetDescriptor()->field_count(); ++f) {
      const FieldDescriptor& field = *message.GetDescriptor()->field(f);
      if (field.message_type() == nullptr || !RuleOf(field).required()) continue;
      CheckKind(Inner(message, field, 0), prefix + field.name(), check);
    }
  });
  return check.status();
}

void FillDefaults(google::protobuf::Message& all) {
  ForEachMessage(all, "", [](google::protobuf::Message& message, const std::string&) {
    ForEachPlainField(message, [&](const FieldDescriptor& field, const pb::FieldRule& rule) {
      if (!rule.default_().empty() && SaysNothing(message, field)) FillDefault(message, field, rule.default_());
    });
  });
}

void ForEachPath(const google::protobuf::Message& all, const std::function<void(const PathField&)>& visit) {
  ForEachPathText(all, [&](const google::protobuf::Message& message, const FieldDescriptor& field,
                           const pb::FieldRule& rule, int i, const std::string& prefix) {
    visit(
        {rule.called().empty() ? prefix + field.name() : rule.called(), rule.path(), PathIn(message, field, rule, i)});
  });
}

void MakePathsAbsolute(google::protobuf::Message& all) {
  ForEachPathText(all, [](google::protobuf::Message& message, const FieldDescriptor& field, const pb::FieldRule& rule,
                          int i, const std::string&) {
    std::error_code ignored;
    const auto path = std::filesystem::absolute(PathIn(message, field, rule, i), ignored).lexically_normal();
    SetText(message, field, i, absl::StrCat(rule.path_after(), path.string()));
  });
}

}  // namespace oneflow
