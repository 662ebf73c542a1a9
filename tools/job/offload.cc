#include "tools/job/offload.h"

#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "tools/job/byte_text.h"
#include "tools/job/field_rules.h"

namespace oneflow {
namespace {

OffloadOptions::What KindOfOffload(pb::Offload::What what) {
  return what == pb::Offload::WEIGHTS       ? OffloadOptions::What::kWeights
         : what == pb::Offload::ACTIVATIONS ? OffloadOptions::What::kActivations
         : what == pb::Offload::GRADIENTS   ? OffloadOptions::What::kGradients
                                            : OffloadOptions::What::kOptimizer;
}

}  // namespace

void CheckOffload(const pb::JobConfig& config, Checker& check) {
  std::set<int> seen;
  bool uses_disk = false;
  int capped = -1;  // the first that is only for plans that do not fit
  for (int i = 0; i < config.offload_size(); ++i) {
    const pb::Offload& offload = config.offload(i);
    const std::string field = absl::StrCat("offload[", i, "]");
    const std::string what = pb::Offload::What_Name(offload.what());
    check.Require(offload.what() != pb::Offload::UNSAID, absl::StrCat(field, ".what"),
                  "is missing: OPTIMIZER, WEIGHTS, ACTIVATIONS or GRADIENTS");
    check.Require(offload.tier() != pb::Offload::UNKNOWN, absl::StrCat(field, ".tier"), "is missing: HOST or DISK");
    check.Require(seen.insert(offload.what()).second, field, absl::StrCat(what, " is already in an offload before"));
    uses_disk = uses_disk || offload.tier() == pb::Offload::DISK;
    if (offload.memory().empty()) continue;
    check.Take(Annotate(BytesOfText(offload.memory()).status(), absl::StrCat(field, ".memory")));
    if (capped < 0) capped = i;
    const std::string& first = config.offload(capped).memory();
    check.Require(offload.memory() == first, absl::StrCat(field, ".memory"),
                  absl::StrCat("is '", offload.memory(), "', but '", first, "' in offload[", capped, "]"));
    check.Require(config.recompute().memory().empty(), absl::StrCat(field, ".memory"),
                  "not with recompute.memory: only one of them can say how a plan comes to fit");
  }
  check.Require(seen.count(pb::Offload::GRADIENTS) == 0 || seen.count(pb::Offload::OPTIMIZER) > 0, "offload",
                "GRADIENTS are loaded with what the optimizer keeps of their weights; add OPTIMIZER");
  const bool is_late = config.has_sync() && WithDefaults(config.sync().co2()).delay() > 0;
  check.Require(config.offload().empty() || !is_late, "offload",
                "not with means that travel beside training (sync.co2.delay > 0), which do so in memory");
  check.Require(uses_disk || config.offload_folder().empty(), "offload_folder",
                absl::StrCat("is '", config.offload_folder(), "', but no offload has tier: DISK"));
}

std::vector<OffloadOptions> OffloadOf(const pb::JobConfig& config) {
  std::vector<OffloadOptions> options;
  for (const pb::Offload& said : config.offload()) {
    const pb::Offload offload = WithDefaults(said);
    options.push_back({.what = KindOfOffload(offload.what()),
                       .tier = FindTier(absl::AsciiStrToLower(pb::Offload::Tier_Name(offload.tier()))),
                       .prefetch = offload.prefetch(),
                       .unit_bytes = static_cast<int64_t>(offload.unit_mb() * 1e6),
                       .least_bytes = static_cast<int64_t>(offload.least_kb() * 1e3),
                       .memory_bytes = BytesOfText(offload.memory()).value_or(0)});
  }
  return options;
}

}  // namespace oneflow
