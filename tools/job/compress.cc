#include "tools/job/compress.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "compiler/points.h"
#include "tools/job/exact_steps.h"
#include "tools/job/field_rules.h"
#include "tools/job/optimizer.h"

namespace oneflow {
namespace {

constexpr char kWindowPlan[] = "train/window";

LevelOptions LevelsOf(const pb::Compress::Levels& levels) {
  const pb::Compress::Levels full = WithDefaults(levels);
  return {full.bits(), full.bucket()};
}

// What `low` and `high` are without a value.
ChoiceOptions ChoiceOf(const pb::Compress& compress) {
  const pb::Compress::Adaptive adaptive = WithDefaults(compress.adaptive());
  const bool by_decades = compress.family() == pb::Compress::TOPK;
  ChoiceOptions choice;
  choice.low = adaptive.low() > 0 ? adaptive.low() : by_decades ? 0.1 : 0.5;
  choice.high = adaptive.high() > 0 ? adaptive.high() : by_decades ? 10 : 2;
  choice.alpha = adaptive.alpha();
  choice.squared = adaptive.budget() == "squared";
  choice.relative = adaptive.relative();
  choice.accordion = adaptive.accordion();
  return choice;
}

}  // namespace

void CheckCompress(const pb::JobConfig& config, Checker& check) {
  const pb::Compress& compress = config.compress();
  const bool coded = compress.family() != pb::Compress::NONE;
  check.Require(coded || compress.has_weights() || compress.has_stages() || !config.has_compress(), "compress",
                "says of nothing that it is compressed: it has no family, weights or stages");
  check.Require(!coded || compress.has_default_(), "compress.default", "is required");
  check.Require(coded || !compress.has_default_(), "compress.default", "is of a family, and there is none");
  check.Require(coded || !compress.has_adaptive(), "compress.adaptive", "is of a family, and there is none");
  check.Require(compress.warmup_steps() == 0 || !config.train().has_ramp(), "compress.warmup_steps",
                "not with train.ramp");
  check.Require(compress.warmup_steps() == 0 || config.sync().co2().warmup_steps() == 0, "compress.warmup_steps",
                "not with those of sync");
  const bool draws = compress.family() == pb::Compress::RANDK;
  check.Require(draws || !compress.own_seeds(), "compress.own_seeds", "is for RANDK");
  const bool differ =
      compress.own_seeds() || compress.family() == pb::Compress::TOPK || compress.family() == pb::Compress::PERMK;
  check.Require(differ || compress.shift_rate() == 0, "compress.shift_rate",
                "is for TOPK, for PERMK, and for RANDK with own_seeds");
  check.Require(differ || compress.participants() == 0, "compress.participants",
                "is for TOPK, for PERMK, and for RANDK with own_seeds");
  check.Require(compress.participants() == 0 || !compress.has_adaptive(), "compress.participants",
                "not with compress.adaptive");
  if (!compress.has_adaptive()) return;
  const pb::Compress::Adaptive adaptive = WithDefaults(compress.adaptive());
  check.Require(adaptive.window() <= adaptive.every(), "compress.adaptive.window",
                absl::StrCat(adaptive.window(), " steps are more than the ", adaptive.every(), " of `every`"));
  check.Require(adaptive.high() == 0 || adaptive.high() >= 1, "compress.adaptive.high",
                absl::StrCat("is ", adaptive.high(), ": the usual number, 1 times itself, is always a candidate"));
  check.Require(!config.train().has_ramp(), "compress.adaptive", "not with train.ramp");
  check.Require(!config.has_sync(), "compress.adaptive", "not with sync");
}

std::optional<CompressOptions> CompressOf(const pb::JobConfig& config) {
  if (!config.has_compress()) return std::nullopt;
  const pb::Compress compress = WithDefaults(config.compress());
  const bool coded = compress.family() != pb::Compress::NONE;
  CompressOptions options = {compress.axis(), coded ? pb::Compress::Family_Name(compress.family()) : "",
                             compress.default_(), compress.bucket()};
  if (compress.has_weights()) options.weights = LevelsOf(compress.weights());
  if (compress.has_stages()) options.stages = LevelsOf(compress.stages());
  for (const pb::Compress::Group& group : compress.groups()) {
    options.groups.push_back({group.match(), group.value(), group.exact()});
  }
  options.exact = {kExactPlan};
  options.own_seeds = compress.own_seeds();
  options.shift_rate = compress.shift_rate();
  options.participants = compress.participants();
  const OptimizerOptions optimizer = OptimizerOf(config.train().optimizer());
  const UpdateOptions* const anchored = AnchoredUpdate(optimizer);
  options.from_anchor = anchored != nullptr;
  options.of_batches = anchored != nullptr && FindOptimizerRule(anchored->rule)->half_point != nullptr;
  if (!compress.has_adaptive()) return options;
  options.choice = ChoiceOf(compress);
  options.windows = {kWindowPlan};
  return options;
}

void AddCompressSteps(const pb::JobConfig& config, Program& program) {
  if (config.compress().has_adaptive()) AddTrainAs(kWindowPlan, program);
  if (config.compress().warmup_steps() > 0) AddTrainAs(kExactPlan, program);
}

void FillCompress(const pb::JobConfig& config, pb::JobSpec& spec) {
  const pb::Compress& compress = config.compress();
  const int64_t first = std::min(compress.warmup_steps(), config.train().steps());
  for (pb::Phase& phase : *spec.mutable_phases()) {
    if (!phase.has_train()) continue;
    FillExactSteps(first, spec, *phase.mutable_train());
    if (!compress.has_adaptive()) continue;
    const pb::Compress::Adaptive adaptive = WithDefaults(compress.adaptive());
    pb::ChoiceRule& rule = *phase.mutable_train()->mutable_choice();
    rule.set_every(adaptive.every());
    rule.set_window(adaptive.window());
    rule.set_plan(kWindowPlan);
    rule.set_first_step(first);
  }
}

}  // namespace oneflow
