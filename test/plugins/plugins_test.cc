// Which rows and which files are refused, and by which words; fields of what plugins add.
#include "tools/job/plugins.h"

#include <dlfcn.h>

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "compiler/lower/compile.h"
#include "oneflow_core/ops/ops.h"
#include "test/support/paths.h"
#include "test/support/status_matchers.h"
#include "test/support/test_dir.h"
#include "tools/job/custom.h"
#include "tools/job/job.h"

namespace oneflow {
namespace {

absl::StatusOr<std::vector<TensorType>> Infer(const InferContext& c) {
  return std::vector<TensorType>(c.inputs.begin(), c.inputs.end());
}
const char* Nothing(const KernelArgs&) { return nullptr; }
absl::StatusOr<std::vector<TensorType>> TypesOfData(const AttrMap&, int64_t batch) {
  return std::vector<TensorType>{{DType::kFloat32, {batch}}};
}
absl::StatusOr<std::unique_ptr<Source>> NoSource(const AttrMap&) { return absl::UnimplementedError("no source"); }
absl::StatusOr<std::unique_ptr<HostFunction>> NoFunction(const AttrMap&) { return absl::UnimplementedError("none"); }
absl::StatusOr<std::vector<Graph>> NoModel(const ModelRequest&, const OpRegistry&) {
  return absl::UnimplementedError("no model");
}
void NoUpdate(OptimizerStep&) {}

OpDef GoodOp(const std::string& name) { return {.name = name, .rule = "...->...", .infer = Infer}; }

// What is said of a library that declares so.
std::string Refused(const std::function<void(Plugin&)>& declare) {
  return std::string(AddPlugin("mine", declare).message());
}

TEST(PluginsTest, AWrongRowIsRefusedWithItsNameAndNothingIsAdded) {
  const struct {
    std::function<void(Plugin&)> declare;
    const char* message;
  } kCases[] = {
      {[](Plugin& p) { p.Add(GoodOp("relu")); }, "plugin 'mine': op 'relu': exists already"},
      {[](Plugin& p) { p.Add(GoodOp("Mine")); }, "op 'Mine': a name consists of a-z, 0-9 and _"},
      {[](Plugin& p) { p.Add(GoodOp("")); }, "op '': a name consists of"},
      {[](Plugin& p) { p.Add(GoodOp("alone")); }, "op 'alone': has no kernel for any device"},
      {[](Plugin& p) { p.Add({.name = "blind", .rule = "...->..."}); }, "op 'blind': has no `infer`"},
      {[](Plugin& p) { p.Add({.name = "unruly", .infer = Infer}); }, "op 'unruly': has no `rule`"},
      {[](Plugin& p) { p.Add({.name = "mine_a", .kind = OpKind::kFetch, .infer = Infer}); },
       "op 'mine_a': its kind is neither kCompute nor kCall"},
      {[](Plugin& p) { p.Add({.name = "mine_a", .kind = OpKind::kCall, .infer = Infer}); },
       "op 'mine_a': is a kCall, but has no host function"},
      {[](Plugin& p) {
         OpDef op = GoodOp("mine_a");
         op.is_elementwise = true;
         p.Add(op);
         p.AddCpu({"mine_a", DType::kFloat32, Nothing});
       },
       "op 'mine_a': is_elementwise, is_sum, "},
      {[](Plugin& p) {
         for (int i = 0; i < 2; ++i) p.Add(GoodOp("twin"));
         p.AddCpu({"twin", DType::kFloat32, Nothing});
       },
       "op 'twin': is added twice"},
      {[](Plugin& p) {
         p.AddCpu({"relu", DType::kFloat32, Nothing});
       },
       "a kernel 'relu' is of no op of this library"},
      {[](Plugin& p) {
         p.Add(GoodOp("mine_a"));
         p.AddCuda({"mine_a", DType::kFloat32, nullptr});
       },
       "a kernel 'mine_a' has no function"},
      {[](Plugin& p) {
         p.Add(GoodOp("mine_a"));
         for (int i = 0; i < 2; ++i) p.AddCpu({"mine_a", DType::kInt32, Nothing});
       },
       "a kernel 'mine_a' for i32 is added twice"},
      {[](Plugin& p) {
         p.Add(HostFunctionKind{"relu", NoFunction});
       },
       "a host function 'relu' is not of an op of kind kCall"},
      {[](Plugin& p) {
         p.Add(DataKind{.name = "text", .types = TypesOfData}, {"text", NoSource});
       },
       "data 'text': exists already"},
      {[](Plugin& p) {
         p.Add(DataKind{.name = "mine"}, {"mine", NoSource});
       },
       "data 'mine': has no `types`"},
      {[](Plugin& p) {
         p.Add(DataKind{.name = "mine", .types = TypesOfData}, {"other", NoSource});
       },
       "data 'mine': its source is called 'other'"},
      {[](Plugin& p) { p.Add(OptimizerRule{.name = "sgd", .build = NoUpdate}); }, "optimizer 'sgd': exists already"},
      {[](Plugin& p) { p.Add(OptimizerRule{.name = "mine"}); },
       "optimizer 'mine': has neither `build` nor kernels for 'mine_update'"},
      {[](Plugin& p) { p.Add(ModelDef{.name = "gpt", .build = NoModel}); }, "model 'gpt': exists already"},
      {[](Plugin& p) { p.Add(ModelDef{.name = "mine"}); }, "model 'mine': has no `build`"},
      {[](Plugin& p) { p.Add(ModelDef{.name = "mine", .reads = {"sounds"}, .build = NoModel}); },
       "model 'mine': reads 'sounds', and there is no such data"},
      {[](Plugin&) { throw std::runtime_error("no rows today"); },
       "it threw while it declared its rows: no rows today"},
  };
  for (const auto& c : kCases) EXPECT_THAT(Refused(c.declare), HasSubstr(c.message));
  for (const char* op : {"mine_a", "twin", "alone"}) EXPECT_EQ(StandardOps().Find(op), nullptr) << op;
  EXPECT_EQ(FindModel("mine"), nullptr);
  EXPECT_EQ(FindOptimizerRule("mine"), nullptr);
}

absl::Status Load(const std::string& path) {
  SourcedConfig config;
  config.file = "j.pbtxt";
  config.config.add_plugins(path);
  return LoadPlugins(config).status();
}

// Of the maths library, which is none of ours.
std::string LibraryOfMaths() {
  Dl_info info = {};
  dladdr(reinterpret_cast<void*>(static_cast<double (*)(double)>(std::sin)), &info);
  return std::filesystem::canonical(info.dli_fname).string();
}

TEST(PluginsTest, AFileThatIsNoPluginIsRefused) {
  const TestDir dir;
  EXPECT_THAT(Load(dir.File("none.so")),
              StatusIs(absl::StatusCode::kNotFound, AllOf(HasSubstr("plugins"), HasSubstr("none.so"))));
  EXPECT_THAT(Load(dir.Write("text.so", "no library")),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("cannot be loaded: ")));
  EXPECT_THAT(Load(LibraryOfMaths()),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("is no plugin: it lacks ONEFLOW_PLUGIN")));
}

