#include "tools/job/zero.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "tools/job/field_rules.h"
#include "tools/job/meshes.h"

namespace oneflow {

void CheckZero(const pb::JobConfig& config, Checker& check) {
  if (!config.has_zero()) return;
  const pb::Zero zero = WithDefaults(config.zero());
  const absl::StatusOr<Mesh> mesh = ToMesh(config.mesh());
  check.Take(mesh.status());
  if (!mesh.ok()) return;
  const auto is_it = [&](const Axis& axis) { return axis.name == zero.axis(); };
  const bool known =
      BuiltInRole(zero.axis()) != AxisRole::kNone || std::any_of(mesh->axes().begin(), mesh->axes().end(), is_it);
  check.Require(
      known, "zero.axis",
      absl::StrCat("is '", zero.axis(), "', which is no axis of the mesh ", AxesText(mesh->axes()), " and no role"));
  const std::string stage = absl::StrCat("is for stage 3, but the stage is ", zero.stage());
  check.Require(zero.stage() == 3 || !config.zero().has_prefetch(), "zero.prefetch", stage);
  check.Require(zero.stage() == 3 || zero.bucket_mb() == 0, "zero.bucket_mb", stage);
  check.Require(zero.stage() == 3 || !zero.keep_gathered(), "zero.keep_gathered", stage);
  check.Require(zero.stage() > 1 || !zero.sum_once(), "zero.sum_once",
                absl::StrCat("is for stages 2 and 3; stage ", zero.stage(), " sums once in any case"));
}

std::optional<ZeroOptions> ZeroOf(const pb::JobConfig& config) {
  if (!config.has_zero()) return std::nullopt;
  const pb::Zero zero = WithDefaults(config.zero());
  return ZeroOptions{.stage = zero.stage(),
                     .axis = zero.axis(),
                     .prefetch = zero.prefetch(),
                     .unit_bytes = static_cast<int64_t>(zero.bucket_mb() * 1e6),
                     .keeps_gathered = zero.keep_gathered(),
                     .sums_once = zero.sum_once()};
}

}  // namespace oneflow
