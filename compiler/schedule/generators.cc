#include "compiler/schedule/generators.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/schedule/check.h"
#include "compiler/schedule/list_scheduler.h"
#include "oneflow_core/status.h"

namespace oneflow {
namespace {

constexpr ActionKind kF = ActionKind::kForward;
constexpr ActionKind kI = ActionKind::kInputGradient;
constexpr ActionKind kW = ActionKind::kWeightGradient;
constexpr ActionKind kB = ActionKind::kBackward;

// The actions of one rank. Of each chunk and kind micro-batches come in order, so that only chunks have to be named.
class RankOrder {
 public:
  RankOrder(int num_chunks, int num_micro_batches) : next_(num_chunks), num_micro_batches_(num_micro_batches) {}

  // The next micro-batch's. Those past the last are counted and left out: some rules are for longer schedules.
  void Add(ActionKind kind, int chunk) {
    const int micro_batch = Next(kind, chunk);
    if (micro_batch < num_micro_batches_) actions_.push_back({chunk, micro_batch, kind});
  }
  void AddPair(int forward_chunk, int backward_chunk) {
    Add(kF, forward_chunk);
    actions_.back().with_next = true;
    Add(kB, backward_chunk);
  }
  int count(ActionKind kind, int chunk) const { return next_[chunk][static_cast<int>(kind)]; }

  std::vector<Action> Take() && { return std::move(actions_); }

 private:
  int Next(ActionKind kind, int chunk) {
    std::array<int, 3>& next = next_[chunk];
    if (kind != kB) return next[static_cast<int>(kind)]++;
    ++next[static_cast<int>(kW)];
    return next[static_cast<int>(kI)]++;
  }

  std::vector<std::array<int, 3>> next_;  // by chunk; F, I, W
  const int num_micro_batches_;
  std::vector<Action> actions_;
};

absl::Status CheckNumbers(int num_ranks, int num_micro_batches) {
  if (num_ranks >= 1 && num_micro_batches >= 1) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("takes a rank and a micro-batch or more, and there are ", num_ranks, " and ", num_micro_batches));
}

// write(rank, order) for each rank.
template <typename Write>
Schedule ByRank(std::vector<int> rank_of_chunk, int num_ranks, int num_micro_batches, const Write& write) {
  Schedule schedule{.num_micro_batches = num_micro_batches, .rank_of_chunk = std::move(rank_of_chunk)};
  for (int rank = 0; rank < num_ranks; ++rank) {
    RankOrder order(schedule.num_chunks(), num_micro_batches);
    write(rank, order);
    schedule.ranks.push_back(std::move(order).Take());
  }
  return schedule;
}

template <typename Do>
void Times(int n, const Do& something) {
  for (int i = 0; i < n; ++i) something();
}

// A queue of weight gradients that have been put off.
class PutOff {
 public:
  explicit PutOff(RankOrder& order) : order_(order) {}
  void AddInputGradient(int chunk) {
    order_.Add(kI, chunk);
    chunks_.push_back(chunk);
  }
  void AddOldest() {
    if (chunks_.empty()) return;
    order_.Add(kW, chunks_.front());
    chunks_.pop_front();
  }

