#include "tools/job/config.h"

#include "test/support/status_matchers.h"
#include "tools/job/validate.h"

namespace oneflow {
namespace {

constexpr char kGood[] = R"(name: "j"
model { gpt { layers: 2 width: 16 heads: 4 context: 8 } }
data { text { path: "t.txt" } }
mesh { dp: 2 tp: 2 }
cluster { processes: 2 }
train {
  steps: 10
  batch_size: 8
  micro_batches: 2
  optimizer { adamw { beta1: 0.9 } clip_norm: 1 }
  schedule { learning_rate: 1e-3 }
}
)";

TEST(ConfigTest, AGoodConfigIsValid) {
  ASSERT_OK_AND_ASSIGN(const SourcedConfig config, ParseConfig(kGood, "j.pbtxt"));
  EXPECT_OK(ValidateConfig(config));
  EXPECT_EQ(config.Where("train.batch_size"), "j.pbtxt:8: train.batch_size");
  EXPECT_EQ(config.Where("train.schedule.kind"), "j.pbtxt:11: train.schedule.kind") << "unset: where its message is";
  EXPECT_EQ(config.Where("evaluate.every"), "j.pbtxt: evaluate.every");
}

TEST(ConfigTest, OverridesSetAnyField) {
  ASSERT_OK_AND_ASSIGN(SourcedConfig config, ParseConfig(kGood, "j.pbtxt"));
  for (const char* assignment :
       {"train.steps=20", "mesh.dp=3", "save_weights=/tmp/w", "model.mlp.widths=[64,32]", "train.schedule.kind=cosine",
        "evaluate={every: 5}", "generate.prompt=\"a b\"", "data.text.path=it's", "train.optimizer.sgd.nesterov=true"}) {
    ASSERT_OK(ApplyOverride(assignment, config)) << assignment;
  }
  EXPECT_EQ(config.config.train().steps(), 20);
  EXPECT_EQ(config.config.mesh().dp(), 3);
  EXPECT_EQ(config.config.mesh().tp(), 2) << "what is not named stays";
  EXPECT_EQ(config.config.save_weights(), "/tmp/w");
  EXPECT_EQ(config.config.model().mlp().widths(1), 32);
  EXPECT_FALSE(config.config.model().has_gpt()) << "a oneof holds one";
  EXPECT_EQ(config.config.evaluate().every(), 5);
  EXPECT_EQ(config.config.generate().prompt(), "a b");
  EXPECT_EQ(config.config.data().text().path(), "it's");
  EXPECT_TRUE(config.config.train().optimizer().sgd().nesterov());
  EXPECT_EQ(config.Where("train.steps"), "--set train.steps=20: train.steps");
}

TEST(ConfigTest, ListsOfTextsAreWrittenAsLists) {
  SourcedConfig config;
  for (const auto& [assignment, features] :
       {std::pair<const char*, std::vector<std::string>>("data.csv.features=['a', \"b c\"]", {"a", "b c"}),
        {"data.csv.features=[]", {}},
        {"data.csv.features=a b", {"a b"}},
        {"data.csv.features='[a'", {"[a"}}}) {
    ASSERT_OK(ApplyOverride(assignment, config)) << assignment;
    const auto& read = config.config.data().csv().features();
    EXPECT_EQ(std::vector<std::string>(read.begin(), read.end()), features) << assignment;
  }
}

TEST(ConfigTest, BadOverridesSayWhatExists) {
  const BadText kCases[] = {
      {"train.steps", "not of the form"},
      {"=3", "not of the form"},
      {"train.stepz=3", "Train has no field 'stepz'; it has steps, batch_size"},
      {"trian.steps=3", "JobConfig has no field 'trian'"},
      {"train.steps.x=3", "'steps' is a int64 and has no fields"},
      {"train.steps=ten", "'ten' is no int64"},
      {"train.steps=3.5", "'3.5' is no int64"},
      {"train.steps=", "'' is no int64"},
      {"mesh.dp=99999999999", "is no int32"},
      {"train.optimizer.clip_norm=big", "is no double"},
      {"model.mlp.widths=[1,x]", "is no list of int32"},
      {"evaluate={evry: 5}", "'{evry: 5}' is no Evaluate (Evaluate has no field 'evry'; it has every, "},
      {"evaluate={evry: 5}", "; did you mean 'every'?"},
      {"train.tseps=3", "; did you mean 'steps'?"},
      {"trian.steps=3", "; did you mean 'train'?"},
      {"learning_rate=1", "; did you mean 'train.schedule.learning_rate'?"},
      {"precision.compute=FP16", "precision.compute=FP16: 'FP16' is none of F32, BF16, F16"},
      {"precision.compute=f32", "'f32' is none of F32, BF16, F16"},
      {"precision={reduce: half}", "reduce: 'half' is none of F32, BF16, F16"},
      {"train.optimizer.sgd.nesterov=maybe", "is no bool"},
  };
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.text);
    ASSERT_OK_AND_ASSIGN(SourcedConfig config, ParseConfig(kGood, "j.pbtxt"));
    EXPECT_THAT(ApplyOverride(c.text, config), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(c.message)));
  }
}

