// Laws of what config fields say of themselves: each is described, and each description is obeyed.
#include "tools/job/field_rules.h"

#include <cmath>
#include <filesystem>
#include <functional>
#include <limits>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "google/protobuf/text_format.h"
#include "proto/control.pb.h"
#include "test/support/status_matchers.h"
#include "tools/job/interval.h"

namespace oneflow {
namespace {

using ::google::protobuf::Descriptor;
using ::google::protobuf::FieldDescriptor;
using ConfigMessage = ::google::protobuf::Message;
using ::google::protobuf::Reflection;

// A field, with the way to it from the config.
struct Way {
  std::vector<const FieldDescriptor*> fields;
  const FieldDescriptor& field() const { return *fields.back(); }
  // "restart.meshes[0].dp"
  std::string path() const {
    std::string path;
    for (const FieldDescriptor* step : fields) {
      absl::StrAppend(&path, path.empty() ? "" : ".", step->name());
      if (step->is_repeated() && step->message_type() != nullptr) absl::StrAppend(&path, "[0]");
    }
    return path;
  }
};

void AddWays(const Descriptor& message, const Way& to, std::vector<Way>& ways) {
  for (int f = 0; f < message.field_count(); ++f) {
    Way way = to;
    way.fields.push_back(message.field(f));
    if (message.field(f)->message_type() == nullptr) {
      ways.push_back(way);
    } else {
      AddWays(*message.field(f)->message_type(), way, ways);
    }
  }
}

// All fields that hold no messages.
std::vector<Way> WaysIn(const Descriptor& message) {
  std::vector<Way> ways;
  AddWays(message, {}, ways);
  return ways;
}

bool IsNumber(const FieldDescriptor& field) {
  return field.cpp_type() == FieldDescriptor::CPPTYPE_INT32 || field.cpp_type() == FieldDescriptor::CPPTYPE_INT64 ||
         field.cpp_type() == FieldDescriptor::CPPTYPE_UINT64 || field.cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE;
}
bool IsText(const FieldDescriptor& field) { return field.type() == FieldDescriptor::TYPE_STRING; }
bool IsPath(const pb::FieldRule& rule) { return rule.path() > pb::FieldRule::NONE; }

void SetNumber(ConfigMessage& message, const FieldDescriptor& field, long double value) {
  const Reflection& r = *message.GetReflection();
  const bool many = field.is_repeated();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return many ? r.AddInt32(&message, &field, static_cast<int32_t>(value))
                  : r.SetInt32(&message, &field, static_cast<int32_t>(value));
    case FieldDescriptor::CPPTYPE_INT64:
      return many ? r.AddInt64(&message, &field, static_cast<int64_t>(value))
                  : r.SetInt64(&message, &field, static_cast<int64_t>(value));
    case FieldDescriptor::CPPTYPE_UINT64:
      return r.SetUInt64(&message, &field, static_cast<uint64_t>(value));
    default:
      return many ? r.AddDouble(&message, &field, static_cast<double>(value))
                  : r.SetDouble(&message, &field, static_cast<double>(value));
  }
}

void SetText(ConfigMessage& message, const FieldDescriptor& field, const std::string& text) {
  if (field.is_repeated()) return message.GetReflection()->AddString(&message, &field, text);
  message.GetReflection()->SetString(&message, &field, text);
}

// A number that is allowed.
long double Allowed(const Interval& interval) {
  if (std::isinf(interval.low)) return 0;
  if (!interval.low_open) return interval.low;
  return std::isinf(interval.high) ? interval.low + 1 : (interval.low + interval.high) / 2;
}

// Sets what is required of all fields of the message, so that nothing is wrong with it.
void MakeGood(ConfigMessage& message) {
  for (int f = 0; f < message.GetDescriptor()->field_count(); ++f) {
    const FieldDescriptor& field = *message.GetDescriptor()->field(f);
    const pb::FieldRule rule = RuleOf(field);
    if (field.message_type() != nullptr) {
      if (!rule.required()) continue;
      ConfigMessage& inner = *message.GetReflection()->MutableMessage(&message, &field);
      MakeGood(inner);
      const google::protobuf::OneofDescriptor* const kinds = inner.GetDescriptor()->FindOneofByName("kind");
      if (kinds != nullptr) MakeGood(*inner.GetReflection()->MutableMessage(&inner, kinds->field(0)));
    } else if (field.real_containing_oneof() != nullptr) {
      continue;
    } else if (IsText(field) && rule.required()) {
      SetText(message, field, "x");
    } else if (IsNumber(field) && !field.is_repeated()) {
      SetNumber(message, field, Allowed(*Interval::Parse(rule.in())));
    }
  }
}

// The message that holds the field, in a config that is good, with one element of whatever is repeated on the way.
ConfigMessage& Holder(const Way& way, ConfigMessage& config) {
  ConfigMessage* at = &config;
  MakeGood(*at);
  for (size_t i = 0; i + 1 < way.fields.size(); ++i) {
    const Reflection& r = *at->GetReflection();
    at = way.fields[i]->is_repeated() ? r.AddMessage(at, way.fields[i]) : r.MutableMessage(at, way.fields[i]);
    MakeGood(*at);
  }
  return *at;
}

// What CheckFields() says of a config in which `change` was made to the field's message.
absl::Status After(const Way& way, const std::function<void(ConfigMessage&)>& change) {
  SourcedConfig config{.file = "j"};
  change(Holder(way, config.config));
  return CheckFields(config);
}

TEST(FieldRulesTest, EveryTextIsAPathOrSaysThatItIsNone) {
  for (const Descriptor* message : {pb::JobConfig::descriptor(), pb::JobSpec::descriptor()}) {
    int paths = 0;
    for (const Way& way : WaysIn(*message)) {
      const pb::FieldRule rule = RuleOf(way.field());
      if (!IsText(way.field())) {
        EXPECT_EQ(rule.path(), pb::FieldRule::UNSAID) << way.path() << " holds no text";
        continue;
      }
      EXPECT_TRUE(rule.path() != pb::FieldRule::UNSAID || !rule.one_of().empty())
          << way.field().full_name() << ": is it a path? Its options have to say so, or that it is NONE";
      paths += static_cast<int>(IsPath(rule));
    }
    EXPECT_GT(paths, 5);
  }
}

TEST(FieldRulesTest, EveryNumberHasARange) {
  for (const Way& way : WaysIn(*pb::JobConfig::descriptor())) {
    const pb::FieldRule rule = RuleOf(way.field());
    if (IsNumber(way.field())) {
      EXPECT_OK(Interval::Parse(rule.in()).status()) << way.field().full_name();
    } else {
      EXPECT_EQ(rule.in(), "") << way.field().full_name() << " holds no number";
    }
  }
}

TEST(FieldRulesTest, ANumberOutsideOfItsRangeIsRefusedByName) {
  int refused = 0;
  for (const Way& way : WaysIn(*pb::JobConfig::descriptor())) {
    if (!IsNumber(way.field())) continue;
    SCOPED_TRACE(way.path());
    const Interval range = *Interval::Parse(RuleOf(way.field()).in());
    const bool is_double = way.field().cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE;
    std::vector<long double> outside;
    if (!std::isinf(range.low)) outside.push_back(range.low_open ? range.low : range.low - 1);
    if (!std::isinf(range.high)) outside.push_back(range.high_open ? range.high : range.high * 2);
    if (way.field().cpp_type() == FieldDescriptor::CPPTYPE_INT32)
      std::erase_if(outside, [](long double value) { return value > std::numeric_limits<int32_t>::max(); });
    if (is_double) outside.push_back(std::nan(""));
    EXPECT_OK(After(way, [&](ConfigMessage& m) { SetNumber(m, way.field(), Allowed(range)); }));
    for (const long double value : outside) {
      EXPECT_THAT(After(way, [&](ConfigMessage& m) { SetNumber(m, way.field(), value); }),
                  StatusIs(absl::StatusCode::kInvalidArgument, AllOf(HasSubstr(absl::StrCat("j: ", way.path(), ": ")),
                                                                     EndsWith(range.Complaint(!is_double)))))
          << static_cast<double>(value);
      ++refused;
    }
  }
  EXPECT_GT(refused, 100);
}

TEST(FieldRulesTest, ATextThatIsMissingOrUnknownIsRefusedByName) {
  int required = 0, chosen = 0;
  for (const Way& way : WaysIn(*pb::JobConfig::descriptor())) {
    SCOPED_TRACE(way.path());
    const pb::FieldRule rule = RuleOf(way.field());
    if (IsText(way.field()) && rule.required()) {
      EXPECT_THAT(After(way, [&](ConfigMessage& m) { SetText(m, way.field(), ""); }),
                  StatusIs(absl::StatusCode::kInvalidArgument, absl::StrCat("j: ", way.path(), ": is missing")));
      ++required;
    }
    if (rule.one_of().empty()) continue;
    ++chosen;
    for (const std::string& text : rule.one_of())
      EXPECT_OK(After(way, [&](ConfigMessage& m) { SetText(m, way.field(), text); })) << text;
    const absl::Status unknown = After(way, [&](ConfigMessage& m) { SetText(m, way.field(), "something else"); });
    EXPECT_THAT(unknown, StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(way.path() + ": 'something else'")));
    for (const std::string& text : rule.one_of()) EXPECT_THAT(unknown.message(), HasSubstr(text));
  }
  EXPECT_GT(required, 4);
  EXPECT_GT(chosen, 2);
}

