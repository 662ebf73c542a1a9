// Weight files: what one layout saves, every other loads.
#include <cmath>
#include <filesystem>
#include <random>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "actor/checkpoint/safetensors.h"
#include "gmock/gmock.h"
#include "test/e2e/oneflow_command.h"
#include "test/support/paths.h"
#include "test/support/status_matchers.h"
#include "test/support/weight_file.h"
#include "tools/control/process/child.h"

namespace oneflow::e2e {
namespace {

TEST(WeightsTest, InitialWeightsAreTheSameFileUnderEveryLayout) {
  const Workspace work;
  const std::vector<std::string> only_save = {"--set", "train.steps=1", "--save-initial-weights"};
  work.Losses(work.GptJob(), Join(only_save, {work.Path("one")}));
  work.Losses(work.GptJob(), Join(Join(only_save, {work.Path("dp2tp2")}), OnMesh("dp: 2 tp: 2", 2)));
  work.Losses(work.GptJob(), Join(Join(only_save, {work.Path("pp2dp2")}), OnMesh("pp: 2 dp: 2", 2)));
  EXPECT_GT(ReadFile(work.Path("one")).size(), 30'000) << "2 layers of width 16, two tables of 256 x 16";
  EXPECT_TRUE(ReadFile(work.Path("one")) == ReadFile(work.Path("dp2tp2")));
  EXPECT_TRUE(ReadFile(work.Path("one")) == ReadFile(work.Path("pp2dp2")));
}

TEST(WeightsTest, AFileHoldsTheModelsTensors) {
  const Workspace work;
  work.Losses(work.ConvNetJob(), Join({"--save-weights", work.Path("w")}, OnMesh("dp: 2 tp: 2", 2)));
  ASSERT_OK_AND_ASSIGN(const SafetensorsReader file, SafetensorsReader::Open(work.Path("w")));
  std::vector<std::string> tensors;
  for (const auto& [name, entry] : file.tensors()) tensors.push_back(name + " " + entry.type.ToString());
  EXPECT_THAT(tensors, ElementsAre("conv0/bias f32[4]", "conv0/weight f32[4,1,5,5]", "conv1/bias f32[8]",
                                   "conv1/weight f32[8,4,5,5]", "fc/bias f32[16]", "fc/weight f32[392,16]",
                                   "head/bias f32[4]", "head/weight f32[16,4]"));
}

TEST(WeightsTest, AnotherLayoutContinuesWhereOneStopped) {
  const Workspace work;
  // Without a state of the optimizer and at a constant rate, a broken run is the whole run.
  const std::vector<std::string> stateless = {"--set", "train.optimizer={sgd {}}", "--set",
                                              "train.schedule={learning_rate: 0.1}"};
  const auto steps = [&](int n) { return Join(stateless, {"--set", "train.steps=" + std::to_string(n)}); };
  const std::string job = work.GptJob(), weights = work.Path("w");
  work.Losses(job, Join(Join(steps(3), {"--save-weights", weights}), OnMesh("dp: 2 tp: 2", 2)));

  // Every run begins with the first batch, so the saved weights are tried on that batch by three layouts.
  const auto first_loss = [&](const std::vector<std::string>& layout) {
    const std::vector<double> losses = work.Losses(job, Join(Join(steps(1), {"--weights", weights}), layout));
    EXPECT_THAT(losses, SizeIs(1));
    return losses.at(0);
  };
  const double same = first_loss(OnMesh("dp: 2 tp: 2", 2));
  EXPECT_LT(same, work.Losses(job, steps(1)).at(0)) << "three steps have taught something";
  EXPECT_NEAR(first_loss({}) / same, 1, 1e-6);
  EXPECT_NEAR(first_loss(OnMesh("pp: 2 dp: 2", 2)) / same, 1, 1e-6);
}

TEST(WeightsTest, EvaluationOfSavedWeightsIsTheOneAtTheEndOfTheRun) {
  const Workspace work;
  const std::string job = work.GptJob(), weights = work.Path("w");
  const std::vector<nlohmann::json> lines =
      work.Metrics(job, {"--set", "evaluate={batches: 3}", "--save-weights", weights});
  ASSERT_THAT(lines, SizeIs(20));
  ASSERT_TRUE(lines.back().contains("validation_loss")) << lines.back();
  const Outcome again =
      work.Run(Join({"run", job, "--set", "evaluate={batches: 3}", "--set", "train.steps=0", "--weights", weights},
                    OnMesh("dp: 2 tp: 2", 2)));
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_THAT(again.out, ::testing::HasSubstr(
                             absl::StrFormat("validation loss %.4f", lines.back()["validation_loss"].get<double>())));
}

// What a Python script that has the package safetensors says of a tiny GPT-2 in the form of transformers.
nlohmann::json TinyGpt2(const Workspace& work, const std::vector<std::string>& arguments) {
  ChildOptions options;
  options.executable = "/usr/bin/python3";
  options.arguments =
      Join({"python3", SourceDir() + "/test/e2e/tiny_gpt2.py", SourceDir() + "/build/python"}, arguments);
  options.log_path = work.Path("tiny_gpt2.out");
  std::filesystem::remove(options.log_path);
  const auto child = ChildProcess::Start(options);
  EXPECT_TRUE(child.ok() && (*child)->WaitForExit(absl::Seconds(60)));
  const std::string text = ReadFile(options.log_path);
  const nlohmann::json said = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  EXPECT_FALSE(said.is_discarded()) << text;
  return said;
}

TEST(WeightsTest, AGpt2OfAnotherLibraryIsTheSameModelHereAndComesBackToTheBit) {
  const Workspace work;
  const std::string seed = std::to_string(std::random_device()());
  SCOPED_TRACE("seed " + seed);
  const nlohmann::json theirs = TinyGpt2(work, {"make", work.Path("theirs"), work.Path("their_text"), seed});
  // At this rate the weights that are evaluated are those that were imported, to the bit.
  const std::string weights = work.Path("ours.safetensors");
  const std::string job = work.Write(
      "job.pbtxt",
      absl::StrCat("model { gpt { vocabulary: 40 layers: 2 width: 24 heads: 4 context: 12 "
                   "tied_embedding: true } }\n"
                   "weights: '",
                   weights, "' data { text { path: '", work.Path("their_text"),
                   "' validation_fraction: 0.5 } }\n"
                   "train { steps: 1 batch_size: 4 optimizer { sgd {} } schedule { learning_rate: 1e-12 } }\n"
                   "evaluate { batches: 4 batch_size: 4 }\n"));
  const Outcome imported = work.Run({"weights", "import", work.Path("theirs"), job, "--out", weights});
  ASSERT_EQ(imported.exit_code, 0) << imported.err;
  EXPECT_THAT(imported.out, HasSubstr("36 variables, 15744 parameters, from 28 tensors"));
  EXPECT_EQ(theirs["windows"], 16) << "all that the job evaluates";
  for (const std::vector<std::string>& layout : {std::vector<std::string>(), OnMesh("dp: 2 tp: 2", 2)}) {
    const auto lines = work.Metrics(job, layout);
    EXPECT_NEAR(lines.back()["validation_loss"].get<double>() / theirs["loss"].get<double>(), 1, 1e-6);
  }
  const Outcome exported =
      work.Run({"weights", "export", job, weights, "--out", work.Path("again"), "--max-shard-bytes", "8000"});
  ASSERT_EQ(exported.exit_code, 0) << exported.err;
  const nlohmann::json compared = TinyGpt2(work, {"compare", work.Path("theirs"), work.Path("again")});
  EXPECT_EQ(compared["same"], true);
  EXPECT_EQ(compared["tensors"], 28);
}

TEST(WeightsTest, CommandsThatLookAtWeightsSayWhatTheyFound) {
  const Workspace work;
  TinyGpt2(work, {"make", work.Path("theirs"), work.Path("their_text"), "1"});
  const Outcome listed = work.Run({"weights", "ls", work.Path("theirs")});
  EXPECT_EQ(listed.exit_code, 0);
  EXPECT_THAT(listed.out, HasSubstr("transformer.h.0.attn.bias           U8      [1,1,12,12]                  144  "
                                    "model-00001-of-00002.safetensors\n"));
  EXPECT_THAT(listed.out, HasSubstr("\n29 tensors, 15888 elements, 63120 bytes\n"));
  EXPECT_EQ(work.Run({"weights", "diff", work.Path("theirs"), work.Path("theirs")}).exit_code, 0);
  TinyGpt2(work, {"make", work.Path("others"), work.Path("their_text"), "2"});
  const Outcome differ = work.Run({"weights", "diff", work.Path("theirs"), work.Path("others")});
  EXPECT_EQ(differ.exit_code, 1);
  EXPECT_THAT(differ.out, HasSubstr("transformer.ln_f.bias: 24 of 24 elements differ, by "));

  const std::string job = work.GptJob();
  const Outcome refused =
      work.Run({"weights", "import", work.Path("theirs"), job, "--out", work.Path("w"), "--set", "model.gpt.layers=6"});
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.err, HasSubstr("--set model.gpt.layers=6: model.gpt.layers: is 6, but n_layer in '"));
  EXPECT_FALSE(std::filesystem::exists(work.Path("w")));
  EXPECT_EQ(work.Run({"weights", "export", job, "w", "--out", "o", "--dtype", "f64"}).exit_code, 2);
}

// A job that trains and evaluates TinyGpt2's model on its text.
std::string TinyGpt2Job(const Workspace& work, const std::string& model, const std::string& train) {
  return work.Write("job.pbtxt", absl::StrCat("model { gpt { vocabulary: 40 layers: 2 width: 24 heads: 4 context: 12 ",
                                              model, " } }\ndata { text { path: '", work.Path("their_text"),
                                              "' validation_fraction: 0.5 } }\ntrain { batch_size: 4 ", train, " }\n"));
}

// Adapters begin such that the model is the one of the file, which lacks them; exported they are part of the weights.
TEST(WeightsTest, AdaptersAreTrainedBesideWeightsAndExportedInThem) {
  const Workspace work;
  TinyGpt2(work, {"make", work.Path("theirs"), work.Path("their_text"), "3"});
  const std::string job =
      TinyGpt2Job(work, "tied_embedding: true", "steps: 12 optimizer { adamw {} } schedule { learning_rate: 0.01 }");
  const std::vector<std::string> adapted = {"--set",
                                            "train.lora={match: '*/attn/*/weight' match: '*/mlp/up/*' rank: 2}"};
  const std::vector<std::string> evaluated = {"--set", "evaluate={batches: 4 batch_size: 4}"};
  const auto run = [&](const std::string& command, const std::vector<std::string>& more) {
    const Outcome outcome = work.Run(Join({"weights", command}, more));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return outcome.out;
  };
  const auto validation = [&](const std::string& weights, const std::vector<std::string>& more) {
    return work.Metrics(job, Join(Join(evaluated, {"--weights", work.Path(weights)}), more))
        .back()["validation_loss"]
        .get<double>();
  };
  const std::vector<std::string> still = {"--set", "train.steps=1", "--set", "train.schedule.learning_rate=1e-12"};
  run("import", Join({work.Path("theirs"), job, "--out", work.Path("w")}, adapted));
  const double before = validation("w", still);
  EXPECT_EQ(validation("w", Join(still, adapted)), before);
  const double trained = validation("w", Join(adapted, {"--save-weights", work.Path("trained")}));
  EXPECT_LT(trained, before);
  ASSERT_OK_AND_ASSIGN(const testing::WeightFile start, testing::ReadWeightFile(work.Path("w")));
  ASSERT_OK_AND_ASSIGN(const testing::WeightFile ended, testing::ReadWeightFile(work.Path("trained")));
  EXPECT_EQ(ended.tensors.size(), start.tensors.size() + 2 * (2 * 4 + 2));
  for (const auto& [name, entry] : start.tensors) EXPECT_TRUE(entry.bytes == ended.tensors.at(name).bytes) << name;

  EXPECT_THAT(run("export", Join({job, work.Path("trained"), "--out", work.Path("merged")}, adapted)),
              HasSubstr("36 variables (10 with adapters added), as f32"));
  run("import", {work.Path("merged"), job, "--out", work.Path("again")});
  EXPECT_NEAR(validation("again", still), trained, 1e-5);
  EXPECT_THAT(work.Run({"weights", "export", job, work.Path("trained"), "--out", work.Path("not")}).err,
              HasSubstr("h0/attn/k/weight/lora_a: surplus"));
  EXPECT_THAT(work.Run(Join({"weights", "export", job, work.Path("w"), "--out", work.Path("not")}, adapted)).err,
              HasSubstr("h0/attn/k/weight/lora_a: missing, f32[24,2]"));
}

// A model whose file lacks a tensor starts with that tensor's initial value.
TEST(WeightsTest, WhatMayBeMissingStartsFresh) {
  const Workspace work;
  TinyGpt2(work, {"make", work.Path("theirs"), work.Path("their_text"), "1"});
  const std::string job = TinyGpt2Job(work, "", "steps: 0 optimizer { sgd {} }");
  const std::string config = ReadFile(work.Path("theirs/config.json"));
  work.Write("theirs/config.json", config.substr(0, config.size() - 1) + ", \"tie_word_embeddings\": false}");
  const std::vector<std::string> import = {"weights", "import", work.Path("theirs"), job, "--out", work.Path("w")};
  EXPECT_THAT(work.Run(import).err, HasSubstr("lm_head.weight: missing, f32[40,24] for head/weight"));
  const Outcome allowed = work.Run(Join(import, {"--allow-missing", "head/*"}));
  EXPECT_THAT(allowed.out, HasSubstr("starts with fresh values: head/weight\n")) << allowed.err;
  const Outcome ended = work.Run({"run", job, "--weights", work.Path("w"), "--save-weights", work.Path("saved")});
  ASSERT_EQ(ended.exit_code, 0) << ended.err;
  ASSERT_EQ(work.Run({"run", job, "--save-weights", work.Path("fresh")}).exit_code, 0);
  ASSERT_OK_AND_ASSIGN(const testing::WeightFile saved, testing::ReadWeightFile(work.Path("saved")));
  ASSERT_OK_AND_ASSIGN(const testing::WeightFile fresh, testing::ReadWeightFile(work.Path("fresh")));
  EXPECT_TRUE(saved.tensors.at("head/weight").bytes == fresh.tensors.at("head/weight").bytes);
  EXPECT_FALSE(saved.tensors.at("wte/weight").bytes == fresh.tensors.at("wte/weight").bytes);
}

// An average that remembers nothing is the weights with which the last step began.
TEST(WeightsTest, AveragesAreSavedAndEvaluated) {
  const Workspace work;
  const auto run = [&](int steps, const std::vector<std::string>& more) {
    const Outcome outcome = work.Run(Join(
        {"run", work.GptJob(), "--set", "evaluate={batches: 3}", "--set", absl::StrCat("train.steps=", steps)}, more));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    const size_t at = outcome.out.find("validation loss ");
    EXPECT_NE(at, std::string::npos) << outcome.out;
    return at == std::string::npos ? "" : outcome.out.substr(at, 22);
  };
  const std::string saved = absl::StrCat("save_weights: '", work.Path("average"), "'");
  const std::string one = run(1, {"--save-weights", work.Path("one")});
  const std::string averaged = run(
      2,
      Join({"--set", absl::StrCat("train.average={decay: 0 evaluate: true ", saved, "}")}, OnMesh("dp: 2 tp: 2", 2)));
  const std::string two = run(2, {"--set", "train.average={decay: 0}"});
  EXPECT_EQ(averaged, one);
  EXPECT_NE(two, one) << "it is evaluated only where the job asks for it";
  ASSERT_OK_AND_ASSIGN(const testing::WeightFile weights, testing::ReadWeightFile(work.Path("one")));
  ASSERT_OK_AND_ASSIGN(const testing::WeightFile averages, testing::ReadWeightFile(work.Path("average")));
  ASSERT_EQ(averages.tensors.size(), weights.tensors.size());
  for (const auto& [name, entry] : weights.tensors) {
    const testing::WeightFile::Entry& average = averages.tensors.at(name);
    for (int64_t i = 0; i < entry.type.shape.count(); ++i) {
      ASSERT_NEAR(average.as<float>()[i], entry.as<float>()[i], 1e-5) << name << " " << i;
    }
  }
}

}  // namespace
}  // namespace oneflow::e2e