 private:
  RankOrder& order_;
  std::deque<int> chunks_;
};

void WriteZeroBubbleV(int p, int m, int r, RankOrder& order) {
  const int down = r, up = 2 * p - 1 - r;
  const int filling = std::max(m, 2 * p - 1);  // fewer do not fill the pipeline; what is too much is left out
  const auto whole = [&](int chunk) {
    for (const ActionKind kind : {kI, kW}) order.Add(kind, chunk);
  };
  Times(2 * (p - r) - 1, [&] { order.Add(kF, down); });
  Times(r, [&] {
    order.Add(kF, up);
    order.Add(kF, down);
  });
  Times(p - r, [&] {
    order.Add(kF, up);
    whole(up);
  });
  while (order.count(kF, up) < order.count(kF, down) || order.count(kF, down) < filling) {
    if (order.count(kF, down) < filling) order.Add(kF, down);
    whole(down);
    order.Add(kF, up);
    whole(up);
  }
  Times(r, [&] {
    order.Add(kI, down);
    order.Add(kI, up);
  });
  Times(p - r, [&] { whole(down); });
  for (const int chunk : {up, down}) {
    while (order.count(kW, chunk) < filling) order.Add(kW, chunk);
  }
}

// The steps are numbered as in the source.
void WriteDualPipeV(int p, int m, int r, RankOrder& order) {
  const int down = r, up = 2 * p - 1 - r;
  PutOff put_off(order);
  Times(2 * (p - r - 1), [&] { order.Add(kF, down); });  // 1
  Times(r + 1, [&] {                                     // 2
    order.Add(kF, down);
    order.Add(kF, up);
  });
  Times(p - r - 1, [&] {  // 3
    put_off.AddInputGradient(up);
    put_off.AddOldest();
    order.Add(kF, up);
  });
  for (int i = 0; i < m - 2 * p + r + 1; ++i) {  // 4
    if (i == 0 && r == p - 1) {                  // where the V turns, the first is no pair: B goes on sooner
      order.Add(kF, down);
      order.Add(kB, up);
    } else {
      order.AddPair(down, up);
    }
    order.AddPair(up, down);
  }
  Times(p - r - 1, [&] {  // 5
    order.Add(kB, up);
    order.AddPair(up, down);
  });
  const auto backward = [&](int chunk, bool split) {
    if (split) return put_off.AddInputGradient(chunk);
    order.Add(kB, chunk);
  };
  // 6: of the r + 1 pairs of B, 2r + 2 in all, the first half is whole.
  for (int i = 0; i < r + 1; ++i) {
    backward(up, 2 * i >= r + 1);
    backward(down, 2 * i + 1 >= r + 1);
  }
  Times(p - r - 1, [&] {  // 7
    put_off.AddOldest();
    put_off.AddInputGradient(down);
  });
  Times(r + 1, [&] { put_off.AddOldest(); });  // 8
}

// Whether no group is shorter than the pipeline, or there is but one.
bool FillsThePipeline(int p, int m, int group) {
  return m <= group || (group >= p && (m % group == 0 || m % group >= p));
}

int LeastGroup(int p, int m) {
  int group = p;
  while (!FillsThePipeline(p, m, group)) ++group;
  return group;
}

Schedule WriteInterleaved(int p, int v, int m, int group) {
  // Which of a rank's chunks the k-th F is of.
  const auto turn = [&](int64_t k) {
    const int64_t before = k / (int64_t{group} * v) * group;  // micro-batches of earlier groups
    return static_cast<int>((k - before * v) / std::min<int64_t>(group, m - before));
  };
  return ByRank(RoundRobin(p, v), p, m, [&](int r, RankOrder& order) {
    const auto forward = [&](int64_t k) { order.Add(kF, turn(k) * p + r); };
    const auto backward = [&](int64_t k) { order.Add(kB, (v - 1 - turn(k)) * p + r); };
    const int64_t all = int64_t{m} * v, ahead = std::min<int64_t>(all, 2 * (p - r - 1) + int64_t{v - 1} * group);
    for (int64_t k = 0; k < ahead; ++k) forward(k);
    for (int64_t k = 0; k < all; ++k) {
      if (k + ahead < all) forward(k + ahead);
      backward(k);
    }
  });
}

}  // namespace

absl::StatusOr<Schedule> GPipe(int num_ranks, int num_micro_batches) {
  OF_RETURN_IF_ERROR(CheckNumbers(num_ranks, num_micro_batches));
  return ByRank(RoundRobin(num_ranks, 1), num_ranks, num_micro_batches, [&](int r, RankOrder& order) {
    for (const ActionKind kind : {kF, kB}) Times(num_micro_batches, [&] { order.Add(kind, r); });
  });
}

