#include "actor/sim/simulator.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "actor/sim/agenda.h"
#include "actor/sim/rendezvous.h"
#include "actor/trace/traced_program.h"
#include "actor/transport/message_bus.h"
#include "oneflow_core/queues.h"

namespace oneflow {
namespace {

constexpr size_t kMostStuck = 8;     // named by an error
constexpr int64_t kAlike = 100'000;  // steps that differ by one part of so many take equally long

class Simulator {
 public:
  Simulator(const pb::Program& program, int plan, const SimulatedCosts& costs, const Extent& extent)
      : plan_(program.plans(plan)),
        plan_index_(plan),
        costs_(costs),
        extent_(extent),
        rendezvous_(program, plan, costs.stands_for) {
    for (int a = 0; a < plan_.actors_size(); ++a) {
      const pb::Actor& actor = plan_.actors(a);
      states_.push_back({.actor = Actor(MakeActorSpec(plan_, plan, a)),
                         .queue = AddressOf(actor.rank(), actor.queue()),
                         .rank = actor.rank()});
      acts_of_step_ += states_.back().actor.spec().acts_per_step;
    }
    for (State& state : states_) FindPorts(state);
    queues_.resize(program.ranks_size() * kNumQueues);
    turns_.resize(program.ranks_size() * kNumQueues);
    for (const pb::QueueOrder& order : plan_.orders()) {
      turns_[AddressOf(order.rank(), order.queue())].order.assign(order.actors().begin(), order.actors().end());
      for (const int32_t actor : order.actors()) states_[actor].ordered = true;
    }
  }

  absl::Status Play() {
    const int64_t steps = extent_.steps;
    acts_left_.assign(steps, acts_of_step_);
    if (extent_.keep_acts) acts_.reserve(acts_of_step_ * (extent_.until_steady ? 1 : steps));
    for (State& state : states_) state.actor.Grant(0, steps);
    for (State& state : states_) Refresh(state, pb::START);
    StartActs();
    while (!events_.empty() && !steady_) {
      now_ = events_.next_ns();
      OF_RETURN_IF_ERROR(HandleAllOfNow());
      while (!at_link_.empty()) {
        StartTransfers();
        OF_RETURN_IF_ERROR(HandleAllOfNow());
      }
      StartActs();
    }
    if (steady_) return absl::OkStatus();
    const bool done = std::all_of(states_.begin(), states_.end(), [](const State& x) { return x.actor.done(); });
    return done ? absl::OkStatus() : Stuck();
  }

  // Of steps that have ended.
  std::vector<TracedAct> TakeActs() {
    const auto ended = static_cast<int64_t>(step_ends_ns_.size());
    acts_.erase(std::remove_if(acts_.begin(), acts_.end(), [ended](const auto& act) { return act.step >= ended; }),
                acts_.end());
    return std::move(acts_);
  }
  std::vector<int64_t> TakeStepEnds() { return std::move(step_ends_ns_); }

 private:
  struct State {
    Actor actor;
    int queue = 0;  // address
    int rank = 0;
    bool ordered = false;  // acts in the order of its queue
    bool queued = false;
    bool acting = false;
    Readiness ready = {};
    int64_t begin_ns = 0;
    int64_t acts = 0;
    // By link of the actor, in the order of its messages (actor.h): the port of the receiver.
    std::vector<int32_t> ports;
  };
  struct Queue {
    bool taken = false;                           // by an act, or by a transfer before one
    bool fresh = false;                           // its last act ends now: no wake-up is needed
    std::set<std::pair<int64_t, int32_t>> ready;  // ordered by turn
    bool looked_at = false;                       // is among to_start_
  };
  struct Turn {
    std::vector<int32_t> order;
    size_t next = 0;
  };
  struct Event {
    enum class Kind : uint8_t { kDeliver, kChoose, kAtLink, kEnd };
    Kind kind = Kind::kDeliver;
    int32_t id = 0;   // of a queue, for kChoose; of a port, for kDeliver; else of an actor
    Message message;  // kDeliver
  };

