#include "tools/job/ramp.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "tools/job/field_rules.h"

namespace oneflow {

std::vector<RampedSteps> RampOf(const pb::JobConfig& config) {
  std::vector<RampedSteps> ramp;
  const pb::Train& train = config.train();
  if (!train.has_ramp()) return ramp;
  const int32_t usual = train.batch_size() / WithDefaults(train).micro_batches();
  const int64_t sizes = (train.batch_size() - train.ramp().start()) / train.ramp().increment();
  int64_t step = 0, samples = 0;
  for (int64_t i = 0; i < sizes && step < train.steps(); ++i) {
    const int32_t batch = train.ramp().start() + static_cast<int32_t>(i) * train.ramp().increment();
    const int64_t until = static_cast<int64_t>(std::ceil(static_cast<double>(train.ramp().samples()) *
                                                         static_cast<double>(i + 1) / static_cast<double>(sizes)));
    const int64_t steps = samples < until ? (until - samples + batch - 1) / batch : 0;
    if (steps == 0) continue;
    step += steps;
    samples += steps * batch;
    ramp.push_back({absl::StrCat("train/", batch), batch, batch / usual, std::min(step, train.steps())});
  }
  return ramp;
}

void CheckRamp(const pb::JobConfig& config, Checker& check) {
  const pb::Train& train = config.train();
  if (!train.has_ramp()) return;
  const pb::Ramp& ramp = train.ramp();
  const int32_t usual = std::max(1, train.batch_size() / std::max(1, WithDefaults(train).micro_batches()));
  const std::string micro =
      absl::StrCat(" is no multiple of the ", usual, " samples of a micro-batch (batch_size / micro_batches)");
  check.Require(ramp.start() % usual == 0, "train.ramp.start", absl::StrCat(ramp.start(), micro));
  check.Require(ramp.increment() % usual == 0, "train.ramp.increment", absl::StrCat(ramp.increment(), micro));
  check.Require(ramp.start() < train.batch_size(), "train.ramp.start",
                absl::StrCat(ramp.start(), " is not below batch_size, ", train.batch_size()));
  if (!check.status().ok()) return;
  const int32_t way = train.batch_size() - ramp.start();
  check.Require(way % ramp.increment() == 0, "train.ramp.increment",
                absl::StrCat("from ", ramp.start(), " no number of steps of ", ramp.increment(),
                             " leads to batch_size, ", train.batch_size()));
  check.Require(way / ramp.increment() <= kMostRampSizes, "train.ramp.increment",
                absl::StrCat("makes ", way / ramp.increment(), " smaller sizes of batches, and at most ",
                             kMostRampSizes, " are possible"));
  check.Require(!config.model().has_graph(), "train.ramp", "not with graphs of one's own (model.graph)");
}

void AddRamp(const pb::JobConfig& config, Program& program) {
  const auto train =
      std::find_if(program.begin(), program.end(), [](const Graph& graph) { return graph.name() == "train"; });
  if (train == program.end()) return;
  const Graph whole = *train;
  for (const RampedSteps& stage : RampOf(config)) {
    program.push_back(whole);
    program.back().set_name(stage.plan);
  }
}

}  // namespace oneflow
