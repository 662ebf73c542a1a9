#include "tools/job/pipeline.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "actor/trace/chrome_trace.h"
#include "compiler/schedule/named_schedule.h"
#include "tools/job/chunk_costs.h"
#include "tools/job/field_rules.h"
#include "tools/job/meshes.h"

namespace oneflow {
namespace {

constexpr double kMegabyte = 1e6;

// Of a valid config.
int NumStages(const pb::JobConfig& config) {
  const absl::StatusOr<Mesh> mesh = ToMesh(config.mesh());
  return mesh.ok() ? mesh->AxisSize(mesh->StageAxis()) : 1;
}
int NumMicroBatches(const pb::JobConfig& config) { return WithDefaults(config.train()).micro_batches(); }

// What the trace that the job names says, in the request.
absl::Status TakeCosts(const SourcedConfig& config, ScheduleRequest& request) {
  const pb::Pipeline& pipeline = config.config.pipeline();
  const std::string where = absl::StrCat(config.Where("pipeline.costs"), ": trace '", pipeline.costs(), "'");
  OF_ASSIGN_OR_RETURN_AT(const Trace trace, ReadChromeTrace(pipeline.costs()), config.Where("pipeline.costs"));
  const int num_chunks = request.num_ranks * std::max(1, request.chunks_per_rank);
  OF_ASSIGN_OR_RETURN_AT(ChunkTimes times, TracedChunks(trace, num_chunks), where);
  request.costs = std::move(times.costs);
  request.split_backward = times.splits_backward;
  if (pipeline.activations_mb() > 0) {
    const double cap = std::min(pipeline.activations_mb() * kMegabyte, std::ldexp(1., 62));
    request.most_activations.assign(request.num_ranks, static_cast<int64_t>(cap));
  }
  return absl::OkStatus();
}

}  // namespace

bool HasDefaultSchedule(const pb::JobConfig& config) {
  return config.pipeline().schedule().empty() && config.cluster().device() == "cuda" && NumStages(config) > 1 &&
         NumMicroBatches(config) > 1;
}

absl::StatusOr<Schedule> PipelineOf(const SourcedConfig& config) {
  const pb::Pipeline& pipeline = config.config.pipeline();
  ScheduleRequest request{.name = HasDefaultSchedule(config.config) ? "1f1b" : pipeline.schedule()};
  if (request.name.empty() || request.name == "credits") return Schedule();
  request.num_ranks = NumStages(config.config);
  request.num_micro_batches = NumMicroBatches(config.config);
  request.chunks_per_rank = pipeline.chunks();
  if (!pipeline.costs().empty()) OF_RETURN_IF_ERROR(TakeCosts(config, request));
  absl::StatusOr<Schedule> schedule = MakeSchedule(request);
  if (!schedule.ok()) return Annotate(schedule.status(), config.Where("pipeline"));
  return schedule;
}

absl::StatusOr<std::vector<double>> SharesOf(const SourcedConfig& config, const Schedule& schedule) {
  const auto& given = config.config.pipeline().shares();
  if (given.empty()) return std::vector<double>();
  const int stages = NumStages(config.config);
  const int chunks = schedule.num_ranks() == 0 ? stages : schedule.num_chunks();
  if (given.size() == chunks) return std::vector<double>(given.begin(), given.end());
  if (given.size() != stages) {
    return absl::InvalidArgumentError(absl::StrCat(config.Where("pipeline.shares"), ": there are ", given.size(),
                                                   "; the job has ", stages, " stages",
                                                   chunks == stages ? "" : absl::StrCat(" and ", chunks, " chunks")));
  }
  std::vector<double> shares;
  for (const int stage : schedule.rank_of_chunk) shares.push_back(given[stage]);
  return shares;
}

}  // namespace oneflow
