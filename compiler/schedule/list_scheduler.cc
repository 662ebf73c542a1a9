#include "compiler/schedule/list_scheduler.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <queue>
#include <utility>

#include "absl/strings/str_cat.h"
#include "glog/logging.h"

namespace oneflow {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

class ListScheduler {
 public:
  ListScheduler(const ListProblem& problem, const ListPolicy& policy)
      : problem_(problem),
        policy_(policy),
        num_micro_batches_(problem.num_micro_batches),
        chunks_(problem.rank_of_chunk.size()),
        ranks_(problem.num_ranks) {
    const std::vector<int64_t> of_one = ActivationsOfOne(problem.num_ranks, problem.rank_of_chunk, problem.costs);
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      if (!problem.most_activations.empty()) ranks_[rank].cap = problem.most_activations[rank];
      CHECK_LE(of_one[rank], ranks_[rank].cap);
      ranks_[rank].activations_of_one = of_one[rank];
    }
    for (size_t c = 0; c < chunks_.size(); ++c) {
      ranks_[problem.rank_of_chunk[c]].chunks.push_back(static_cast<int>(c));
      chunks_[c].forward_arrives.assign(num_micro_batches_, c == 0 ? 0 : kNever);
      chunks_[c].backward_arrives.assign(num_micro_batches_, kNever);
    }
  }

  Schedule Run() {
    for (size_t rank = 0; rank < ranks_.size(); ++rank) wakes_.push({0, static_cast<int>(rank)});
    while (!wakes_.empty()) {
      const auto [now, rank] = wakes_.top();
      wakes_.pop();
      if (ranks_[rank].free_at > now) continue;
      if (const std::optional<Action> action = Decide(ranks_[rank], now)) Begin(rank, *action, now);
    }
    Schedule schedule{.num_micro_batches = num_micro_batches_, .rank_of_chunk = problem_.rank_of_chunk};
    for (Rank& rank : ranks_) schedule.ranks.push_back(std::move(rank.done));
    for (const Chunk& chunk : chunks_) CHECK_EQ(chunk.next_forward, num_micro_batches_);
    return schedule;
  }

 private:
  struct Chunk {
    int next_forward = 0, next_backward = 0, next_weight = 0;
    std::vector<double> forward_arrives, backward_arrives;  // by micro-batch: when what it needs is there
  };
  struct Rank {
    std::vector<int> chunks;  // ascending
    int64_t cap = std::numeric_limits<int64_t>::max();
    int64_t activations_of_one = 0;
    int64_t live = 0;
    double free_at = 0;
    std::vector<Action> done;
  };

  // What arrives next of a rank's F, I and B that it may do, if nothing is there yet.
  struct Choice {
    std::optional<Action> action;
    double arrives = kNever;
  };

  std::optional<Action> Decide(const Rank& rank, double now) const {
    const Choice backward = NextBackward(rank, now), forward = NextForward(rank, now);
    const bool after_backward = !rank.done.empty() && rank.done.back().kind != ActionKind::kForward;
    if (policy_.in_turn && after_backward && forward.action) return forward.action;
    if (backward.action) return backward.action;
    if (forward.action) return forward.action;
    const std::optional<Action> weight = NextWeight(rank);
    if (!weight) return std::nullopt;
    const double seconds = problem_.costs.chunks[weight->chunk].weight_gradient;
    const double arrives = std::min(backward.arrives, forward.arrives);
    return arrives < now + policy_.patience * seconds ? std::nullopt : weight;
  }

  // The oldest; of one micro-batch, the furthest along comes first by itself.
  Choice NextBackward(const Rank& rank, double now) const {
    Choice choice;
    if (problem_.backward == ListProblem::Backward::kNone) return choice;
    for (const int c : rank.chunks) {
      const int micro_batch = chunks_[c].next_backward;
      if (micro_batch == chunks_[c].next_forward) continue;
      const double arrives = chunks_[c].backward_arrives[micro_batch];
      choice.arrives = std::min(choice.arrives, arrives);
      if (arrives > now || (choice.action && choice.action->micro_batch <= micro_batch)) continue;
      choice.action = Action{
          c, micro_batch,
          problem_.backward == ListProblem::Backward::kWhole ? ActionKind::kBackward : ActionKind::kInputGradient};
    }
    return choice;
  }

  Choice NextForward(const Rank& rank, double now) const {
    Choice choice;
    const int through = rank.chunks.empty() ? 0 : chunks_[rank.chunks.back()].next_forward;
    const int64_t newer = NewerThan(rank, through);
    for (const int c : rank.chunks) {
      const int micro_batch = chunks_[c].next_forward;
      if (micro_batch == num_micro_batches_ || !MayRunAhead(c) || !HasRoom(rank, c, through, newer)) continue;
      const double arrives = chunks_[c].forward_arrives[micro_batch];
      choice.arrives = std::min(choice.arrives, arrives);
      if (arrives > now) continue;
      choice.action = Action{c, micro_batch, ActionKind::kForward};  // those after it are further along
    }
    return choice;
  }

