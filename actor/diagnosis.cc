#include "actor/diagnosis.h"

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "actor/actor.h"
#include "oneflow_core/queues.h"

namespace oneflow {
namespace {

// A rank is slow if it computes for this share of the time, and all others for less than that share of its own.
constexpr double kBusy = 0.5, kLessBusy = 0.75;

std::string SecondsText(double seconds) { return absl::StrFormat("%.1f s", seconds); }

std::string RankText(const pb::ProcessWaits& process, const pb::QueueWaits& queue) {
  return absl::StrCat("rank ", queue.rank(), " (", queue.device(), ", process ", process.process(), ")");
}

std::string QueueText(const pb::QueueWaits& queue) {
  const auto name = [](std::string* out, int q) { absl::StrAppend(out, QueueName(q)); };
  return absl::StrCat("queue ", absl::StrJoin(queue.queues(), ", ", name));
}

std::string ActText(const pb::RunningAct& act) {
  if (!act.instruction().empty()) {
    return absl::StrCat("is in an act for ", SecondsText(act.seconds()), ": ", act.instruction());
  }
  return absl::StrCat("is in an act of actor ", act.actor(), " '", act.name(), "' for ", SecondsText(act.seconds()));
}

std::string ActorText(const pb::WaitingActor& actor, int rank) {
  return absl::StrCat("actor ", actor.actor(), " '", actor.name(), "' on rank ", rank);
}

bool Has(const google::protobuf::RepeatedPtrField<pb::SlotsOf>& all, int register_id, int slot) {
  return std::any_of(all.begin(), all.end(), [&](const pb::SlotsOf& of) {
    return of.register_() == register_id && std::find(of.slots().begin(), of.slots().end(), slot) != of.slots().end();
  });
}

// The graph of waits. A node is an actor that is not done, or an end: something that waits for nobody.
class WaitGraph {
 public:
  struct Queue {
    const pb::ProcessWaits* process;
    const pb::QueueWaits* queue;
  };
  struct Edge {
    int to;
    const pb::Wait* wait;
  };
  struct Node {
    int queue = -1;                           // whose actor it is; -1: an end
    const pb::WaitingActor* actor = nullptr;  // null: an end
    std::string end;                          // its name, for an end
    double seconds = 0;                       // its time, for an end that has one
    std::vector<Edge> edges = {};
  };

  explicit WaitGraph(absl::Span<const pb::ProcessWaits> processes) {
    for (const pb::ProcessWaits& process : processes) Add(process);
    const int actors = static_cast<int>(nodes_.size());
    for (int node = 0; node < actors; ++node) Link(node);
    for (size_t q = 0; q < queues_.size(); ++q) EndOf(static_cast<int>(q));  // also those that nobody waits for
  }

  const std::vector<Queue>& queues() const { return queues_; }
  // Silent processes, and the reason; empty if there are none.
  const std::string& silent() const { return silent_; }

  // Nodes of a cycle, each of which waits for the next, and edges to those; empty if there is none.
  std::vector<std::pair<int, const pb::Wait*>> Cycle() const;
  // The end of the chains of waits from most other queues, and their number; -1 if no chain has an end.
  struct Blame {
    int node = -1;
    size_t queues = 0;
  };
  Blame Straggler() const;

  const Node& node(int index) const { return nodes_[index]; }
  std::string NodeText(int index) const {
    return ActorText(*nodes_[index].actor, queues_[nodes_[index].queue].queue->rank());
  }

 private:
  void Add(const pb::ProcessWaits& process);
  void Link(int node);
  void LinkData(int node, const pb::Wait& wait);
  void LinkCredit(int node, const pb::Wait& wait);
  void LinkIdle(int node);
  int End(std::string text, double seconds = 0, int queue = -1);
  // The end of a queue that acts, does not answer or runs no plan, or whose device is behind; -1 if it is none of
  // these.
  int EndOf(int queue);
  int QueueOf(const pb::WaitPeer& peer) const;
  // The peer's node, or its end; -1 if its work is done.
  int Find(const pb::WaitPeer& peer, const std::string& plan);
  int LostMessage(int node, const pb::Wait& wait);
  std::string PlanOf(int node) const { return queues_[nodes_[node].queue].queue->plan(); }
  bool IsStill(int node) const;
  // The motionless nodes that may wait in cycles for ever.
  std::vector<bool> InCircles() const;
  std::vector<std::pair<int, const pb::Wait*>> ShortestFrom(int start, const std::vector<bool>& among) const;

