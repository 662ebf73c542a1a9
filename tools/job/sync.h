// Training whose groups of ranks take steps by themselves (sync of a job config, compiler/local_training.h).
//
//   train.batch_size: 64  mesh {dp: 4}  sync { co2 { tau: 12 warmup_steps: 100 } }
//
//   plan         train/exact     train                  sync/begin, sync/adopt, sync/outer, sync/finish
//   steps           100          the rest               behind every 12th of them
//   samples          16          16 of each group
#pragma once

#include <cstdint>
#include <optional>

#include "compiler/options.h"
#include "proto/control.pb.h"
#include "proto/job.pb.h"
#include "tools/job/checker.h"

namespace oneflow {

// The groups of a job: ranks along the axis; 1 where it has no sync. REQUIRES: CheckSync() has found nothing.
int64_t NumGroups(const pb::JobConfig& config);

// An axis that the mesh lacks, batches that do not divide among groups, and what no group could do by itself.
void CheckSync(const pb::JobConfig& config, Checker& check);

std::optional<LocalTrainingOptions> LocalTrainingOf(const pb::JobConfig& config);

// Adds the graph of the exact steps to a program that trains, if there are any.
void AddSyncSteps(const pb::JobConfig& config, Program& program);

// When the plans run: in the job's phase of training.
void FillSync(const pb::JobConfig& config, pb::JobSpec& spec);

}  // namespace oneflow