TEST(PluginsTest, OtherBytesThanThePlansAreNotLoaded) {
  const TestDir dir;
  google::protobuf::RepeatedPtrField<pb::PluginFile> plugins;
  pb::PluginFile& plugin = *plugins.Add();
  plugin.set_path(dir.Write("a.so", "others"));
  plugin.set_sha256(Sha256("bytes"));
  EXPECT_THAT(LoadPlugins(plugins),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr(Sha256("others")), HasSubstr(absl::StrCat("made with ", Sha256("bytes"))))));
}

TEST(PluginsTest, ASealedJobLoadsNone) {
  ASSERT_OK_AND_ASSIGN(SourcedConfig config,
                       ParseConfig("plugins: 'a.so' model { custom { name: 'x' } } train {}", "j.pbtxt"));
  EXPECT_THAT(MakeJob(std::move(config), JobKind::kSealed, StandardOps()).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("'a.so' is not loaded")));
}

class CustomTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    ASSERT_OK(AddPlugin("of custom_test", [](Plugin& p) {
      p.Add(DataKind{.name = "made",
                     .types = TypesOfData,
                     .paths = {"file"},
                     .fields = {{"file", std::string()}, {"rows", int64_t{8}, 1, 100}}},
            {"made", NoSource});
      p.Add(ModelDef{.name = "own",
                     .reads = {"made"},
                     .build = NoModel,
                     .fields = {{"width", int64_t{64}, 1, 1024},
                                {"rate", 0.5, 0, 1},
                                {"deep", false},
                                {"sizes", std::vector<int64_t>{4, 2}},
                                {"name", std::string("x")}}});
      p.Add(
          OptimizerRule{.name = "own_rule", .attributes = {{"beta", 0.9, 1}, {"fast", 0, 0, true}}, .build = NoUpdate});
    }));
  }

  // What is wrong with this text in `model { custom { name: "own" ... } }`; "" if nothing is.
  static std::string Wrong(const std::string& text) {
    pb::Model model;
    model.mutable_custom()->set_name("own");
    model.mutable_custom()->add_set(text);
    return std::string(CustomFields(model).status().message());
  }
};

