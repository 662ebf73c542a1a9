#include "tools/study/weights/peft.h"

#include <filesystem>
#include <fstream>
#include <map>
#include <random>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "actor/checkpoint/safetensors.h"
#include "compiler/adapters.h"
#include "gmock/gmock.h"
#include "nlohmann/json.hpp"
#include "test/support/status_matchers.h"
#include "test/support/test_dir.h"
#include "tools/study/weights/export_weights.h"
#include "tools/study/weights/import_weights.h"

namespace oneflow {
namespace {

using Json = nlohmann::json;

struct Stored {
  Shape shape;
  std::vector<float> values;
};
using StoredTensors = std::map<std::string, Stored>;

constexpr char kGpt[] = "gpt { vocabulary: 10 layers: 2 width: 6 heads: 3 context: 4 tied_embedding: true }";
constexpr char kLlama[] = "llama { vocabulary: 10 layers: 2 width: 8 heads: 2 kv_heads: 1 hidden: 12 context: 4 }";

// A job with adapters of two columns whose sum is multiplied by 1.5, and its weights, drawn at random.
class PeftTest : public ::testing::Test {
 protected:
  PeftTest() : seed_(std::random_device()()), trace_(__FILE__, __LINE__, absl::StrCat("seed ", seed_)) {}

  static SourcedConfig Job(const std::string& model, const std::string& lora) {
    absl::StatusOr<SourcedConfig> config = ParseConfig(
        absl::StrCat("model { ", model, " }\ndata { text { path: 'none' } }\ntrain { steps: 1 batch_size: 2 optimizer ",
                     "{ sgd {} } schedule { learning_rate: 1 }\n", lora.empty() ? "" : "lora { " + lora + " }", " }"),
        "job.pbtxt");
    EXPECT_OK(config);
    return *std::move(config);
  }
  static std::string Lora(const std::string& more) { return "rank: 2 alpha: 3 " + more; }

  static void Write(const std::string& path, const StoredTensors& tensors) {
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::vector<SafetensorsWriter::Tensor> list;
    for (const auto& [name, tensor] : tensors) list.push_back({name, {DType::kFloat32, tensor.shape}});
    absl::StatusOr<SafetensorsWriter> writer = SafetensorsWriter::Create(path, list, {{"format", "pt"}});
    ASSERT_OK(writer);
    for (const auto& [name, tensor] : tensors) {
      ASSERT_OK(writer->Write(name, 0, tensor.values.data(), static_cast<int64_t>(4 * tensor.values.size())));
    }
    ASSERT_OK(writer->Close());
  }
  static StoredTensors Read(const std::string& path) {
    StoredTensors tensors;
    absl::StatusOr<WeightFiles> files = WeightFiles::OpenFile(path);
    EXPECT_OK(files);
    for (const auto& [name, tensor] : files->tensors()) {
      Stored& stored = tensors[name];
      stored.shape = tensor.type.shape;
      stored.values.resize(stored.shape.count());
      EXPECT_OK(files->Read(name, 0, static_cast<int64_t>(4 * stored.values.size()), stored.values.data()));
    }
    return tensors;
  }

  // Draws the job's weights, writes them with their adapters and without, and the model's folder.
  void Draw(const SourcedConfig& job, const std::string& model) {
    ASSERT_OK_AND_ASSIGN(const JobModel of, ModelOf(job));
    ASSERT_FALSE(of.adapted.empty());
    std::mt19937 random(seed_);
    const auto drawn = [&random](const Shape& shape) {
      Stored stored = {shape, std::vector<float>(shape.count())};
      for (float& v : stored.values) v = static_cast<float>(static_cast<int>(random() % 255) - 127) / 64;
      return stored;
    };
    StoredTensors base, all;
    for (const ModelVariable& variable : of.variables) {
      const Shape& shape = variable.type.shape;
      all[variable.name] = base[variable.name] = drawn(shape);
      if (of.adapted.count(variable.name) == 0) continue;
      all[AdapterA(variable.name)] = drawn({shape[0], of.adapter_rank});
      all[AdapterB(variable.name)] = drawn({of.adapter_rank, shape[1]});
    }
    Write(Path("base.safetensors"), base);
    Write(Path("all.safetensors"), all);
    ASSERT_OK(ExportWeights(Job(model, ""), {.weights = Path("base.safetensors"), .out = Path("base")}));
  }
  absl::Status ExportAdapters(const SourcedConfig& job) const {
    return ExportWeights(job, {.weights = Path("all.safetensors"), .out = Path("peft"), .adapters = true}).status();
  }
  absl::Status Import(const SourcedConfig& job) const {
    ImportOptions options = {.folder = Path("base"), .out = Path("back.safetensors")};
    options.adapters = Path("peft");
    return ImportWeights(job, options).status();
  }
  Json PeftConfigFile() const { return Json::parse(std::ifstream(Path("peft/adapter_config.json"))); }
  void Change(const std::string& field, const Json& value) const {
    Json config = PeftConfigFile();
    config[field] = value;
    std::ofstream(Path("peft/adapter_config.json")) << config;
  }
  std::string Path(const std::string& name) const { return dir_.File(name); }