  std::vector<Queue> queues_;
  std::map<std::pair<int, int>, int> queue_at_;         // by rank and queue
  std::map<std::pair<std::string, int>, int> node_of_;  // by plan and actor
  std::map<int, int> end_of_queue_;
  std::map<std::string, int> end_called_;
  std::string silent_;
  std::vector<Node> nodes_;
};

void WaitGraph::Add(const pb::ProcessWaits& process) {
  if (!process.silent().empty()) {
    const std::string who = absl::StrCat("process ", process.process(), " ", process.silent());
    silent_ = silent_.empty() ? who : absl::StrCat(silent_, "; ", who);
  }
  for (const pb::QueueWaits& queue : process.queues()) {
    const int index = static_cast<int>(queues_.size());
    queues_.push_back({&process, &queue});
    for (const int q : queue.queues()) queue_at_[{queue.rank(), q}] = index;
    for (const pb::WaitingActor& actor : queue.actors()) {
      node_of_[{queue.plan(), actor.actor()}] = static_cast<int>(nodes_.size());
      nodes_.push_back({.queue = index, .actor = &actor});
    }
  }
}

int WaitGraph::End(std::string text, double seconds, int queue) {
  const auto [it, added] = end_called_.emplace(text, static_cast<int>(nodes_.size()));
  if (added) nodes_.push_back({.queue = queue, .end = std::move(text), .seconds = seconds});
  return it->second;
}

int WaitGraph::EndOf(int index) {
  if (const auto known = end_of_queue_.find(index); known != end_of_queue_.end()) return known->second;
  const pb::ProcessWaits& process = *queues_[index].process;
  const pb::QueueWaits& queue = *queues_[index].queue;
  const std::string who = absl::StrCat(RankText(process, queue), ", ", QueueText(queue), ": ");
  int end = -1;
  if (queue.has_running()) {
    end = End(absl::StrCat(who, ActText(queue.running())), queue.running().seconds(), index);
  } else if (queue.no_answer()) {
    end = End(absl::StrCat(who, "its thread does not answer"), queue.still_seconds(), index);
  } else if (queue.places() > 0) {
    end = End(absl::StrCat(who, "the device has yet to come to ", queue.places(), " places"), queue.still_seconds(),
              index);
  }
  return end_of_queue_[index] = end;
}

int WaitGraph::QueueOf(const pb::WaitPeer& peer) const {
  const auto found = queue_at_.find({peer.rank(), peer.queue()});
  return found == queue_at_.end() ? -1 : found->second;
}

int WaitGraph::Find(const pb::WaitPeer& peer, const std::string& plan) {
  const int index = QueueOf(peer);
  if (index < 0) {
    return End(absl::StrCat("rank ", peer.rank(), ": ", silent_.empty() ? "its process was not asked" : silent_));
  }
  if (const auto node = node_of_.find({plan, peer.actor()}); node != node_of_.end()) return node->second;
  if (const int end = EndOf(index); end >= 0) return end;
  const auto& [process, queue] = queues_[index];
  if (queue->plan() == plan || process->plan() == plan) return -1;
  return End(absl::StrCat(RankText(*process, *queue), ": its process ", process->doing()));
}

int WaitGraph::LostMessage(int node, const pb::Wait& wait) {
  const auto text = [](const pb::WaitPeer& peer) {
    return absl::StrCat("actor ", peer.actor(), " '", peer.name(), "' on rank ", peer.rank());
  };
  const bool from_peer = wait.kind() == pb::Wait::DATA;
  const std::string peer = text(wait.peers(0)), own = NodeText(node);
  return End(absl::StrCat("a message about slot ", wait.slot(), " of register ", wait.register_(), " '", wait.name(),
                          "' between ", from_peer ? peer : own, " and ", from_peer ? own : peer,
                          ", which is on its way, or lost"));
}

void WaitGraph::Link(int node) {
  for (const pb::Wait& wait : nodes_[node].actor->waits()) {
    if (wait.peers().empty()) continue;
    if (wait.kind() == pb::Wait::CREDIT) {
      LinkCredit(node, wait);
      continue;
    }
    if (wait.kind() == pb::Wait::DATA) {
      LinkData(node, wait);
      continue;
    }
    const int to = Find(wait.peers(0), PlanOf(node));
    if (to >= 0) nodes_[node].edges.push_back({to, &wait});
  }
  if (nodes_[node].actor->waits().empty()) LinkIdle(node);
}

// It could act, and does not; or it cannot, and others still wait for it.
void WaitGraph::LinkIdle(int node) {
  const int index = nodes_[node].queue;
  const auto& [process, queue] = queues_[index];
  const pb::WaitingActor& actor = *nodes_[node].actor;
  const int end = End(absl::StrCat(RankText(*process, *queue), ", ", QueueText(*queue), ": actor ", actor.actor(), " '",
                                   actor.name(), "' ", WaitText(actor), "; its process ", process->doing()),
                      queue->still_seconds(), index);
  nodes_[node].edges.push_back({end, nullptr});
}

void WaitGraph::LinkData(int node, const pb::Wait& wait) {
  int to = Find(wait.peers(0), PlanOf(node));
  const bool is_sent =
      to < 0 || (nodes_[to].actor != nullptr && Has(nodes_[to].actor->filled(), wait.register_(), wait.slot()));
  if (is_sent) {
    // Messages of launched work are sent when the device has reached it.
    const int device = EndOf(QueueOf(wait.peers(0)));
    to = device >= 0 ? device : LostMessage(node, wait);
  }
  nodes_[node].edges.push_back({to, &wait});
}

void WaitGraph::LinkCredit(int node, const pb::Wait& wait) {
  bool is_held = false;
  for (const pb::WaitPeer& peer : wait.peers()) {
    const int to = Find(peer, PlanOf(node));
    const pb::WaitingActor* const consumer = to < 0 ? nullptr : nodes_[to].actor;
    const bool has_freed = to < 0 || (consumer != nullptr && !Has(consumer->held(), wait.register_(), wait.slot()));
    if (has_freed) continue;
    is_held = true;
    nodes_[node].edges.push_back({to, &wait});
  }
  if (is_held) return;
  const int to = LostMessage(node, wait);
  nodes_[node].edges.push_back({to, &wait});
}

bool WaitGraph::IsStill(int node) const {
  const Queue& at = queues_[nodes_[node].queue];
  return at.queue->acts() == 0 && at.queue->still_seconds() >= at.process->window_seconds();
}

std::vector<bool> WaitGraph::InCircles() const {
  std::vector<bool> in(nodes_.size());
  for (size_t i = 0; i < nodes_.size(); ++i) in[i] = nodes_[i].actor != nullptr && IsStill(static_cast<int>(i));
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t i = 0; i < nodes_.size(); ++i) {
      const auto goes_on = [&](const Edge& edge) { return in[edge.to]; };
      if (!in[i] || std::any_of(nodes_[i].edges.begin(), nodes_[i].edges.end(), goes_on)) continue;
      in[i] = false;
      changed = true;
    }
  }
  return in;
}