TEST(ConfigTest, MalformedConfigsNameLineAndColumn) {
  const BadText kCases[] = {
      {"train { steps: 10", "j.pbtxt:1:"},
      {"train {\n  stepz: 10\n}", "j.pbtxt:2:8: Train has no field 'stepz'; it has steps, batch_size, "},
      {"precision { compute: FP16 }", "j.pbtxt:1:27: compute: 'FP16' is none of F32, BF16, F16"},
      {"name: 3", "j.pbtxt:1:7:"},
      {"train {\n  steps: \"many\"\n}", "j.pbtxt:2:10:"},
      {"mesh { dp: 2 dp: 3 }", "j.pbtxt:1:"},
      {"}", "j.pbtxt:1:1:"},
      {"\x01\x02\x03", "j.pbtxt:1:"},
  };
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.text);
    EXPECT_THAT(ParseConfig(c.text, "j.pbtxt"), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(c.message)));
  }
}

// Every enum of the schema, wherever it is: a value that it does not have is answered with those that it has.
void ExpectEnumsExplained(const google::protobuf::Descriptor& type, const std::string& prefix, int& seen) {
  for (int i = 0; i < type.field_count(); ++i) {
    const google::protobuf::FieldDescriptor& field = *type.field(i);
    const std::string path = prefix + field.name();
    if (field.enum_type() != nullptr) {
      ++seen;
      SCOPED_TRACE(path);
      SourcedConfig config;
      const absl::Status status = ApplyOverride(absl::StrCat(path, "=NOTHING"), config);
      for (int v = 0; v < field.enum_type()->value_count(); ++v) {
        EXPECT_THAT(status,
                    StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(field.enum_type()->value(v)->name())));
      }
    }
    if (field.message_type() != nullptr && !field.is_repeated())
      ExpectEnumsExplained(*field.message_type(), path + ".", seen);
  }
}

TEST(ConfigTest, AWrongValueOfAnyEnumIsAnsweredWithItsValues) {
  int seen = 0;
  ExpectEnumsExplained(*pb::JobConfig::descriptor(), "", seen);
  EXPECT_GT(seen, 0);
}

TEST(ConfigTest, TextsThatAreNotUtf8AreNamed) {
  const struct {
    const char* assignment;
    const char* path;  // empty: it is UTF-8
  } kCases[] = {
      {"data.text.path=gr\xc3\xbc\xc3\x9f", ""},
      {"data.text.path=gr\xfc\xdf", "data.text.path"},
      {"name=\xff", "name"},
      {"save_weights=w\xc3", "save_weights"},              // cut in the midst of a character
      {"save_weights=w\xed\xa0\x80", "save_weights"},      // half of a pair of UTF-16
      {"save_weights=w\xc0\xaf", "save_weights"},          // longer than it needs to be
      {"save_weights=w\xf4\x90\x80\x80", "save_weights"},  // beyond the last character
      {"cluster={hosts {device_kind: '\xff'}}", "cluster.hosts.device_kind"},
  };
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.assignment);
    ASSERT_OK_AND_ASSIGN(SourcedConfig config, ParseConfig(kGood, "j.pbtxt"));
    ASSERT_OK(ApplyOverride(c.assignment, config));
    if (*c.path == '\0') {
      EXPECT_OK(CheckTexts(config));
    } else {
      EXPECT_THAT(CheckTexts(config),
                  StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(absl::StrCat(c.path, ": is not UTF-8"))));
    }
  }
}

