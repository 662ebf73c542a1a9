#include "compiler/schedule/named_schedule.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "compiler/schedule/check.h"
#include "compiler/schedule/csv.h"
#include "compiler/schedule/generators.h"
#include "compiler/schedule/greedy.h"
#include "oneflow_core/status.h"

namespace oneflow {
namespace {

constexpr absl::string_view kFile = "file:";
// More actions than any step has: a schedule is held in memory, at 12 bytes each.
constexpr int64_t kMostActions = int64_t{1} << 26;

std::vector<int> ChunksOf(const ScheduleRequest& request) {
  if (!request.rank_of_chunk.empty()) return request.rank_of_chunk;
  return RoundRobin(request.num_ranks, request.chunks_per_rank);
}

absl::StatusOr<Schedule> MakeGreedy(const ScheduleRequest& request) {
  ListProblem problem{
      .num_ranks = request.num_ranks,
      .rank_of_chunk = ChunksOf(request),
      .num_micro_batches = request.num_micro_batches,
      .costs = request.costs,
      .most_activations = request.most_activations,
      .backward = request.split_backward ? ListProblem::Backward::kSplit : ListProblem::Backward::kWhole};
  const int num_chunks = static_cast<int>(problem.rank_of_chunk.size());
  if (problem.costs.chunks.empty()) problem.costs.chunks = EqualCosts(num_chunks, {}).chunks;
  OF_RETURN_IF_ERROR(CheckChunks(problem.num_ranks, problem.rank_of_chunk, problem.num_micro_batches));
  OF_RETURN_IF_ERROR(CheckCosts(problem.costs, num_chunks));
  if (problem.most_activations.empty()) problem.most_activations = ActivationsLike1F1B(problem);
  OF_ASSIGN_OR_RETURN(GreedySchedule greedy, MakeGreedySchedule(problem));
  return std::move(greedy.schedule);
}

struct NamedSchedule {
  absl::string_view name;
  int least_chunks, most_chunks;  // per rank
  bool any_chunks;                // chunks may be dealt out by hand
  absl::StatusOr<Schedule> (*make)(const ScheduleRequest&);
};

constexpr int kAnyNumber = 1 << 20;

using Request = const ScheduleRequest&;
const NamedSchedule kSchedules[] = {
    {"gpipe", 1, 1, false, [](Request r) { return GPipe(r.num_ranks, r.num_micro_batches); }},
    {"1f1b", 1, 1, false, [](Request r) { return OneFOneB(r.num_ranks, r.num_micro_batches); }},
    {"interleaved", 2, kAnyNumber, false,
     [](Request r) { return Interleaved1F1B(r.num_ranks, r.chunks_per_rank, r.num_micro_batches, r.group); }},
    {"zb-h1", 1, 1, false, [](Request r) { return ZeroBubbleH1(r.num_ranks, r.num_micro_batches); }},
    {"zb-v", 2, 2, false, [](Request r) { return ZeroBubbleV(r.num_ranks, r.num_micro_batches); }},
    {"dualpipe-v", 2, 2, false, [](Request r) { return DualPipeV(r.num_ranks, r.num_micro_batches); }},
    {"forward", 1, kAnyNumber, true,
     [](Request r) { return ForwardOnly(r.num_ranks, ChunksOf(r), r.num_micro_batches); }},
    {"greedy", 1, kAnyNumber, true, MakeGreedy},
};

absl::Status CheckSize(const ScheduleRequest& request) {
  if (request.num_ranks < 1 || request.num_micro_batches < 1 || request.chunks_per_rank < 0) {
    return absl::InvalidArgumentError(absl::StrCat("a schedule takes ranks and micro-batches, and there are ",
                                                   request.num_ranks, " and ", request.num_micro_batches, ", with ",
                                                   request.chunks_per_rank, " chunks a rank"));
  }
  const double chunks = request.rank_of_chunk.empty()
                            ? static_cast<double>(request.num_ranks) * std::max(1, request.chunks_per_rank)
                            : static_cast<double>(request.rank_of_chunk.size());
  if (3 * chunks * request.num_micro_batches <= kMostActions && chunks * request.num_ranks <= kMostActions) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(chunks, " chunks and ", request.num_micro_batches,
                                                 " micro-batches on ", request.num_ranks,
                                                 " ranks: of so many actions no schedule is made"));
}

absl::Status CheckChunksPerRank(const NamedSchedule& named, const ScheduleRequest& request) {
  if (!request.rank_of_chunk.empty() && !named.any_chunks) {
    return absl::InvalidArgumentError("deals out chunks itself; 'greedy' takes them by hand");
  }
  if (request.chunks_per_rank >= named.least_chunks && request.chunks_per_rank <= named.most_chunks) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("takes ", named.least_chunks,
                                                 named.most_chunks == kAnyNumber ? " or more" : "",
                                                 " chunks per rank, and there are ", request.chunks_per_rank));
}

absl::StatusOr<Schedule> MakeByName(const NamedSchedule& named, ScheduleRequest request) {
  if (request.chunks_per_rank == 0) request.chunks_per_rank = named.least_chunks;
  OF_RETURN_IF_ERROR(CheckChunksPerRank(named, request));
  return named.make(request);
}

absl::StatusOr<Schedule> ReadRequested(const std::string& path, const ScheduleRequest& request) {
  OF_ASSIGN_OR_RETURN(Schedule schedule, ReadSchedule(path));
  OF_RETURN_IF_ERROR_AT(CheckSchedule(schedule), path);
  if (schedule.num_ranks() == request.num_ranks && schedule.num_micro_batches == request.num_micro_batches) {
    return schedule;
  }
  return absl::InvalidArgumentError(absl::StrCat(path, ": is a schedule of ", schedule.num_ranks(), " ranks and ",
                                                 schedule.num_micro_batches, " micro-batches, and there are ",
                                                 request.num_ranks, " and ", request.num_micro_batches));
}

}  // namespace

absl::StatusOr<Schedule> MakeSchedule(const ScheduleRequest& request) {
  OF_RETURN_IF_ERROR(CheckSize(request));
  absl::string_view path = request.name;
  if (absl::ConsumePrefix(&path, kFile)) return ReadRequested(std::string(path), request);
  for (const NamedSchedule& named : kSchedules) {
    if (named.name != request.name) continue;
    absl::StatusOr<Schedule> schedule = MakeByName(named, request);
    if (!schedule.ok()) return Annotate(schedule.status(), absl::StrCat("schedule '", named.name, "'"));
    return schedule;
  }
  const auto add_name = [](std::string* out, const NamedSchedule& named) { absl::StrAppend(out, named.name); };
  return absl::InvalidArgumentError(absl::StrCat("there is no schedule '", request.name, "'; there are ",
                                                 absl::StrJoin(kSchedules, ", ", add_name), " and file:PATH"));
}

}  // namespace oneflow