  bool MayRunAhead(int c) const {
    if (problem_.backward == ListProblem::Backward::kNone) return true;
    const double most = policy_.ahead * static_cast<double>(chunks_.size() - c);
    return chunks_[c].next_forward - chunks_[c].next_backward < most;
  }

  // What micro-batches behind `through` keep on the rank.
  int64_t NewerThan(const Rank& rank, int through) const {
    int64_t newer = 0;
    for (const int c : rank.chunks) {
      newer += problem_.costs.chunks[c].activations * std::max(0, chunks_[c].next_forward - through - 1);
    }
    return newer;
  }
  bool HasRoom(const Rank& rank, int c, int through, int64_t newer) const {
    if (problem_.backward == ListProblem::Backward::kNone) return true;
    const int64_t activations = problem_.costs.chunks[c].activations;
    const int64_t more = chunks_[c].next_forward > through ? activations : 0;
    return rank.live <= rank.cap - activations && newer + more <= rank.cap - rank.activations_of_one;
  }

  // The one that has waited for longest.
  std::optional<Action> NextWeight(const Rank& rank) const {
    std::optional<Action> oldest;
    if (problem_.backward != ListProblem::Backward::kSplit) return oldest;
    for (auto c = rank.chunks.rbegin(); c != rank.chunks.rend(); ++c) {
      const Chunk& chunk = chunks_[*c];
      if (chunk.next_weight == chunk.next_backward) continue;
      if (!oldest || chunk.next_weight < oldest->micro_batch) {
        oldest = Action{*c, chunk.next_weight, ActionKind::kWeightGradient};
      }
    }
    return oldest;
  }

  void Begin(int rank_number, const Action& action, double now) {
    Rank& rank = ranks_[rank_number];
    Chunk& chunk = chunks_[action.chunk];
    const ChunkCosts& costs = problem_.costs.chunks[action.chunk];
    rank.done.push_back(action);
    rank.free_at = now + costs.Seconds(action.kind);
    wakes_.push({rank.free_at, rank_number});
    if (action.kind == ActionKind::kForward) {
      ++chunk.next_forward;
      rank.live += costs.activations;
      SendForward(action, rank.free_at);
      return;
    }
    if (action.kind != ActionKind::kWeightGradient) {
      ++chunk.next_backward;
      SendBackward(action, rank.free_at);
    }
    if (action.kind != ActionKind::kInputGradient) {
      ++chunk.next_weight;
      rank.live -= costs.activations;
    }
  }

  void SendForward(const Action& action, double end) {
    const size_t next = action.chunk + 1;
    if (next == chunks_.size()) {
      chunks_[action.chunk].backward_arrives[action.micro_batch] = end;
      return;
    }
    const double arrives = end + Travel(action.chunk);
    chunks_[next].forward_arrives[action.micro_batch] = arrives;
    wakes_.push({arrives, problem_.rank_of_chunk[next]});
  }
  void SendBackward(const Action& action, double end) {
    if (action.chunk == 0) return;
    const double arrives = end + Travel(action.chunk - 1);
    chunks_[action.chunk - 1].backward_arrives[action.micro_batch] = arrives;
    wakes_.push({arrives, problem_.rank_of_chunk[action.chunk - 1]});
  }
  // Between `chunk` and the next.
  double Travel(int chunk) const {
    const bool here = problem_.rank_of_chunk[chunk] == problem_.rank_of_chunk[chunk + 1];
    return here ? 0 : problem_.costs.TransferAfter(chunk);
  }

  using Wake = std::pair<double, int>;  // when, rank
  const ListProblem& problem_;
  const ListPolicy& policy_;
  const int num_micro_batches_;
  std::vector<Chunk> chunks_;
  std::vector<Rank> ranks_;
  std::priority_queue<Wake, std::vector<Wake>, std::greater<>> wakes_;
};

}  // namespace

Schedule MakeListSchedule(const ListProblem& problem, const ListPolicy& policy) {
  return ListScheduler(problem, policy).Run();
}

std::vector<int64_t> ActivationsOfOne(int num_ranks, const std::vector<int>& rank_of_chunk,
                                      const ScheduleCosts& costs) {
  std::vector<int64_t> sums(num_ranks, 0);
  for (size_t c = 0; c < rank_of_chunk.size(); ++c) sums[rank_of_chunk[c]] += costs.chunks[c].activations;
  return sums;
}

absl::Status CheckChunks(int num_ranks, const std::vector<int>& rank_of_chunk, int num_micro_batches) {
  if (num_micro_batches < 1) {
    return absl::InvalidArgumentError(absl::StrCat("there are ", num_micro_batches, " micro-batches"));
  }
  if (rank_of_chunk.empty()) return absl::InvalidArgumentError("there are no chunks");
  for (size_t c = 0; c < rank_of_chunk.size(); ++c) {
    if (rank_of_chunk[c] >= 0 && rank_of_chunk[c] < num_ranks) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("chunk ", c, " lies on rank ", rank_of_chunk[c], " of ", num_ranks, " ranks"));
  }
  return absl::OkStatus();
}

}  // namespace oneflow
