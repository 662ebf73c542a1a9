#include "tools/job/sync.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "tools/job/exact_steps.h"
#include "tools/job/field_rules.h"
#include "tools/job/meshes.h"

namespace oneflow {
namespace {

absl::StatusOr<int64_t> SizeOfAxis(const pb::JobConfig& config) {
  OF_ASSIGN_OR_RETURN(const Mesh mesh, ToMesh(config.mesh()));
  OF_ASSIGN_OR_RETURN(const std::string axis, FindAxis(mesh, WithDefaults(config.sync()).axis(), "sync.axis"));
  return mesh.AxisSize(axis);
}

}  // namespace

int64_t NumGroups(const pb::JobConfig& config) {
  if (!config.has_sync()) return 1;
  const absl::StatusOr<int64_t> size = SizeOfAxis(config);
  return size.ok() ? *size : 1;
}

void CheckSync(const pb::JobConfig& config, Checker& check) {
  if (!config.has_sync()) return;
  check.Require(config.sync().has_co2(), "sync", "says no method; co2 is one");
  check.Require(config.train().steps() > 0, "sync", "there is nothing to synchronise without training");
  const absl::StatusOr<int64_t> groups = SizeOfAxis(config);
  check.Take(groups.status());
  if (!check.status().ok()) return;
  const pb::Train train = WithDefaults(config.train());
  const int64_t parts = *groups * train.micro_batches();
  check.Require(config.model().has_graph() || train.batch_size() % parts == 0, "train.batch_size",
                absl::StrCat(train.batch_size(), " is no multiple of ", *groups, " groups (sync) with ",
                             train.micro_batches(), " micro-batches each"));
  const pb::Co2 co2 = WithDefaults(config.sync().co2());
  check.Require(!config.sync().co2().has_divisor() || co2.penalty() == "const", "sync.co2.divisor",
                absl::StrCat("is that of penalty \"const\", but the penalty is \"", co2.penalty(), "\""));
  check.Require(co2.delay() > 0 || !config.sync().co2().has_penalty() || co2.penalty() == "none", "sync.co2.penalty",
                "nothing is late (delay: 0)");
  check.Require(!co2.nesterov() || co2.momentum() > 0, "sync.co2.nesterov", "without a momentum");
  check.Require(co2.warmup_steps() == 0 || !train.has_ramp(), "sync.co2.warmup_steps", "not with train.ramp");
  check.Require(!train.has_average(), "train.average", "not with sync: every group would have one of its own");
  check.Require(config.save_gradients().empty(), "save_gradients", "not with sync: every group has its own");
  check.Require(!config.check_replicas(), "check_replicas", "not with sync: the groups' weights differ");
  check.Require(config.restart().meshes().empty() && config.restart().least_devices() == 0, "restart",
                "not on other meshes with sync: every group has a state of its own");
  const bool compresses = config.compress().family() != pb::Compress::NONE || config.compress().has_weights();
  check.Require(!compresses || WithDefaults(config.compress()).axis() != WithDefaults(config.sync()).axis(),
                "compress.axis", "is that of sync, along which no gradients are summed");
}

std::optional<LocalTrainingOptions> LocalTrainingOf(const pb::JobConfig& config) {
  if (!config.has_sync()) return std::nullopt;
  const pb::Co2 co2 = WithDefaults(config.sync().co2());
  LocalTrainingOptions options;
  options.axis = WithDefaults(config.sync()).axis();
  options.late = co2.delay() > 0;
  options.rate = co2.rate();
  options.momentum = co2.momentum();
  options.nesterov = co2.nesterov();
  options.penalty = options.late ? co2.penalty() : "none";
  options.divisor = co2.divisor();
  options.clip = co2.clip();
  options.own_data = config.sync().own_data();
  options.exact = {kExactPlan};
  return options;
}

void AddSyncSteps(const pb::JobConfig& config, Program& program) {
  if (config.sync().co2().warmup_steps() > 0) AddTrainAs(kExactPlan, program);
}

void FillSync(const pb::JobConfig& config, pb::JobSpec& spec) {
  if (!config.has_sync()) return;
  const pb::Co2 co2 = WithDefaults(config.sync().co2());
  for (pb::Phase& phase : *spec.mutable_phases()) {
    if (!phase.has_train()) continue;
    pb::SyncRule& rule = *phase.mutable_train()->mutable_sync();
    rule.set_every(co2.tau());
    rule.set_late(co2.delay() > 0);
    rule.set_first_step(std::min(co2.warmup_steps(), config.train().steps()));
    FillExactSteps(rule.first_step(), spec, *phase.mutable_train());
  }
}

}  // namespace oneflow
