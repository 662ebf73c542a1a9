#include "tools/study/weights/mapping.h"

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "oneflow_core/models/model.h"
#include "test/support/status_matchers.h"
#include "tools/study/planner/model_size.h"
#include "tools/study/weights/correspondence.h"
#include "tools/study/weights/hf_config.h"
#include "tools/study/weights/model_variables.h"

namespace oneflow {
namespace {

// A table with a line more.
std::string TableWith(const std::string& line) {
  return "model: \"gpt\" families { model_type: \"t\" }\nrules { ours: \"h{i}/a\" theirs: \"a.{i}\" }\n" + line;
}

TEST(MappingTest, ThoseOfTheProgramAreGood) {
  const auto mappings = BuiltInMappings();  // which checks that the model has the fields that they name
  ASSERT_OK(mappings);
  std::vector<std::string> names;
  for (const Mapping& mapping : *mappings) names.push_back(mapping.name);
  EXPECT_THAT(names, ::testing::ElementsAre("bert", "deepseek", "gemma", "gpt2", "llama", "resnet", "t5", "vit"));
}

TEST(MappingTest, ThoseOfTheProgramHaveARuleForEachVariable) {
  ASSERT_OK_AND_ASSIGN(const std::vector<Mapping> mappings, BuiltInMappings());
  for (const Mapping& mapping : mappings) {
    const std::string& name = mapping.table.model();
    const ModelDef& def = *FindModel(name);
    std::vector<std::string> settings = {absl::StrCat("model={", name, " {", def.small, "}}")};
    const bool reads_texts = std::count(def.reads.begin(), def.reads.end(), "texts") > 0;
    for (int heads = 0; heads < (reads_texts ? 2 : 1); ++heads) {
      ASSERT_OK_AND_ASSIGN(SourcedConfig config, ConfigOfModel(name, settings));
      ASSERT_OK_AND_ASSIGN(const JobModel model, ModelOf(std::move(config)));
      ASSERT_OK_AND_ASSIGN(const Correspondence found, Correspond(mapping, model.variables));
      for (const int variable : found.unnamed) ADD_FAILURE() << mapping.name << ": " << model.variables[variable].name;
      EXPECT_FALSE(found.tensors.empty()) << mapping.name;
      settings.push_back("data.texts.text=words");
    }
  }
}

constexpr char kGemma2[] = R"({"architectures": ["Gemma2ForCausalLM"], "attention_bias": false,
      "attention_dropout": 0.0, "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0, "head_dim": 256,
      "hidden_act": "gelu_pytorch_tanh", "hidden_activation": "gelu_pytorch_tanh", "hidden_size": 2304,
      "intermediate_size": 9216, "max_position_embeddings": 8192, "model_type": "gemma2", "num_attention_heads": 8,
      "num_hidden_layers": 26, "num_key_value_heads": 4, "query_pre_attn_scalar": 256, "rms_norm_eps": 1e-06,
      "rope_theta": 10000.0, "sliding_window": 4096, "vocab_size": 256000})";
constexpr char kGemma3[] = R"({"architectures": ["Gemma3ForCausalLM"], "attention_bias": false,
      "attn_logit_softcapping": null, "final_logit_softcapping": null, "head_dim": 256,
      "hidden_activation": "gelu_pytorch_tanh", "hidden_size": 1152, "intermediate_size": 6912,
      "max_position_embeddings": 32768, "model_type": "gemma3_text", "num_attention_heads": 4, "num_hidden_layers": 26,
      "num_key_value_heads": 1, "query_pre_attn_scalar": 256, "rms_norm_eps": 1e-06, "rope_local_base_freq": 10000,
      "rope_scaling": null, "rope_theta": 1000000, "sliding_window": 512, "sliding_window_pattern": 6,
      "vocab_size": 262144})";

constexpr char kBert[] = R"({"architectures": ["BertForSequenceClassification"], "hidden_act": "gelu",
      "hidden_size": 768, "intermediate_size": 3072, "layer_norm_eps": 1e-12, "max_position_embeddings": 512,
      "model_type": "bert", "num_attention_heads": 12, "num_hidden_layers": 12, "num_labels": 5, "type_vocab_size": 2,
      "vocab_size": 30522})";
// As a published one, but without experts.
constexpr char kDeepseek[] = R"({"architectures": ["DeepseekV3ForCausalLM"], "attention_bias": false,
      "first_k_dense_replace": 61, "hidden_act": "silu", "hidden_size": 7168, "intermediate_size": 18432,
      "kv_lora_rank": 512, "max_position_embeddings": 163840, "model_type": "deepseek_v3", "num_attention_heads": 128,
      "num_hidden_layers": 61, "num_key_value_heads": 128, "q_lora_rank": 1536, "qk_nope_head_dim": 128,
      "qk_rope_head_dim": 64, "rms_norm_eps": 1e-06, "rope_scaling": {"beta_fast": 32, "beta_slow": 1, "factor": 40,
      "mscale": 1.0, "mscale_all_dim": 1.0, "original_max_position_embeddings": 4096, "type": "yarn"},
      "rope_theta": 10000, "tie_word_embeddings": false, "v_head_dim": 128, "vocab_size": 129280})";