std::vector<std::pair<int, const pb::Wait*>> WaitGraph::ShortestFrom(int start, const std::vector<bool>& among) const {
  std::map<int, std::pair<int, const pb::Wait*>> reached;  // from which node, by which wait
  std::deque<int> open = {start};
  while (!open.empty() && !reached.contains(start)) {
    const int at = open.front();
    open.pop_front();
    for (const Edge& edge : nodes_[at].edges) {
      if (among[edge.to] && reached.emplace(edge.to, std::pair(at, edge.wait)).second) open.push_back(edge.to);
    }
  }
  std::vector<std::pair<int, const pb::Wait*>> cycle;
  if (!reached.contains(start)) return cycle;
  for (int at = start; cycle.empty() || at != start; at = cycle.back().first) cycle.push_back(reached.at(at));
  std::reverse(cycle.begin(), cycle.end());
  return cycle;
}

std::vector<std::pair<int, const pb::Wait*>> WaitGraph::Cycle() const {
  constexpr int kMostStarts = 64;  // in large jobs; some short cycle is as good as the shortest
  const std::vector<bool> in = InCircles();
  std::vector<std::pair<int, const pb::Wait*>> best;
  int starts = 0;
  for (size_t i = 0; i < nodes_.size() && (starts < kMostStarts || best.empty()); ++i) {
    if (!in[i]) continue;
    ++starts;
    std::vector<std::pair<int, const pb::Wait*>> cycle = ShortestFrom(static_cast<int>(i), in);
    if (!cycle.empty() && (best.empty() || cycle.size() < best.size())) best = std::move(cycle);
  }
  return best;
}

