#include "tools/study/weights/import_weights.h"

#include <bit>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <set>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "actor/checkpoint/fresh_variables.h"
#include "actor/checkpoint/safetensors.h"
#include "gmock/gmock.h"
#include "nlohmann/json.hpp"
#include "test/support/status_matchers.h"
#include "test/support/test_dir.h"
#include "test/support/weight_file.h"
#include "test/tools/study/weights/drawn_model.h"
#include "tools/study/checkpoint/checkpoint_tools.h"
#include "tools/study/weights/export_weights.h"
#include "tools/study/weights/look.h"

namespace oneflow {
namespace {

namespace fs = std::filesystem;

using Tensors = std::map<std::string, Shape>;

constexpr int64_t kVocabulary = 10, kWidth = 6, kContext = 4;

// A GPT-2 of two layers with random weights, in a folder as transformers writes it, and a job that has the same model.
class ImportWeightsTest : public ::testing::Test {
 protected:
  ImportWeightsTest() : seed_(std::random_device()()), trace_(__FILE__, __LINE__, absl::StrCat("seed ", seed_)) {}

  static Tensors Gpt2(const std::string& prefix = "transformer.") {
    const int64_t w = kWidth;
    Tensors tensors = {{prefix + "wte.weight", {kVocabulary, w}},
                       {prefix + "wpe.weight", {kContext, w}},
                       {prefix + "ln_f.weight", {w}},
                       {prefix + "ln_f.bias", {w}}};
    for (const std::string h : {"h.0.", "h.1."}) {
      for (const auto& [name, shape] : Tensors{{"ln_1.weight", {w}},
                                               {"ln_1.bias", {w}},
                                               {"ln_2.weight", {w}},
                                               {"ln_2.bias", {w}},
                                               {"attn.c_attn.weight", {w, 3 * w}},
                                               {"attn.c_attn.bias", {3 * w}},
                                               {"attn.c_proj.weight", {w, w}},
                                               {"attn.c_proj.bias", {w}},
                                               {"mlp.c_fc.weight", {w, 4 * w}},
                                               {"mlp.c_fc.bias", {4 * w}},
                                               {"mlp.c_proj.weight", {4 * w, w}},
                                               {"mlp.c_proj.bias", {w}}}) {
        tensors[prefix + h + name] = shape;
      }
    }
    return tensors;
  }

  // Random numbers that every type of 16 bits holds.
  void Write(const std::string& file, const Tensors& tensors, DType dtype = DType::kFloat32) const {
    fs::create_directories(Folder());
    std::vector<SafetensorsWriter::Tensor> list;
    for (const auto& [name, shape] : tensors) list.push_back({name, {dtype, shape}});
    absl::StatusOr<SafetensorsWriter> writer =
        SafetensorsWriter::Create(absl::StrCat(Folder(), "/", file), list, {{"format", "pt"}});
    ASSERT_OK(writer);
    std::mt19937 random(seed_);
    for (const auto& [name, shape] : tensors) {
      std::vector<char> bytes(TensorType{dtype, shape}.num_bytes());
      for (int64_t i = 0; i < shape.count(); ++i) {
        const float value = static_cast<float>(static_cast<int>(random() % 255) - 127) / 64;
        if (dtype == DType::kFloat32) std::memcpy(bytes.data() + 4 * i, &value, 4);
        const uint16_t upper = static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16);
        if (dtype == DType::kBFloat16) std::memcpy(bytes.data() + 2 * i, &upper, 2);
      }
      ASSERT_OK(writer->Write(name, 0, bytes.data(), bytes.size()));
    }
    ASSERT_OK(writer->Close());
  }
  void WriteConfig(const std::map<std::string, nlohmann::json>& other = {}) const {
    fs::create_directories(Folder());
    nlohmann::json config = {{"model_type", "gpt2"},
                             {"architectures", {"GPT2LMHeadModel"}},
                             {"n_embd", kWidth},
                             {"n_layer", 2},
                             {"n_head", 3},
                             {"n_positions", kContext},
                             {"vocab_size", kVocabulary},
                             {"activation_function", "gelu"}};
    for (const auto& [field, value] : other) {
      value.is_discarded() ? static_cast<void>(config.erase(field)) : static_cast<void>(config[field] = value);
    }
    std::ofstream(Folder() + "/config.json") << config;
  }

