#include "test/support/spelled_out.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/lower/compile.h"
#include "compiler/lower/program.h"
#include "gtest/gtest.h"
#include "oneflow_core/union_find.h"
#include "proto/plan.pb.h"

namespace oneflow::testing {

pb::Program SpelledOut(const pb::PlanSet& set) {
  absl::StatusOr<pb::Program> program = ProgramOf(set, std::nullopt, "");
  EXPECT_TRUE(program.ok()) << program.status();
  return program.ok() ? *std::move(program) : pb::Program();
}

absl::StatusOr<pb::Program> CompileSpelledOut(const Program& program, const CompileOptions& options,
                                              const OpRegistry& ops) {
  OF_ASSIGN_OR_RETURN(const pb::PlanSet plan, Compile(program, options, ops));
  return ProgramOf(plan, std::nullopt, "");
}

int ActsPerSlot(const google::protobuf::RepeatedPtrField<pb::Port>& ports, int id) {
  const auto it =
      std::find_if(ports.begin(), ports.end(), [&](const pb::Port& port) { return port.register_() == id; });
  return it == ports.end() ? 0 : it->acts_per_slot();
}

namespace {

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

bool Calls(const pb::Actor& actor) {
  return std::any_of(actor.instructions().begin(), actor.instructions().end(),
                     [](const pb::Instruction& x) { return x.kind() == pb::Instruction::COLLECTIVE; });
}

// Actors that take part in one collective (a node on a communicator) act together, transitively.
std::vector<std::vector<int>> ActorsThatActTogether(const pb::Plan& plan) {
  UnionFind together(plan.actors_size());
  std::map<std::pair<std::string, int>, int> first_of_collective;
  for (int a = 0; a < plan.actors_size(); ++a) {
    for (const pb::Instruction& instruction : plan.actors(a).instructions()) {
      if (instruction.kind() != pb::Instruction::COLLECTIVE) continue;
      const std::pair key(instruction.node(), instruction.communicator());
      together.Unite(first_of_collective.emplace(key, a).first->second, a);
    }
  }
  std::map<int, std::vector<int>> groups;
  for (int a = 0; a < plan.actors_size(); ++a) {
    if (Calls(plan.actors(a))) groups[together.Find(a)].push_back(a);
  }
  std::vector<std::vector<int>> result;
  for (auto& [first, group] : groups) result.push_back(std::move(group));
  return result;
}

// The orders, which hold all actors that have collectives.
absl::StatusOr<std::vector<std::vector<int>>> OrdersOf(const pb::Plan& plan) {
  std::vector<std::vector<int>> orders;
  std::vector<bool> ordered(plan.actors_size(), false);
  for (const pb::QueueOrder& order : plan.orders()) {
    for (int actor : order.actors()) {
      if (actor < 0 || actor >= plan.actors_size() || plan.actors(actor).rank() != order.rank()) {
        return absl::InvalidArgumentError(absl::StrCat("the order of rank ", order.rank(), ": actor ", actor, " of ",
                                                       plan.actors_size(), " is none of that rank"));
      }
      ordered[actor] = true;
    }
    orders.emplace_back(order.actors().begin(), order.actors().end());
  }
  for (int a = 0; a < plan.actors_size(); ++a) {
    if (!ordered[a] && Calls(plan.actors(a))) {
      return absl::InvalidArgumentError(
          absl::StrCat("actor '", plan.actors(a).name(), "' (", a, "): it holds collectives, but no order names it"));
    }
  }
  return orders;
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
  graph.together = ActorsThatActTogether(plan);
  OF_ASSIGN_OR_RETURN(graph.orders, OrdersOf(plan));
  return graph;
}

absl::Status CheckSpelledOutLive(const pb::Plan& plan) {
  OF_ASSIGN_OR_RETURN(const WaitGraph graph, WaitGraphOf(plan));
  return CheckLive(graph);
}

}  // namespace oneflow::testing
