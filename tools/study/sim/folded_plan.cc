#include "tools/study/sim/folded_plan.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "actor/trace/traced_program.h"
#include "compiler/lower/actor_facts.h"

namespace oneflow {

// From the outlines of the played ranks, with whom they meet, to a program that is closed.
class FoldedPlan::Folder {
 public:
  Folder(PricedRanks& priced, FoldedPlan& out)
      : priced_(priced),
        plan_(priced.plan()),
        reader_(priced.programs().reader()),
        ids_(plan_, reader_),
        plan_out_(*out.program_.add_plans()),
        out_(out) {}

  absl::Status Fold() {
    for (const int rank : out_.ranks_.played) {
      OF_ASSIGN_OR_RETURN(ranks_.emplace_back(), priced_.Of(rank));
    }
    plan_out_.set_name(plan_.name());
    plan_out_.set_micro_batches(plan_.micro_batches());
    NumberActors();
    NumberRegisters();
    for (const auto& [id, here] : by_id_) OF_RETURN_IF_ERROR(WriteActor(here));
    WriteRegisters();
    WriteOrders();
    WriteCommunicators();
    return CheckPorts();
  }

 private:
  // An actor of a played rank: their places in ranks_ and in its outline.
  struct Here {
    size_t rank = 0, actor = 0;
  };

  const OutlinedActor& At(const Here& here) const { return ranks_[here.rank].outline.actors[here.actor]; }
  int StandIn(int rank) const { return out_.ranks_.stands_for[rank]; }
  const Placement& GridOf(int reg) const { return reader_.grid(plan_.registers(reg).grid()); }