  SourcedConfig Job(const std::string& fields = "") const {
    absl::StatusOr<SourcedConfig> config = ParseConfig(
        absl::StrCat("model { gpt { vocabulary: 10 layers: 2 width: 6 heads: 3 context: 4 tied_embedding: true ",
                     fields,
                     " } }\ndata { text { path: \"none\" } }\ntrain { steps: 1 batch_size: 2 optimizer { sgd {} } "
                     "schedule { learning_rate: 1 } }"),
        "job.pbtxt");
    EXPECT_OK(config);
    return *std::move(config);
  }
  static SourcedConfig With(SourcedConfig job, const std::string& set) {
    EXPECT_OK(ApplyOverride(set, job));
    return job;
  }

  absl::Status Import(SourcedConfig job, const std::vector<std::string>& allow_missing = {},
                      const std::string& mapping = "") const {
    return ImportWeights(std::move(job), {Folder(), Out(), mapping, allow_missing}).status();
  }
  absl::Status Export(SourcedConfig job, const std::string& name, ExportOptions options = {}) const {
    options.weights = Out();
    options.out = dir_.File(name);
    return ExportWeights(std::move(job), options).status();
  }
  std::string Folder() const { return dir_.File("theirs"); }
  std::string Out() const { return dir_.File("ours.safetensors"); }
  static std::string Bytes(const std::string& path) {
    std::ostringstream bytes;
    bytes << std::ifstream(path, std::ios::binary).rdbuf();
    return bytes.str();
  }

  const TestDir dir_;
  const uint32_t seed_;
  const ::testing::ScopedTrace trace_;
};

TEST_F(ImportWeightsTest, AFolderComesBackToTheBit) {
  Write("model.safetensors", Gpt2());
  WriteConfig();
  ASSERT_OK(Import(Job()));
  ASSERT_OK_AND_ASSIGN(const WeightFile ours, ReadWeightFile(Out()));
  ASSERT_OK_AND_ASSIGN(const WeightFile theirs, ReadWeightFile(Folder() + "/model.safetensors"));
  EXPECT_EQ(ours.tensors.size(), 36u);
  const auto& fused = theirs.tensors.at("transformer.h.1.attn.c_attn.weight");
  EXPECT_EQ(ours.tensors.at("h1/attn/v/weight").as<float>()[1 * kWidth + 2], fused.as<float>()[18 + 12 + 2]);
  ASSERT_OK(Export(Job(), "again"));
  EXPECT_TRUE(Bytes(dir_.File("again/model.safetensors")) == Bytes(Folder() + "/model.safetensors"));
  const nlohmann::json config = nlohmann::json::parse(Bytes(dir_.File("again/config.json")));
  EXPECT_EQ(config["n_layer"], 2);
  EXPECT_EQ(config["n_inner"], 24);
  EXPECT_EQ(config["tie_word_embeddings"], true);
  EXPECT_EQ(config["architectures"], nlohmann::json({"GPT2LMHeadModel"}));
  EXPECT_THAT(Export(Job(), "again"), StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("has a model already")));
}

TEST_F(ImportWeightsTest, ShardsHoldTheSameAsOneFile) {
  Write("model.safetensors", Gpt2());
  WriteConfig();
  ASSERT_OK(Import(Job()));
  ASSERT_OK(Export(Job(), "shards", {.max_shard_bytes = 1500}));
  EXPECT_TRUE(fs::exists(dir_.File("shards/model.safetensors.index.json")));
  EXPECT_FALSE(fs::exists(dir_.File("shards/model.safetensors")));
  ASSERT_OK_AND_ASSIGN(const std::string difference, WeightsDiffText(Folder(), dir_.File("shards")));
  EXPECT_EQ(difference, "");
  const nlohmann::json index = nlohmann::json::parse(Bytes(dir_.File("shards/model.safetensors.index.json")));
  EXPECT_EQ(index["weight_map"].size(), 28u);
  std::set<std::string> files;
  for (const auto& [tensor, file] : index["weight_map"].items()) files.insert(file.get<std::string>());
  EXPECT_GT(files.size(), 3u);
  for (const std::string& file : files) {
    EXPECT_THAT(file, ::testing::MatchesRegex(absl::StrCat("model-0....-of-0000?", files.size(), "\\.safetensors")));
    EXPECT_LT(fs::file_size(dir_.File("shards/" + file)), 1500 + 1400) << "data and a header";
  }
  EXPECT_EQ(index["metadata"]["total_size"].get<int64_t>(), 4 * index["metadata"]["total_parameters"].get<int64_t>());

  const std::string first = Bytes(Out());
  ASSERT_OK(ImportWeights(Job(), {dir_.File("shards"), dir_.File("second"), "", {}}));
  EXPECT_TRUE(Bytes(dir_.File("second")) == first);
}

