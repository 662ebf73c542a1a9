#include "compiler/plan/call_order.h"

#include <algorithm>
#include <queue>
#include <set>
#include <utility>

#include "compiler/plan/step_player.h"

namespace oneflow {
namespace {

// Plays a step on ranks that do one thing at a time, what is most urgent first. Time is counted in units of cost: the
// order only has to be good where these are about alike.
class Playing {
 public:
  Playing(const WaitGraph& graph, const std::vector<ActorLoad>& loads, int num_classes)
      : loads_(loads), player_(graph), free_at_(num_classes, 0), orders_(num_classes) {
    for (int actor = 0; actor < static_cast<int>(loads_.size()); ++actor) Consider(actor);
  }

  // The orders of calls, by class. They lack what never happens.
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

  bool IsFree(int actor) const {
    const std::vector<int>& classes = loads_[actor].classes;
    return std::all_of(classes.begin(), classes.end(), [&](int c) { return free_at_[c] <= now_; });
  }

  void Start(int actor) {
    player_.Act(actor);
    for (int c : loads_[actor].classes) {
      free_at_[c] = now_ + loads_[actor].cost;
      if (loads_[actor].calls) orders_[c].push_back(actor);
    }
    ends_.push(now_ + loads_[actor].cost);
    Consider(actor);
    player_.ForEachTouched(actor, [&](int other) { Consider(other); });
  }

  // Until the next act ends; false if none is going on.
  bool Wait() {
    while (!ends_.empty() && ends_.top() <= now_) ends_.pop();
    if (ends_.empty()) return false;
    now_ = ends_.top();
    return true;
  }

  const std::vector<ActorLoad>& loads_;
  StepPlayer player_;
  std::set<std::pair<int, int>> ready_;  // {-priority, actor}
  std::vector<int64_t> free_at_;         // by class
  std::priority_queue<int64_t, std::vector<int64_t>, std::greater<>> ends_;
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