constexpr char kVit[] = R"({"architectures": ["ViTForImageClassification"], "attention_probs_dropout_prob": 0.0,
      "hidden_act": "gelu", "hidden_dropout_prob": 0.0, "hidden_size": 768, "image_size": 224,
      "intermediate_size": 3072, "layer_norm_eps": 1e-12, "model_type": "vit", "num_attention_heads": 12,
      "num_channels": 3, "num_hidden_layers": 12, "patch_size": 16, "qkv_bias": true})";
constexpr char kResNet50[] = R"({"architectures": ["ResNetForImageClassification"], "depths": [3, 4, 6, 3],
      "downsample_in_first_stage": false, "embedding_size": 64, "hidden_act": "relu",
      "hidden_sizes": [256, 512, 1024, 2048], "layer_type": "bottleneck", "model_type": "resnet", "num_channels": 3})";
// Half as wide.
constexpr char kNarrowResNet18[] = R"({"depths": [2, 2, 2, 2], "embedding_size": 32,
      "hidden_sizes": [32, 64, 128, 256], "layer_type": "basic", "model_type": "resnet", "num_channels": 3})";

constexpr char kT5v11Small[] = R"({"architectures": ["T5ForConditionalGeneration"], "d_ff": 1024, "d_kv": 64,
      "d_model": 512, "decoder_start_token_id": 0, "dropout_rate": 0.1, "eos_token_id": 1,
      "feed_forward_proj": "gated-gelu", "is_encoder_decoder": true, "layer_norm_epsilon": 1e-06, "model_type": "t5",
      "num_decoder_layers": 8, "num_heads": 6, "num_layers": 8, "relative_attention_num_buckets": 32,
      "tie_word_embeddings": false, "vocab_size": 32128})";

// Models that are published, and the folders that they are exported to.
TEST(MappingTest, ConfigsOfPublishedModelsAreThoseOfOurs) {
  const std::string colours = "data.images.channels=3";
  const struct {
    const char *model, *fields, *config, *width;
    std::vector<std::string> data = {};
  } kCases[] = {
      {"gemma",
       "vocabulary: 256000 layers: 26 width: 2304 heads: 8 kv_heads: 4 head_width: 256 hidden: 9216 context: 64",
       kGemma2, "hidden_size"},
      {"gemma",
       "vocabulary: 262144 layers: 26 width: 1152 heads: 4 kv_heads: 1 head_width: 256 hidden: 6912 context: 64 "
       "qk_norm: true score_cap: 0 logit_cap: 0 window: 512 window_every: 6 rope_theta: 1e6 "
       "rope_theta_of_windows: 1e4",
       kGemma3, "hidden_size"},
      {"deepseek",
       "vocabulary: 129280 layers: 61 width: 7168 heads: 128 hidden: 18432 context: 64 query_rank: 1536 kv_rank: 512 "
       "plain_width: 128 rotary_width: 64 value_width: 128 rope_scaling: 'yarn' rope_factor: 40 "
       "rope_original_context: 4096 rope_magnitude: 1 rope_score_magnitude: 1",
       kDeepseek, "kv_lora_rank"},
      {"bert",
       "vocabulary: 30522 layers: 12 width: 768 heads: 12 context: 512 classes: 5",
       kBert,
       "type_vocab_size",
       {"data.texts.text=review"}},
      {"vit",
       "patch: 16 layers: 12 width: 768 heads: 12 epsilon: 1e-12 classes: 1000",
       kVit,
       "image_size",
       {colours, "data.images.height=224", "data.images.width=224"}},
      {"t5", "vocabulary: 32128 layers: 8 width: 512 heads: 6 head_width: 64 hidden: 1024 source: 9 target: 7",
       kT5v11Small, "num_decoder_layers"},
      {"resnet", "depth: 50 classes: 1000", kResNet50, "num_channels", {colours}},
      {"resnet", "depth: 18 width: 32", kNarrowResNet18, "embedding_size", {colours}},
  };
  for (const auto& c : kCases) {
    nlohmann::json config = nlohmann::json::parse(c.config);
    SCOPED_TRACE(config["model_type"]);
    std::vector<std::string> settings = c.data;
    settings.push_back(absl::StrCat("model={", c.model, "{", c.fields, "}}"));
    ASSERT_OK_AND_ASSIGN(SourcedConfig job, ConfigOfModel(c.model, settings));
    ASSERT_OK_AND_ASSIGN(const JobModel model, ModelOf(std::move(job)));
    ASSERT_OK_AND_ASSIGN(const Mapping mapping, MappingFor(model, ""));
    ASSERT_OK_AND_ASSIGN(const pb::Family* const family, FamilyFor(mapping, model.fields));
    EXPECT_EQ(family->model_type(), config["model_type"]);
    const auto differences = [&](const nlohmann::json& of) {
      const auto found = CompareConfig(mapping, *family, of, model.fields);
      EXPECT_OK(found);
      return found->size();
    };
    EXPECT_EQ(differences(config), 0u);
    ASSERT_OK_AND_ASSIGN(const auto made, MakeHfConfig(mapping, *family, model.fields, DType::kFloat32));
    EXPECT_EQ(differences(nlohmann::json(made)), 0u) << made;
    for (const auto& [field, value] : made.items()) {
      const bool both = field != "dtype" && config.contains(field) && !value.is_number() && !value.is_object();
      EXPECT_TRUE(!both || config[field] == value) << field;
    }
    config[c.width] = 129;
    EXPECT_GE(differences(config), 1u);
  }
}