TEST_F(ImportWeightsTest, ANarrowFolderComesBackToTheBitInItsType) {
  Write("model.safetensors", Gpt2(), DType::kBFloat16);
  WriteConfig();
  ASSERT_OK(Import(Job()));
  ASSERT_OK(Export(Job(), "again", {.dtype = DType::kBFloat16}));
  EXPECT_TRUE(Bytes(dir_.File("again/model.safetensors")) == Bytes(Folder() + "/model.safetensors"));
  EXPECT_THAT(Bytes(dir_.File("again/config.json")), HasSubstr("\"dtype\": \"bfloat16\""));
}

TEST_F(ImportWeightsTest, AllThatDoesNotFitIsListedAtOnce) {
  Tensors tensors = Gpt2();
  tensors.erase("transformer.h.0.attn.c_attn.bias");
  tensors.erase("transformer.ln_f.bias");
  tensors["transformer.h.1.mlp.c_fc.weight"] = {24, 6};
  tensors["score.weight"] = {2, 6};
  tensors["transformer.h.0.attn.bias"] = {1, 1, 4, 4};  // a mask of old files
  Write("model.safetensors", tensors);
  WriteConfig();
  EXPECT_THAT(
      Import(Job()),
      StatusIs(
          absl::StatusCode::kInvalidArgument,
          absl::StrCat("'", Folder(),
                       "' for job.pbtxt:1: model.gpt: 2 tensors are missing, 1 surplus, 1 of another shape or type\n"
                       "  transformer.h.0.attn.c_attn.bias: missing, f32[18] for h0/attn/q/bias, h0/attn/k/bias, "
                       "h0/attn/v/bias\n"
                       "  transformer.ln_f.bias: missing, f32[6] for ln_f/bias\n"
                       "  score.weight: surplus, f32[2,6]\n"
                       "  transformer.h.1.mlp.c_fc.weight: is f32[24,6], needed is f32[6,24] for "
                       "h1/mlp/up/weight")));
  EXPECT_FALSE(fs::exists(Out()));
  tensors = Gpt2();
  Write("model.safetensors", tensors, DType::kInt32);
  EXPECT_THAT(Import(Job()), StatusIs(absl::StatusCode::kInvalidArgument,
                                      HasSubstr("transformer.wte.weight: is i32[10,6], needed is f32[10,6]")));
}

TEST_F(ImportWeightsTest, WhatMayBeMissingIsDeclaredToBeFresh) {
  Tensors tensors = Gpt2();
  tensors.erase("transformer.ln_f.weight");
  tensors.erase("transformer.ln_f.bias");
  Write("model.safetensors", tensors);
  WriteConfig();
  EXPECT_THAT(Import(Job(), {"*/bias"}), StatusIs(absl::StatusCode::kInvalidArgument,
                                                  AllOf(HasSubstr("1 tensors are missing"), HasSubstr("ln_f.weight"),
                                                        Not(HasSubstr("ln_f.bias")))));
  EXPECT_THAT(
      Import(Job(), {"ln_f/*", "lnf/*"}),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("--allow-missing 'lnf/*': is the name of no var")));
  ASSERT_OK(Import(Job(), {"ln_f/*", "wte/*"}));
  ASSERT_OK_AND_ASSIGN(const SafetensorsReader file, SafetensorsReader::Open(Out()));
  EXPECT_EQ(file.tensors().size(), 34u);
  EXPECT_THAT(FreshVariables(file.metadata()), ElementsAre("ln_f/bias", "ln_f/weight"));
  EXPECT_THAT(Export(Job(), "again"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("ln_f/weight: missing, f32[6]")));
}

