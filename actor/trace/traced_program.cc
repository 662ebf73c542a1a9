#include "actor/trace/traced_program.h"

#include <algorithm>

#include "oneflow_core/queues.h"

namespace oneflow {
namespace {

constexpr int32_t kMostActsPerSlot = 1 << 20;  // more than any plan has micro-batches

// Numbers in the whole job; those of a program of all processes are indices already.
struct WholeNumbers {
  const pb::Plan& plan;
  bool whole;

  int32_t Actor(int32_t index) const { return whole ? index : plan.actors(index).id(); }
  int32_t Register(int32_t index) const { return whole ? index : plan.registers(index).id(); }
};

void AddActor(const pb::Actor& from, int32_t index, const WholeNumbers& numbers, pb::Actor* to) {
  *to = from;
  to->clear_instructions();
  to->set_id(numbers.Actor(index));
  for (auto* ports : {to->mutable_inputs(), to->mutable_outputs()}) {
    for (pb::Port& port : *ports) port.set_register_(numbers.Register(port.register_()));
  }
}

void AddRegister(const pb::Register& from, int32_t index, const WholeNumbers& numbers, pb::Register* to) {
  *to = from;
  to->set_id(numbers.Register(index));
  to->set_producer(numbers.Actor(from.producer()));
  for (int32_t& consumer : *to->mutable_consumers()) consumer = numbers.Actor(consumer);
}

template <typename... Args>
absl::Status Wrong(const Args&... args) {
  return absl::InvalidArgumentError(absl::StrCat(args...));
}

// By number.
template <typename Items>
absl::flat_hash_map<int32_t, int32_t> IndicesOf(const Items& items) {
  absl::flat_hash_map<int32_t, int32_t> indices;
  for (int i = 0; i < items.size(); ++i) indices[items[i].id()] = i;
  return indices;
}

absl::Status CheckPorts(const google::protobuf::RepeatedPtrField<pb::Port>& ports, const pb::Plan& plan,
                        const pb::Actor& actor) {
  for (const pb::Port& port : ports) {
    if (port.register_() < 0 || port.register_() >= plan.registers_size()) {
      return Wrong("actor ", actor.id(), " '", actor.name(), "' has a port of register ", port.register_(), ", of ",
                   plan.registers_size());
    }
    if (port.acts_per_slot() < 1 || port.acts_per_slot() > kMostActsPerSlot) {
      return Wrong("actor ", actor.id(), " '", actor.name(), "' uses a slot for ", port.acts_per_slot(), " acts");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckActor(const pb::Actor& actor, int index, const pb::Plan& plan, int num_ranks) {
  if (!IsQueue(actor.queue())) {
    return Wrong("actor ", index, " '", actor.name(), "' is on queue ", static_cast<int>(actor.queue()));
  }
  if (!pb::Section_IsValid(actor.section()) || actor.chunk() < 0) {
    return Wrong("actor ", index, " '", actor.name(), "' is section ", static_cast<int>(actor.section()), " of chunk ",
                 actor.chunk());
  }
  if (actor.rank() < 0 || actor.rank() >= num_ranks) {
    return Wrong("actor ", index, " '", actor.name(), "' is on rank ", actor.rank(), " of ", num_ranks);
  }
  OF_RETURN_IF_ERROR(CheckPorts(actor.inputs(), plan, actor));
  return CheckPorts(actor.outputs(), plan, actor);
}

absl::Status CheckRegister(const pb::Register& reg, int index, const pb::Plan& plan) {
  const auto known = [&](int32_t actor) { return actor >= 0 && actor < plan.actors_size(); };
  if (!known(reg.producer()) || !std::all_of(reg.consumers().begin(), reg.consumers().end(), known)) {
    return Wrong("register ", index, " '", reg.name(), "' is of an actor that is none of ", plan.actors_size());
  }
  if (reg.slots() < 1 || reg.initially_filled() < 0 || reg.initially_filled() > reg.slots()) {
    return Wrong("register ", index, " '", reg.name(), "' has ", reg.slots(), " slots, ", reg.initially_filled(),
                 " filled at first");
  }
  return absl::OkStatus();
}

}  // namespace

pb::Program TracedProgram(const pb::Program& program, std::optional<int> process) {
  pb::Program traced;
  traced.set_version(program.version());
  traced.set_job(program.job());
  traced.set_plan_hash(program.plan_hash());
  *traced.mutable_ranks() = program.ranks();
  const auto ours = [&](const pb::Plan& plan, int32_t actor) {
    return !process.has_value() || program.ranks(plan.actors(actor).rank()).process() == *process;
  };
  for (const pb::Plan& plan : program.plans()) {
    const WholeNumbers numbers{plan, !program.has_process()};
    pb::Plan& to = *traced.add_plans();
    to.set_name(plan.name());
    to.set_micro_batches(plan.micro_batches());
    for (int a = 0; a < plan.actors_size(); ++a) {
      if (ours(plan, a)) AddActor(plan.actors(a), a, numbers, to.add_actors());
    }
    for (int r = 0; r < plan.registers_size(); ++r) {
      const pb::Register& reg = plan.registers(r);
      if (ours(plan, reg.producer())) AddRegister(reg, r, numbers, to.add_registers());
    }
  }
  return traced;
}

absl::StatusOr<MergedProgram> MergedProgram::Of(const std::vector<pb::Program>& parts) {
  MergedProgram merged;
  merged.program_ = parts.front();
  const auto by_number = [](const auto* a, const auto* b) { return a->id() < b->id(); };
  for (int p = 0; p < merged.program_.plans_size(); ++p) {
    pb::Plan& plan = *merged.program_.mutable_plans(p);
    for (size_t i = 1; i < parts.size(); ++i) {
      plan.mutable_actors()->MergeFrom(parts[i].plans(p).actors());
      plan.mutable_registers()->MergeFrom(parts[i].plans(p).registers());
    }
    std::sort(plan.mutable_actors()->pointer_begin(), plan.mutable_actors()->pointer_end(), by_number);
    std::sort(plan.mutable_registers()->pointer_begin(), plan.mutable_registers()->pointer_end(), by_number);
    merged.actors_.push_back(IndicesOf(plan.actors()));
    merged.registers_.push_back(IndicesOf(plan.registers()));
    OF_RETURN_IF_ERROR_AT(merged.UseIndices(p), absl::StrCat("plan '", plan.name(), "'"));
  }
  return merged;
}

int32_t MergedProgram::Find(const Indices& indices, int32_t plan, int32_t number) {
  if (plan < 0 || plan >= static_cast<int32_t>(indices.size())) return -1;
  const auto it = indices[plan].find(number);
  return it == indices[plan].end() ? -1 : it->second;
}

absl::Status MergedProgram::UseIndices(int32_t plan) {
  absl::Status status;
  const auto index = [&](int32_t number, int32_t index, absl::string_view what) {
    if (index < 0 && status.ok()) status = Wrong("no process has ", what, " ", number);
    return index;
  };
  pb::Plan& p = *program_.mutable_plans(plan);
  for (pb::Actor& actor : *p.mutable_actors()) {
    for (auto* ports : {actor.mutable_inputs(), actor.mutable_outputs()}) {
      for (pb::Port& port : *ports) {
        port.set_register_(index(port.register_(), RegisterIndex(plan, port.register_()), "register"));
      }
    }
  }
  for (pb::Register& reg : *p.mutable_registers()) {
    reg.set_producer(index(reg.producer(), ActorIndex(plan, reg.producer()), "actor"));
    for (int32_t& consumer : *reg.mutable_consumers()) {
      consumer = index(consumer, ActorIndex(plan, consumer), "actor");
    }
  }
  return status;
}

const pb::Port* PortOf(const google::protobuf::RepeatedPtrField<pb::Port>& ports, int32_t register_id) {
  const auto it =
      std::find_if(ports.begin(), ports.end(), [&](const pb::Port& port) { return port.register_() == register_id; });
  return it == ports.end() ? nullptr : &*it;
}

absl::Status CheckTraceHead(const pb::TraceHead& head) {
  if (head.version() != kTraceVersion)
    return Wrong("it has format version ", head.version(), "; ours is ", kTraceVersion);
  const pb::Program& program = head.program();
  for (const pb::Plan& plan : program.plans()) {
    const std::string where = absl::StrCat("plan '", plan.name(), "'");
    for (int a = 0; a < plan.actors_size(); ++a) {
      OF_RETURN_IF_ERROR_AT(CheckActor(plan.actors(a), a, plan, program.ranks_size()), where);
    }
    for (int r = 0; r < plan.registers_size(); ++r) {
      OF_RETURN_IF_ERROR_AT(CheckRegister(plan.registers(r), r, plan), where);
    }
  }
  return absl::OkStatus();
}

}  // namespace oneflow
