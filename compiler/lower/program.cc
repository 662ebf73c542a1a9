#include "compiler/lower/program.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "compiler/lower/actor_facts.h"
#include "compiler/lower/boxing_shares.h"
#include "compiler/lower/far_reads.h"
#include "compiler/lower/plan_reader.h"
#include "compiler/lower/program_instructions.h"
#include "compiler/lower/rank_outline.h"
#include "compiler/lower/repeated_field.h"
#include "compiler/plan/owners.h"
#include "sbp/slices.h"

namespace oneflow {
namespace {

// One register of a plan on one rank: its position in the register's grid.
struct Slot {
  int reg = 0;
  int index = 0;
  bool operator<(const Slot& o) const { return std::tie(reg, index) < std::tie(o.reg, o.index); }
};

// The program of one plan of the set: collects the participants, numbers them, writes them down.
class PlanSpeller {
 public:
  PlanSpeller(const pb::PlanSet& set, const pb::ClassPlan& plan, const PlanReader& reader,
              const std::vector<int>& ranks, BoxingShares& shares, Communicators& communicators)
      : plan_(plan),
        reader_(reader),
        ranks_(ranks),
        is_ours_(reader.num_ranks(), false),
        ids_(plan, reader),
        boxings_(plan, reader, shares),
        outline_(set, boxings_, reader.topology()),
        far_(boxings_),
        instructions_(set, boxings_, far_, communicators) {
    for (const int rank : ranks) is_ours_[rank] = true;
  }

  // `out` is empty.
  absl::Status Spell(pb::Plan& out) {
    OF_RETURN_IF_ERROR(Collect());
    for (const auto& [instance, ports] : actors_) actor_index_.emplace(IdOf(instance), 0);
    for (const auto& [slot, consumers] : consumers_) register_index_.emplace(IdOf(slot), 0);
    int next = 0;
    for (auto& [id, index] : actor_index_) index = next++;
    next = 0;
    for (auto& [id, index] : register_index_) index = next++;
    return Write(out);
  }

 private:
  // The ports of an instance in the program: slots and acts per slot.
  struct Ports {
    std::map<Slot, int> inputs, outputs;
  };

  const pb::ClassActor& actor(int id) const { return plan_.actors(id); }
  bool IsHere(const Instance& instance) const { return is_ours_[instance.rank]; }
  int RankOf(const Slot& slot) const { return reader_.grid(plan_.registers(slot.reg).grid()).ranks()[slot.index]; }
  Instance ProducerOf(const Slot& slot) const { return {plan_.registers(slot.reg).producer(), RankOf(slot)}; }

  int IdOf(const Instance& instance) const { return ids_.OfActor(instance); }
  int IdOf(const Slot& slot) const { return ids_.OfRegister(slot.reg, slot.index); }
  int IndexOf(const Instance& instance) const { return actor_index_.at(IdOf(instance)); }
  int IndexOf(const Slot& slot) const { return register_index_.at(IdOf(slot)); }

  using ClassPorts = google::protobuf::RepeatedPtrField<pb::Port>;
  static int ActsOf(const ClassPorts& ports, int reg) {
    const auto it =
        std::find_if(ports.begin(), ports.end(), [reg](const auto& port) { return port.register_() == reg; });
    return it == ports.end() ? 1 : it->acts_per_slot();
  }

  absl::Status Collect();
  void Connect(const Slot& slot, const Instance& consumer);

  absl::Status Write(pb::Plan& out);
  absl::Status WriteActor(const Instance& instance, const Ports& ports, pb::Actor& out);
  absl::Status WriteRegister(const Slot& slot, const std::set<Instance>& consumers, pb::Register& out);
  absl::Status WriteShipments(const Slot& slot, const std::set<Instance>& consumers, pb::Register& out);
  absl::Status NumberCounts(int rank, pb::RowCounts& counts) const;
  void WriteOrders(pb::Plan& out) const;

