// The tables of models and of kinds of data, and the config that names them, say the same.
#include <algorithm>
#include <set>

#include "actor/data/source.h"
#include "google/protobuf/text_format.h"
#include "oneflow_core/data/data_kind.h"
#include "oneflow_core/models/model.h"
#include "oneflow_core/ops/ops.h"
#include "test/support/status_matchers.h"
#include "tools/job/attributes.h"
#include "tools/job/field_rules.h"
#include "tools/job/interval.h"
#include "tools/job/program.h"

namespace oneflow {
namespace {

using ::google::protobuf::FieldDescriptor;

// The messages of the oneof `kind`, by name, without that of plugins.
std::set<std::string> MessagesOf(const google::protobuf::Descriptor& message) {
  std::set<std::string> names;
  const google::protobuf::OneofDescriptor& kinds = *message.FindOneofByName("kind");
  for (int i = 0; i < kinds.field_count(); ++i) {
    const google::protobuf::Descriptor* const type = kinds.field(i)->message_type();
    if (type != nullptr && type != pb::Custom::descriptor()) names.insert(kinds.field(i)->name());
  }
  return names;
}

TEST(ModelsTest, AModelIsAMessageOfTheConfig) {
  std::set<std::string> names;
  for (const ModelDef& model : Models()) names.insert(model.name);
  EXPECT_EQ(names, MessagesOf(*pb::Model::descriptor()));
  EXPECT_EQ(names.size(), Models().size()) << "two have one name";
}

TEST(ModelsTest, AKindOfDataIsAMessageOfTheConfigAndHasASource) {
  std::set<std::string> names;
  for (const DataKind& kind : DataKinds()) {
    names.insert(kind.name);
    EXPECT_NE(OpenSource({{"dataset", kind.name}}).status().code(), absl::StatusCode::kUnimplemented) << kind.name;
  }
  EXPECT_EQ(names, MessagesOf(*pb::Data::descriptor()));
}

// Of several kinds either all are read alike, or the model is made for each of them.
TEST(ModelsTest, AModelReadsKindsThatThereAre) {
  for (const ModelDef& model : Models()) {
    EXPECT_FALSE(model.reads.empty()) << model.name;
    for (const std::string& kind : model.reads) {
      ASSERT_OK(FindDataKind(kind).status()) << model.name;
      if (model.reads.size() == 1) continue;
      EXPECT_EQ(FindDataKind(kind)->read == nullptr, FindDataKind(model.reads[0])->read == nullptr)
          << model.name << " on " << kind;
    }
  }
}

// Sizes of a config are within what models refuse themselves (oneflow_core/models/config.h).
TEST(ModelsTest, SizesAreLimitedAsModelsLimitThem) {
  int sizes = 0;
  for (const ModelDef& model : Models()) {
    const google::protobuf::Descriptor& message = *pb::Model::descriptor()->FindFieldByName(model.name)->message_type();
    for (int f = 0; f < message.field_count(); ++f) {
      if (message.field(f)->cpp_type() != FieldDescriptor::CPPTYPE_INT32) continue;
      ASSERT_OK_AND_ASSIGN(const Interval range, Interval::Parse(RuleOf(*message.field(f)).in()));
      EXPECT_GE(range.low, 0) << message.field(f)->full_name();  // 0: a default that follows from other fields
      EXPECT_LE(range.high, message.field(f)->name() == "layers" ? kMaxLayers : kMaxModelSize)
          << message.field(f)->full_name();
      ++sizes;
    }
  }
  EXPECT_GT(sizes, 10);
}

TEST(ModelsTest, ASmallOneIsWhatTheConfigTakes) {
  for (const ModelDef& model : Models()) {
    pb::Model config;
    EXPECT_TRUE(
        google::protobuf::TextFormat::ParseFromString(absl::StrCat(model.name, " {", model.small, "}"), &config))
        << model.name;
    if (model.check != nullptr) {
      EXPECT_EQ(model.check(AttributesOfKind(config)), std::nullopt) << model.name;
    }
  }
}

TEST(AttributesTest, AreTheFieldsWithDefaults) {
  pb::Model model;
  model.mutable_convnet()->set_hidden(7);
  EXPECT_EQ(AttributesOfKind(model), (AttrMap{{"channels", std::vector<int64_t>{16, 32}},
                                              {"hidden", int64_t{7}},
                                              {"classes", int64_t{10}},
                                              {"dropout", 0.0}}));
  model.set_graph("g");
  EXPECT_EQ(AttributesOfKind(model), AttrMap()) << "is no message";
  EXPECT_EQ(AttributesOfKind(pb::Model()), AttrMap());
  EXPECT_EQ(KindOf(model)->name(), "graph");
  EXPECT_EQ(KindOf(pb::Model()), nullptr);
}

TEST(BuildProgramTest, WhatIsMissingIsNamed) {
  pb::JobConfig config;
  EXPECT_THAT(BuildProgram(config, StandardOps()),
              testing::StatusIs(absl::StatusCode::kInvalidArgument, "model: is missing"));
  config.mutable_model()->mutable_mlp();
  EXPECT_THAT(BuildProgram(config, StandardOps()),
              testing::StatusIs(absl::StatusCode::kInvalidArgument, "data: is missing"));
}

}  // namespace
}  // namespace oneflow