  // At a link: an act that ends with a transfer, or the data of a message.
  struct Transfer {
    int rank = 0;       // that waits for it
    int32_t actor = 0;  // on that rank
    int64_t ns = 0;
    int32_t port = -1;               // of the message's receiver
    int64_t message_ns = 0;          // behind the transfer
    std::optional<Message> message;  // none: it is an act's
    int64_t sender_link = -1;
  };

  void At(int64_t ns, Event::Kind kind, int32_t id, const Message& message = {}) {
    events_.Add(ns, {kind, id, message});
  }

  void FindPorts(State& state) const {
    const ActorSpec& spec = state.actor.spec();
    for (const PortSpec& port : spec.outputs) {
      for (const int32_t peer : port.peers) state.ports.push_back(states_[peer].actor.InputOf(port.register_id));
    }
    for (const PortSpec& port : spec.inputs) {
      state.ports.push_back(states_[port.peers[0]].actor.OutputOf(port.register_id));
    }
  }

  absl::Status HandleAllOfNow() {
    while (!events_.empty() && events_.next_ns() == now_) OF_RETURN_IF_ERROR(Handle(events_.Take()));
    return absl::OkStatus();
  }

  absl::Status Handle(const Event& event) {
    switch (event.kind) {
      case Event::Kind::kDeliver:
        return Deliver(event.message, event.id);
      case Event::Kind::kChoose:
        queues_[event.id].taken = false;
        queues_[event.id].fresh = true;
        LookAt(event.id);
        return absl::OkStatus();
      case Event::Kind::kAtLink:
        at_link_.push_back({.rank = states_[event.id].rank, .actor = event.id, .ns = CostOf(event.id).link_ns});
        return absl::OkStatus();
      case Event::Kind::kEnd:
        return End(event.id);
    }
    return absl::OkStatus();
  }

  bool IsDead(int rank) const {
    const auto it = costs_.dies_ns.find(rank);
    return it != costs_.dies_ns.end() && it->second <= now_;
  }

  bool IsTurn(const State& state) const {
    if (!state.ordered) return true;
    const Turn& turn = turns_[state.queue];
    return turn.order[turn.next] == state.actor.spec().id;
  }

  void LookAt(int queue) {
    if (queues_[queue].looked_at) return;
    queues_[queue].looked_at = true;
    to_start_.push_back(queue);
  }

  void Refresh(State& state, pb::Cause cause, int32_t register_id = -1) {
    if (state.queued || state.acting || !state.actor.ready() || !IsTurn(state)) return;
    const int32_t id = state.actor.spec().id;
    state.queued = true;
    state.ready = {cause, register_id, now_};
    queues_[state.queue].ready.insert({-int64_t{plan_.actors(id).priority()}, id});
    LookAt(state.queue);
  }

  absl::Status Deliver(const Message& message, int32_t port) {
    State& to = states_[message.actor];
    OF_RETURN_IF_ERROR(port < 0 ? to.actor.OnMessage(message) : to.actor.OnMessage(message, port));
    Refresh(to, message.kind == Message::Kind::kFilled ? pb::FILLED : pb::FREED, message.register_id);
    return absl::OkStatus();
  }

  // Every idle queue with work begins, in the order of their numbers.
  void StartActs() {
    std::sort(to_start_.begin(), to_start_.end());
    for (const int id : to_start_) {
      Queue& queue = queues_[id];
      queue.looked_at = false;
      const bool fresh = std::exchange(queue.fresh, false);
      if (queue.taken || queue.ready.empty()) continue;
      const int32_t first = queue.ready.begin()->second;
      if (IsDead(states_[first].rank)) continue;
      queue.taken = true;
      const int64_t wake = fresh || !costs_.wake_ns ? 0 : costs_.wake_ns(first, states_[first].acts);
      if (wake > 0) {
        At(now_ + wake, Event::Kind::kChoose, id);
      } else {
        Begin(queue);
      }
    }
    to_start_.clear();
  }