WaitGraph::Blame WaitGraph::Straggler() const {
  std::vector<std::vector<int>> waiters(nodes_.size());
  for (size_t i = 0; i < nodes_.size(); ++i) {
    for (const Edge& edge : nodes_[i].edges) waiters[edge.to].push_back(static_cast<int>(i));
  }
  Blame best;
  for (size_t end = 0; end < nodes_.size(); ++end) {
    if (nodes_[end].actor != nullptr) continue;
    std::set<int> queues, seen = {static_cast<int>(end)};
    std::deque<int> open = {static_cast<int>(end)};
    for (; !open.empty(); open.pop_front()) {
      for (const int waiter : waiters[open.front()]) {
        if (seen.insert(waiter).second) open.push_back(waiter), queues.insert(nodes_[waiter].queue);
      }
    }
    queues.erase(nodes_[end].queue);
    const bool better = best.node < 0 || queues.size() > best.queues ||
                        (queues.size() == best.queues && nodes_[end].seconds > nodes_[best.node].seconds);
    if (better) best = {static_cast<int>(end), queues.size()};
  }
  return best;
}

std::string CycleText(const WaitGraph& graph, const std::vector<std::pair<int, const pb::Wait*>>& cycle) {
  std::string text = absl::StrCat("a cycle of ", cycle.size(), " waits, which nobody will end:");
  for (const auto& [node, wait] : cycle) {
    absl::StrAppend(&text, "\n  ", graph.NodeText(node), " waits for ", WaitText(*wait));
  }
  return text;
}

double BusyShare(const WaitGraph::Queue& at) {
  const double window = at.process->window_seconds();
  return window <= 0 ? 0 : std::min(1.0, at.queue->busy_seconds() / window);
}

std::string PercentText(double share) { return absl::StrFormat("%.0f%%", 100 * share); }

bool Computes(const WaitGraph::Queue& at) {
  const auto& queues = at.queue->queues();
  return !at.queue->plan().empty() && std::find(queues.begin(), queues.end(), MainQueue()) != queues.end();
}

// The rank that computes nearly all the time, if all others wait much of it; empty if there is none.
std::string SlowRank(const WaitGraph& graph) {
  const WaitGraph::Queue* slowest = nullptr;
  double next = 0;
  int others = -1;
  for (const WaitGraph::Queue& at : graph.queues()) {
    if (!Computes(at)) continue;
    ++others;
    if (slowest == nullptr || BusyShare(at) > BusyShare(*slowest)) {
      if (slowest != nullptr) next = std::max(next, BusyShare(*slowest));
      slowest = &at;
    } else {
      next = std::max(next, BusyShare(at));
    }
  }
  if (others < 1 || BusyShare(*slowest) < kBusy || next > kLessBusy * BusyShare(*slowest)) return "";
  const std::string act =
      slowest->queue->has_running() ? absl::StrCat("; it ", ActText(slowest->queue->running())) : "";
  return absl::StrCat("the slowest: ", RankText(*slowest->process, *slowest->queue), " computes for ",
                      PercentText(BusyShare(*slowest)), " of the time, the ", others, " other", others == 1 ? "" : "s",
                      " for at most ", PercentText(next), act);
}

std::string MovingText(const WaitGraph& graph, int64_t acts) {
  if (const std::string slow = SlowRank(graph); !slow.empty()) return slow;
  return absl::StrCat("the job goes on: ", acts,
                      " acts ended while it was watched, and no rank keeps all others waiting");
}

