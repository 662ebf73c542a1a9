#include "tools/bench/moved_words.h"

#include <algorithm>
#include <cstdint>
#include <iostream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "compiler/lower/program_text.h"
#include "tools/bench/header_text.h"
#include "tools/bench/measurement.h"
#include "tools/bench/next_word.h"
#include "tools/control/cluster/run_to_end.h"
#include "tools/job/job.h"
#include "tools/job/points.h"

namespace oneflow {
namespace {

constexpr int64_t kMovedRanks = 4, kMovedBatch = 32 * kMovedRanks, kMovedSteps = 1000;
constexpr int64_t kMovedTestRows = 8192, kMovedTestBatch = 128;
constexpr double kShiftPenalty = 0.1;
constexpr int kMovedSeeds = 3;

struct MovedRun {
  const char* name;
  const char* optimizer;
  const char* compress;  // empty: exact
};
constexpr MovedRun kMovedRuns[] = {
    {"extragradient", "extragradient {}", ""},
    {"extragradient, 8 bits", "extragradient {}", "family: QUANT default: 8"},
    {"extragradient, 4 bits", "extragradient {}", "family: QUANT default: 4"},
    {"optimistic", "optimistic {}", ""},
    {"optimistic, 8 bits", "optimistic {}", "family: QUANT default: 8"},
};

// The bytes of the plans, as often as they run.
double BytesOf(const Job& job, const pb::Program& program) {
  double bytes = 0;
  for (const pb::Phase& phase : job.spec.phases()) {
    if (!phase.has_train()) continue;
    for (const pb::Plan& one : program.plans()) {
      const int64_t runs = RunsOfPlan(one.name(), phase.train().points(), job.spec.seed(), kMovedSteps);
      bytes += static_cast<double>(PredictedBytesMoved(one) * runs);
    }
  }
  return bytes;
}

absl::StatusOr<MovedWords> TrainMoved(const BenchContext& context, const MovedRun& run, int seed) {
  const std::string graphs = absl::StrCat(context.dir, "/moved-", seed);
  const WordBatches train = {absl::StrCat(context.dir, "/moved-", seed, ".csv"), kMovedBatch};
  const WordBatches test = {context.dir + "/moved-test.csv", kMovedTestBatch};
  OF_RETURN_IF_ERROR(WriteNextWordGraphs(context.ops, graphs, train, test, kShiftPenalty));
  const std::string config = absl::StrCat(
      "name: 'edges-masha-words' seed: ", seed, " model { graph: '", graphs, "' } mesh { dp: ", kMovedRanks,
      " } train { steps: ", kMovedSteps, " batch_size: ", kMovedBatch, " optimizer { ", run.optimizer,
      " groups { match: 'shift' ascent: true } } schedule { learning_rate: 0.3 kind: 'cosine' warmup_steps: 50 } } "
      "evaluate { batches: ",
      kMovedTestRows / kMovedTestBatch, " } ",
      *run.compress == '\0' ? "" : absl::StrCat("compress { ", run.compress, " }"));
  OF_ASSIGN_OR_RETURN(SourcedConfig sourced, ParseConfig(config, "(edges-masha)"));
  sourced.config.mutable_cluster()->set_processes(kMovedRanks);
  sourced.config.mutable_cluster()->set_cores_per_process(1);
  OF_ASSIGN_OR_RETURN(Job job, MakeJob(std::move(sourced), JobKind::kTrain, context.ops));
  OF_ASSIGN_OR_RETURN(const pb::Program program, CompileToProgram(job, context.ops));
  OF_ASSIGN_OR_RETURN(const std::vector<pb::JobEvent> events, RunToEnd(job.spec, context.stop));
  MovedWords result = {run.name};
  OF_ASSIGN_OR_RETURN(result.loss, MeanOfEvaluation(events));
  result.bytes = BytesOf(job, program);
  return result;
}

}  // namespace

absl::StatusOr<std::vector<MovedWords>> MeasureMovedWords(const BenchContext& context) {
  OF_ASSIGN_OR_RETURN(const std::string text, HeaderText());
  const WordText words(text);
  words.WriteTestWindows(context.dir + "/moved-test.csv", kMovedTestRows, 5);
  for (int seed = 1; seed <= kMovedSeeds; ++seed) {
    words.WriteTrainWindows(absl::StrCat(context.dir, "/moved-", seed, ".csv"), kMovedSteps * kMovedBatch, 100 + seed);
  }
  std::vector<MovedWords> rows;
  for (const MovedRun& run : kMovedRuns) {
    MovedWords mean = {run.name};
    for (int seed = 1; seed <= kMovedSeeds; ++seed) {
      OF_RETURN_IF_ERROR(BeginPart(context, absl::StrCat("words: ", run.name, ", seed ", seed)));
      OF_ASSIGN_OR_RETURN(const MovedWords result, TrainMoved(context, run, seed));
      std::cerr << absl::StrFormat("%6.3f nats", result.loss);
      mean.loss += result.loss / kMovedSeeds;
      mean.bytes += result.bytes / kMovedSeeds;
    }
    rows.push_back(mean);
  }
  return rows;
}

std::string MovedWordsText(const std::vector<MovedWords>& rows) {
  const MovedWords& exact = rows.front();
  std::string text = absl::StrFormat(
      "  words, whose vectors an adversary moves: %d ranks, %d steps, means of %d seeds\n    %-40s %12s %14s\n",
      kMovedRanks, kMovedSteps, kMovedSeeds, "", "test nats", "of the bytes");
  for (const MovedWords& row : rows) {
    absl::StrAppendFormat(&text, "    %-40s %12.3f %14.2f\n", row.name, row.loss, row.bytes / exact.bytes);
  }
  const auto line = [&](const std::string& what, double value, double bar) {
    absl::StrAppendFormat(&text, "  %-64s %+9.3f   at most %g: %s\n", what, value, bar,
                          value <= bar ? "holds" : "does not hold");
  };
  line("words, 8 bits: loss over exact", rows[1].loss - exact.loss, 0.03);
  line("words, 8 bits: of the bytes", rows[1].bytes / exact.bytes, 0.3);
  return text;
}

}  // namespace oneflow
