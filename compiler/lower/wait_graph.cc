#include "compiler/lower/wait_graph.h"

#include <algorithm>
#include <set>

#include "compiler/lower/plan_reader.h"
#include "compiler/plan/call_order.h"
#include "oneflow_core/queues.h"

namespace oneflow {
namespace {

// The registers of one actor's ports, with the number of consecutive acts per slot.
absl::Status AddPorts(const pb::ClassPlan& plan, int id, bool outputs, WaitGraph& graph) {
  const pb::ClassActor& actor = plan.actors(id);
  for (const pb::Port& port : outputs ? actor.outputs() : actor.inputs()) {
    const int r = port.register_();
    if (r < 0 || r >= plan.registers_size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("actor '", actor.name(), "': register ", r, " of ", plan.registers_size(), " does not exist"));
    }
    WaitGraph::Register& reg = graph.registers[r];
    WaitGraph::Port* mine = nullptr;
    if (outputs) {
      if (reg.producer.actor == id) mine = &reg.producer;
    } else {
      const auto it = std::find_if(reg.consumers.begin(), reg.consumers.end(),
                                   [&](const WaitGraph::Port& consumer) { return consumer.actor == id; });
      if (it != reg.consumers.end()) mine = &*it;
    }
    if (mine == nullptr || mine->acts_per_slot != 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("actor '", actor.name(), "' (", id, "): register ", r, " does not name it in return, or twice"));
    }
    mine->acts_per_slot = port.acts_per_slot();
  }
  return absl::OkStatus();
}

absl::StatusOr<WaitGraph::Register> RegisterOf(const pb::ClassPlan& plan, const pb::ClassRegister& reg) {
  WaitGraph::Register out{reg.name(), {reg.producer(), 0}, {}, reg.slots(), reg.initially_filled()};
  for (const int consumer : reg.consumers()) out.consumers.push_back({consumer, 0});
  const auto check = [&](const WaitGraph::Port& port) {
    if (port.actor >= 0 && port.actor < plan.actors_size()) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("register '", reg.name(), "': actor ", port.actor, " of ", plan.actors_size(), " does not exist"));
  };
  OF_RETURN_IF_ERROR(check(out.producer));
  for (const WaitGraph::Port& port : out.consumers) OF_RETURN_IF_ERROR(check(port));
  return out;
}

// Checks that a port names every end of a register.
absl::Status CheckEnds(const WaitGraph& graph) {
  for (const WaitGraph::Register& reg : graph.registers) {
    const auto check = [&](const WaitGraph::Port& port) {
      if (port.acts_per_slot >= 1) return absl::OkStatus();
      return absl::InvalidArgumentError(absl::StrCat("register '", reg.name, "': actor '",
                                                     graph.actors[port.actor].name, "' uses it for ",
                                                     port.acts_per_slot, " acts per slot"));
    };
    OF_RETURN_IF_ERROR(check(reg.producer));
    for (const WaitGraph::Port& port : reg.consumers) OF_RETURN_IF_ERROR(check(port));
  }
  return absl::OkStatus();
}

// Whether an instance of the actor, where ranks send, makes a call with others.
bool Calls(const pb::ClassActor& actor) { return actor.senders() >= 0 && actor.instructions_size() > 0; }

}  // namespace

absl::StatusOr<WaitGraph> WaitGraphOf(const pb::ClassPlan& plan) {
  WaitGraph graph;
  for (const pb::ClassActor& actor : plan.actors()) graph.actors.push_back({actor.name(), actor.acts_per_step()});
  for (const pb::ClassRegister& reg : plan.registers()) {
    OF_ASSIGN_OR_RETURN(WaitGraph::Register out, RegisterOf(plan, reg));
    graph.registers.push_back(std::move(out));
  }
  for (int id = 0; id < plan.actors_size(); ++id) {
    OF_RETURN_IF_ERROR(AddPorts(plan, id, /*outputs=*/false, graph));
    OF_RETURN_IF_ERROR(AddPorts(plan, id, /*outputs=*/true, graph));
  }
  OF_RETURN_IF_ERROR(CheckEnds(graph));
  for (const pb::ClassOrder& order : plan.orders()) {
    for (const int actor : order.actors()) {
      if (actor >= 0 && actor < plan.actors_size()) continue;
      return absl::InvalidArgumentError(absl::StrCat("the order of class ", order.class_(), ": actor ", actor, " of ",
                                                     plan.actors_size(), " does not exist"));
    }
    graph.orders.emplace_back(order.actors().begin(), order.actors().end());
  }
  return graph;
}

absl::Status OrderPlanCalls(const pb::PlanSet& set, pb::ClassPlan& plan) {
  if (std::none_of(plan.actors().begin(), plan.actors().end(), Calls)) return absl::OkStatus();
  OF_ASSIGN_OR_RETURN(const PlanReader reader, PlanReader::Open(set));
  OF_ASSIGN_OR_RETURN(const WaitGraph graph, WaitGraphOf(plan));
  OF_RETURN_IF_ERROR(CheckRates(graph));
  std::vector<ActorLoad> loads;
  for (const pb::ClassActor& actor : plan.actors()) {
    std::set<int> classes;
    for (const int rank : reader.grid(actor.grid()).ranks()) classes.insert(reader.class_of_rank(rank));
    if (actor.senders() >= 0) {
      for (const int rank : reader.grid(actor.senders()).ranks()) classes.insert(reader.class_of_rank(rank));
    }
    loads.push_back({{classes.begin(), classes.end()},
                     actor.queue(),
                     actor.priority(),
                     std::max(1, actor.instructions_size()),
                     Calls(actor)});
  }
  OF_ASSIGN_OR_RETURN(const std::vector<std::vector<int>> orders, OrderCalls(graph, loads, set.classes_size()));
  for (size_t c = 0; c < orders.size(); ++c) {
    if (orders[c].empty()) continue;
    pb::ClassOrder& order = *plan.add_orders();
    order.set_class_(static_cast<int>(c));
    order.set_queue(kCommunicationQueue);
    order.mutable_actors()->Add(orders[c].begin(), orders[c].end());
  }
  return absl::OkStatus();
}

absl::Status CheckPlanLive(const pb::ClassPlan& plan) {
  const std::string where = absl::StrCat("plan '", plan.name(), "'");
  OF_ASSIGN_OR_RETURN_AT(const WaitGraph graph, WaitGraphOf(plan), where);
  return Annotate(CheckLive(graph), where);
}

}  // namespace oneflow
