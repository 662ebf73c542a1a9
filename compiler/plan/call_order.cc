#include "compiler/plan/call_order.h"

#include <algorithm>
#include <map>
#include <queue>
#include <set>
#include <utility>

#include "compiler/plan/step_player.h"

namespace oneflow {
namespace {

// Plays a step on ranks whose queues do one act at a time, the most urgent first. Time is counted in units of cost: the
// order only has to be good where these are about equal.
class Playing {
 public:
  Playing(const WaitGraph& graph, const std::vector<ActorLoad>& loads, int num_classes)
      : loads_(loads), player_(graph), orders_(num_classes) {
    for (int actor = 0; actor < static_cast<int>(loads_.size()); ++actor) Consider(actor);
  }

  // The orders of calls, by class. Calls that never happen are missing.
  std::vector<std::vector<int>> Run() {
    while (true) {
      const auto next =
          std::find_if(ready_.begin(), ready_.end(), [&](const auto& item) { return IsFree(item.second); });
      if (next != ready_.end()) {
        Start(next->second);
      } else if (!Wait()) {
        return std::move(orders_);
      }
    }
  }
  bool finished() const { return player_.Unfinished().empty(); }

 private:
  void Consider(int actor) {
    const std::pair<int, int> item(-loads_[actor].priority, actor);
    if (player_.CanAct(actor)) {
      ready_.insert(item);
    } else {
      ready_.erase(item);
    }
  }

  bool IsFree(int actor) {
    const std::vector<int>& classes = loads_[actor].classes;
    return std::all_of(classes.begin(), classes.end(), [&](int c) { return FreeAt(c, loads_[actor].queue) <= now_; });
  }

  void Start(int actor) {
    const int64_t end = now_ + loads_[actor].cost;
    for (int c : loads_[actor].classes) {
      FreeAt(c, loads_[actor].queue) = end;
      if (loads_[actor].calls) orders_[c].push_back(actor);
    }
    ends_.push({end, actor});
    running_.insert(actor);
    ready_.erase({-loads_[actor].priority, actor});
  }

  // The time at which a queue of a class is free.
  int64_t& FreeAt(int rank_class, int queue) { return free_at_[{rank_class, queue}]; }

  // Until the next act ends, with its effects; false if none is running.
  bool Wait() {
    if (ends_.empty()) return false;
    for (now_ = ends_.top().first; !ends_.empty() && ends_.top().first == now_;) {
      const int actor = ends_.top().second;
      ends_.pop();
      running_.erase(actor);
      player_.Act(actor);
      Consider(actor);
      player_.ForEachTouched(actor, [&](int other) {
        if (running_.count(other) == 0) Consider(other);
      });
    }
    return true;
  }

  const std::vector<ActorLoad>& loads_;
  StepPlayer player_;
  std::set<std::pair<int, int>> ready_;  // {-priority, actor}
  std::map<std::pair<int, int>, int64_t> free_at_;
  std::priority_queue<std::pair<int64_t, int>, std::vector<std::pair<int64_t, int>>, std::greater<>> ends_;
  std::set<int> running_;
  std::vector<std::vector<int>> orders_;
  int64_t now_ = 0;
};

}  // namespace

absl::StatusOr<std::vector<std::vector<int>>> OrderCalls(const WaitGraph& graph, const std::vector<ActorLoad>& loads,
                                                         int num_classes) {
  Playing playing(graph, loads, num_classes);
  std::vector<std::vector<int>> orders = playing.Run();
  if (playing.finished()) return orders;
  OF_RETURN_IF_ERROR(CheckLive(graph));
  return absl::InternalError("no order of collectives was found, but the plan is free of deadlock");
}

}  // namespace oneflow
