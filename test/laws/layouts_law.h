// The layout law: the same program under any layout computes the same losses, from the same initial weights and with
// the same dropout masks; two runs of one plan are bitwise equal; the bytes that boxing moves are those that were
// predicted.
#pragma once

#include <cmath>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "compiler/code_choices.h"
#include "compiler/lower/program_text.h"
#include "gtest/gtest.h"
#include "oneflow_core/ops/ops.h"
#include "oneflow_core/zones.h"
#include "test/support/status_matchers.h"
#include "test/support/test_dir.h"
#include "test/support/weight_file.h"
#include "tools/control/local/run_in_place.h"
#include "tools/job/job.h"
#include "tools/job/points.h"

namespace oneflow::testing {

struct Outcome {
  std::vector<double> losses;
  std::map<std::string, std::vector<double>> fetched;  // by name, what every step of training gave
  std::map<std::string, std::vector<double>> choices;  // by matrix, what was chosen (compiler/code_choices.h)
  EngineStats stats;
  int64_t predicted_bytes = 0;
  int64_t planned_bytes = 0;
  int64_t tier_bytes = 0;                              // below the devices' memory
  std::map<std::string, std::string> initial_weights;  // name -> bytes
};

class LayoutsLaw : public ::testing::Test {
 protected:
  LayoutsLaw() : ops_(StandardOps()) {
    std::string text;
    std::mt19937 random(7);
    for (int i = 0; i < 5000; ++i) text += static_cast<char>('a' + (i % 7) * (random() % 3 + 1));
    text_ = dir_.Write("text", text);
    const int n = 200;
    std::string images{0, 0, 8, 3, 0, 0, 0, static_cast<char>(n), 0, 0, 0, 28, 0, 0, 0, 28},
        labels{0, 0, 8, 1, 0, 0, 0, static_cast<char>(n)};
    for (int i = 0; i < n; ++i) {
      labels += static_cast<char>(i % 10);
      for (int p = 0; p < 28 * 28; ++p)
        images += static_cast<char>((p / 28 / 3 == i % 10) ? 200 + random() % 50 : random() % 60);
    }
    images_ = dir_.Write("images", images);
    labels_ = dir_.Write("labels", labels);
  }

  std::string Gpt() const {
    return "model { gpt { vocabulary: 128 layers: 2 width: 24 heads: 4 context: 12 dropout: 0.1 } } data { text { "
           "path: '" +
           text_ +
           "' } } train { batch_size: 8 optimizer { adamw { weight_decay: 0.1 } clip_norm: 1 } schedule { "
           "learning_rate: 3e-3 } }";
  }
  std::string ConvNet() const {
    return "model { convnet { channels: [6, 10] hidden: 20 dropout: 0.2 } } data { images { train_images: '" + images_ +
           "' train_labels: '" + labels_ +
           "' } } train { batch_size: 8 optimizer { sgd { momentum: 0.9 } } schedule { learning_rate: 0.02 } }";
  }
  std::string Mlp() const {
    return "model { mlp { widths: [33, 17] } } data { images { train_images: '" + images_ + "' train_labels: '" +
           labels_ +
           "' } } train { batch_size: 8 optimizer { sgd { momentum: 0.9 } clip_norm: 0.5 } schedule { learning_rate: "
           "0.02 } }";
  }

  static std::string MarginClassifier() {
    return "model { margin_classifier { widths: [24] embedding: 10 scale: 8 } } data { prototypes { classes: 37 "
           "samples: 400 height: 5 "
           "width: 5 noise: 0.2 } } train { batch_size: 8 optimizer { adamw {} clip_norm: 1 } schedule { "
           "learning_rate: "
           "0.01 } }";
  }
  static std::string WideDeep() {
    return "model { wide_deep { embedding: 6 widths: [20] } } data { clicks { fields: 3 vocabulary: 301 numbers: 2 } } "
           "train { batch_size: 64 optimizer { adamw {} } schedule { learning_rate: 0.05 } }";
  }

