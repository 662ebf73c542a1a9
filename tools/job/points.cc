#include "tools/job/points.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "compiler/points.h"
#include "kernels/random.h"
#include "tools/job/exact_steps.h"
#include "tools/job/optimizer.h"

namespace oneflow {
namespace {

// `fallback` of a rule that has no such attribute.
double NumberOf(const UpdateOptions& update, absl::string_view name, double fallback) {
  for (const OptimizerAttribute& attribute : FindOptimizerRule(update.rule)->attributes) {
    if (attribute.name == name) return update.attributes.Double(attribute.name, attribute.value);
  }
  return fallback;
}

double ProbabilityOf(const UpdateOptions& update) { return NumberOf(update, "probability", 0); }
double BatchesOf(const UpdateOptions& update) { return NumberOf(update, kAnchorBatches, 1); }

// What coins, batches and codes have to be alike for.
void CheckAlike(const UpdateOptions& anchored, const UpdateOptions& update, const std::string& field, Checker& check) {
  const OptimizerRule* const rule = FindOptimizerRule(update.rule);
  if (rule == nullptr || update.frozen) return;
  const std::string of = absl::StrCat(field, ".", update.rule);
  const bool by_batches = FindOptimizerRule(anchored.rule)->half_point != nullptr || rule->half_point != nullptr;
  check.Require(
      !by_batches || update.rule == anchored.rule, of,
      absl::StrCat("not beside ", anchored.rule, ": with anchors of many batches all variables have one rule"));
  if (rule->anchor == nullptr || !by_batches) {
    const bool same = rule->anchor == nullptr || ProbabilityOf(update) == ProbabilityOf(anchored);
    check.Require(same, absl::StrCat(of, ".probability"),
                  absl::StrCat("is ", ProbabilityOf(update), " here and ", ProbabilityOf(anchored),
                               " for other variables; all anchors move by one coin"));
    return;
  }
  for (const char* name : {"probability", kAnchorBatches}) {
    const double here = NumberOf(update, name, 0), there = NumberOf(anchored, name, 0);
    check.Require(here == there, absl::StrCat(of, ".", name),
                  absl::StrCat("is ", here, " here and ", there, " for other variables; all anchors move by one coin"));
  }
}

void AddWithoutFetches(const std::string& name, Program& program) {
  AddTrainAs(name, program);
  const auto graph = std::find_if(program.begin(), program.end(), [&](const Graph& g) { return g.name() == name; });
  if (graph == program.end()) return;
  std::vector<bool> keep;
  for (NodeId id = 0; id < graph->num_nodes(); ++id) keep.push_back(graph->node(id).op != "fetch");
  graph->Rebuild(keep);
}

}  // namespace

void CheckPoints(const pb::JobConfig& config, Checker& check) {
  const OptimizerOptions optimizer = OptimizerOf(config.train().optimizer());
  const UpdateOptions* const anchored = AnchoredUpdate(optimizer);
  if (anchored == nullptr && !GoesHalfAhead(optimizer)) return;
  const std::string why = "not with a rule that takes gradients at other points than the weights";
  check.Require(!config.train().has_ramp(), "train.ramp", why);
  check.Require(!config.has_sync(), "sync", why);
  check.Require(config.compress().warmup_steps() == 0, "compress.warmup_steps", why);
  check.Require(!config.compress().has_adaptive(), "compress.adaptive", why);
  check.Require(anchored == nullptr || config.compress().shift_rate() == 0, "compress.shift_rate",
                "the optimizer says already what codes are differences to");
  if (anchored == nullptr) return;
  check.Require(BatchesOf(*anchored) == std::floor(BatchesOf(*anchored)),
                absl::StrCat("train.optimizer.", anchored->rule, ".", kAnchorBatches),
                absl::StrCat(BatchesOf(*anchored), " is no whole number"));
  CheckAlike(*anchored, optimizer, "train.optimizer", check);
  for (size_t i = 0; i < optimizer.groups.size(); ++i) {
    CheckAlike(*anchored, optimizer.groups[i], absl::StrCat("train.optimizer.groups[", i, "]"), check);
  }
}

int AnchorBatches(const pb::JobConfig& config) {
  const OptimizerOptions optimizer = OptimizerOf(config.train().optimizer());
  const UpdateOptions* const anchored = AnchoredUpdate(optimizer);
  return anchored == nullptr ? 1 : static_cast<int>(BatchesOf(*anchored));
}

void AddPointSteps(const pb::JobConfig& config, Program& program) {
  const OptimizerOptions optimizer = OptimizerOf(config.train().optimizer());
  if (AnchoredUpdate(optimizer) != nullptr) AddWithoutFetches(kAnchorPlan, program);
  if (GoesHalfAhead(optimizer)) AddWithoutFetches(kHalfPlan, program);
}

void FillPoints(const pb::JobConfig& config, pb::JobSpec& spec) {
  const OptimizerOptions optimizer = OptimizerOf(config.train().optimizer());
  const UpdateOptions* const anchored = AnchoredUpdate(optimizer);
  if (anchored == nullptr && !GoesHalfAhead(optimizer)) return;
  for (pb::Phase& phase : *spec.mutable_phases()) {
    if (!phase.has_train()) continue;
    pb::PointRule& rule = *phase.mutable_train()->mutable_points();
    rule.set_half(GoesHalfAhead(optimizer));
    rule.set_anchors(anchored != nullptr);
    if (anchored != nullptr) rule.set_probability(ProbabilityOf(*anchored));
  }
}

bool MovesAnchor(const pb::PointRule& rule, uint64_t seed, int64_t step) {
  constexpr uint64_t kAnchorCoin = 0x616e63686f72;
  return rule.anchors() &&
         ToUniform(RandomBits(RandomKey(seed, kAnchorCoin), static_cast<uint64_t>(step), 0)) < rule.probability();
}

int64_t RunsOfPlan(const std::string& plan, const pb::PointRule& rule, uint64_t seed, int64_t steps) {
  if (plan == "train") return steps;
  if (plan == kHalfPlan) return rule.half() ? steps : 0;
  if (plan != kAnchorPlan || !rule.anchors()) return 0;
  int64_t runs = 1;
  for (int64_t step = 0; step < steps; ++step) runs += MovesAnchor(rule, seed, step);
  return runs;
}

}  // namespace oneflow
