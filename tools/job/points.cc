#include "tools/job/points.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "compiler/points.h"
#include "kernels/random.h"
#include "tools/job/exact_steps.h"
#include "tools/job/optimizer.h"

namespace oneflow {
namespace {

double ProbabilityOf(const UpdateOptions& update) {
  double probability = 0;
  for (const OptimizerAttribute& attribute : FindOptimizerRule(update.rule)->attributes) {
    if (attribute.name == "probability") probability = update.attributes.Double(attribute.name, attribute.value);
  }
  return probability;
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
  const double probability = ProbabilityOf(*anchored);
  const auto check_same = [&](const UpdateOptions& update, const std::string& field) {
    const OptimizerRule* const rule = FindOptimizerRule(update.rule);
    if (rule == nullptr || rule->anchor == nullptr || ProbabilityOf(update) == probability) return;
    check.Require(false, field,
                  absl::StrCat("is ", ProbabilityOf(update), " here and ", probability,
                               " for other variables; all anchors move by one coin"));
  };
  for (size_t i = 0; i < optimizer.groups.size(); ++i) {
    check_same(optimizer.groups[i], absl::StrCat("train.optimizer.groups[", i, "].masha.probability"));
  }
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