  absl::StatusOr<Outcome> Run(const std::string& config, const std::vector<std::string>& overrides) {
    OF_ASSIGN_OR_RETURN(SourcedConfig sourced, ParseConfig(config, "law"));
    OF_RETURN_IF_ERROR(ApplyOverride(absl::StrCat("train.steps=", steps_), sourced));
    OF_RETURN_IF_ERROR(ApplyOverride("save_initial_weights=" + dir_.File("initial"), sourced));
    for (const std::string& one : overrides) OF_RETURN_IF_ERROR(ApplyOverride(one, sourced));
    OF_ASSIGN_OR_RETURN(Job job, MakeJob(std::move(sourced), JobKind::kTrain, ops_));
    job.spec.set_profile(profile_);
    OF_ASSIGN_OR_RETURN(pb::Program program, CompileToProgram(job, ops_));
    Outcome outcome;
    for (const pb::Plan& one : program.plans()) {
      for (const pb::Phase& phase : job.spec.phases()) {
        const int64_t runs = RunsOfPlan(one.name(), phase.train().points(), job.spec.seed(), steps_);
        outcome.predicted_bytes += phase.has_train() ? PredictedBytesMoved(one) * runs : 0;
      }
    }
    for (const pb::Rank& rank : program.ranks()) {
      outcome.planned_bytes += BytesOfZones(rank);
      for (const ZoneKind& kind : kZones) outcome.tier_bytes += kind.of_device ? 0 : BytesOfZone(rank, kind.zone);
    }
    const auto take = [&](const pb::JobEvent& event) {
      if (event.fetched().plan() == kChoicePlan) {
        outcome.choices[event.fetched().name()].push_back(event.fetched().values(0));
      }
      if (event.fetched().plan() != "train") return;
      auto& values = outcome.fetched[event.fetched().name()];
      values.resize(steps_, std::nan(""));
      values[event.fetched().step()] = event.fetched().values(0);
    };
    for (pb::Rank& rank : *program.mutable_ranks()) rank.set_process(0);  // all of them here
    job.spec.set_processes(1);
    OF_ASSIGN_OR_RETURN(outcome.stats, RunInPlace(job.spec, std::move(program), take));
    outcome.losses = outcome.fetched["loss"];
    outcome.losses.resize(steps_, std::nan(""));
    OF_ASSIGN_OR_RETURN(const testing::WeightFile file, testing::ReadWeightFile(dir_.File("initial")));
    for (const auto& [name, entry] : file.tensors) {
      outcome.initial_weights[name] = std::string(entry.bytes.begin(), entry.bytes.end());
    }
    return outcome;
  }

  // Expects that `config` trains under every layout as it does on one device of the host.
  void ExpectSameUnder(const std::string& config, const std::vector<std::vector<std::string>>& layouts) {
    ASSERT_OK_AND_ASSIGN(const Outcome whole, Run(config, {}));
    ASSERT_LT(whole.losses.back(), whole.losses.front()) << "the model learns nothing, so equality would say nothing";
    for (const std::vector<std::string>& layout : layouts) {
      std::vector<std::string> overrides = layout;
      overrides.insert(overrides.end(), placed_.begin(), placed_.end());
      SCOPED_TRACE(absl::StrJoin(overrides, " "));
      ASSERT_OK_AND_ASSIGN(const Outcome parts, Run(config, overrides));
      ExpectSame(parts, whole);
      EXPECT_EQ(parts.stats.scratch_bytes, 0) << "nothing asks for more than the plan has";
    }
  }
  void ExpectSame(const Outcome& parts, const Outcome& whole) const {
    EXPECT_EQ(parts.initial_weights, whole.initial_weights) << "bitwise";
    for (int step = 0; step < steps_; ++step) {
      const double bar = first_bar_ * std::pow(last_bar_ / first_bar_, step / 19.0);
      const double loss = whole.losses[step];
      ASSERT_NEAR(parts.losses[step], loss, bar * std::abs(loss)) << "step " << step + 1;
    }
    EXPECT_EQ(parts.stats.bytes_moved, parts.predicted_bytes);
    EXPECT_EQ(parts.stats.register_bytes, parts.planned_bytes);
  }

  const OpRegistry ops_;
  int steps_ = 20;
  bool profile_ = false;                       // every instruction is timed
  double first_bar_ = 1e-6, last_bar_ = 1e-4;  // how far losses may be apart, at the first step and at the twentieth
  std::vector<std::string> placed_;            // where layouts run, as overrides; empty: on devices of the host
  TestDir dir_;
  std::string text_, images_, labels_;
};

}  // namespace oneflow::testing