  const pb::ClassPlan& plan_;
  const PlanReader& reader_;
  const std::vector<int>& ranks_;
  std::vector<bool> is_ours_;
  const InstanceIds ids_;
  PlanBoxings boxings_;
  PlanOutline outline_;
  FarReads far_;
  InstructionSpeller instructions_;
  std::vector<RankOutline> outlines_;  // of our ranks
  std::map<Instance, Ports> actors_;
  std::map<Slot, std::set<Instance>> consumers_;     // of every register in the program
  std::map<int, int> actor_index_, register_index_;  // id to position in the program
};

absl::Status PlanSpeller::Collect() {
  for (const int rank : ranks_) {
    OF_ASSIGN_OR_RETURN(outlines_.emplace_back(), outline_.Of(rank));
    for (const OutlinedActor& it : outlines_.back().actors) {
      const Instance instance{it.actor, rank};
      actors_.try_emplace(instance);
      for (const OutlinedActor::Input& input : it.inputs) {
        for (const int index : input.indices) Connect({input.reg, index}, instance);
      }
      for (const OutlinedActor::Output& output : it.outputs) {
        const int index = reader_.grid(plan_.registers(output.reg).grid()).IndexOf(rank);
        for (const Instance& reader : output.readers) Connect({output.reg, index}, reader);
      }
    }
  }
  return absl::OkStatus();
}

void PlanSpeller::Connect(const Slot& slot, const Instance& consumer) {
  if (!consumers_[slot].insert(consumer).second) return;
  const Instance producer = ProducerOf(slot);
  actors_[producer].outputs.try_emplace(slot, ActsOf(actor(producer.actor).outputs(), slot.reg));
  actors_[consumer].inputs.try_emplace(slot, ActsOf(actor(consumer.actor).inputs(), slot.reg));
}

absl::Status PlanSpeller::Write(pb::Plan& out) {
  out.set_name(plan_.name());
  out.set_micro_batches(plan_.micro_batches());
  out.set_beside(plan_.beside());
  // By id, which is the order of the maps: instances on senders alone come last, but of one actor.
  std::map<int, const std::pair<const Instance, Ports>*> by_id;
  for (const auto& entry : actors_) by_id.emplace(IdOf(entry.first), &entry);
  for (const auto& [id, entry] : by_id) OF_RETURN_IF_ERROR(WriteActor(entry->first, entry->second, *out.add_actors()));
  for (const auto& [slot, consumers] : consumers_) {
    OF_RETURN_IF_ERROR(WriteRegister(slot, consumers, *out.add_registers()));
  }
  WriteOrders(out);
  return absl::OkStatus();
}

absl::Status PlanSpeller::WriteActor(const Instance& instance, const Ports& ports, pb::Actor& out) {
  const pb::ClassActor& from = actor(instance.actor);
  out.set_id(IdOf(instance));
  out.set_rank(instance.rank);
  out.set_name(from.name());
  CopyActorFacts(from, out);
  const auto add_port = [&](const std::pair<const Slot, int>& port, pb::Port& to) {
    to.set_register_(IndexOf(port.first));
    to.set_acts_per_slot(port.second);
  };
  for (const auto& port : ports.inputs) add_port(port, *out.add_inputs());
  for (const auto& port : ports.outputs) add_port(port, *out.add_outputs());
  if (!IsHere(instance)) return absl::OkStatus();
  const auto register_index = [&](int reg, int index) {
    const auto it = consumers_.find({reg, index});
    return it == consumers_.end() ? -1 : IndexOf(Slot{reg, index});
  };
  return instructions_.SpellAll(instance.actor, instance.rank, register_index, out);
}

absl::Status PlanSpeller::WriteRegister(const Slot& slot, const std::set<Instance>& consumers, pb::Register& out) {
  const pb::ClassRegister& from = plan_.registers(slot.reg);
  out.set_id(IdOf(slot));
  out.set_producer(IndexOf(ProducerOf(slot)));
  std::vector<int> indices;
  for (const Instance& consumer : consumers) indices.push_back(IndexOf(consumer));
  std::sort(indices.begin(), indices.end());
  CopyInts(indices, out.mutable_consumers());
  CopyRegisterFacts(from, out);
  out.set_offset(instructions_.RegisterOffset(slot.reg, RankOf(slot)));
  return is_ours_[RankOf(slot)] ? WriteShipments(slot, consumers, out) : absl::OkStatus();
}

// The data that our ranks send to those of other hosts.
absl::Status PlanSpeller::WriteShipments(const Slot& slot, const std::set<Instance>& consumers, pb::Register& out) {
  for (const Instance& consumer : consumers) {
    if (!far_.IsFar(consumer.rank, RankOf(slot)) || boxings_.Sends(consumer.actor)) continue;
    OF_ASSIGN_OR_RETURN(const FarReads::Payload* const payload, far_.PayloadOf(consumer, slot.reg, RankOf(slot)));
    pb::Shipment& shipment = *out.add_shipments();
    shipment.set_consumer(IndexOf(consumer));
    for (const FarReads::Parcel& parcel : payload->parcels) {
      pb::Parcel& to = *shipment.add_parcels();
      to = parcel.box;
      if (to.has_counts()) OF_RETURN_IF_ERROR(NumberCounts(RankOf(slot), *to.mutable_counts()));
    }
  }
  return absl::OkStatus();
}

// The register in the program's numbers: a reader of the rows on another host reads their counts there, too.
absl::Status PlanSpeller::NumberCounts(int rank, pb::RowCounts& counts) const {
  const Slot slot{counts.register_(), reader_.grid(plan_.registers(counts.register_()).grid()).IndexOf(rank)};
  if (slot.index < 0 || consumers_.count(slot) == 0) {
    return absl::InvalidArgumentError(absl::StrCat("rank ", rank,
                                                   " sends ragged rows, but nobody reads their counts, '",
                                                   plan_.registers(counts.register_()).name(), "', there"));
  }
  counts.set_register_(IndexOf(slot));
  return absl::OkStatus();
}

void PlanSpeller::WriteOrders(pb::Plan& out) const {
  std::vector<int> index(plan_.actors_size(), -1);  // of the actors of one rank; orders name each many times
  for (const RankOutline& outline : outlines_) {
    for (const OutlinedActor& it : outline.actors) index[it.actor] = IndexOf(Instance{it.actor, outline.rank});
    for (const OutlinedOrder& from : outline.orders) {
      pb::QueueOrder& order = *out.add_orders();
      order.set_rank(outline.rank);
      order.set_queue(from.queue);
      for (const int a : from.actors) order.add_actors(index[a]);
    }
  }
}

class ProgramSpeller {
 public:
  // Writes to `program`, which is empty.
  ProgramSpeller(const pb::PlanSet& set, const PlanReader& reader, std::vector<int> ranks, pb::Program& program)
      : set_(set), reader_(reader), shares_(reader.topology()), ranks_(std::move(ranks)), program_(program) {}

