// Jobs that only box: a tensor goes from one layout to another on four ranks, in two processes of a host unless hosts
// are named.
//
//   way              from           to          what is written to, to see what arrived
//   all-reduce       P              B           a row for every rank: all copies are looked at
//   all-gather       S(0)           B           a row for every rank
//   reduce-scatter   P              S(0)
//   all-to-all       S(0)           S(1)
//   send             S(0) of ranks 0 and 1      S(0) of ranks 2 and 3, which are another process
//
// Addends are products a[:,r] b[r,:], so that they come from little and no two are alike. A job has two plans: `whole`
// makes the tensor, boxes it and keeps what arrives; `bare` boxes what `whole` has left in the same memory, in the same
// acts, and computes nothing.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "oneflow_core/op.h"
#include "oneflow_core/status.h"
#include "proto/control.pb.h"

namespace oneflow {

enum class BoxingWay { kAllReduce, kAllGather, kReduceScatter, kAllToAll, kSend };
inline constexpr BoxingWay kBoxingWays[] = {BoxingWay::kAllReduce, BoxingWay::kAllGather, BoxingWay::kReduceScatter,
                                            BoxingWay::kAllToAll, BoxingWay::kSend};
inline constexpr int kBoxingRanks = 4, kBoxingProcesses = 2;

// Where the ranks are: two of them in each process, or a process for each.
enum class BoxingPlace { kOneHost, kTwoHostsOfTwo, kFourHostsOfOne };

// "all-reduce".
const char* NameOf(BoxingWay way);

// Runs `whole` once and, unless `file` is empty, saves the variables there; then `bare` for so many steps, twice: the
// last phase is the measured one. The logical tensor is f32 and has `num_bytes`, a multiple of 4 KiB. Errors of
// Compile().
absl::StatusOr<pb::JobSpec> MakeBoxingJob(BoxingWay way, int64_t num_bytes, int steps, int cores,
                                          const std::string& file, const OpRegistry& ops,
                                          BoxingPlace place = BoxingPlace::kOneHost);

// Two ranks on two hosts, of which a tensor of 64 bytes comes back changed before it goes to the other again: a step is
// two hops, and two acts or three of one thread at either end. Runs that for so many steps, twice. `cores`: of both
// processes; with two each, threads may look for what comes before they sleep.
absl::StatusOr<pb::JobSpec> MakeRoundTripJob(int steps, int cores, const OpRegistry& ops);

// Of a step of such a job's last phase: on the slowest process. Internal if the job told no times.
absl::StatusOr<double> BoxingStepSeconds(const std::vector<pb::JobEvent>& events, const pb::JobSpec& spec);

// Whether what arrived is what was sent, or the sum of what was, to the last digits. Internal, with the first element
// that is not and both values.
absl::Status CheckBoxed(BoxingWay way, const std::string& file);

}  // namespace oneflow