  void Begin(Queue& queue) {
    const int32_t id = queue.ready.begin()->second;
    queue.ready.erase(queue.ready.begin());
    State& state = states_[id];
    state.queued = false;
    state.acting = true;
    state.begin_ns = now_;
    for (const int32_t member : rendezvous_.Come(id)) {
      const ActCost cost = CostOf(member);
      const bool transfers = cost.link >= 0 && cost.link_ns > 0;
      const int64_t ns = transfers ? cost.ns : cost.ns + cost.link_ns;
      At(now_ + ns, transfers ? Event::Kind::kAtLink : Event::Kind::kEnd, member);
    }
  }

  // Of all who came to a link now.
  void StartTransfers() {
    std::stable_sort(at_link_.begin(), at_link_.end(), [](const Transfer& a, const Transfer& b) {
      return std::pair(a.rank, a.actor) < std::pair(b.rank, b.actor);
    });
    for (const Transfer& transfer : at_link_) Start(transfer);
    at_link_.clear();
  }

  ActCost CostOf(int32_t id) const { return costs_.act ? costs_.act(id, states_[id].acts) : ActCost{}; }

  void Start(const Transfer& transfer) {
    int64_t begin = now_;
    const int64_t links[] = {CostOf(transfer.actor).link, transfer.sender_link};
    for (const int64_t link : links) {
      if (link >= 0) begin = std::max(begin, link_free_ns_[link]);
    }
    const int64_t end = begin + transfer.ns;
    for (const int64_t link : links) {
      if (link >= 0) link_free_ns_[link] = end;
    }
    if (!transfer.message.has_value()) return At(end, Event::Kind::kEnd, transfer.actor);
    // Slots of a register land in their order.
    int64_t& last = last_landed_ns_[{transfer.message->register_id, transfer.actor}];
    last = std::max(last, end + transfer.message_ns);
    At(last, Event::Kind::kDeliver, transfer.port, *transfer.message);
  }

  absl::Status End(int32_t id) {
    State& state = states_[id];
    if (IsDead(state.rank)) return absl::OkStatus();
    Record(state);
    outbox_.clear();
    links_.clear();
    state.actor.Act(outbox_, links_);
    ++state.acts;
    state.acting = false;
    Leave(state.queue, id);
    if (state.ordered) {
      Turn& turn = turns_[state.queue];
      turn.next = (turn.next + 1) % turn.order.size();
    }
    Refresh(state, pb::ITSELF);
    if (state.ordered) Refresh(states_[turns_[state.queue].order[turns_[state.queue].next]], pb::TURN);
    for (size_t i = 0; i < outbox_.size(); ++i) OF_RETURN_IF_ERROR(Send(outbox_[i], state.ports[links_[i]], id));
    return absl::OkStatus();
  }

  // Messages of one queue to another come in the order in which they were sent.
  absl::Status Send(const Message& message, int32_t port, int32_t from) {
    const int64_t act = states_[from].acts - 1;
    const bool within = states_[message.actor].queue == states_[from].queue;
    if (within && costs_.stands_for == nullptr) return Deliver(message, port);
    const int64_t ns = costs_.message_ns ? costs_.message_ns(from, act, message.actor, message.register_id) : 0;
    if (Ship(message, port, from, ns)) return absl::OkStatus();
    if (costs_.stands_for != nullptr) {
      if (ns == 0) return Deliver(message, port);
      At(now_ + ns, Event::Kind::kDeliver, port, message);
      return absl::OkStatus();
    }
    int64_t& last = last_came_ns_[{states_[from].queue, states_[message.actor].queue}];
    last = std::max(last, now_ + ns);
    At(last, Event::Kind::kDeliver, port, message);
    return absl::OkStatus();
  }

