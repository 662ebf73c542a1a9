#include "tools/job/optimizer.h"

#include <set>
#include <string>

#include "google/protobuf/text_format.h"
#include "oneflow_core/optimizer_rules.h"
#include "test/support/status_matchers.h"
#include "tools/job/field_rules.h"

namespace oneflow {
namespace {

using ::google::protobuf::FieldDescriptor;
using ::google::protobuf::TextFormat;

OptimizerOptions Of(const std::string& text) {
  pb::Optimizer optimizer;
  EXPECT_TRUE(TextFormat::ParseFromString(text, &optimizer)) << text;
  return OptimizerOf(optimizer);
}

// The config and the table of rules say the same.
TEST(OptimizerTest, ARuleIsAMessageWhoseFieldsAreItsAttributes) {
  const google::protobuf::OneofDescriptor* const kinds = pb::Optimizer::descriptor()->FindOneofByName("kind");
  ASSERT_EQ(kinds->field_count(), static_cast<int>(OptimizerRules().size()) + 1) << "and that of plugins";
  for (int i = 0; i < kinds->field_count(); ++i) {
    if (kinds->field(i)->message_type() == pb::Custom::descriptor()) continue;
    const OptimizerRule* const rule = FindOptimizerRule(kinds->field(i)->name());
    ASSERT_NE(rule, nullptr) << kinds->field(i)->name();
    std::set<std::string> fields, attributes = {"weight_decay"};
    const google::protobuf::Descriptor& message = *kinds->field(i)->message_type();
    for (int field = 0; field < message.field_count(); ++field) fields.insert(message.field(field)->name());
    for (const OptimizerAttribute& attribute : rule->attributes) {
      attributes.insert(attribute.name);
      const FieldDescriptor* const field = message.FindFieldByName(attribute.name);
      ASSERT_NE(field, nullptr) << rule->name << "." << attribute.name;
      EXPECT_EQ(field->cpp_type(), attribute.is_flag ? FieldDescriptor::CPPTYPE_BOOL : FieldDescriptor::CPPTYPE_DOUBLE);
      EXPECT_TRUE(field->has_presence() || attribute.value == 0)
          << rule->name << "." << attribute.name << " is " << attribute.value << " where nothing is said";
    }
    EXPECT_EQ(fields, attributes) << rule->name;
  }
}

TEST(OptimizerTest, AGroupMayHaveEveryRule) {
  const auto kinds = [](const google::protobuf::Descriptor& message) {
    std::vector<std::pair<std::string, std::string>> kinds;
    const google::protobuf::OneofDescriptor& kind = *message.FindOneofByName("kind");
    for (int i = 0; i < kind.field_count(); ++i) {
      kinds.push_back({kind.field(i)->name(), kind.field(i)->message_type()->name()});
    }
    return kinds;
  };
  EXPECT_EQ(kinds(*pb::ParameterGroup::descriptor()), kinds(*pb::Optimizer::descriptor()));
}

TEST(OptimizerTest, AGroupChangesWhatItSays) {
  const OptimizerOptions optimizer = Of(
      "adamw { beta2: 0.5 weight_decay: 0.25 } groups { match: 'a' rate: 0.1 } groups { match: 'b' weight_decay: 0 } "
      "groups { match: 'c' frozen: true } groups { match: 'd' sgd { momentum: 0.5 weight_decay: 2 } }");
  ASSERT_EQ(optimizer.groups.size(), 4u);
  const ParameterGroup &a = optimizer.groups[0], &b = optimizer.groups[1], &d = optimizer.groups[3];
  EXPECT_EQ(a.match, "a");
  EXPECT_EQ(a.rate, 0.1);
  EXPECT_EQ(a.rule, "adamw");
  EXPECT_EQ(a.attributes, (AttrMap{{"beta2", 0.5}}));
  EXPECT_EQ(a.weight_decay, 0.25);
  EXPECT_FALSE(a.decays_vectors);
  EXPECT_EQ(b.weight_decay, 0);
  EXPECT_TRUE(b.decays_vectors);
  EXPECT_FALSE(b.frozen);
  EXPECT_FALSE(b.is_own_rule);
  EXPECT_TRUE(optimizer.groups[2].frozen);
  EXPECT_EQ(d.rule, "sgd");
  EXPECT_TRUE(d.is_own_rule);
  EXPECT_EQ(d.attributes, (AttrMap{{"momentum", 0.5}, {"nesterov", false}}));
  EXPECT_EQ(d.weight_decay, 2);
}

TEST(OptimizerTest, WhatAJobDoesNotSayIsLeftToTheRule) {
  EXPECT_EQ(Of("").rule, OptimizerRules()[0].name);
  const OptimizerOptions lion = Of("lion { beta2: 0.5 weight_decay: 0.25 } clip_norm: 2");
  EXPECT_EQ(lion.rule, "lion");
  EXPECT_EQ(lion.attributes, (AttrMap{{"beta2", 0.5}}));
  EXPECT_EQ(lion.weight_decay, 0.25);
  EXPECT_EQ(lion.clip_norm, 2);
  EXPECT_EQ(Of("sgd { nesterov: true momentum: 0.9 }").attributes, (AttrMap{{"momentum", 0.9}, {"nesterov", true}}));
}

TEST(OptimizerTest, FieldsAreWithinTheRangesOfTheirRule) {
  for (const auto& [text, error] : std::vector<std::pair<std::string, std::string>>{
           {"lion { beta1: 1 }", "train.optimizer.lion.beta1: 1 is not in [0, 1)"},
           {"lion { weight_decay: -1 }", "train.optimizer.lion.weight_decay: -1 is not a finite number >= 0"},
           {"adamw { epsilon: -1 }", "train.optimizer.adamw.epsilon: -1 is not a finite number >= 0"},
           {"sgd { momentum: 1 }", "train.optimizer.sgd.momentum: 1 is not in [0, 1)"},
           {"sgd { momentum: 0.5 nesterov: true }", ""}}) {
    SourcedConfig config;
    pb::Optimizer& optimizer = *config.config.mutable_train()->mutable_optimizer();
    ASSERT_TRUE(TextFormat::ParseFromString(text, &optimizer));
    config.config.mutable_train()->set_batch_size(1);
    config.config.mutable_model()->mutable_mlp();
    const absl::Status status = CheckFields(config);
    EXPECT_THAT(status.message(), ::testing::HasSubstr(error)) << text;
    EXPECT_EQ(status.ok(), error.empty()) << text;
  }
}

}  // namespace
}  // namespace oneflow
