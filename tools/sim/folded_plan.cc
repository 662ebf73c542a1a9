#include "tools/sim/folded_plan.h"

#include <google/protobuf/arena.h>

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "actor/trace/traced_program.h"
#include "tools/sim/class_ids.h"

namespace oneflow {

// From the program of the played ranks, with whom they meet, to one that is closed.
class FoldedPlan::Folder {
 public:
  Folder(const pb::ClassPlan& plan, const RankCosts& costs, pb::Program& part, int plan_index, FoldedPlan& out)
      : ids_(plan), costs_(costs), part_(part), plan_(part.plans(plan_index)), plan_index_(plan_index), out_(out) {}

  absl::Status Fold() {
    FindWhoIsHere();
    FindRegisters();
    OF_RETURN_IF_ERROR(Connect());
    WriteHead();
    pb::Plan& to = *out_.program_.add_plans();
    to.set_name(plan_.name());
    to.set_micro_batches(plan_.micro_batches());
    const std::vector<ActCost> acts = costs_.acts(part_, plan_index_);
    for (const int a : actors_) {
      WriteActor(a, *to.add_actors());
      out_.acts_.push_back(acts[a]);
      out_.ids_.push_back(plan_.actors(a).id());
    }
    for (size_t r = 0; r < registers_.size(); ++r) WriteRegister(static_cast<int>(r), *to.add_registers());
    for (const pb::QueueOrder& order : plan_.orders()) {
      pb::QueueOrder& folded = *to.add_orders();
      folded = order;
      for (int32_t& actor : *folded.mutable_actors()) actor = new_actor_[actor];
    }
    return CheckPorts(to);
  }

 private:
  int RankOf(int actor) const { return plan_.actors(actor).rank(); }
  int StandIn(int rank) const { return out_.ranks_.stands_for[rank]; }
  bool IsHere(int actor) const { return StandIn(RankOf(actor)) == RankOf(actor); }

  void FindWhoIsHere() {
    new_actor_.assign(plan_.actors_size(), -1);
    for (int a = 0; a < plan_.actors_size(); ++a) {
      if (!IsHere(a)) continue;
      new_actor_[a] = static_cast<int>(actors_.size());
      actors_.push_back(a);
      actor_at_[{ids_.ActorClass(plan_.actors(a).id()), RankOf(a)}] = new_actor_[a];
    }
  }

  // Those that a played rank fills stay.
  void FindRegisters() {
    for (int r = 0; r < plan_.registers_size(); ++r) {
      const pb::Register& reg = plan_.registers(r);
      if (!IsHere(reg.producer())) continue;
      register_at_[{ids_.RegisterClass(reg.id()), RankOf(reg.producer())}] = static_cast<int>(registers_.size());
      registers_.push_back(r);
    }
    consumers_.resize(registers_.size());
    new_register_.assign(plan_.registers_size(), -1);
    for (int r = 0; r < plan_.registers_size(); ++r) {
      const pb::Register& reg = plan_.registers(r);
      const auto at = register_at_.find({ids_.RegisterClass(reg.id()), StandIn(RankOf(reg.producer()))});
      if (at != register_at_.end()) new_register_[r] = at->second;
    }
  }

  // Who stands for an actor: the same one on the rank that stands for its rank; -1 if that has none.
  int ActorFor(int actor) const {
    const auto at = actor_at_.find({ids_.ActorClass(plan_.actors(actor).id()), StandIn(RankOf(actor))});
    return at == actor_at_.end() ? -1 : at->second;
  }

  absl::Status NotAlike(absl::string_view what, const std::string& name, int rank) const {
    return absl::InternalError(absl::StrCat("rank ", rank, " stands for others, but ", what, " '", name, "' does not"));
  }

  // Every message that a played rank waits for comes from who stands for its sender.
  absl::Status Connect() {
    for (int r = 0; r < plan_.registers_size(); ++r) {
      const pb::Register& reg = plan_.registers(r);
      const int producer = ActorFor(reg.producer());
      if (producer < 0 || new_register_[r] < 0) {
        return NotAlike("register", reg.name(), StandIn(RankOf(reg.producer())));
      }
      for (const int32_t consumer : reg.consumers()) {
        const int reader = ActorFor(consumer);
        if (reader < 0) return NotAlike("actor", plan_.actors(consumer).name(), StandIn(RankOf(consumer)));
        const int from = RankOf(reg.producer()), to = RankOf(consumer);
        if (IsHere(reg.producer())) {
          consumers_[new_register_[r]].insert(reader);
          Takes({reader, producer, new_register_[r]}, costs_.message_ns(to, from));
        }
        if (IsHere(consumer)) Takes({producer, reader, new_register_[r]}, costs_.message_ns(from, to));
      }
    }
    return absl::OkStatus();
  }

