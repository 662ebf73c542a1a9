#include "tools/study/weights/hf_config.h"

#include <iterator>
#include <random>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "test/support/status_matchers.h"
#include "test/support/test_dir.h"

namespace oneflow {
namespace {

using Json = nlohmann::json;

// A table with these fields.
Mapping With(const std::string& fields) {
  absl::StatusOr<Mapping> mapping =
      ParseMapping(absl::StrCat("model: \"graph\" families { model_type: \"a\" } families { model_type: \"b\" }\n",
                                "rules { ours: \"w\" theirs: \"w\" }\n", fields),
                   "m");
  EXPECT_OK(mapping);
  return *std::move(mapping);
}

std::vector<ConfigDifference> Differences(const std::string& fields, const char* config, const AttrMap& ours) {
  const Mapping mapping = With(fields);
  const auto found = CompareConfig(mapping, mapping.table.families(0), Json::parse(config), ours);
  EXPECT_OK(found);
  return *found;
}

TEST(HfConfigTest, TermsStandForFieldsThatSayNothing) {
  const std::string kv = R"(fields { theirs: "kv" ours: "kv_heads" ours_unset { of: "heads" } absent_term { of: "h" } }
                            fields { theirs: "h" ours: "heads" absent: "8" })";
  const AttrMap eight = {{"heads", int64_t{8}}, {"kv_heads", int64_t{0}}};
  EXPECT_THAT(Differences(kv, "{}", eight), IsEmpty()) << "8 on both sides, by the default of their heads";
  EXPECT_THAT(Differences(kv, R"({"kv": null})", eight), IsEmpty());
  EXPECT_THAT(Differences(kv, R"({"kv": 8})", eight), IsEmpty());
  EXPECT_THAT(Differences(kv, R"({"kv": 2})", {{"heads", int64_t{8}}, {"kv_heads", int64_t{2}}}), IsEmpty());
  EXPECT_THAT(Differences(kv, R"({"kv": 2})", eight), ::testing::SizeIs(1));
  const std::string over = R"(fields { theirs: "d" ours_unset { of: "w" times: 4 over: "n" } })";
  EXPECT_THAT(Differences(over, R"({"d": 6})", {{"w", int64_t{3}}, {"n", int64_t{2}}}), IsEmpty());
  const Mapping uneven = With(over);
  EXPECT_THAT(CompareConfig(uneven, uneven.table.families(0), Json::parse(R"({"d": 6})"),
                            {{"w", int64_t{3}}, {"n", int64_t{5}}}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'w' is no multiple of 'n', 5")));
  const Mapping circle = With(R"(fields { theirs: "x" value: "1" absent_term { of: "x" } })");
  EXPECT_THAT(CompareConfig(circle, circle.table.families(0), Json::parse("{}"), {}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("has no end")));
}

TEST(HfConfigTest, NamesOfValuesAreTranslatedBothWays) {
  const std::string activation = R"(fields { theirs: "act" ours: "activation" absent: "\"gelu_new\""
                                      values { theirs: "\"gelu_new\"" ours: "\"gelu_tanh\"" }
                                      values { theirs: "\"gelu_pytorch_tanh\"" ours: "\"gelu_tanh\"" } }
                                    fields { theirs: "window" ours: "window" values { theirs: "null" ours: "0" } })";
  const AttrMap ours = {{"activation", std::string("gelu_tanh")}, {"window", int64_t{0}}};
  EXPECT_THAT(Differences(activation, R"({"window": null})", ours), IsEmpty());
  EXPECT_THAT(Differences(activation, R"({"act": "gelu_pytorch_tanh", "window": null})", ours), IsEmpty());
  const auto differences = Differences(activation, R"({"act": "gelu", "window": 5})", ours);
  ASSERT_EQ(differences.size(), 2u);
  EXPECT_EQ(differences[0].their_value, "\"gelu\"");
  EXPECT_EQ(differences[0].our_value, "\"gelu_new\"");
  const Mapping mapping = With(activation);
  ASSERT_OK_AND_ASSIGN(const auto made, MakeHfConfig(mapping, mapping.table.families(0), ours, DType::kFloat16));
  EXPECT_EQ(made.dump(), R"({"model_type":"a","dtype":"float16","act":"gelu_new","window":null})");
}

TEST(HfConfigTest, RelationsAndFamiliesSayWhatIsLookedAt) {
  const std::string fields = R"(fields { theirs: "most" ours: "n" relation: AT_LEAST }
                                fields { theirs: "drop" ours: "d" relation: WRITTEN }
                                fields { theirs: "x.type" theirs: "type" value: "1" absent: "1" relation: SPARSE }
                                fields { theirs: "of_b" value: "true" absent: "true" families: "b" })";
  const AttrMap ours = {{"n", int64_t{4}}, {"d", 0.5}};
  EXPECT_THAT(Differences(fields, R"({"most": 9, "drop": 3, "of_b": false})", ours), IsEmpty());
  EXPECT_THAT(Differences(fields, R"({"most": 3, "x": {"type": 1.0}})", ours), ::testing::SizeIs(1));
  EXPECT_THAT(Differences(fields, R"({"most": 4, "x": null, "type": 2})", ours), ::testing::SizeIs(1));
  const Mapping mapping = With(fields);
  EXPECT_THAT(CompareConfig(mapping, mapping.table.families(0), Json::parse("{}"), ours),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("field 'most': has no 'most'")));
  EXPECT_THAT(CompareConfig(mapping, mapping.table.families(0), Json::parse(R"({"most": 4})"), {}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("the model has no value of its field 'n'")));
  ASSERT_OK_AND_ASSIGN(const auto made, MakeHfConfig(mapping, mapping.table.families(1), ours, DType::kFloat32));
  EXPECT_EQ(made.dump(), R"({"model_type":"b","dtype":"float32","most":4,"drop":0.5,"of_b":true})");
}