absl::StatusOr<Schedule> OneFOneB(int num_ranks, int num_micro_batches) {
  OF_RETURN_IF_ERROR(CheckNumbers(num_ranks, num_micro_batches));
  return ByRank(RoundRobin(num_ranks, 1), num_ranks, num_micro_batches, [&](int r, RankOrder& order) {
    const int ahead = std::min(num_micro_batches, num_ranks - r - 1);
    Times(ahead, [&] { order.Add(kF, r); });
    Times(num_micro_batches - ahead, [&] {
      order.Add(kF, r);
      order.Add(kB, r);
    });
    Times(ahead, [&] { order.Add(kB, r); });
  });
}

absl::StatusOr<Schedule> Interleaved1F1B(int num_ranks, int chunks_per_rank, int num_micro_batches, int group) {
  OF_RETURN_IF_ERROR(CheckNumbers(num_ranks, num_micro_batches));
  if (chunks_per_rank < 2 || group < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("takes two chunks a rank or more and groups of a micro-batch or more, and there are ",
                     chunks_per_rank, " chunks a rank in groups of ", group));
  }
  if (group == 0) group = LeastGroup(num_ranks, num_micro_batches);
  Schedule schedule = WriteInterleaved(num_ranks, chunks_per_rank, num_micro_batches, group);
  if (FillsThePipeline(num_ranks, num_micro_batches, group)) return schedule;
  OF_RETURN_IF_ERROR_AT(
      CheckSchedule(schedule),
      absl::StrCat(num_micro_batches, " micro-batches in groups of ", group, ", each of which needs ", num_ranks,
                   " or more; groups of ", LeastGroup(num_ranks, num_micro_batches), " work"));
  return schedule;
}

absl::StatusOr<Schedule> ZeroBubbleH1(int num_ranks, int num_micro_batches) {
  OF_RETURN_IF_ERROR(CheckNumbers(num_ranks, num_micro_batches));
  return ByRank(RoundRobin(num_ranks, 1), num_ranks, num_micro_batches, [&](int r, RankOrder& order) {
    const int ahead = std::min(num_micro_batches, num_ranks - r - 1);
    Times(ahead, [&] { order.Add(kF, r); });
    for (int k = 0; k < num_micro_batches; ++k) {
      if (k + ahead < num_micro_batches) order.Add(kF, r);
      order.Add(kI, r);
      if (k >= r) order.Add(kW, r);
    }
    Times(std::min(r, num_micro_batches), [&] { order.Add(kW, r); });
  });
}

absl::StatusOr<Schedule> ZeroBubbleV(int num_ranks, int num_micro_batches) {
  OF_RETURN_IF_ERROR(CheckNumbers(num_ranks, num_micro_batches));
  return ByRank(VShape(num_ranks), num_ranks, num_micro_batches,
                [&](int r, RankOrder& order) { WriteZeroBubbleV(num_ranks, num_micro_batches, r, order); });
}

absl::StatusOr<Schedule> DualPipeV(int num_ranks, int num_micro_batches) {
  OF_RETURN_IF_ERROR(CheckNumbers(num_ranks, num_micro_batches));
  if (num_micro_batches < 2 * num_ranks) {
    return absl::InvalidArgumentError(absl::StrCat(num_ranks, " ranks take ", 2 * num_ranks,
                                                   " micro-batches or more, and there are ", num_micro_batches));
  }
  return ByRank(VShape(num_ranks), num_ranks, num_micro_batches,
                [&](int r, RankOrder& order) { WriteDualPipeV(num_ranks, num_micro_batches, r, order); });
}

absl::StatusOr<Schedule> ForwardOnly(int num_ranks, std::vector<int> rank_of_chunk, int num_micro_batches) {
  OF_RETURN_IF_ERROR(CheckChunks(num_ranks, rank_of_chunk, num_micro_batches));
  ListProblem problem{.num_ranks = num_ranks,
                      .rank_of_chunk = std::move(rank_of_chunk),
                      .num_micro_batches = num_micro_batches,
                      .backward = ListProblem::Backward::kNone};
  problem.costs = EqualCosts(static_cast<int>(problem.rank_of_chunk.size()), {});
  return MakeListSchedule(problem, {});
}

}  // namespace oneflow