  void Takes(const Way& way, int64_t ns) {
    if (ns == 0) return;
    int64_t& most = out_.message_ns_[way];
    most = std::max(most, ns);
  }

  void WriteHead() {
    pb::Program& to = out_.program_;
    to.set_version(part_.version());
    to.set_job(part_.job());
    to.set_seed(part_.seed());
    *to.mutable_ranks() = part_.ranks();
    *to.mutable_communicators() = part_.communicators();
  }

  void WriteActor(int actor, pb::Actor& to) {
    pb::Actor& from = *part_.mutable_plans(plan_index_)->mutable_actors(actor);
    KeepCalls(from);
    to = from;
    to.set_id(new_actor_[actor]);
    FoldPorts(*to.mutable_inputs());
    FoldPorts(*to.mutable_outputs());
  }

  static void KeepCalls(pb::Actor& actor) {
    google::protobuf::RepeatedPtrField<pb::Instruction> calls;
    for (const pb::Instruction& instruction : actor.instructions()) {
      if (instruction.kind() != pb::Instruction::COLLECTIVE) continue;
      pb::Instruction& call = *calls.Add();
      call.set_kind(instruction.kind());
      call.set_node(instruction.node());
      call.set_collective(instruction.collective());
      call.set_communicator(instruction.communicator());
    }
    *actor.mutable_instructions() = calls;
  }

  void FoldPorts(google::protobuf::RepeatedPtrField<pb::Port>& ports) const {
    std::set<int> seen;
    int kept = 0;
    for (int i = 0; i < ports.size(); ++i) {
      ports[i].set_register_(new_register_[ports[i].register_()]);
      if (seen.insert(ports[i].register_()).second) ports.SwapElements(kept++, i);
    }
    ports.DeleteSubrange(kept, ports.size() - kept);
  }

  void WriteRegister(int r, pb::Register& to) const {
    to = plan_.registers(registers_[r]);
    to.set_id(r);
    to.set_producer(new_actor_[to.producer()]);
    to.clear_consumers();
    for (const int consumer : consumers_[r]) to.add_consumers(consumer);
  }

  // Whoever reads a register has a port of it, and whoever has a port reads it.
  absl::Status CheckPorts(const pb::Plan& to) const {
    int64_t ports = 0, consumers = 0;
    for (int r = 0; r < to.registers_size(); ++r) {
      for (const int32_t consumer : to.registers(r).consumers()) {
        ++consumers;
        if (PortOf(to.actors(consumer).inputs(), r) != nullptr) continue;
        return NotAlike("actor", to.actors(consumer).name(), to.actors(consumer).rank());
      }
    }
    for (const pb::Actor& actor : to.actors()) ports += actor.inputs_size();
    if (ports == consumers) return absl::OkStatus();
    return absl::InternalError(absl::StrCat("a folded plan has ", ports, " inputs, but ", consumers, " readers"));
  }

  const ClassIds ids_;
  const RankCosts& costs_;
  pb::Program& part_;
  const pb::Plan& plan_;
  const int plan_index_;
  FoldedPlan& out_;
  std::vector<int> actors_, registers_;        // those that stay, as indices into plan_
  std::vector<int> new_actor_, new_register_;  // by index into plan_; a register's is that of who stands for it
  absl::flat_hash_map<std::pair<int, int>, int> actor_at_, register_at_;  // of the class, on the rank
  std::vector<std::set<int>> consumers_;
};

absl::StatusOr<FoldedPlan> FoldedPlan::Make(const pb::PlanSet& set, const PartPrograms& programs, int plan,
                                            PlayedRanks ranks, const RankCosts& costs, const std::string& hash) {
  FoldedPlan folded;
  folded.program_.set_plan_hash(hash);
  folded.ranks_ = std::move(ranks);
  google::protobuf::Arena arena;
  pb::Program& part = *google::protobuf::Arena::CreateMessage<pb::Program>(&arena);
  OF_RETURN_IF_ERROR(programs.Spell(folded.ranks_.played, part));
  OF_RETURN_IF_ERROR(Folder(set.plans(plan), costs, part, plan, folded).Fold());
  return folded;
}

SimulatedCosts FoldedPlan::Costs() const {
  SimulatedCosts costs;
  costs.act = [this](int32_t actor, int64_t) { return acts_[actor]; };
  costs.message_ns = [this](int32_t from, int64_t, int32_t to, int32_t register_id) {
    const auto it = message_ns_.find({from, to, register_id});
    return it == message_ns_.end() ? 0 : it->second;
  };
  if (!plays_all()) costs.stands_for = &ranks_.stands_for;
  return costs;
}

}  // namespace oneflow
