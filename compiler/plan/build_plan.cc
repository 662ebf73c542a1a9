#include "compiler/plan/build_plan.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "compiler/boxed_graph.h"
#include "compiler/plan/call_order.h"
#include "compiler/plan/credits.h"

namespace oneflow {
namespace {

class PlanBuilder {
 public:
  PlanBuilder(const PlanInput& input, std::string name)
      : in_(input), graph_(input.graph), chains_(input.chains), consumers_(input.graph.Consumers()) {
    plan_.name = std::move(name);
    plan_.micro_batches = input.micro_batches;
    plan_.ranks.resize(input.topology.num_ranks());
  }

  absl::StatusOr<PhysicalPlan> Build() {
    MakeActors();
    MakeDataRegisters();
    OF_RETURN_IF_ERROR(MakeVariableRegisters());
    OF_RETURN_IF_ERROR(MakePorts());
    OF_RETURN_IF_ERROR(MakeInstructions());
    OF_RETURN_IF_ERROR(OrderCalls(in_, plan_));
    return std::move(plan_);
  }

 private:
  // Where a shard is found: in a register, or (reg < 0) in memory of the rank that made it.
  struct Location {
    int reg = -1;
    int64_t offset = 0;
  };
  using Key = std::tuple<int, bool, std::vector<int>>;  // producer, per step, consumers

  bool IsVariable(ValueId value) const { return graph_.node(graph_.value(value).producer).op == "variable"; }
  int RankAt(ValueId value, int index) const { return graph_.value(value).dist->placement.ranks()[index]; }
  int64_t NumBytes(ValueId value, int index) const {
    const Value& v = graph_.value(value);
    return ShardShape(v.type.shape, *v.dist, index).count() * static_cast<int64_t>(SizeOf(v.type.dtype));
  }
  std::vector<int> RanksWithWork(const Chain& chain) const;
  std::vector<int> Readers(ValueId value, int index, int except_chain) const;
  bool OtherRankReads(ValueId value, int index) const;
  int AddRegister(int producer, bool per_step, std::vector<int> consumers, std::string name);
  void AddToRegister(int producer, bool per_step, const std::vector<int>& consumers, ValueId value, int index);
  int FindMutator(ValueId variable) const;
  int Publisher(int rank);
  absl::Status GuardMutated(ValueId variable, int index, int mutator_chain, std::map<Key, int>& guards);
  void GuardConstant(ValueId variable, int index);
  absl::StatusOr<int> ActsPerSlot(const PhysicalRegister& reg, const PhysicalActor& actor) const;
  absl::StatusOr<PhysicalOperand> Operand(const PhysicalActor& actor, ValueId value, int index) const;
  absl::Status AddInstruction(PhysicalActor& actor, NodeId id);
  absl::Status AddShare(PhysicalActor& actor, NodeId id, const BoxingShare& share);

  void MakeActors();
  void MakeDataRegisters();
  absl::Status MakeVariableRegisters();
  absl::Status MakePorts();
  absl::Status MakeInstructions();