Mapping Llama() {
  const absl::StatusOr<std::vector<Mapping>> mappings = BuiltInMappings();
  for (const Mapping& mapping : *mappings) {
    if (mapping.name == "llama") return mapping;
  }
  ADD_FAILURE() << "no mapping is called llama";
  return {};
}

TEST(HfConfigTest, ListsAndConditionsAreOfTheModelsFields) {
  const std::string fields = R"(fields { theirs: "sizes" absent: "[1, 2]" ours_list { of: "w" }
                                         ours_list { of: "w" times: 2 } where { ours: "n" is: "1" } }
                                fields { theirs: "sizes" ours_list { of: "w" times: 4 } where { ours: "n" is: "2" }
                                         where { ours: "n" is: "3" } })";
  EXPECT_THAT(Differences(fields, R"({"sizes": [3, 6]})", {{"n", int64_t{1}}, {"w", int64_t{3}}}), IsEmpty());
  EXPECT_THAT(Differences(fields, "{}", {{"n", int64_t{1}}, {"w", int64_t{1}}}), IsEmpty());
  EXPECT_THAT(Differences(fields, R"({"sizes": [3, 6]})", {{"n", int64_t{3}}, {"w", int64_t{3}}}),
              ::testing::SizeIs(1));
  EXPECT_THAT(Differences(fields, R"({"sizes": [12]})", {{"n", int64_t{3}}, {"w", int64_t{3}}}), IsEmpty());
  EXPECT_THAT(Differences(fields, R"({"sizes": 5})", {{"n", int64_t{4}}, {"w", int64_t{3}}}), IsEmpty());
}

// What exported folders say they are.
TEST(HfConfigTest, AFamilyIsFoundByWhatIsSoOfTheModel) {
  const Mapping llama = Llama();
  const struct {
    bool bias, norm;
    int64_t window;
    const char* family;
  } kCases[] = {
      {false, false, 0, "llama"}, {false, false, 9, "mistral"}, {true, false, 0, "qwen2"}, {false, true, 0, "qwen3"}};
  for (const auto& c : kCases) {
    ASSERT_OK_AND_ASSIGN(const pb::Family* const family,
                         FamilyFor(llama, {{"qkv_bias", c.bias}, {"qk_norm", c.norm}, {"window", c.window}}));
    EXPECT_EQ(family->model_type(), c.family);
  }
  EXPECT_THAT(FamilyFor(llama, {{"qkv_bias", true}, {"qk_norm", true}, {"window", int64_t{0}}}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("qwen3 (qkv_bias is false, qk_norm is true")));
  EXPECT_EQ(FamilyOf(llama, Json::parse(R"({"model_type": "qwen2"})"))->architecture(), "Qwen2ForCausalLM");
  EXPECT_EQ(FamilyOf(llama, Json::parse(R"({"architectures": ["MistralForCausalLM"]})"))->model_type(), "mistral");
  EXPECT_EQ(FamilyOf(llama, Json::parse(R"({"model_type": "gemma"})")), nullptr);
}

TEST(HfConfigTest, OfFamiliesOfOneTypeTheModelsFieldsChoose) {
  const Mapping mapping = With(R"(families { model_type: "c" architecture: "Wide" where { ours: "data.kind" is: "1" } }
                                  families { model_type: "c" architecture: "Any" })");
  const Json config = {{"model_type", "c"}};
  EXPECT_EQ(FamilyOf(mapping, config, {{"data.kind", int64_t{1}}})->architecture(), "Wide");
  EXPECT_EQ(FamilyOf(mapping, config, {{"data.kind", int64_t{2}}})->architecture(), "Any");
}