  absl::Status Run(std::optional<int> process, const std::string& hash) {
    if (process.has_value()) program_.set_process(*process);
    program_.set_version(kProgramVersion);
    program_.set_job(set_.job());
    program_.set_seed(set_.seed());
    program_.set_tf32(set_.tf32());
    *program_.mutable_plugins() = set_.plugins();
    program_.set_plan_hash(hash);
    for (const pb::ClassVariable& variable : set_.variables()) SpellVariable(variable);
    return SpellPlans();
  }

  absl::Status RunWithoutVariables() {
    program_.set_version(kProgramVersion);
    return SpellPlans();
  }

 private:
  absl::Status SpellPlans() {
    SpellRanks();
    for (const pb::ClassPlan& plan : set_.plans()) {
      const std::string where = absl::StrCat("plan '", plan.name(), "'");
      PlanSpeller speller(set_, plan, reader_, ranks_, shares_, communicators_);
      OF_RETURN_IF_ERROR_AT(speller.Spell(*program_.add_plans()), where);
    }
    WriteCommunicators();
    return absl::OkStatus();
  }

  void SpellRanks() {
    for (int rank = 0; rank < reader_.num_ranks(); ++rank) {
      const pb::RankClass& of = set_.classes(reader_.class_of_rank(rank));
      pb::Rank& out = *program_.add_ranks();
      out.set_process(reader_.topology().ProcessOf(rank));
      out.set_host(reader_.topology().HostOf(rank));
      out.set_device(reader_.device_of(rank).ToString());
      *out.mutable_zones() = of.zones();
      out.set_library_bytes(of.library_bytes());
    }
  }