  const PlanInput& in_;
  const Graph& graph_;
  const ChainGraph& chains_;
  const std::vector<std::vector<NodeId>> consumers_;
  PhysicalPlan plan_;
  std::vector<std::map<int, int>> actor_of_;  // [chain]: by rank; none where there is nothing to do
  std::map<int, int> publisher_of_rank_;
  std::vector<std::vector<Location>> location_;  // [value][index]
  std::map<Key, int> data_registers_;
};

// In the order of the placement; ranks that only send come last.
std::vector<int> PlanBuilder::RanksWithWork(const Chain& chain) const {
  std::vector<int> ranks = chain.placement.ranks();
  std::set<int> senders;
  std::set<int> busy;
  for (NodeId id : chain.nodes) {
    const Node& node = graph_.node(id);
    if (node.op == "boxing" && in_.boxings.by_sending) {
      for (const auto& [rank, share] : in_.boxings.by_node.at(id).shares) {
        busy.insert(rank);
        if (chain.placement.IndexOf(rank) < 0) senders.insert(rank);
      }
      continue;
    }
    for (int i = 0; i < chain.placement.size(); ++i) {
      if (node.op == "boxing" ? in_.boxings.needed[node.outputs[0]][i] : Executes(node, i)) busy.insert(ranks[i]);
    }
  }
  ranks.insert(ranks.end(), senders.begin(), senders.end());
  ranks.erase(std::remove_if(ranks.begin(), ranks.end(), [&](int rank) { return busy.count(rank) == 0; }), ranks.end());
  return ranks;
}

void PlanBuilder::MakeActors() {
  for (size_t c = 0; c < chains_.chains.size(); ++c) {
    const Chain& chain = chains_.chains[c];
    actor_of_.emplace_back();
    for (int rank : RanksWithWork(chain)) {
      actor_of_[c][rank] = static_cast<int>(plan_.actors.size());
      PhysicalActor actor;
      actor.chain = static_cast<int>(c);
      actor.rank = rank;
      actor.index = chain.placement.IndexOf(rank);
      actor.name = chain.name;
      actor.acts_per_step = chain.rate == Rate::kMicroBatch ? plan_.micro_batches : 1;
      actor.priority = PriorityOf(chains_, chain);
      plan_.actors.push_back(std::move(actor));
    }
  }
}

// The actors, ascending, that read shard `index` of `value`, less those of one chain.
std::vector<int> PlanBuilder::Readers(ValueId value, int index, int except_chain) const {
  std::set<int> readers;
  for (NodeId id : consumers_[value]) {
    const int chain = chains_.chain_of_node[id];
    if (chain == except_chain) continue;
    const std::map<int, int>& actors = actor_of_[chain];
    const Node& node = graph_.node(id);
    const int rank = RankAt(value, index);
    if (node.op != "boxing") {
      if (Executes(node, index)) readers.insert(actors.at(rank));
      continue;
    }
    const BoxingUse& use = in_.boxings.by_node.at(id);
    if (in_.boxings.by_sending) {
      const BoxingShare* share = use.ShareOf(rank);
      if (share != nullptr && share->reads_shard()) readers.insert(actors.at(rank));
      continue;
    }
    for (size_t d = 0; d < use.sources.size(); ++d) {
      if (std::find(use.sources[d].begin(), use.sources[d].end(), index) != use.sources[d].end())
        readers.insert(actors.at(use.step.to.placement.ranks()[d]));
    }
  }
  return {readers.begin(), readers.end()};
}

bool PlanBuilder::OtherRankReads(ValueId value, int index) const {
  const std::vector<int> readers = Readers(value, index, -1);
  const int rank = RankAt(value, index);
  return std::any_of(readers.begin(), readers.end(), [&](int id) { return plan_.actors[id].rank != rank; });
}

int PlanBuilder::AddRegister(int producer, bool per_step, std::vector<int> consumers, std::string name) {
  PhysicalRegister reg;
  reg.producer = producer;
  reg.per_step = per_step;
  reg.consumers = std::move(consumers);
  reg.name = std::move(name);
  const int process = in_.topology.ProcessOf(plan_.actors[producer].rank);
  for (int id : reg.consumers) {
    if (in_.topology.ProcessOf(plan_.actors[id].rank) != process) reg.zone = Zone::kShared;
  }
  reg.slots = CreditsFor(in_, reg, plan_.actors);
  plan_.registers.push_back(std::move(reg));
  return static_cast<int>(plan_.registers.size()) - 1;
}

void PlanBuilder::AddToRegister(int producer, bool per_step, const std::vector<int>& consumers, ValueId value,
                                int index) {
  const auto [it, inserted] = data_registers_.emplace(Key{producer, per_step, consumers}, 0);
  if (inserted) it->second = AddRegister(producer, per_step, consumers, graph_.node(graph_.value(value).producer).name);
  PhysicalRegister& reg = plan_.registers[it->second];
  location_[value][index] = {it->second, Align(reg.slot_bytes)};
  reg.slot_bytes = Align(reg.slot_bytes) + NumBytes(value, index);
  reg.slot_stride = Align(reg.slot_bytes);
}

void PlanBuilder::MakeDataRegisters() {
  location_.resize(graph_.num_values());
  for (ValueId v = 0; v < graph_.num_values(); ++v) location_[v].resize(graph_.value(v).dist->placement.size());
  for (size_t c = 0; c < chains_.chains.size(); ++c) {
    const std::vector<int>& ranks = chains_.chains[c].placement.ranks();
    for (size_t i = 0; i < ranks.size(); ++i) {
      const auto it = actor_of_[c].find(ranks[i]);
      if (it == actor_of_[c].end()) continue;
      const int producer = it->second;
      for (NodeId id : chains_.chains[c].nodes) {
        for (ValueId value : graph_.node(id).outputs) {
          const std::vector<int> readers = Readers(value, static_cast<int>(i), static_cast<int>(c));
          if (readers.empty()) continue;
          AddToRegister(producer, ValueRate(graph_, value) == Rate::kStep, readers, value, static_cast<int>(i));
        }
      }
    }
  }
}

// The chain that overwrites it, or -1. BuildChains has made sure that there is only one.
int PlanBuilder::FindMutator(ValueId variable) const {
  for (NodeId id : consumers_[variable]) {
    if (chains_.Mutates(id, variable)) return chains_.chain_of_node[id];
  }
  return -1;
}

// The actor that publishes what nothing overwrites on that rank.
int PlanBuilder::Publisher(int rank) {
  const auto [it, inserted] = publisher_of_rank_.emplace(rank, static_cast<int>(plan_.actors.size()));
  if (inserted) {
    PhysicalActor actor;
    actor.rank = rank;
    actor.name = "variables";
    actor.priority = PublisherPriority(chains_);
    plan_.actors.push_back(std::move(actor));
  }
  return it->second;
}

absl::Status PlanBuilder::GuardMutated(ValueId variable, int index, int mutator_chain, std::map<Key, int>& guards) {
  const std::vector<int> readers = Readers(variable, index, mutator_chain);
  if (readers.empty()) return absl::OkStatus();
  const int mutator = actor_of_[mutator_chain].at(RankAt(variable, index));
  const Node& node = graph_.node(graph_.value(variable).producer);
  if (plan_.actors[mutator].acts_per_step > 1) {
    return absl::UnimplementedError(absl::StrCat(Where(node), ": overwritten by '", plan_.actors[mutator].name,
                                                 "' in each of ", plan_.micro_batches, " micro-batches, but read by '",
                                                 plan_.actors[readers[0]].name, "' too"));
  }
  int reg = -1;
  if (OtherRankReads(variable, index)) {
    reg = AddRegister(mutator, true, readers, node.name);
    plan_.registers[reg].variable = in_.variables.index.at(node.name);
    plan_.registers[reg].slot_bytes = NumBytes(variable, index);
    location_[variable][index] = {reg, 0};
  } else {
    const auto [it, inserted] = guards.emplace(Key{mutator, true, readers}, 0);
    if (inserted) it->second = AddRegister(mutator, true, readers, absl::StrCat("order ", node.name));
    reg = it->second;
  }
  plan_.registers[reg].initially_filled = 1;
  return absl::OkStatus();
}

void PlanBuilder::GuardConstant(ValueId variable, int index) {
  const int rank = RankAt(variable, index);
  std::vector<int> readers = Readers(variable, index, -1);
  readers.erase(std::remove_if(readers.begin(), readers.end(), [&](int id) { return plan_.actors[id].rank == rank; }),
                readers.end());
  if (readers.empty()) return;
  const std::string& name = graph_.node(graph_.value(variable).producer).name;
  const int reg = AddRegister(Publisher(rank), true, readers, name);
  plan_.registers[reg].variable = in_.variables.index.at(name);
  plan_.registers[reg].slot_bytes = NumBytes(variable, index);
  location_[variable][index] = {reg, 0};
}

absl::Status PlanBuilder::MakeVariableRegisters() {
  std::map<Key, int> guards;
  for (ValueId value = 0; value < graph_.num_values(); ++value) {
    if (!IsVariable(value)) continue;
    const int mutator = FindMutator(value);
    for (int i = 0; i < graph_.value(value).dist->placement.size(); ++i) {
      if (mutator >= 0) {
        OF_RETURN_IF_ERROR(GuardMutated(value, i, mutator, guards));
      } else {
        GuardConstant(value, i);
      }
    }
  }
  for (PhysicalRegister& reg : plan_.registers) {
    if (reg.variable < 0) continue;
    const int rank = plan_.actors[reg.producer].rank;
    const PlannedVariable& variable = in_.variables.variables[reg.variable];
    const VariableShard& shard = variable.shards[variable.dist.placement.IndexOf(rank)];
    reg.zone = shard.zone;
    reg.offset = shard.offset;
  }
  return absl::OkStatus();
}

absl::StatusOr<int> PlanBuilder::ActsPerSlot(const PhysicalRegister& reg, const PhysicalActor& actor) const {
  const int fills = reg.per_step ? 1 : plan_.micro_batches;
  if (actor.acts_per_step % fills == 0) return actor.acts_per_step / fills;
  return absl::InternalError(absl::StrCat("graph '", graph_.name(), "': '", actor.name, "' acts ", actor.acts_per_step,
                                          " times per step, but register '", reg.name, "' is filled ", fills,
                                          " times"));
}

absl::Status PlanBuilder::MakePorts() {
  for (size_t r = 0; r < plan_.registers.size(); ++r) {
    const PhysicalRegister& reg = plan_.registers[r];
    PhysicalActor& producer = plan_.actors[reg.producer];
    OF_ASSIGN_OR_RETURN(const int acts, ActsPerSlot(reg, producer));
    producer.outputs.push_back({static_cast<int>(r), acts});
    for (int id : reg.consumers) {
      OF_ASSIGN_OR_RETURN(const int consumer_acts, ActsPerSlot(reg, plan_.actors[id]));
      plan_.actors[id].inputs.push_back({static_cast<int>(r), consumer_acts});
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<PhysicalOperand> PlanBuilder::Operand(const PhysicalActor& actor, ValueId value, int index) const {
  PhysicalOperand operand;
  operand.value = value;
  operand.index = index;
  operand.num_bytes = NumBytes(value, index);
  const bool own_rank = RankAt(value, index) == actor.rank;
  const Node& producer = graph_.node(graph_.value(value).producer);
  const Location& location = location_[value][index];
  if (IsVariable(value) && own_rank) {
    const VariableShard& shard = in_.variables.Find(producer.name).shards[index];
    operand.place = PhysicalOperand::Place::kVariable;
    operand.zone = shard.zone;
    operand.offset = shard.offset;
  } else if (location.reg >= 0) {
    operand.place = PhysicalOperand::Place::kRegister;
    operand.reg = location.reg;
    operand.offset = location.offset;
  } else if (producer.op == "accumulate") {
    operand.place = PhysicalOperand::Place::kPinned;  // must outlive the act: the next one adds to it
  }
  if (!own_rank && operand.place != PhysicalOperand::Place::kRegister) {
    return absl::InternalError(absl::StrCat(Where(producer), ": '", actor.name, "' on rank ", actor.rank,
                                            " reads rank ", RankAt(value, index), "'s shard without a register"));
  }
  return operand;
}

absl::Status PlanBuilder::AddInstruction(PhysicalActor& actor, NodeId id) {
  const Node& node = graph_.node(id);
  PhysicalInstruction instruction;
  instruction.node = id;
  if (node.op == "boxing" && in_.boxings.by_sending) {
    const BoxingShare* share = in_.boxings.by_node.at(id).ShareOf(actor.rank);
    return share == nullptr ? absl::OkStatus() : AddShare(actor, id, *share);
  }
  if (node.op == "boxing") {
    if (!in_.boxings.needed[node.outputs[0]][actor.index]) return absl::OkStatus();
    for (int source : in_.boxings.by_node.at(id).sources[actor.index]) {
      OF_ASSIGN_OR_RETURN(PhysicalOperand operand, Operand(actor, node.inputs[0], source));
      instruction.inputs.push_back(operand);
    }
  } else {
    if (!Executes(node, actor.index)) return absl::OkStatus();
    for (ValueId input : node.inputs) {
      if (graph_.value(input).dist->placement != *node.placement) {
        return absl::InternalError(absl::StrCat(Where(node), ": runs on ", node.placement->ToString(),
                                                ", but an input lies on ",
                                                graph_.value(input).dist->placement.ToString()));
      }
      OF_ASSIGN_OR_RETURN(PhysicalOperand operand, Operand(actor, input, actor.index));
      instruction.inputs.push_back(operand);
    }
  }
  for (ValueId output : node.outputs) {
    OF_ASSIGN_OR_RETURN(PhysicalOperand operand, Operand(actor, output, actor.index));
    instruction.outputs.push_back(operand);
  }
  actor.instructions.push_back(std::move(instruction));
  return absl::OkStatus();
}

// Pack, call, unpack: those of them that the share has.
absl::Status PlanBuilder::AddShare(PhysicalActor& actor, NodeId id, const BoxingShare& share) {
  using Role = PhysicalInstruction::Role;
  using Part = PhysicalOperand::Part;
  const Node& node = graph_.node(id);
  const ValueId from = node.inputs[0], to = node.outputs[0];
  const int64_t element = static_cast<int64_t>(SizeOf(graph_.value(to).type.dtype));
  PhysicalOperand shard, result;
  if (share.reads_shard()) {
    OF_ASSIGN_OR_RETURN(shard, Operand(actor, from, graph_.value(from).dist->placement.IndexOf(actor.rank)));
  }
  if (share.receives || share.unpack.has_value()) {
    OF_ASSIGN_OR_RETURN(result, Operand(actor, to, actor.index));
  }
  const auto between = [&](Part part, int64_t elements) {
    PhysicalOperand operand;
    operand.value = to;
    operand.part = part;
    operand.num_bytes = elements * element;
    return operand;
  };
  const PhysicalOperand packed = between(Part::kPacked, share.packed);
  const PhysicalOperand received = between(Part::kReceived, share.received);
  const auto add = [&](Role role, std::vector<PhysicalOperand> inputs, std::vector<PhysicalOperand> outputs) {
    actor.instructions.push_back({id, role, std::move(inputs), std::move(outputs)});
  };
  if (share.pack.has_value()) add(Role::kPack, {shard}, {packed});
  if (share.call != GroupCall::kNone) {
    std::vector<PhysicalOperand> inputs, outputs;
    if (share.sends) inputs.push_back(share.pack.has_value() ? packed : shard);
    if (share.receives) outputs.push_back(share.unpack.has_value() ? received : result);
    add(Role::kCall, std::move(inputs), std::move(outputs));
  }
  if (share.unpack.has_value()) {
    std::vector<PhysicalOperand> inputs;
    if (share.unpack_reads_shard) inputs.push_back(shard);
    if (share.received > 0) inputs.push_back(received);
    add(Role::kUnpack, std::move(inputs), {result});
  }
  return absl::OkStatus();
}

absl::Status PlanBuilder::MakeInstructions() {
  for (PhysicalActor& actor : plan_.actors) {
    if (actor.chain < 0) continue;
    for (NodeId id : chains_.chains[actor.chain].nodes) OF_RETURN_IF_ERROR(AddInstruction(actor, id));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<PhysicalPlan> BuildPhysicalPlan(const PlanInput& input, std::string name) {
  return PlanBuilder(input, std::move(name)).Build();
}

}  // namespace oneflow