constexpr char kQwen3[] = R"({"architectures": ["Qwen3ForCausalLM"], "attention_bias": false, "head_dim": 128,
      "hidden_act": "silu", "hidden_size": 1024, "intermediate_size": 3072, "max_position_embeddings": 40960,
      "max_window_layers": 28, "model_type": "qwen3", "num_attention_heads": 16, "num_hidden_layers": 28,
      "num_key_value_heads": 8, "rms_norm_eps": 1e-06, "rope_scaling": null, "rope_theta": 1000000,
      "sliding_window": null, "tie_word_embeddings": true, "use_sliding_window": false, "vocab_size": 151936})";

// The same model here.
AttrMap Qwen3() {
  return {{"vocabulary", int64_t{151936}},
          {"layers", int64_t{28}},
          {"width", int64_t{1024}},
          {"heads", int64_t{16}},
          {"kv_heads", int64_t{8}},
          {"head_width", int64_t{128}},
          {"hidden", int64_t{3072}},
          {"context", int64_t{4096}},
          {"rope_theta", 1e6},
          {"epsilon", 1e-6},
          {"qkv_bias", false},
          {"qk_norm", true},
          {"window", int64_t{0}},
          {"tied_embedding", true},
          {"rope_scaling", std::string("none")},
          {"rope_factor", 1.0},
          {"rope_original_context", int64_t{0}},
          {"rope_low_frequency", 1.0},
          {"rope_high_frequency", 4.0}};
}

// Configs of published models, as their files say them, and the fields of the same models here.
TEST(HfConfigTest, ConfigsOfPublishedModelsAgreeWithOurs) {
  const Mapping llama = Llama();
  const AttrMap ours = Qwen3();
  Json qwen3 = Json::parse(kQwen3);
  const auto differences = [&] { return *CompareConfig(llama, *FamilyOf(llama, qwen3), qwen3, ours); };
  EXPECT_THAT(differences(), IsEmpty());
  qwen3.erase("rope_theta");
  qwen3.erase("rope_scaling");
  qwen3["rope_parameters"] = {{"rope_theta", 1000000.0}, {"rope_type", "default"}};  // as later versions write it
  EXPECT_THAT(differences(), IsEmpty());
  qwen3["rope_parameters"]["rope_type"] = "yarn";
  EXPECT_THAT(differences(), ::testing::SizeIs(1));
  qwen3.erase("rope_parameters");
  EXPECT_THAT(differences(), ::testing::SizeIs(1)) << "theta 10000 is the default";
  qwen3["rope_theta"] = 1e6;
  qwen3["rope_scaling"] = {{"type", "linear"}, {"factor", 2.0}};
  EXPECT_THAT(differences(), ::testing::SizeIs(2));
}

TEST(HfConfigTest, AScalingIsWrittenWithAllThatBelongsToIt) {
  const Mapping llama = Llama();
  AttrMap ours = Qwen3();
  const auto written = [&] { return *MakeHfConfig(llama, *FamilyFor(llama, ours).value(), ours, DType::kFloat32); };
  EXPECT_FALSE(written().contains("rope_scaling"));
  ours.Set("rope_scaling", std::string("llama3"));
  ours.Set("rope_factor", 8.0);
  ours.Set("rope_original_context", int64_t{8192});
  EXPECT_EQ(Json(written()["rope_scaling"]), Json::parse(R"({"rope_type": "llama3", "factor": 8.0,
      "original_max_position_embeddings": 8192, "low_freq_factor": 1.0, "high_freq_factor": 4.0})"));
  EXPECT_THAT(*CompareConfig(llama, *FamilyFor(llama, ours).value(), Json(written()), ours), IsEmpty());
}

// Whatever a file says, it is an error or a config.
TEST(HfConfigTest, NoChangeOfAConfigIsMoreThanAnError) {
  const uint32_t seed = std::random_device()();
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  std::mt19937 random(seed);
  ASSERT_OK_AND_ASSIGN(const std::vector<Mapping> mappings, BuiltInMappings());
  const std::string other[] = {"null", "-1",   "1e999", "[]", "{}", "\"\"", "18446744073709551615",
                               "0.5",  "true", "[[1]]"};
  const TestDir dir;
  int read = 0;
  for (int round = 0; round < 400; ++round) {
    Json config = Json::parse(kQwen3);
    for (int change = 0; change < 3; ++change) {
      auto field = config.begin();
      std::advance(field, random() % config.size());
      *field = Json::parse(other[random() % std::size(other)], nullptr, /*allow_exceptions=*/false);
      if (field->is_discarded()) *field = nullptr;
    }
    std::string text = config.dump();
    if (round % 2 == 1) text[random() % text.size()] = static_cast<char>(random());
    dir.Write("config.json", text);
    const absl::StatusOr<Json> changed = ReadHfConfig(dir.File(""));
    if (!changed.ok()) continue;
    ++read;
    for (const Mapping& mapping : mappings) {
      const pb::Family* const family = FamilyOf(mapping, *changed);
      if (family != nullptr) CompareConfig(mapping, *family, *changed, Qwen3()).status().IgnoreError();
    }
  }
  EXPECT_GT(read, 200);
}

}  // namespace
}  // namespace oneflow