TEST(FieldRulesTest, ARequiredMessageHasOneOfItsKinds) {
  SourcedConfig config{.file = "j"};
  MakeGood(config.config);
  EXPECT_OK(CheckFields(config));
  config.config.clear_model();
  EXPECT_THAT(CheckFields(config),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("j: model: is missing: one of mlp, gpt, ")));
}

TEST(FieldRulesTest, DefaultsAreValuesThatAreAllowed) {
  int defaults = 0;
  for (const Way& way : WaysIn(*pb::JobConfig::descriptor())) {
    if (RuleOf(way.field()).default_().empty()) continue;
    SCOPED_TRACE(way.path());
    SourcedConfig config{.file = "j"};
    ConfigMessage& holder = Holder(way, config.config);
    holder.GetReflection()->ClearField(&holder, &way.field());
    FillDefaults(config.config);
    EXPECT_OK(CheckFields(config));
    std::string text;
    const int element = way.field().is_repeated() ? 0 : -1;
    google::protobuf::TextFormat::PrintFieldValueToString(holder, &way.field(), element, &text);
    EXPECT_THAT(RuleOf(way.field()).default_(),
                HasSubstr(std::string(absl::StripSuffix(absl::StripPrefix(text, "\""), "\""))));
    ++defaults;
  }
  EXPECT_GT(defaults, 30);
}