  // Whether the message of the act that has just ended carries data: then both are at the link now.
  bool Ship(const Message& message, int32_t port, int32_t from, int64_t message_ns) {
    if (!costs_.shipment_ns || message.kind != Message::Kind::kFilled) return false;
    const int64_t act = states_[from].acts - 1;
    const int64_t ns = costs_.shipment_ns(from, act, message.actor, message.register_id);
    if (ns <= 0) return false;
    const int64_t link = costs_.shipment_link ? costs_.shipment_link(from, message.actor, message.register_id) : -1;
    at_link_.push_back({states_[message.actor].rank, message.actor, ns, port, message_ns, message, link});
    return true;
  }

  // The queue is free behind an act of that actor.
  void Leave(int queue, int32_t actor) {
    const int64_t pause = costs_.pause_ns ? costs_.pause_ns(actor, states_[actor].acts - 1) : 0;
    if (pause > 0) return At(now_ + pause, Event::Kind::kChoose, queue);
    queues_[queue].taken = false;
    queues_[queue].fresh = true;
    LookAt(queue);
  }

  void Record(const State& state) {
    const int64_t step = state.actor.step();
    ++num_acts_;
    if (--acts_left_[step] == 0) EndStep();
    if (!extent_.keep_acts) return;
    acts_.push_back({.ready_ns = state.ready.ns,
                     .begin_ns = state.begin_ns,
                     .end_ns = now_,
                     .step = step,
                     .act = state.acts,
                     .run = 1,
                     .plan = plan_index_,
                     .actor = state.actor.spec().id,
                     .register_id = state.ready.register_id,
                     .cause = state.ready.cause});
  }

  // Every actor acts in the order of steps, so that they end in order.
  void EndStep() {
    step_ends_ns_.push_back(now_);
    const size_t n = step_ends_ns_.size();
    if (!extent_.until_steady || n < 3) return;
    const int64_t last = now_ - step_ends_ns_[n - 2], before = step_ends_ns_[n - 2] - step_ends_ns_[n - 3];
    steady_ = std::abs(last - before) <= last / kAlike;
  }

  std::string WaitsFor(const State& state) const {
    if (IsDead(state.rank)) return "is dead";
    if (state.acting) {
      std::vector<std::string> missing;
      for (const int32_t other : rendezvous_.Missing(state.actor.spec().id)) {
        const int rank = states_[other].rank;
        missing.push_back(absl::StrCat(rank, IsDead(rank) ? " (dead)" : ""));
      }
      return absl::StrCat("waits for the other members of its collective, on ranks ", absl::StrJoin(missing, ", "));
    }
    if (IsTurn(state)) return state.actor.WaitsFor(plan_);
    const Turn& turn = turns_[state.queue];
    return absl::StrCat(state.actor.WaitsFor(plan_), "; the next in the order of its queue is actor ",
                        turn.order[turn.next], " '", plan_.actors(turn.order[turn.next]).name(), "'");
  }

  absl::Status Stuck() const {
    std::vector<std::string> who;
    size_t stuck = 0;
    // First those who are not dead, and among these the ones at a collective: they wait for the others.
    std::vector<const State*> states;
    for (const State& state : states_) states.push_back(&state);
    std::stable_sort(states.begin(), states.end(), [this](const State* a, const State* b) {
      return std::pair(IsDead(a->rank), !a->acting) < std::pair(IsDead(b->rank), !b->acting);
    });
    for (const State* const it : states) {
      const State& state = *it;
      if (state.actor.done() || ++stuck > kMostStuck) continue;
      who.push_back(absl::StrCat("actor ", state.actor.spec().id, " '", state.actor.spec().name, "' on rank ",
                                 state.rank, " ", WaitsFor(state)));
    }
    if (stuck > kMostStuck) who.push_back(absl::StrCat("and ", stuck - kMostStuck, " more"));
    std::string dead;
    for (const auto& [rank, ns] : costs_.dies_ns) {
      if (ns <= now_) absl::StrAppend(&dead, "; rank ", rank, " died at ", 1e-6 * static_cast<double>(ns), " ms");
    }
    return absl::FailedPreconditionError(absl::StrCat("plan '", plan_.name(), "' is stuck after ", num_acts_,
                                                      " acts: ", stuck, " of ", states_.size(), " actors are not done",
                                                      dead, ":\n  ", absl::StrJoin(who, "\n  ")));
  }