const struct {
  const char* assignment;
  const char* message;
} kNonsense[] = {
    {"model={}", "model: is missing"},
    {"model.gpt.layers=0", "model.gpt.layers: 0 is not in [1,"},
    {"model.gpt.heads=3", "width 16 is not a multiple of 3 heads"},
    {"model.gpt.heads=0", "model.gpt.heads"},
    {"model.gpt.width=-16", "model.gpt.width: -16"},
    {"model.gpt.dropout=1", "model.gpt.dropout: 1 is not in [0, 1)"},
    {"model.gpt.dropout=nan", "model.gpt.dropout: nan"},
    {"model.gpt.vocabulary=1", "model.gpt.vocabulary: 1"},
    {"model.gpt.width=262148", "model.gpt.width: 262148 is not in [1, 262144]"},
    {"model.convnet={}", "reads images"},
    {"model.graph=", "model.graph: is missing"},
    {"data={}", "reads text"},
    {"data.text.path=", "data.text.path: is missing"},
    {"data.text.validation_fraction=1", "data.text.validation_fraction: 1"},
    {"mesh.dp=-1", "mesh.dp: -1"},
    {"mesh.tp=5000", "mesh.tp: 5000"},
    {"mesh.dp=3000", "at most 4096"},
    {"cluster.processes=3", "4 devices do not divide among 3 processes"},
    {"cluster.processes=0", "cluster.processes: 0"},
    {"cluster.devices_per_process=3", "2 processes of 3 devices make 6, but the job has 4"},
    {"cluster.device=tpu", "'tpu'"},
    {"cluster.cores_per_process=0", "cluster.cores_per_process: 0"},
    {"train.steps=-1", "train.steps: -1"},
    {"train.batch_size=0", "train.batch_size: 0"},
    {"train.micro_batches=3", "batch_size 8 is not a multiple of 3"},
    {"train.optimizer.adamw.beta1=1", "beta1: 1"},
    {"train.optimizer.adamw.epsilon=-1", "epsilon: -1"},
    {"train.optimizer.sgd={nesterov: true}", "needs a momentum"},
    {"train.optimizer.clip_norm=inf", "clip_norm: inf"},
    {"train.optimizer.groups={rate: 2}", "train.optimizer.groups[0].match: is missing"},
    {"train.optimizer.groups={match: 'a' sgd {nesterov: true}}", "groups[0].sgd.nesterov: needs a momentum"},
    {"train.optimizer.groups={match: 'a' frozen: true rate: 2}", "groups[0].rate: is given, but the group is frozen"},
    {"train.optimizer.groups={match: 'a' frozen: true sgd {}}", "groups[0].sgd: is given, but the group is frozen"},
    {"train.optimizer.groups={match: 'a' weight_decay: 1 sgd {weight_decay: 2}}",
     "groups[0].weight_decay: 1 is given beside sgd.weight_decay, 2"},
    {"train.optimizer.muon={momentum: 1}", "train.optimizer.muon.momentum: 1 is not in [0, 1)"},
    {"train.schedule.learning_rate=-1", "learning_rate: -1"},
    {"train.schedule.learning_rate=0", "learning_rate: is missing"},
    {"train.schedule.kind=step", "'step' is none of"},
    {"train.schedule.min_ratio=2", "min_ratio: 2"},
    {"train.schedule.warmup_steps=-5", "warmup_steps: -5"},
    {"train.schedule.cycle_steps=5",
     "train.schedule.cycle_steps: schedule 'constant' does not read it, but 'restarts' does"},
    {"train.schedule={learning_rate: 1 kind: 'wsd' warmup_steps: 90 decay_share: 0.2 steps: 100}",
     "train.schedule.decay_share: the decay takes 20 steps, but of 100 steps 90 are the warm-up"},
    {"train.schedule={learning_rate: 1 kind: 'piecewise' boundaries: [5] factors: [-1]}", "factors"},
    {"train.schedule={learning_rate: 1 kind: 'one_cycle'}", "train.schedule.warmup_steps: is missing"},
    {"recompute={what: \"layers\" layers: -1}", "recompute.layers: -1 is not in [0, 10000]"},
    {"recompute={what: \"none\" layers: 2}", "recompute.what: 2 layers are given, but nothing to compute again"},
    {"precision={reduce: BF16}", "precision.reduce: BF16 is narrower than precision.compute, which is F32"},
    {"precision={compute: F16 reduce: BF16}",
     "precision.reduce: BF16 is neither F32 nor precision.compute, which is F16"},
    {"precision={compute: BF16 accumulate: BF16}",
     "precision.accumulate: BF16 is neither F32 nor precision.reduce, which is F32"},
    {"offload={what: GRADIENTS tier: HOST}", "offload: GRADIENTS are loaded with"},
    {"offload={what: OPTIMIZER tier: HOST memory: \"1 QB\"}", "offload[0].memory"},
    {"offload=[{what: OPTIMIZER tier: HOST memory: \"1GB\"}, {what: WEIGHTS tier: HOST memory: \"2GB\"}]",
     "offload[1].memory: is '2GB', but '1GB' in offload[0]"},
    {"precision={compute: F16 initial_scale: 0}", "precision.initial_scale: 0 is not in [1, 1e+38]"},
    {"precision={compute: F16 initial_scale: nan}", "precision.initial_scale: nan is not in [1, 1e+38]"},
    {"precision={compute: F16 growth_interval: 0}", "precision.growth_interval: 0 is not in [1, 2147483647]"},
    {"precision={compute: BF16 initial_scale: 1024}",
     "precision.initial_scale: the loss is scaled where compute is F16, but it is BF16"},
    {"evaluate={batches: -1}", "evaluate.batches: -1"},
    {"trace={megabytes: 8}", "trace.file: is missing"},
    {"trace={file: \"t\" megabytes: 2000}", "trace.megabytes: 2000 is not in [1, 1024]"},
    {"data.least_read_ms=-1", "data.least_read_ms: -1 is not in [0,"},
    {"pipeline={chunks: 2}", "pipeline.schedule: chunks are given, but no schedule"},
    {"pipeline={schedule: \"1f1b\" costs: \"t.json\"}", "pipeline.costs: schedule '1f1b' takes none"},
    {"pipeline={schedule: \"greedy\" activations_mb: 5}", "pipeline.activations_mb: needs pipeline.costs"},
    {"pipeline={shares: [2, 0]}", "pipeline.shares: 0 is not a finite number > 0"},
    {"generate={tokens: 5}", "generate.prompt: is empty"},
    {"generate={prompt: \"a\"}", "generate.tokens: 0"},
    {"generate={tokens: 5 prompt: \"a\" temperature: -1}", "generate.temperature: -1"},
};

