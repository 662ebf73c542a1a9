#include "actor/program_check.h"

#include <algorithm>
#include <set>
#include <string>

#include "actor/check/bounds.h"
#include "actor/check/instruction_check.h"
#include "actor/check/register_check.h"
#include "actor/check/shipment_check.h"
#include "actor/check/variable_check.h"
#include "actor/collective_check.h"
#include "oneflow_core/mesh.h"
#include "oneflow_core/queues.h"
#include "oneflow_core/zones.h"

namespace oneflow {
namespace {

// The most plans: the message format has 16 bits for them (Message::plan).
constexpr int kMaxPlans = 65535;

absl::Status CheckZones(const pb::Rank& rank) {
  if (rank.zones_size() > kNumZones) return Malformed(rank.zones_size(), " zones; there are ", kNumZones);
  for (const ZoneKind& kind : kZones) {
    const int64_t bytes = BytesOfZone(rank, kind.zone), variables = VariableBytesOfZone(rank, kind.zone);
    if (!Inside(0, bytes, kMaxBytes)) return Malformed("a ", kind.name, " zone of ", bytes, " bytes");
    if (Inside(0, variables, bytes)) continue;
    return Malformed("variables take ", variables, " bytes of the ", kind.name, " zone of ", bytes);
  }
  return absl::OkStatus();
}

absl::Status CheckRank(const pb::Rank& rank, int num_processes) {
  if (rank.process() < 0 || rank.process() >= num_processes) {
    return Malformed("process ", rank.process(), " is not one of the job's ", num_processes);
  }
  if (rank.host() < 0) return Malformed("host ", rank.host(), " is none");
  OF_RETURN_IF_ERROR(Device::Parse(rank.device()).status());
  return CheckZones(rank);
}

absl::Status CheckCommunicator(const pb::Program& program, const pb::Communicator& communicator) {
  std::set<int> members;
  for (const int rank : communicator.ranks()) {
    if (IsRank(program, rank) && members.insert(rank).second) continue;
    return Malformed("rank ", rank, " is named twice or not one of ", program.ranks_size());
  }
  return absl::OkStatus();
}

template <typename Items>
absl::Status CheckIds(const Items& items) {
  int before = -1;
  for (const auto& item : items) {
    if (item.id() <= before) return Malformed("id ", item.id(), " comes after ", before);
    before = item.id();
  }
  return absl::OkStatus();
}

absl::Status CheckPorts(const pb::Plan& plan, int actor, const google::protobuf::RepeatedPtrField<pb::Port>& ports,
                        bool outputs) {
  std::set<int> seen;
  for (const pb::Port& port : ports) {
    const int id = port.register_();
    if (id < 0 || id >= plan.registers_size()) {
      return Malformed("register ", id, " is not one of ", plan.registers_size());
    }
    if (!seen.insert(id).second) return Malformed("register ", id, " is listed twice");
    const int acts = plan.actors(actor).acts_per_step();
    if (port.acts_per_slot() < 1 || acts % port.acts_per_slot() != 0) {
      return Malformed("register ", id, ": ", port.acts_per_slot(), " acts per slot do not divide ", acts,
                       " acts per step");
    }
    const pb::Register& reg = plan.registers(id);
    const bool known = outputs
                           ? reg.producer() == actor
                           : std::find(reg.consumers().begin(), reg.consumers().end(), actor) != reg.consumers().end();
    if (!known) {
      return Malformed("register ", id, " does not name this actor as its ", outputs ? "producer" : "consumer");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckActor(const pb::Program& program, const pb::Plan& plan, int id) {
  const pb::Actor& actor = plan.actors(id);
  if (!IsRank(program, actor.rank())) {
    return Malformed("rank ", actor.rank(), " is not one of ", program.ranks_size());
  }
  if (actor.acts_per_step() != 1 && actor.acts_per_step() != plan.micro_batches()) {
    return Malformed(actor.acts_per_step(), " acts per step; the plan has ", plan.micro_batches(), " micro-batches");
  }
  if (!IsQueue(actor.queue())) {
    return Malformed("queue ", actor.queue(), " is not one of ", kNumQueues);
  }
  if (plan.beside() != (actor.queue() == kBesideQueue)) {
    return Malformed("it is on queue '", QueueName(actor.queue()), "' of a plan that ",
                     plan.beside() ? "runs" : "does not run", " beside others");
  }
  OF_RETURN_IF_ERROR_AT(CheckPorts(plan, id, actor.inputs(), /*outputs=*/false), "inputs");
  OF_RETURN_IF_ERROR_AT(CheckPorts(plan, id, actor.outputs(), /*outputs=*/true), "outputs");
  OF_RETURN_IF_ERROR(CheckLandings(program, plan, actor));
  for (int i = 0; i < actor.instructions_size(); ++i) {
    const pb::Instruction& instruction = actor.instructions(i);
    OF_RETURN_IF_ERROR_AT(CheckInstruction(program, plan, actor, instruction),
                          absl::StrCat("instruction ", i, " '", instruction.node(), "'"));
  }
  return absl::OkStatus();
}

absl::Status CheckPlan(const pb::Program& program, const pb::Plan& plan) {
  if (plan.micro_batches() < 1) return Malformed("micro_batches is ", plan.micro_batches());
  if (program.has_process()) {
    OF_RETURN_IF_ERROR_AT(CheckIds(plan.actors()), "actors");
    OF_RETURN_IF_ERROR_AT(CheckIds(plan.registers()), "registers");
  }
  for (int r = 0; r < plan.registers_size(); ++r) {
    OF_RETURN_IF_ERROR_AT(CheckRegister(program, plan, r),
                          absl::StrCat("register ", r, " '", plan.registers(r).name(), "'"));
  }
  for (int a = 0; a < plan.actors_size(); ++a) {
    OF_RETURN_IF_ERROR_AT(CheckActor(program, plan, a), absl::StrCat("actor ", a, " '", plan.actors(a).name(), "'"));
  }
  return CheckCollectives(program, plan);
}

// Each of `items` by `check`; their names differ.
template <typename Items, typename Check>
absl::Status CheckNamed(const char* kind, const Items& items, const Check& check) {
  std::set<std::string> names;
  for (const auto& item : items) {
    const std::string where = absl::StrCat(kind, " '", item.name(), "'");
    OF_RETURN_IF_ERROR_AT(check(item), where);
    if (!names.insert(item.name()).second) return Malformed(where, ": the name is used twice");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckProgram(const pb::Program& program, int num_processes) {
  if (program.version() != kRuntimeProgramVersion) {
    return Malformed("program: version is ", program.version(), ", this runtime reads ", kRuntimeProgramVersion);
  }
  if (program.ranks().empty()) return Malformed("program: it has no ranks");
  for (int r = 0; r < program.ranks_size(); ++r) {
    OF_RETURN_IF_ERROR_AT(CheckRank(program.ranks(r), num_processes), absl::StrCat("rank ", r));
  }
  OF_RETURN_IF_ERROR(CheckNamed("variable", program.variables(),
                                [&](const pb::Variable& variable) { return CheckVariable(program, variable); }));
  for (int c = 0; c < program.communicators_size(); ++c) {
    OF_RETURN_IF_ERROR_AT(CheckCommunicator(program, program.communicators(c)), absl::StrCat("communicator ", c));
  }
  if (program.plans_size() > kMaxPlans) {
    return Malformed("program: ", program.plans_size(), " plans, at most ", kMaxPlans);
  }
  OF_RETURN_IF_ERROR(CheckSlots(program));
  return CheckNamed("plan", program.plans(), [&](const pb::Plan& plan) { return CheckPlan(program, plan); });
}

}  // namespace oneflow