  const pb::Plan& plan_;
  const int plan_index_;
  const SimulatedCosts& costs_;
  const Extent extent_;
  std::vector<State> states_;  // by actor
  int64_t acts_of_step_ = 0;
  std::vector<int64_t> acts_left_;  // by step
  int64_t num_acts_ = 0;
  bool steady_ = false;
  std::vector<Queue> queues_;  // by address
  std::vector<Turn> turns_;    // by queue
  Rendezvous rendezvous_;
  absl::flat_hash_map<int64_t, int64_t> link_free_ns_;
  absl::flat_hash_map<std::pair<int, int>, int64_t> last_came_ns_;    // by queues, from and to
  absl::flat_hash_map<std::pair<int, int>, int64_t> last_landed_ns_;  // by register and reader
  std::vector<int> to_start_;                                         // queues
  std::vector<Transfer> at_link_;                                     // of those who came there now
  Agenda<Event> events_;
  int64_t now_ = 0;
  OutgoingMessages outbox_;
  std::vector<int32_t> links_;  // of those
  std::vector<TracedAct> acts_;
  std::vector<int64_t> step_ends_ns_;
};

// As if all processes had been traced by one clock.
pb::TraceHead HeadOf(const pb::Program& program) {
  pb::TraceHead head;
  head.set_version(kTraceVersion);
  *head.mutable_program() = TracedProgram(program, std::nullopt);
  std::set<int> processes;
  for (const pb::Rank& rank : program.ranks()) processes.insert(rank.process());
  for (const int process : processes) {
    pb::TraceProcess& of = *head.add_processes();
    of.set_process(process);
    of.set_clock("simulated");
  }
  return head;
}

absl::Status CheckOrders(const pb::Program& program, const pb::Plan& plan) {
  for (const pb::QueueOrder& order : plan.orders()) {
    if (order.rank() < 0 || order.rank() >= program.ranks_size() || !IsQueue(order.queue())) {
      return absl::InvalidArgumentError(absl::StrCat("an order is of queue ", static_cast<int>(order.queue()),
                                                     " of rank ", order.rank(), ", of ", program.ranks_size()));
    }
    for (const int32_t actor : order.actors()) {
      if (actor >= 0 && actor < plan.actors_size() && plan.actors(actor).rank() == order.rank() &&
          plan.actors(actor).queue() == order.queue()) {
        continue;
      }
      return absl::InvalidArgumentError(
          absl::StrCat("the order of rank ", order.rank(), " names actor ", actor, ", which is none of that queue"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Simulation> Simulate(const pb::Program& program, int plan, const Extent& extent,
                                    const SimulatedCosts& costs) {
  Simulation simulation;
  simulation.trace.head = HeadOf(program);
  OF_RETURN_IF_ERROR(CheckTraceHead(simulation.trace.head));
  OF_RETURN_IF_ERROR_AT(CheckOrders(program, program.plans(plan)),
                        absl::StrCat("plan '", program.plans(plan).name(), "'"));
  Simulator simulator(program, plan, costs, extent);
  OF_RETURN_IF_ERROR(simulator.Play());
  simulation.trace.acts = simulator.TakeActs();
  simulation.step_ends_ns = simulator.TakeStepEnds();
  SortActs(simulation.trace.acts);
  return simulation;
}

}  // namespace oneflow
