#include "compiler/lower/wait_graph.h"

#include <algorithm>

namespace oneflow {
namespace {

// How many consecutive acts of `actor` use one slot of register `id`; 0 if no port names it.
int ActsPerSlot(const google::protobuf::RepeatedPtrField<pb::Port>& ports, int id) {
  const auto it =
      std::find_if(ports.begin(), ports.end(), [&](const pb::Port& port) { return port.register_() == id; });
  return it == ports.end() ? 0 : it->acts_per_slot();
}

absl::Status CheckPorts(const pb::Plan& plan, const pb::Actor& actor, int id) {
  const auto check = [&](int reg, bool mine) {
    if (reg < 0 || reg >= plan.registers_size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("actor '", actor.name(), "': register ", reg, " of ", plan.registers_size(), " does not exist"));
    }
    if (mine) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("actor '", actor.name(), "' (", id, "): register ", reg, " does not name it in return"));
  };
  for (const pb::Port& port : actor.inputs()) {
    const int reg = port.register_();
    const bool known = reg >= 0 && reg < plan.registers_size();
    OF_RETURN_IF_ERROR(check(reg, known && std::count(plan.registers(reg).consumers().begin(),
                                                      plan.registers(reg).consumers().end(), id) == 1));
  }
  for (const pb::Port& port : actor.outputs()) {
    const int reg = port.register_();
    OF_RETURN_IF_ERROR(check(reg, reg >= 0 && reg < plan.registers_size() && plan.registers(reg).producer() == id));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<WaitGraph> WaitGraphOf(const pb::Plan& plan) {
  WaitGraph graph;
  for (int id = 0; id < plan.actors_size(); ++id) {
    const pb::Actor& actor = plan.actors(id);
    OF_RETURN_IF_ERROR(CheckPorts(plan, actor, id));
    graph.actors.push_back({absl::StrCat(actor.name(), "@", actor.rank()), actor.acts_per_step()});
  }
  for (int id = 0; id < plan.registers_size(); ++id) {
    const pb::Register& reg = plan.registers(id);
    const auto port = [&](int actor, bool output) -> absl::StatusOr<WaitGraph::Port> {
      if (actor < 0 || actor >= plan.actors_size()) {
        return absl::InvalidArgumentError(
            absl::StrCat("register '", reg.name(), "': actor ", actor, " of ", plan.actors_size(), " does not exist"));
      }
      const auto& ports = output ? plan.actors(actor).outputs() : plan.actors(actor).inputs();
      const int acts = ActsPerSlot(ports, id);
      if (acts < 1) {
        return absl::InvalidArgumentError(absl::StrCat("register '", reg.name(), "': actor '",
                                                       plan.actors(actor).name(), "' uses it for ", acts,
                                                       " acts per slot"));
      }
      return WaitGraph::Port{actor, acts};
    };
    WaitGraph::Register out{reg.name(), {}, {}, reg.slots(), reg.initially_filled()};
    OF_ASSIGN_OR_RETURN(out.producer, port(reg.producer(), true));
    for (int consumer : reg.consumers()) {
      OF_ASSIGN_OR_RETURN(const WaitGraph::Port to, port(consumer, false));
      out.consumers.push_back(to);
    }
    graph.registers.push_back(std::move(out));
  }
  return graph;
}

absl::Status CheckPlanLive(const pb::Plan& plan) {
  const std::string where = absl::StrCat("plan '", plan.name(), "'");
  OF_ASSIGN_OR_RETURN_AT(const WaitGraph graph, WaitGraphOf(plan), where);
  return Annotate(CheckLive(graph), where);
}

}  // namespace oneflow