TEST_F(ImportWeightsTest, TheConfigsOfBothSidesAgree) {
  Write("model.safetensors", Gpt2());
  const nlohmann::json absent(nlohmann::json::value_t::discarded);
  const struct {
    std::map<std::string, nlohmann::json> fields;
    const char* message;  // null: nothing is wrong
  } kCases[] = {
      {{{"n_layer", 12}, {"n_head", 2}}, "job.pbtxt:1: model.gpt.layers: is 2, but n_layer in '"},
      {{{"n_layer", 12}, {"n_head", 2}}, "\n  job.pbtxt:1: model.gpt.heads: is 3, but n_head in '"},
      {{{"vocab_size", absent}}, "model.gpt.vocabulary: is 10, but vocab_size in '"},
      {{{"n_inner", nullptr}, {"layer_norm_epsilon", 0.00001}}, nullptr},
      {{{"n_inner", 24}}, nullptr},
      {{{"n_inner", 12}}, "model.gpt: is 24, but n_inner in '"},
      {{{"layer_norm_epsilon", 1e-6}}, "is 1e-05, but layer_norm_epsilon in '"},
      {{{"tie_word_embeddings", false}}, "model.gpt.tied_embedding: is true, but tie_word_embeddings in '"},
      {{{"n_positions", 3}}, "model.gpt.context: is 4, but n_positions in '"},
      {{{"resid_pdrop", 0.5}, {"nobody_knows", "this"}}, nullptr},
      {{{"activation_function", absent}}, "is \"gelu\", but activation_function in '"},
      {{{"n_embd", absent}, {"hidden_size", kWidth}}, nullptr},
      {{{"model_type", "llama"}}, "model_type is \"llama\", and mapping 'gpt2' of job.pbtxt:1: model.gpt is for gpt2"},
      {{{"model_type", absent}}, nullptr},
      {{{"model_type", absent}, {"architectures", absent}}, "model_type is missing"},
      {{{"n_embd", "six"}}, "'n_embd' is \"six\", and no whole number"},
  };
  for (const auto& c : kCases) {
    WriteConfig(c.fields);
    SCOPED_TRACE(Bytes(Folder() + "/config.json"));
    if (c.message == nullptr) {
      EXPECT_OK(Import(Job()));
    } else {
      EXPECT_THAT(Import(Job()), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(c.message)));
    }
  }
  WriteConfig({{"n_layer", {2}}, {"n_head", {{"is", 3}}}});
  EXPECT_THAT(Import(Job()), StatusIs(absl::StatusCode::kInvalidArgument,
                                      AllOf(HasSubstr("config.json' is a list"), HasSubstr("is an object"))));
  const std::string deep(200'000, '[');
  std::ofstream(Folder() + "/config.json") << "{\"n_layer\": " << deep << std::string(deep.size(), ']') << "}";
  EXPECT_THAT(Import(Job()), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("nested more than 100 deep")));
  std::ofstream(Folder() + "/config.json") << "[]";
  EXPECT_THAT(Import(Job()), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("is not a JSON object")));
  fs::remove(Folder() + "/config.json");
  EXPECT_THAT(Import(Job()), StatusIs(absl::StatusCode::kNotFound, HasSubstr("config.json")));
}

TEST_F(ImportWeightsTest, ATiedHeadMayBeInTheFileIfItIsTheEmbedding) {
  Tensors tensors = Gpt2();
  tensors["lm_head.weight"] = {kVocabulary, kWidth};
  Write("model.safetensors", tensors);
  WriteConfig();
  EXPECT_THAT(Import(Job()),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("tensor 'lm_head.weight', f32[10,6], is not 'transformer.wte.weight'")));
  {
    std::string bytes = Bytes(Folder() + "/model.safetensors");
    const auto head = SafetensorsReader::Open(Folder() + "/model.safetensors")->tensors();
    bytes.replace(head.at("lm_head.weight").offset, 240, bytes, head.at("transformer.wte.weight").offset, 240);
    std::ofstream(Folder() + "/model.safetensors", std::ios::binary) << bytes;
  }
  EXPECT_OK(Import(Job()));
  // Of a model that is not tied it is a matrix of its own, [out, in].
  WriteConfig({{"tie_word_embeddings", false}});
  Write("model.safetensors", tensors);
  const SourcedConfig untied = With(Job(), "model.gpt.tied_embedding=false");
  ASSERT_OK(Import(untied));
  ASSERT_OK_AND_ASSIGN(const WeightFile ours, ReadWeightFile(Out()));
  ASSERT_OK_AND_ASSIGN(const WeightFile theirs, ReadWeightFile(Folder() + "/model.safetensors"));
  EXPECT_EQ(ours.tensors.at("head/weight").type.ToString(), "f32[6,10]");
  EXPECT_EQ(ours.tensors.at("head/weight").as<float>()[3 * 10 + 7],
            theirs.tensors.at("lm_head.weight").as<float>()[7 * 6 + 3]);
  ASSERT_OK(Export(untied, "again"));
  EXPECT_TRUE(Bytes(dir_.File("again/model.safetensors")) == Bytes(Folder() + "/model.safetensors"));
}