TEST(FieldRulesTest, WhatIsSaidStaysBesideDefaults) {
  pb::Gpt gpt;
  EXPECT_EQ(WithDefaults(gpt).vocabulary(), 256);
  gpt.set_vocabulary(7);
  EXPECT_EQ(WithDefaults(gpt).vocabulary(), 7);
  pb::ConvNet net;
  EXPECT_EQ(WithDefaults(net).channels(1), 32);
  net.add_channels(3);
  EXPECT_EQ(WithDefaults(net).channels_size(), 1);
  EXPECT_FALSE(WithDefaults(pb::JobConfig()).has_restart()) << "what is absent stays so";
}

TEST(FieldRulesTest, EveryPathIsSeenAndMadeAbsolute) {
  for (const Descriptor* message : {pb::JobConfig::descriptor(), pb::JobSpec::descriptor()}) {
    for (const Way& way : WaysIn(*message)) {
      if (!IsText(way.field())) continue;
      SCOPED_TRACE(way.path());
      const pb::FieldRule rule = RuleOf(way.field());
      pb::JobConfig config;
      pb::JobSpec spec;
      ConfigMessage& all = message == pb::JobConfig::descriptor() ? static_cast<ConfigMessage&>(config) : spec;
      ConfigMessage* at = &all;
      for (size_t i = 0; i + 1 < way.fields.size(); ++i) {
        const Reflection& r = *at->GetReflection();
        at = way.fields[i]->is_repeated() ? r.AddMessage(at, way.fields[i]) : r.MutableMessage(at, way.fields[i]);
      }
      SetText(*at, way.field(), rule.path_after() + "folder/../file");
      MakePathsAbsolute(all);
      std::vector<std::string> seen;
      ForEachPath(all, [&](const PathField& path) {
        EXPECT_EQ(path.use, rule.path());
        seen.push_back(path.path);
      });
      const std::string absolute = std::filesystem::current_path() / "file";
      EXPECT_EQ(seen, IsPath(rule) ? std::vector<std::string>{absolute} : std::vector<std::string>());
    }
  }
}

TEST(FieldRulesTest, OnlyATextThatBeginsLikeAPathIsOne) {
  pb::JobConfig config;
  for (const auto& [schedule, path] : {std::pair<std::string, std::string>("1f1b", ""), {"file:/a/b", "/a/b"}}) {
    config.mutable_pipeline()->set_schedule(schedule);
    MakePathsAbsolute(config);
    EXPECT_EQ(config.pipeline().schedule(), schedule);
    std::string seen;
    ForEachPath(config, [&](const PathField& field) { seen = field.path; });
    EXPECT_EQ(seen, path);
  }
}

}  // namespace
}  // namespace oneflow