  void NumberActors() {
    for (size_t r = 0; r < ranks_.size(); ++r) {
      const RankOutline& outline = ranks_[r].outline;
      for (size_t a = 0; a < outline.actors.size(); ++a) {
        by_id_.push_back({ids_.OfActor({outline.actors[a].actor, outline.rank}), {r, a}});
      }
    }
    std::sort(by_id_.begin(), by_id_.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    for (const auto& [id, here] : by_id_) {
      actor_at_[{At(here).actor, ranks_[here.rank].outline.rank}] = static_cast<int>(out_.ids_.size());
      out_.ids_.push_back(id);
      out_.acts_.push_back(ranks_[here.rank].costs[here.actor]);
    }
  }

  // Those that a played rank fills and anyone waits for.
  void NumberRegisters() {
    std::set<std::pair<int, int>> registers;  // and the rank
    for (const PricedRank& rank : ranks_) {
      for (const OutlinedActor& actor : rank.outline.actors) {
        for (const OutlinedActor::Output& output : actor.outputs) registers.insert({output.reg, rank.outline.rank});
      }
    }
    for (const auto& at : registers) register_at_[at] = static_cast<int>(register_at_.size());
    consumers_.resize(register_at_.size());
  }

  absl::Status NotAlike(absl::string_view what, const std::string& name, int rank) const {
    return absl::InternalError(absl::StrCat("rank ", rank, " stands for others, but ", what, " '", name, "' does not"));
  }

  // Who stands for an actor: the same one on the rank that stands for its rank.
  absl::StatusOr<int> StandInFor(const Instance& instance) const {
    const int rank = StandIn(instance.rank);
    const auto at = actor_at_.find({instance.actor, rank});
    if (at == actor_at_.end()) return NotAlike("actor", plan_.actors(instance.actor).name(), rank);
    return at->second;
  }

  absl::StatusOr<int> StandInFor(int reg, int rank) const {
    const auto at = register_at_.find({reg, StandIn(rank)});
    if (at == register_at_.end()) return NotAlike("register", plan_.registers(reg).name(), StandIn(rank));
    return at->second;
  }

  void Takes(const Way& way, int64_t ns) {
    if (ns == 0) return;
    int64_t& most = out_.message_ns_[way];
    most = std::max(most, ns);
  }

  absl::Status WriteActor(const Here& here) {
    const OutlinedActor& from = At(here);
    const int rank = ranks_[here.rank].outline.rank;
    const pb::ClassActor& of = plan_.actors(from.actor);
    pb::Actor& to = *plan_out_.add_actors();
    to.set_id(plan_out_.actors_size() - 1);
    to.set_rank(rank);
    to.set_name(of.name());
    CopyActorFacts(of, to);
    for (const OutlinedActor::Input& input : from.inputs) OF_RETURN_IF_ERROR(Read(input, rank, to));
    for (const PricedLanding& landing : ranks_[here.rank].landings[here.actor]) {
      OF_RETURN_IF_ERROR(Land(landing, to));
    }
    for (const OutlinedActor::Output& output : from.outputs) OF_RETURN_IF_ERROR(Give(output, rank, to));
    for (const OutlinedActor::Call& call : from.calls) {
      pb::Instruction& instruction = *to.add_instructions();
      instruction.set_kind(pb::Instruction::COLLECTIVE);
      instruction.set_node(of.instructions(call.instruction).node());
      instruction.set_communicator(CommunicatorOf(call.communicator));
    }
    return absl::OkStatus();
  }

  // Every message that a played rank waits for comes from who stands for its sender.
  absl::Status Read(const OutlinedActor::Input& input, int rank, pb::Actor& to) {
    std::set<int> registers;
    for (const int index : input.indices) {
      const int from = GridOf(input.reg).ranks()[index];
      OF_ASSIGN_OR_RETURN(const int reg, StandInFor(input.reg, from));
      OF_ASSIGN_OR_RETURN(const int producer, StandInFor({plan_.registers(input.reg).producer(), from}));
      Takes({producer, to.id(), reg}, priced_.costs().MessageNs(from, rank));
      if (registers.insert(reg).second) WritePort(reg, input.acts_per_slot, *to.add_inputs());
    }
    return absl::OkStatus();
  }

  absl::Status Land(const PricedLanding& landing, const pb::Actor& to) {
    const int from = GridOf(landing.reg).ranks()[landing.index];
    OF_ASSIGN_OR_RETURN(const int reg, StandInFor(landing.reg, from));
    OF_ASSIGN_OR_RETURN(const int producer, StandInFor({plan_.registers(landing.reg).producer(), from}));
    out_.shipment_ns_[{producer, to.id(), reg}] += landing.ns;
    out_.shipment_link_[{producer, to.id(), reg}] = priced_.costs().SenderLink(from, to.rank(), StandIn(from));
    return absl::OkStatus();
  }

  absl::Status Give(const OutlinedActor::Output& output, int rank, pb::Actor& to) {
    const int reg = register_at_.at({output.reg, rank});
    WritePort(reg, output.acts_per_slot, *to.add_outputs());
    for (const Instance& consumer : output.readers) {
      OF_ASSIGN_OR_RETURN(const int reader, StandInFor(consumer));
      consumers_[reg].insert(reader);
      Takes({reader, to.id(), reg}, priced_.costs().MessageNs(consumer.rank, rank));
    }
    return absl::OkStatus();
  }

  static void WritePort(int reg, int acts_per_slot, pb::Port& to) {
    to.set_register_(reg);
    to.set_acts_per_slot(acts_per_slot);
  }

  void WriteRegisters() {
    for (const auto& [at, r] : register_at_) {
      const pb::ClassRegister& of = plan_.registers(at.first);
      pb::Register& to = *plan_out_.add_registers();
      to.set_id(r);
      to.set_producer(actor_at_.at({of.producer(), at.second}));
      for (const int consumer : consumers_[r]) to.add_consumers(consumer);
      CopyRegisterFacts(of, to);
    }
  }

  void WriteOrders() {
    for (const PricedRank& rank : ranks_) {
      for (const OutlinedOrder& from : rank.outline.orders) {
        pb::QueueOrder& order = *plan_out_.add_orders();
        order.set_rank(rank.outline.rank);
        order.set_queue(from.queue);
        for (const int actor : from.actors) order.add_actors(actor_at_.at({actor, rank.outline.rank}));
      }
    }
  }

  // Those of calls of played ranks, numbered as they come.
  int CommunicatorOf(int of_outlines) {
    return communicators_.try_emplace(of_outlines, static_cast<int>(communicators_.size())).first->second;
  }

  void WriteCommunicators() {
    std::vector<int> order(communicators_.size());
    for (const auto& [of_outlines, number] : communicators_) order[number] = of_outlines;
    for (const int of_outlines : order) {
      pb::Communicator& to = *out_.program_.add_communicators();
      for (const int member : priced_.communicators()[of_outlines]) to.add_ranks(member);
    }
  }

  // Whoever reads a register has a port of it, and whoever has a port reads it.
  absl::Status CheckPorts() const {
    int64_t ports = 0, consumers = 0;
    for (int r = 0; r < plan_out_.registers_size(); ++r) {
      for (const int32_t consumer : plan_out_.registers(r).consumers()) {
        ++consumers;
        if (PortOf(plan_out_.actors(consumer).inputs(), r) != nullptr) continue;
        return NotAlike("actor", plan_out_.actors(consumer).name(), plan_out_.actors(consumer).rank());
      }
    }
    for (const pb::Actor& actor : plan_out_.actors()) ports += actor.inputs_size();
    if (ports == consumers) return absl::OkStatus();
    return absl::InternalError(absl::StrCat("a folded plan has ", ports, " inputs, but ", consumers, " readers"));
  }

  PricedRanks& priced_;
  const pb::ClassPlan& plan_;
  const PlanReader& reader_;
  const InstanceIds ids_;
  pb::Plan& plan_out_;
  FoldedPlan& out_;
  std::vector<PricedRank> ranks_;                           // played
  std::vector<std::pair<int, Here>> by_id_;                 // actors, by their numbers in the job
  absl::flat_hash_map<std::pair<int, int>, int> actor_at_;  // of the class, on the rank
  std::map<std::pair<int, int>, int> register_at_;          // likewise; ascending, as they are numbered
  std::map<int, int> communicators_;
  std::vector<std::set<int>> consumers_;  // by register
};

absl::StatusOr<FoldedPlan> FoldedPlan::Make(PricedRanks& priced, PlayedRanks ranks, const std::string& hash) {
  FoldedPlan folded;
  pb::Program nobodys;  // says of ranks where they are
  OF_RETURN_IF_ERROR(priced.programs().Spell({}, nobodys));
  folded.program_.set_version(nobodys.version());
  folded.program_.set_plan_hash(hash);
  *folded.program_.mutable_ranks() = nobodys.ranks();
  folded.ranks_ = std::move(ranks);
  OF_RETURN_IF_ERROR(Folder(priced, folded).Fold());
  return folded;
}

SimulatedCosts FoldedPlan::Costs() const {
  SimulatedCosts costs;
  costs.act = [this](int32_t actor, int64_t) { return acts_[actor]; };
  costs.message_ns = [this](int32_t from, int64_t, int32_t to, int32_t register_id) {
    const auto it = message_ns_.find({from, to, register_id});
    return it == message_ns_.end() ? 0 : it->second;
  };
  if (!shipment_ns_.empty()) {
    costs.shipment_ns = [this](int32_t from, int64_t, int32_t to, int32_t register_id) {
      const auto it = shipment_ns_.find({from, to, register_id});
      return it == shipment_ns_.end() ? 0 : it->second;
    };
    costs.shipment_link = [this](int32_t from, int32_t to, int32_t register_id) {
      return shipment_link_.at({from, to, register_id});
    };
  }
  if (!plays_all()) costs.stands_for = &ranks_.stands_for;
  return costs;
}

}  // namespace oneflow