TEST_F(ImportWeightsTest, AModelWithoutItsHeadLacksThePrefix) {
  Write("model.safetensors", Gpt2(""));
  WriteConfig();
  ASSERT_OK(Import(Job()));
  ASSERT_OK(Export(Job(), "again"));
  Write("model.safetensors", Gpt2());
  ASSERT_OK_AND_ASSIGN(const std::string difference, WeightsDiffText(Folder(), dir_.File("again")));
  EXPECT_EQ(difference, "");
}

TEST_F(ImportWeightsTest, AShorterContextTakesTheFirstPositions) {
  Write("model.safetensors", Gpt2());
  WriteConfig();
  const SourcedConfig job = With(Job(), "model.gpt.context=3");
  ASSERT_OK_AND_ASSIGN(const std::string text, ImportWeights(job, {Folder(), Out(), "", {}}));
  EXPECT_THAT(text, HasSubstr("of transformer.wpe.weight the first 3 of 4 rows\n"));
  ASSERT_OK_AND_ASSIGN(const WeightFile ours, ReadWeightFile(Out()));
  ASSERT_OK_AND_ASSIGN(const WeightFile theirs, ReadWeightFile(Folder() + "/model.safetensors"));
  EXPECT_EQ(std::memcmp(ours.tensors.at("wpe/weight").bytes.data(),
                        theirs.tensors.at("transformer.wpe.weight").bytes.data(), 3 * 6 * 4),
            0);
  ASSERT_OK(Export(job, "again"));
  EXPECT_THAT(Bytes(dir_.File("again/config.json")), HasSubstr("\"n_positions\": 3"));
}

TEST_F(ImportWeightsTest, NothingThatIsReadIsWrittenAndNothingHalfIsLeft) {
  Write("model.safetensors", Gpt2());
  WriteConfig();
  const std::string file = Folder() + "/model.safetensors", before = Bytes(file);
  EXPECT_THAT(ImportWeights(Job(), {Folder(), file, "", {}}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("--out")));
  EXPECT_TRUE(Bytes(file) == before);
  ASSERT_OK(Import(Job()));
  const std::string ours = Bytes(Out());
  fs::resize_file(file, fs::file_size(file) - 4);
  EXPECT_FALSE(Import(Job()).ok());
  EXPECT_TRUE(Bytes(Out()) == ours);
  for (const auto& entry : fs::directory_iterator(dir_.File(""))) EXPECT_NE(entry.path().extension(), ".partial");
}

TEST_F(ImportWeightsTest, ACheckpointIsExportedAsItsWeights) {
  Write("model.safetensors", Gpt2());
  WriteConfig();
  ASSERT_OK(Import(Job()));
  ASSERT_OK(ConvertCheckpoint(Out(), dir_.File("checkpoints"), false, 7));
  ASSERT_OK(ExportWeights(Job(), {.weights = dir_.File("checkpoints"), .out = dir_.File("again")}));
  EXPECT_TRUE(Bytes(dir_.File("again/model.safetensors")) == Bytes(Folder() + "/model.safetensors"));
  EXPECT_THAT(Export(With(Job(), "model.gpt.layers=1"), "other"),
              StatusIs(absl::StatusCode::kInvalidArgument, AllOf(HasSubstr("0 tensors are missing, 16 surplus"),
                                                                 HasSubstr("h1/ln1/bias: surplus, f32[6]"))));
  EXPECT_FALSE(fs::exists(dir_.File("other")));
}

