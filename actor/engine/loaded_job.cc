#include "actor/engine/loaded_job.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "oneflow_core/mesh.h"
#include "oneflow_core/ops/ops.h"
#include "oneflow_core/queues.h"

namespace oneflow {

LoadedJob::LoadedJob(pb::Program its_program, const EngineOptions& options)
    : program(std::move(its_program)),
      process(options.process),
      ops(options.ops == nullptr ? StandardOps() : *options.ops),
      cores(std::max(options.cores, 1)),
      memory(std::max(program.ranks_size(), 1), options.tier_folder) {}

LoadedJob::~LoadedJob() {
  for (const auto& thread : threads) thread->Stop();
  for (const auto& thread : threads) thread->Join();  // one that fails now still stops the others
  if (others != nullptr) others->Close();             // they tell threads, and write into memory
}

std::string LoadedJob::Where(int rank) const {
  return absl::StrCat("rank ", rank, " (", program.ranks(rank).device(), ")");
}

bool LoadedJob::AnyLaunches() const {
  return std::any_of(program.ranks().begin(), program.ranks().end(),
                     [](const pb::Rank& rank) { return Device::Parse(rank.device())->kind != DeviceKind::kCpu; });
}

std::vector<std::vector<Lane*>> LoadedJob::LanesByThread() {
  std::vector<std::vector<Lane*>> of_threads;
  for (Lane& lane : lanes) {
    const QueueKind& kind = QueueKindOf(lane.queue);
    const bool shares = kind.launches && !kind.is_main && lane.device->stream() != nullptr;
    if (!shares) of_threads.emplace_back();
    of_threads.back().push_back(&lane);
  }
  return of_threads;
}

absl::Status LoadedJob::OnEveryRank(const std::function<absl::Status(int rank)>& fn) const {
  std::vector<absl::Status> statuses(ranks.size());
  std::vector<std::thread> helpers;
  for (size_t i = 0; i < ranks.size(); ++i) {
    helpers.emplace_back([this, i, &fn, &statuses] { statuses[i] = fn(ranks[i]); });
  }
  for (std::thread& helper : helpers) helper.join();
  for (const absl::Status& status : statuses) OF_RETURN_IF_ERROR(status);
  return absl::OkStatus();
}

int64_t LoadedJob::NumActs() const {
  int64_t acts = 0;
  for (const auto& thread : threads) acts += thread->acts();
  return acts;
}

}  // namespace oneflow