TEST(MappingTest, AFaultyTableIsRefusedWithItsPlace) {
  const std::pair<std::string, const char*> kCases[] = {
      {"model", "mapping 'm':1: "},
      {TableWith("rules { our: \"\" }"), "mapping 'm':3: "},
      {"families { model_type: \"t\" }", "model: is missing"},
      {"model: \"gpt\"", "families: there is none"},
      {"model: \"gpt\" families {} rules {}", "a model_type is missing"},
      {"model: \"gpt\" families { model_type: \"t\" }", "rules: there is none"},
      {TableWith("rules { theirs: \"x\" }"), "'ours' or 'theirs' is missing"},
      {TableWith("rules { ours: \"h{i\" theirs: \"x\" }"), "rule for 'h{i': name 'h{i': braces"},
      {TableWith("rules { ours: \"h{i-1}\" theirs: \"x\" }"), "adds something to a number"},
      {TableWith("rules { ours: \"h{i}\" theirs: \"x{j}\" }"), "has a number that 'h{i}' does not have"},
      {TableWith("rules { ours: \"w\" theirs: \"x\" part { axis: 0 index: 3 of: 3 } }"),
       "part 3 of 3 along axis 0 is none"},
      {TableWith("rules { ours: \"w\" theirs: \"x\" part { axis: -1 index: 0 of: 3 } }"), "along axis -1"},
      {TableWith("rules { ours: \"w\" theirs: \"x\" transpose: true leading_rows: true }"), "leading_rows goes with"},
      {TableWith("fields { ours: \"width\" }"), "'theirs' is missing"},
      {TableWith("fields { theirs: \"n\" }"), "field 'n': says neither"},
      {TableWith("fields { theirs: \"n\" ours: \"widht\" }"), "field 'n': model Gpt has no field 'widht'"},
      {TableWith("fields { theirs: \"n\" ours_unset { of: \"width\" over: \"head\" } }"), "has no field 'head'"},
      {TableWith("fields { theirs: \"n\" ours_unset { of: \"width\" times: -1 } }"), "times -1 is not in"},
      {TableWith("fields { theirs: \"n\" value: \"gelu\" }"), "'gelu' is not JSON"},
      {TableWith("fields { theirs: \"n\" ours_list { of: \"data.depth\" } }"), "has no field 'data.depth'"},
      {TableWith("fields { theirs: \"n\" value: \"1\" where { ours: \"depth\" is: \"1\" } }"), "has no field 'depth'"},
      {TableWith("fields { theirs: \"n\" value: \"1\" absent: \"{\" }"), "'{' is not JSON"},
      {TableWith("fields { theirs: \"n\" value: \"1\" values { theirs: \"x\" } }"), "'x' is not JSON"},
      {TableWith("fields { theirs: \"n\" value: \"1\" families: \"u\" }"), "there is no family 'u'"},
      {TableWith("families { model_type: \"u\" where { ours: \"x\" is: \"1\" } }"),
       "family 'u': model Gpt has no field"},
  };
  ASSERT_OK(ParseMapping(TableWith(""), "m"));
  for (const auto& [text, message] : kCases) {
    EXPECT_THAT(ParseMapping(text, "m"),
                StatusIs(absl::StatusCode::kInvalidArgument, AllOf(HasSubstr("mapping 'm'"), HasSubstr(message))))
        << text;
  }
  EXPECT_THAT(ReadMapping("/none"), StatusIs(absl::StatusCode::kNotFound, HasSubstr("/none")));
}

TEST(MappingTest, StarsInPatternsStandForSlashesAndDotsToo) {
  EXPECT_TRUE(Matches("*.attn.bias", "h.0.attn.bias"));
  EXPECT_FALSE(Matches("*.attn.bias", "h.0.attn.c_attn.bias"));
  EXPECT_TRUE(Matches("h?/*", "h1/attn/q/weight"));
  EXPECT_FALSE(Matches("head", "head/weight"));
}

}  // namespace
}  // namespace oneflow