  const TestDir dir_;
  const uint32_t seed_;
  const ::testing::ScopedTrace trace_;
};

// Adds to a module's weight what PEFT adds: scale lora_B lora_A, transposed if the config says fan_in_fan_out.
void Merge(const StoredTensors& peft, const Json& config, const std::string& module, Stored& weight) {
  const Stored& a = peft.at("base_model.model." + module + ".lora_A.weight");
  const Stored& b = peft.at("base_model.model." + module + ".lora_B.weight");
  const int64_t rank = a.shape[0], inputs = a.shape[1], outputs = b.shape[0];
  const double alpha = config["alpha_pattern"].value(module, config["lora_alpha"].get<double>());
  ASSERT_EQ(rank, config["rank_pattern"].value(module, config["r"].get<int64_t>()));
  for (int64_t o = 0; o < outputs; ++o) {
    for (int64_t i = 0; i < inputs; ++i) {
      double sum = 0;
      for (int64_t k = 0; k < rank; ++k) sum += double{b.values[o * rank + k]} * a.values[k * inputs + i];
      const int64_t at = config["fan_in_fan_out"].get<bool>() ? i * outputs + o : o * inputs + i;
      weight.values[at] += static_cast<float>(alpha / static_cast<double>(rank) * sum);
    }
  }
}

// The same model comes of what is exported with adapters added, and of the folder of adapters beside the model's.
TEST_F(PeftTest, AdaptersAddWhatTheyAddHereAndComeBackToTheBit) {
  const struct {
    const char *model, *lora;
    int modules;
  } kCases[] = {{kGpt, "match: 'h*/attn/q/weight' match: 'h*/attn/v/weight' match: '*/up/weight'", 4},
                {kGpt, "match: 'h*/attn/*/weight' also: 'ln_f/*'", 4},
                {kLlama, "match: 'h*/attn/*/weight' match: '*/mlp/*/weight' also: 'norm_f/weight'", 14},
                {kLlama, "match: 'h0/attn/k/weight' match: 'head/weight' also: 'wte/weight'", 2}};
  for (const auto& c : kCases) {
    SCOPED_TRACE(absl::StrCat(c.model, " ", c.lora));
    const SourcedConfig job = Job(c.model, Lora(c.lora));
    for (const char* folder : {"base", "peft", "merged"}) std::filesystem::remove_all(Path(folder));
    ASSERT_NO_FATAL_FAILURE(Draw(job, c.model));
    ASSERT_OK(ExportAdapters(job));
    ASSERT_OK(ExportWeights(job, {.weights = Path("all.safetensors"), .out = Path("merged")}));
    const Json config = PeftConfigFile();
    const StoredTensors peft = Read(Path("peft/adapter_model.safetensors"));
    StoredTensors sums = Read(Path("base/model.safetensors"));
    EXPECT_EQ(config["target_modules"].size(), c.modules);
    for (const std::string module : config["target_modules"]) Merge(peft, config, module, sums.at(module + ".weight"));
    for (const auto& [name, tensor] : peft) {
      if (absl::StrContains(name, ".lora_")) continue;
      EXPECT_EQ(tensor.values, sums.at(name.substr(17)).values) << name;
    }
    const StoredTensors merged = Read(Path("merged/model.safetensors"));
    ASSERT_EQ(merged.size(), sums.size());
    for (const auto& [name, tensor] : merged) {
      for (size_t i = 0; i < tensor.values.size(); ++i) {
        ASSERT_NEAR(tensor.values[i], sums.at(name).values[i], 1e-5) << name << " " << i;
      }
    }
    ASSERT_OK(Import(job));
    const StoredTensors all = Read(Path("all.safetensors")), back = Read(Path("back.safetensors"));
    ASSERT_EQ(back.size(), all.size());
    for (const auto& [name, tensor] : all) EXPECT_EQ(back.at(name).values, tensor.values) << name;
  }
}

// PEFT gives q, k and v of GPT-2 one lora_A.
TEST_F(PeftTest, AModuleOfSeveralVariablesMayShareItsInputs) {
  const SourcedConfig job = Job(kGpt, Lora("match: 'h0/attn/q/weight' match: 'h0/attn/v/weight'"));
  ASSERT_NO_FATAL_FAILURE(Draw(job, kGpt));
  ASSERT_OK(ExportAdapters(job));
  const std::string file = Path("peft/adapter_model.safetensors");
  const std::string module = "base_model.model.transformer.h.0.attn.c_attn";
  StoredTensors shared;
  shared[module + ".lora_A.weight"] = {{2, 6}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}};
  Stored& b = shared[module + ".lora_B.weight"] = {{18, 2}, std::vector<float>(36, 0)};
  for (int i = 0; i < 12; ++i) b.values[i] = b.values[24 + i] = static_cast<float>(i + 1);
  Write(file, shared);
  Change("rank_pattern", Json::object());
  Change("alpha_pattern", Json::object());
  ASSERT_OK(Import(job));
  const StoredTensors back = Read(Path("back.safetensors"));
  for (const char* part : {"q", "v"}) {
    const std::string name = absl::StrCat("h0/attn/", part, "/weight");
    EXPECT_EQ(back.at(AdapterA(name)).values, (std::vector<float>{1, 7, 2, 8, 3, 9, 4, 10, 5, 11, 6, 12}));
    EXPECT_EQ(back.at(AdapterB(name)).values, (std::vector<float>{1, 3, 5, 7, 9, 11, 2, 4, 6, 8, 10, 12}));
  }
  b.values[13] = 1;  // of k
  Write(file, shared);
  EXPECT_THAT(Import(job), StatusIs(absl::StatusCode::kInvalidArgument,
                                    HasSubstr("lora_B.weight': is not 0 for outputs that have no adapter in the job, "
                                              "those of 'h0/attn/k/weight'")));
}

TEST_F(PeftTest, WhatDoesNotFitIsTold) {
  const SourcedConfig job = Job(kLlama, Lora("match: 'h*/attn/q/weight'"));
  ASSERT_NO_FATAL_FAILURE(Draw(job, kLlama));
  ASSERT_OK(ExportAdapters(job));
  EXPECT_THAT(ExportAdapters(job), StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("has a model already")));
  const auto refused = [](const std::string& text) {
    return StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(text));
  };
  EXPECT_THAT(Import(Job(kLlama, "")), refused("peft' has adapters, and job.pbtxt:3: train.lora: the job has none"));
  EXPECT_THAT(Import(Job(kLlama, "rank: 2 alpha: 4 match: 'h*/attn/q/weight'")),
              refused("module 'model.layers.0.self_attn.q_proj' is multiplied by 1.5, and job.pbtxt:4: train.lora: "
                      "alpha / rank is 2"));
  EXPECT_THAT(Import(Job(kLlama, "rank: 1 alpha: 1.5 match: 'h*/attn/q/weight'")),
              refused("q_proj.lora_A.weight: is f32[2,8], needed is f32[1,8]"));
  EXPECT_THAT(Import(Job(kLlama, Lora("match: 'h0/attn/q/weight'"))),
              refused("model.layers.1.self_attn.q_proj.lora_A.weight: surplus, f32[2,8]"));
  EXPECT_THAT(Import(Job(kLlama, Lora("match: 'h*/attn/q/weight' match: 'h*/attn/o/weight'"))),
              refused("model.layers.0.self_attn.o_proj.lora_B.weight: missing, f32[8,2]"));
  Change("use_rslora", true);
  EXPECT_THAT(Import(job), refused("is multiplied by 2.12132"));
  Change("use_rslora", false);
  Change("alpha_pattern", {{"layers.1.self_attn.q_proj", 5}});
  EXPECT_THAT(Import(job), refused("module 'model.layers.1.self_attn.q_proj' is multiplied by 2.5"));
  Change("alpha_pattern", {{"layers\\.\\d+", 5}});
  EXPECT_THAT(Import(job), refused("regular expressions are not read"));
  Change("alpha_pattern", Json::object());
  Change("use_dora", true);
  EXPECT_THAT(Import(job), refused("adapter_config.json': use_dora is true; a job's adapters are such as have false"));
  Change("use_dora", false);
  EXPECT_OK(Import(job));
  const SourcedConfig none = Job(kLlama, "");
  EXPECT_THAT(ExportWeights(none, {.weights = Path("base.safetensors"), .out = Path("p2"), .adapters = true}).status(),
              refused("the job has no adapters to export"));
}

}  // namespace
}  // namespace oneflow