  void SpellVariable(const pb::ClassVariable& variable) {
    const PlanReader::Tensor& tensor = reader_.tensor(variable.tensor());
    pb::Variable& out = *program_.add_variables();
    out.set_name(variable.name());
    out.set_dtype(static_cast<pb::DType>(tensor.type.dtype));
    const int own = OwnPartAt(tensor.dist, 0).count;
    if (own > 0) out.add_dims(own);
    for (const int64_t size : tensor.type.shape.dims()) out.add_dims(size);
    out.set_own(own);
    out.set_init(variable.init());
    out.set_role(variable.role());
    const int owner = owners_.Next(tensor.type, tensor.dist);
    for (const int rank : ranks_) {
      const int index = tensor.dist.placement.IndexOf(rank);
      if (index < 0) continue;
      const Region region = ShardRegion(tensor.type.shape, tensor.dist, index);
      pb::Shard& shard = *out.add_shards();
      shard.set_rank(rank);
      if (own > 0) {
        shard.add_start(OwnPartAt(tensor.dist, index).index);
        shard.add_extent(1);
      }
      for (const int64_t start : region.start) shard.add_start(start);
      for (const int64_t extent : region.extent) shard.add_extent(extent);
      shard.set_zone(variable.zone());
      shard.set_offset(OffsetIn(variable.offsets(), reader_.class_of_rank(rank)));
      shard.set_owner(CopyAt(tensor.dist, index) == owner);
    }
  }

  // By members, so that all programs have common communicators in the same order, in which they are set up.
  void WriteCommunicators() {
    Communicators sorted = communicators_;
    std::sort(sorted.begin(), sorted.end());
    std::vector<int> position;
    for (const std::vector<int>& members : communicators_) {
      position.push_back(static_cast<int>(std::lower_bound(sorted.begin(), sorted.end(), members) - sorted.begin()));
    }
    for (pb::Plan& plan : *program_.mutable_plans()) {
      for (pb::Actor& actor : *plan.mutable_actors()) {
        for (pb::Instruction& x : *actor.mutable_instructions()) {
          if (x.kind() == pb::Instruction::COLLECTIVE) x.set_communicator(position[x.communicator()]);
        }
      }
    }
    for (const std::vector<int>& members : sorted) CopyInts(members, program_.add_communicators()->mutable_ranks());
  }

  const pb::PlanSet& set_;
  const PlanReader& reader_;
  BoxingShares shares_;
  Owners owners_;
  std::vector<int> ranks_;
  Communicators communicators_;
  pb::Program& program_;
};

}  // namespace

absl::StatusOr<pb::Program> ProgramOf(const pb::PlanSet& plan, std::optional<int> process, const std::string& hash) {
  OF_ASSIGN_OR_RETURN(const PlanReader reader, PlanReader::Open(plan));
  OF_RETURN_IF_ERROR(CheckPlanIndices(plan, reader));
  std::vector<int> ranks;
  for (int rank = 0; rank < reader.num_ranks(); ++rank) {
    if (!process.has_value() || reader.topology().ProcessOf(rank) == *process) ranks.push_back(rank);
  }
  if (ranks.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("the plan has no rank in process ", process.value_or(0)));
  }
  pb::Program program;
  OF_RETURN_IF_ERROR(ProgramSpeller(plan, reader, std::move(ranks), program).Run(process, hash));
  return program;
}

absl::StatusOr<PartPrograms> PartPrograms::Of(const pb::PlanSet& plan) {
  OF_ASSIGN_OR_RETURN(PlanReader reader, PlanReader::Open(plan));
  OF_RETURN_IF_ERROR(CheckPlanIndices(plan, reader));
  return PartPrograms(plan, std::make_shared<const PlanReader>(std::move(reader)));
}

absl::Status PartPrograms::Spell(const std::vector<int>& ranks, pb::Program& out) const {
  return ProgramSpeller(*plan_, *reader_, ranks, out).RunWithoutVariables();
}

}  // namespace oneflow