TEST_F(CustomTest, FieldsHaveTheirTypesAndDefaults) {
  pb::Model model;
  model.mutable_custom()->set_name("own");
  for (const char* text : {"width=32", "deep=true", "sizes=7,8,9", "name=a=b"}) model.mutable_custom()->add_set(text);
  ASSERT_OK_AND_ASSIGN(const AttrMap fields, CustomFields(model));
  EXPECT_EQ(fields.Int("width"), 32);
  EXPECT_EQ(fields.Double("rate"), 0.5);
  EXPECT_TRUE(fields.Bool("deep"));
  EXPECT_THAT(fields.Ints("sizes"), ElementsAre(7, 8, 9));
  EXPECT_EQ(fields.String("name"), "a=b");
  pb::Data data;
  data.mutable_custom()->set_name("made");
  data.mutable_custom()->add_set("file=a/../b");
  ASSERT_OK_AND_ASSIGN(const AttrMap of_data, CustomFields(data));
  EXPECT_EQ(of_data.String("file"), std::filesystem::absolute("b").string());
}

TEST_F(CustomTest, WhatIsWrongIsSaidWithBothValues) {
  const BadText kCases[] = {
      {"width", "'width' is not of the form field=value"},
      {"wide=3", "'own' has no field 'wide'; it has width, rate, deep, sizes, name"},
      {"width=many", "width: 'many' is no integer"},
      {"width=0", "width: 0 is not in [1, 1024]"},
      {"rate=nan", "rate: nan is not in [0, 1]"},
      {"deep=yes", "deep: 'yes' is no true or false"},
      {"sizes=1,x", "sizes: '1,x' is no list of integers"},
  };
  for (const BadText& c : kCases) EXPECT_THAT(Wrong(c.text), HasSubstr(c.message));
  pb::Model model;
  model.mutable_custom()->set_name("other");
  EXPECT_THAT(CustomFields(model).status().message(), HasSubstr("add no model 'other'; they add "));
  model.mutable_custom()->set_name("gpt");
  EXPECT_THAT(CustomFields(model).status().message(), HasSubstr("'gpt' is of no plugin: say gpt { ... } instead"));
  model.mutable_custom()->set_name("own");
  for (int i = 0; i < 2; ++i) model.mutable_custom()->add_set("width=3");
  EXPECT_THAT(CustomFields(model).status().message(), HasSubstr("'width' is said twice"));
}

TEST_F(CustomTest, ErrorsOfAConfigNameTheField) {
  const auto error = [](const std::string& model, const std::string& optimizer) {
    const absl::StatusOr<SourcedConfig> config =
        ParseConfig(absl::StrCat("model { custom { ", model,
                                 " } } data { custom { name: 'made' } } train { steps: 1 batch_size: 2 ",
                                 "schedule { learning_rate: 1 } optimizer { custom { ", optimizer, " } } }"),
                    "j.pbtxt");
    EXPECT_OK(config);
    return std::string(MakeJob(*config, JobKind::kTrain, StandardOps()).status().message());
  };
  EXPECT_THAT(error("name: 'own' set: 'width=0'", "name: 'own_rule'"),
              AllOf(HasSubstr("model.custom"), HasSubstr("width: 0 is not in [1, 1024]")));
  EXPECT_THAT(error("name: 'own'", "name: 'own_rule' set: 'beta=1'"),
              AllOf(HasSubstr("train.optimizer.custom"), HasSubstr("beta: 1 is not in [0, 1)")));
  EXPECT_THAT(error("name: 'own'", "name: 'own_rule' set: 'beta=0.5' set: 'weight_decay=0.1'"), HasSubstr("no model"))
      << "its builder was asked";
}

}  // namespace
}  // namespace oneflow