std::string StillText(const WaitGraph& graph) {
  const WaitGraph::Blame blame = graph.Straggler();
  if (blame.node < 0) return "nothing waits, and no act runs";
  size_t others = 0;
  for (size_t q = 0; q < graph.queues().size(); ++q) {
    const pb::QueueWaits& queue = *graph.queues()[q].queue;
    others += !queue.plan().empty() && graph.node(blame.node).queue != static_cast<int>(q) &&
              (!queue.actors().empty() || queue.has_running());
  }
  return absl::StrCat(graph.node(blame.node).end, "\n  ", blame.queues, " of ", others,
                      graph.node(blame.node).queue < 0 ? "" : " other", " queues wait for that");
}

// The most informative queue of a rank: one that acts, then one that waits; computing first.
const WaitGraph::Queue* MostTelling(const std::vector<const WaitGraph::Queue*>& of_rank) {
  const auto worth = [](const WaitGraph::Queue* at) {
    return std::tuple(at->queue->has_running() || at->queue->no_answer(), !at->queue->actors().empty(), Computes(*at));
  };
  return *std::max_element(of_rank.begin(), of_rank.end(),
                           [&](const auto* a, const auto* b) { return worth(a) < worth(b); });
}

std::string DoesNow(const WaitGraph::Queue& at) {
  const pb::QueueWaits& queue = *at.queue;
  const std::string who = absl::StrCat(QueueText(queue), ", busy for ", PercentText(BusyShare(at)), " of the time, ");
  if (queue.has_running()) return absl::StrCat(who, ActText(queue.running()));
  if (queue.no_answer()) return absl::StrCat(who, "does not answer");
  if (queue.actors().empty()) return absl::StrCat("its process ", at.process->doing());
  const auto waits = [](const pb::WaitingActor& actor) { return !actor.waits().empty(); };
  const auto first = std::find_if(queue.actors().begin(), queue.actors().end(), waits);
  const pb::WaitingActor& actor = first == queue.actors().end() ? queue.actors(0) : *first;
  return absl::StrCat(who, "has ended no act for ", SecondsText(queue.still_seconds()), ": actor ", actor.actor(), " '",
                      actor.name(), "' ", WaitText(actor));
}

std::vector<std::string> RankLines(const WaitGraph& graph, absl::Span<const pb::ProcessWaits> processes) {
  std::map<int, std::vector<const WaitGraph::Queue*>> by_rank;
  for (const WaitGraph::Queue& at : graph.queues()) by_rank[at.queue->rank()].push_back(&at);
  std::vector<std::string> lines;
  for (const auto& [rank, of_rank] : by_rank) {
    const WaitGraph::Queue& at = *MostTelling(of_rank);
    lines.push_back(absl::StrCat(RankText(*at.process, *at.queue), ": ", DoesNow(at)));
  }
  for (const pb::ProcessWaits& process : processes) {
    if (!process.silent().empty()) lines.push_back(absl::StrCat("process ", process.process(), " ", process.silent()));
  }
  return lines;
}

}  // namespace

Diagnosis Diagnose(absl::Span<const pb::ProcessWaits> processes) {
  const WaitGraph graph(processes);
  Diagnosis diagnosis{.ranks = RankLines(graph, processes)};
  int64_t acts = 0;
  for (const WaitGraph::Queue& at : graph.queues()) acts += at.queue->acts();
  if (const auto cycle = graph.Cycle(); !cycle.empty()) {
    diagnosis.cause = CycleText(graph, cycle);
  } else {
    diagnosis.cause = acts > 0 ? MovingText(graph, acts) : StillText(graph);
  }
  // The actor that waits for them may not be known yet.
  if (diagnosis.cause.find(graph.silent()) == std::string::npos) {
    diagnosis.cause = absl::StrCat(graph.silent(), "\n", diagnosis.cause);
  }
  return diagnosis;
}

std::string DiagnosisText(const Diagnosis& diagnosis) {
  return absl::StrCat(diagnosis.cause, "\n", absl::StrJoin(diagnosis.ranks, "\n"), diagnosis.ranks.empty() ? "" : "\n");
}

}  // namespace oneflow