TEST(ConfigTest, ConfigsThatMakeNoSenseNameFieldLineAndBothValues) {
  for (const auto& c : kNonsense) {
    SCOPED_TRACE(c.assignment);
    ASSERT_OK_AND_ASSIGN(SourcedConfig config, ParseConfig(kGood, "j.pbtxt"));
    ASSERT_OK(ApplyOverride(c.assignment, config));
    EXPECT_THAT(ValidateConfig(config), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(c.message)));
  }
}

TEST(ConfigTest, WhatEndsTrainingAndWhatIsSavedAreChecked) {
  const struct {
    std::string assignment, message;
  } kCases[] = {
      {"checkpoint={every: 5}", "checkpoint.path: is missing"},
      {"checkpoint={path: 'c' every: -1}", "checkpoint.every: -1 is not in"},
      {"checkpoint={path: 'c' keep: -1}", "checkpoint.keep: -1 is not in"},
      {"checkpoint={path: 'c' keep: 0 keep_every: 5}", "checkpoint.keep_every: keep: 0 keeps all"},
      {"train.stop={patience: 2}", "train.stop.patience: counts evaluations, but there are none while training"},
      {"train.stop={least_gain: 0.1}", "train.stop.least_gain: without train.stop.patience"},
      {"train.stop={seconds: -1}", "train.stop.seconds: -1 is not"},
      {"tensorboard_histograms_every=-1", "tensorboard_histograms_every: -1 is not in"},
      {"tensorboard_histograms_every=5", "tensorboard_histograms_every: without a folder for them (tensorboard)"},
  };
  for (const auto& c : kCases) {
    ASSERT_OK_AND_ASSIGN(SourcedConfig config, ParseConfig(kGood, "j.pbtxt"));
    ASSERT_OK(ApplyOverride(c.assignment, config));
    EXPECT_THAT(ValidateConfig(config), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(c.message)));
  }
}

TEST(ConfigTest, TrainingIsARuleHoweverManyStepsAndEvaluationsThereAre) {
  ASSERT_OK_AND_ASSIGN(SourcedConfig config, ParseConfig(kGood, "j.pbtxt"));
  for (const char* assignment : {"train.steps=1000000000", "evaluate={every: 1}"}) {
    ASSERT_OK(ApplyOverride(assignment, config));
  }
  EXPECT_OK(ValidateConfig(config));
}

}  // namespace
}  // namespace oneflow