// A table of one's own, for a graph of one's own.
TEST_F(ImportWeightsTest, AMappingOfOnesOwn) {
  fs::create_directories(dir_.File("graphs"));
  dir_.Write("graphs/train.graph", R"(graph "train"
%0:f32[3,4] = variable() "block0/q" {dtype="f32", init="zeros", shape=[3,4], trainable=true}
%1:f32[3,2] = variable() "block0/k" {dtype="f32", init="zeros", shape=[3,2], trainable=true}
%2:f32[5] = variable() "block0/scale" {dtype="f32", init="ones", shape=[5], trainable=true}
%3:f32[5] = variable() "block0/mean" {dtype="f32", init="zeros", shape=[5], trainable=false}
)");
  const std::string mapping = dir_.Write("m.pbtxt", R"(
      model: "graph" families { model_type: "mine" architecture: "Mine" }
      rules { ours: "block{b}/q" theirs: "layer{b+1}.qk" transpose: true part { axis: 0 index: 0 of: 2 } }
      rules { ours: "block{b}/k" theirs: "layer{b+1}.qk" transpose: true part { axis: 0 index: 1 of: 2 } }
      rules { ours: "block{b}/scale" theirs: "layer{b+1}.scale" }
      fields { theirs: "rope.theta" value: "1e4" })");
  const SourcedConfig job = With(Job(), "model.graph=" + dir_.File("graphs"));
  Write("model.safetensors", {{"layer1.qk", {6, 3}}, {"layer1.scale", {5}}});
  WriteConfig({{"model_type", "mine"}, {"rope", {{"theta", 10000}}}});
  EXPECT_THAT(Import(job), StatusIs(absl::StatusCode::kNotFound, HasSubstr("there are some for bert, ")));
  EXPECT_THAT(Import(Job(), {}, mapping),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("is for model 'graph', and job.pbtxt")));
  ASSERT_OK(Import(job, {}, mapping));
  ASSERT_OK_AND_ASSIGN(const WeightFile ours, ReadWeightFile(Out()));
  ASSERT_OK_AND_ASSIGN(const WeightFile theirs, ReadWeightFile(Folder() + "/model.safetensors"));
  EXPECT_EQ(ours.tensors.at("block0/k").as<float>()[2 * 2 + 1],
            theirs.tensors.at("layer1.qk").as<float>()[(4 + 1) * 3 + 2]);
  ASSERT_OK(Export(job, "again", {.mapping = mapping}));
  EXPECT_TRUE(Bytes(dir_.File("again/model.safetensors")) == Bytes(Folder() + "/model.safetensors"));
  EXPECT_EQ(nlohmann::json::parse(Bytes(dir_.File("again/config.json")))["rope"]["theta"], 10000);
  Write("model.safetensors", {{"layer1.qk", {6, 3}}, {"layer1.scale", {5}}}, DType::kBFloat16);
  EXPECT_OK(Import(job, {}, mapping));
}

TEST_F(ImportWeightsTest, AnyModelComesBackToTheBitFromAnyShards) {
  std::mt19937 random(seed_);
  for (int round = 0; round < 12; ++round) {
    const testing::DrawnModel drawn = testing::DrawModel(random);
    SCOPED_TRACE(drawn.rules);
    const auto named = [&](const char* what) { return absl::StrCat(what, round); };
    fs::create_directory(dir_.File(named("graphs")));
    dir_.Write(named("graphs") + "/train.graph", drawn.Graph());
    const std::string mapping = dir_.Write(named("mapping"), testing::kTableHead + drawn.rules);
    const SourcedConfig job = With(Job(), "model.graph=" + dir_.File(named("graphs")));
    const DType dtype = round % 2 == 0 ? DType::kFloat32 : DType::kBFloat16;
    Write("model.safetensors", drawn.theirs, dtype);
    WriteConfig({{"model_type", "t"}});
    ASSERT_OK(Import(job, {}, mapping));
    const int64_t most = std::uniform_int_distribution<int64_t>(1, 20'000)(random);
    ASSERT_OK(Export(job, named("shards"), {.mapping = mapping, .dtype = dtype, .max_shard_bytes = most}));
    ASSERT_OK_AND_ASSIGN(const std::string difference, WeightsDiffText(Folder(), dir_.File(named("shards"))));
    EXPECT_EQ(difference, "") << "shards of at most " << most << " bytes";
  }
}

}  // namespace
}  // namespace oneflow
