// The schedules that papers and other systems have, by the rules of their sources. p ranks, m micro-batches, rank r.
//
// Bubbles as parts of the work of a rank, with equal chunks, B = 2F, I = W = F and no transfers; peaks in activations
// of a rank's whole share of the model:
//
//                bubble              peak                         chunks
//   GPipe        (p-1)/m             m                            one a rank
//   1F1B         (p-1)/m             p - r                        one a rank
//   interleaved  (p-1)/(m v)         p (1 + (p-1)/(p v))          v a rank, round robin
//   ZB-H1        (p-1)/(3 m)         p                            one a rank
//   ZB-V         (p-1)/(6 m)         p                            two a rank, V
//   DualPipe-V   (p-1)/(3 m)         p + 1/2                      two a rank, V; less with pairs that overlap
//
// (m large enough for the pipeline to fill.) Interleaving pays for v with v times the transfers. All of them assume
// that actions of a kind take equally long; for measured costs see greedy.h.
//
// InvalidArgument, with the numbers that are possible, where a schedule is not defined.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "compiler/schedule/schedule.h"

namespace oneflow {

// All F, then all B. (Huang et al., "GPipe", 2019.)
absl::StatusOr<Schedule> GPipe(int num_ranks, int num_micro_batches);

// p-r-1 F to fill the pipeline, then F and B in turn, then the rest of B: "PipeDream-Flush" of Narayanan et al.,
// "Memory-efficient pipeline-parallel DNN training", 2021.
absl::StatusOr<Schedule> OneFOneB(int num_ranks, int num_micro_batches);

// Interleaved 1F1B, as Megatron-LM's get_schedule_table has it (core/pipeline_parallel/schedules.py): a group of
// micro-batches goes through a rank's chunks one after the other, then the next group. Takes two chunks a rank or more.
// `group` 0: the least of p or more that leaves no last group shorter than p, with which the bubble is (p-1)/(m v) for
// any m >= p. A larger group takes memory and gains nothing. Shorter groups leave bubbles, and with four ranks or more
// ranks may wait for one another for ever (4 ranks, 3 chunks, 5 micro-batches in groups of 4): an error.
absl::StatusOr<Schedule> Interleaved1F1B(int num_ranks, int chunks_per_rank, int num_micro_batches, int group = 0);

// ZB-H1 of Qi et al., "Zero bubble pipeline parallelism", 2023: 1F1B whose W is put off by r micro-batches, so that all
// ranks keep what rank 0 keeps in 1F1B and fill the end of the step with W.
absl::StatusOr<Schedule> ZeroBubbleH1(int num_ranks, int num_micro_batches);

// ZB-V of the same paper, section 6: two chunks a rank in a V. No bubble but the skew of the first F while F, I and W
// take equally long.
absl::StatusOr<Schedule> ZeroBubbleV(int num_ranks, int num_micro_batches);

// DualPipe-V of DeepSeek (github.com/deepseek-ai/DualPipe), in the eight steps of ScheduleDualPipeV in PyTorch's
// torch/distributed/pipelining/schedules.py: F of one chunk together with B of the other. Takes 2p micro-batches or
// more.
absl::StatusOr<Schedule> DualPipeV(int num_ranks, int num_micro_batches);

// F alone, for evaluation, with any chunks: of the arrived actions, the chunk that is furthest along goes first. With
// round-robin chunks and whole groups that is Megatron's order. InvalidArgument if a chunk lies on no rank.
absl::StatusOr<Schedule> ForwardOnly(int num_ranks, std::vector<int> rank_of_chunk, int num_micro_batches);

}  // namespace oneflow
