#include "compiler/plan/build_plan.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "compiler/boxed_graph.h"
#include "compiler/plan/call_groups.h"
#include "compiler/plan/credits.h"
#include "compiler/plan/enough_slots.h"
#include "compiler/plan/given_slots.h"
#include "compiler/plan/orders.h"
#include "oneflow_core/queues.h"
#include "oneflow_core/ragged.h"
#include "oneflow_core/tiers.h"
#include "oneflow_core/zones.h"
#include "sbp/boxing_group.h"
#include "sbp/slices.h"

namespace oneflow {
namespace {

using Place = PhysicalOperand::Place;
using Part = PhysicalOperand::Part;

class PlanBuilder {
 public:
  PlanBuilder(const PlanInput& input, std::string name)
      : in_(input),
        graph_(input.graph),
        chains_(input.chains),
        consumers_(input.graph.Consumers()),
        location_(input.graph.num_values()) {
    plan_.name = std::move(name);
    for (NodeId id = 0; id < graph_.num_nodes(); ++id) kinds_.push_back(in_.ops.KindOf(graph_.node(id).op));
    plan_.micro_batches = input.micro_batches;
    plan_.classes.resize(input.classes.size());
  }

  absl::StatusOr<PhysicalPlan> Build() {
    MakeActors();
    if (in_.schedule != nullptr) plan_.orders = OrdersOf(in_, plan_.actors);
    if (!plan_.orders.empty()) act_places_ = ActPlaces(plan_.orders, plan_.actors.size());
    MakeDataRegisters();
    MakeOrderRegisters();
    OF_RETURN_IF_ERROR(MakeVariableRegisters());
    OF_RETURN_IF_ERROR(MakePorts());
    GiveEnoughSlots(plan_);
    GiveSlotsToTold();
    if (in_.slots != nullptr) OF_RETURN_IF_ERROR(GiveSlots(*in_.slots, plan_));
    for (size_t c = 0; c < chains_.chains.size(); ++c) {
      for (NodeId id : chains_.chains[c].nodes) OF_RETURN_IF_ERROR(AddInstruction(plan_.actors[c], id));
    }
    GroupCalls(graph_, plan_);
    return std::move(plan_);
  }

 private:
  // The place of a value: in a register, or (reg < 0) in memory of the rank that made it.
  struct Location {
    int reg = -1;
    int64_t offset = 0;
  };
  using Key = std::tuple<int, bool, std::vector<int>>;  // producer, per step, consumers

  bool IsBoxing(NodeId id) const { return kinds_[id] == OpKind::kBoxing; }
  OpKind MakerOf(ValueId value) const { return kinds_[graph_.value(value).producer]; }
  bool IsVariable(ValueId value) const { return MakerOf(value) == OpKind::kVariable; }
  int64_t NumBytes(ValueId value) const { return ShardBytes(graph_.value(value).type, *graph_.value(value).dist); }
  std::vector<int> Readers(ValueId value, int except_chain) const;
  std::vector<int> ReadersOf(int producer) const;
  bool OnlyTells(int actor) const;
  void GiveSlotsToTold();
  bool OtherRanksRead(ValueId value) const;
  bool SharedAmongProcesses(ValueId value) const;
  bool LiesInTier(ValueId value) const;
  std::string NameOf(ValueId value) const;
  int AddRegister(int producer, bool per_step, std::vector<int> consumers, std::string name);
  void AddToRegister(int producer, bool per_step, const std::vector<int>& consumers, ValueId value);
  int AddVariableRegister(int producer, std::vector<int> consumers, ValueId variable);
  int FindMutator(ValueId variable) const;
  int Publisher(const Placement& placement);
  bool ReadsOthersAlone(int actor) const;
  absl::Status GuardMutated(ValueId variable, int mutator, std::map<Key, int>& guards);
  void GuardConstant(ValueId variable);
  absl::StatusOr<int> ActsPerSlot(const PhysicalRegister& reg, const PhysicalActor& actor) const;
  PhysicalOperand Operand(ValueId value, bool boxed) const;
  absl::Status AddInstruction(PhysicalActor& actor, NodeId id);
  absl::Status AddSendBuffers(const Node& node, PhysicalInstruction& instruction);
  void AddTransfer(const Node& node, PhysicalInstruction& instruction) const;
  static void AddScratch(ValueId value, Part part, int64_t num_bytes, PhysicalInstruction& instruction);
  bool MayNeedScratch(const Node& node) const;
  int64_t KernelScratchOf(const Node& node) const;

  void MakeActors();
  void MakeDataRegisters();
  void MakeOrderRegisters();
  void MakeOrderRegistersOfLoaded(std::set<std::tuple<int, bool, int>>& waits);
  void MakeOrderRegistersOfLast();
  absl::Status MakeVariableRegisters();
  absl::Status MakePorts();

  const PlanInput& in_;
  const Graph& graph_;
  const ChainGraph& chains_;
  const std::vector<std::vector<NodeId>> consumers_;
  std::vector<OpKind> kinds_;  // by node
  PhysicalPlan plan_;
  ActPlaces act_places_;
  std::map<Placement, int> publisher_;
  std::vector<Location> location_;  // by value
  std::map<Key, int> data_registers_;
};

void PlanBuilder::MakeActors() {
  for (size_t c = 0; c < chains_.chains.size(); ++c) {
    const Chain& chain = chains_.chains[c];
    PhysicalActor actor;
    actor.chain = static_cast<int>(c);
    actor.placement = chain.placement;
    if (chain.kind == Chain::Kind::kBoxing && in_.boxings.by_sending()) actor.senders = chain.source;
    actor.name = chain.name;
    actor.acts_per_step = chain.rate == Rate::kMicroBatch ? plan_.micro_batches : 1;
    actor.priority = PriorityOf(chains_, chain);
    actor.queue = chain.queue;
    plan_.actors.push_back(std::move(actor));
  }
}

// The actors, ascending, that read `value`, except one.
std::vector<int> PlanBuilder::Readers(ValueId value, int except_chain) const {
  std::set<int> readers;
  for (NodeId id : consumers_[value]) readers.insert(chains_.chain_of_node[id]);
  readers.erase(except_chain);
  return {readers.begin(), readers.end()};
}

bool PlanBuilder::OtherRanksRead(ValueId value) const {
  return std::any_of(consumers_[value].begin(), consumers_[value].end(),
                     [&](NodeId id) { return IsBoxing(id) && in_.boxings.ReadsOtherRanks(graph_, graph_.node(id)); });
}

// What was stored in a tier as a new value; what says that a variable there was overwritten has no bytes.
bool PlanBuilder::LiesInTier(ValueId value) const { return MakerOf(value) == OpKind::kStore && NumBytes(value) > 0; }

bool PlanBuilder::SharedAmongProcesses(ValueId value) const {
  return std::any_of(consumers_[value].begin(), consumers_[value].end(), [&](NodeId id) {
    return IsBoxing(id) && in_.boxings.SharesAmongProcesses(graph_, graph_.node(id));
  });
}

// The actors, ascending, that read any result of a chain; where there is an order.
std::vector<int> PlanBuilder::ReadersOf(int producer) const {
  std::set<int> readers;
  if (plan_.orders.empty() || plan_.actors[producer].chain < 0) return {};
  for (NodeId id : chains_.chains[producer].nodes) {
    for (ValueId value : graph_.node(id).outputs) {
      for (NodeId reader : consumers_[value]) readers.insert(chains_.chain_of_node[reader]);
    }
  }
  return {readers.begin(), readers.end()};
}

// Whether the actor brings values to other ranks, and only the host's queue reads them there.
bool PlanBuilder::OnlyTells(int actor) const {
  const int chain = plan_.actors[actor].chain;
  if (chain < 0 || chains_.chains[chain].kind != Chain::Kind::kBoxing) return false;
  for (NodeId id : chains_.chains[chain].nodes) {
    for (ValueId value : graph_.node(id).outputs) {
      for (NodeId reader : consumers_[value]) {
        if (chains_.chains[chains_.chain_of_node[reader]].queue != kHostQueue) return false;
      }
    }
  }
  return true;
}

// Scalars and the like: what is large keeps the slots of its credits.
void PlanBuilder::GiveSlotsToTold() {
  constexpr int64_t kMostBytes = 1024;
  for (PhysicalRegister& reg : plan_.registers) {
    const bool told = !reg.consumers.empty() && std::all_of(reg.consumers.begin(), reg.consumers.end(),
                                                            [this](int actor) { return OnlyTells(actor); });
    if (told && reg.slot_bytes <= kMostBytes) reg.slots = std::max(reg.slots, in_.slots_of_told);
  }
}

// "node", or "node:1" of a second output: no two are the same.
std::string PlanBuilder::NameOf(ValueId value) const {
  const Value& of = graph_.value(value);
  const std::string& node = graph_.node(of.producer).name;
  return of.output == 0 ? node : absl::StrCat(node, ":", of.output);
}

int PlanBuilder::AddRegister(int producer, bool per_step, std::vector<int> consumers, std::string name) {
  PhysicalRegister reg;
  reg.producer = producer;
  reg.placement = plan_.actors[producer].placement;
  reg.per_step = per_step;
  reg.consumers = std::move(consumers);
  reg.name = std::move(name);
  reg.slots = CreditsFor(in_, reg, plan_.actors, {act_places_, ReadersOf(producer)});
  plan_.registers.push_back(std::move(reg));
  return static_cast<int>(plan_.registers.size()) - 1;
}

void PlanBuilder::AddToRegister(int producer, bool per_step, const std::vector<int>& consumers, ValueId value) {
  const auto [it, inserted] = data_registers_.emplace(Key{producer, per_step, consumers}, 0);
  if (inserted) it->second = AddRegister(producer, per_step, consumers, NameOf(value));
  PhysicalRegister& reg = plan_.registers[it->second];
  if (SharedAmongProcesses(value)) reg.zone = kSharedZone;
  if (LiesInTier(value)) reg.zone = TierOf(graph_.node(graph_.value(value).producer).attrs)->zone;
  if (reg.first_value < 0) reg.first_value = value;
  location_[value] = {it->second, reg.slot_stride};
  reg.slot_bytes = reg.slot_stride + NumBytes(value);
  reg.slot_stride += RoomIn(reg.zone, NumBytes(value));
}

void PlanBuilder::MakeDataRegisters() {
  for (int c = 0; c < static_cast<int>(chains_.chains.size()); ++c) {
    for (NodeId id : chains_.chains[c].nodes) {
      for (ValueId value : graph_.node(id).outputs) {
        const std::vector<int> readers = Readers(value, c);
        if (!readers.empty()) AddToRegister(c, ValueRate(graph_, value, in_.ops) == Rate::kStep, readers, value);
      }
    }
  }
}

// Whether it boxes, and every rank reads other ranks, not itself.
bool PlanBuilder::ReadsOthersAlone(int actor) const {
  const int chain = plan_.actors[actor].chain;
  if (in_.boxings.by_sending() || chain < 0 || chains_.chains[chain].kind != Chain::Kind::kBoxing) return false;
  const std::vector<NodeId>& nodes = chains_.chains[chain].nodes;
  return std::any_of(nodes.begin(), nodes.end(), [&](NodeId id) {
    const Value& from = graph_.value(graph_.node(id).inputs[0]);
    const auto reach = ReachOf(from.type.shape, *from.dist, *graph_.value(graph_.node(id).outputs[0]).dist);
    return reach.has_value() && reach->some;
  });
}

// Where a node comes after a value of another chain for which its own chain does not wait: a register of no bytes.
void PlanBuilder::MakeOrderRegisters() {
  std::set<std::tuple<int, bool, int>> waits;  // producer, per step, consumer
  for (const PhysicalRegister& reg : plan_.registers) {
    for (const int consumer : reg.consumers) {
      if (!ReadsOthersAlone(consumer)) waits.insert({reg.producer, reg.per_step, consumer});
    }
  }
  for (NodeId id = 0; id < graph_.num_nodes(); ++id) {
    for (const ValueId value : graph_.node(id).after) {
      const Node& first = graph_.node(graph_.value(value).producer);
      const int producer = chains_.chain_of_node[graph_.value(value).producer], consumer = chains_.chain_of_node[id];
      const bool per_step = ValueRate(graph_, value, in_.ops) == Rate::kStep;
      if (producer == consumer || !waits.insert({producer, per_step, consumer}).second) continue;
      AddRegister(producer, per_step, {consumer}, absl::StrCat("order ", first.name));
    }
  }
  MakeOrderRegistersOfLoaded(waits);
  MakeOrderRegistersOfLast();
}

// Where what was loaded from a tier is overwritten: who reads it later waits for that.
void PlanBuilder::MakeOrderRegistersOfLoaded(std::set<std::tuple<int, bool, int>>& waits) {
  for (ValueId value = 0; value < graph_.num_values(); ++value) {
    if (MakerOf(value) != OpKind::kLoad) continue;
    const bool per_step = ValueRate(graph_, value, in_.ops) == Rate::kStep;
    for (const auto& [first, second] : OrderOfOverwriting(graph_, in_.ops, value, consumers_[value], chains_.mutated)) {
      const int producer = chains_.chain_of_node[first], consumer = chains_.chain_of_node[second];
      if (producer == consumer || !waits.insert({producer, per_step, consumer}).second) continue;
      AddRegister(producer, per_step, {consumer}, absl::StrCat("order ", graph_.node(first).name));
    }
  }
}

// The first act of the job waits for nothing: they start filled.
void PlanBuilder::MakeOrderRegistersOfLast() {
  std::set<std::pair<int, int>> waits;  // producer, consumer
  for (NodeId id = 0; id < graph_.num_nodes(); ++id) {
    for (const ValueId value : graph_.node(id).after_last) {
      const NodeId first = graph_.value(value).producer;
      const int producer = chains_.chain_of_node[first], consumer = chains_.chain_of_node[id];
      if (producer == consumer || !waits.insert({producer, consumer}).second) continue;
      const bool per_step = plan_.actors[producer].acts_per_step == 1;
      const int reg = AddRegister(producer, per_step, {consumer}, absl::StrCat("order ", graph_.node(first).name));
      plan_.registers[reg].initially_filled = 1;
      plan_.registers[reg].slots = 1;
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

// The actor that publishes variables that nothing overwrites there.
int PlanBuilder::Publisher(const Placement& placement) {
  const auto [it, inserted] = publisher_.emplace(placement, static_cast<int>(plan_.actors.size()));
  if (inserted) {
    PhysicalActor actor;
    actor.placement = placement;
    actor.name = "variables";
    actor.priority = PublisherPriority(chains_);
    actor.queue = kCommunicationQueue;
    plan_.actors.push_back(std::move(actor));
  }
  return it->second;
}

// A register that is the variable's memory.
int PlanBuilder::AddVariableRegister(int producer, std::vector<int> consumers, ValueId variable) {
  const std::string& name = graph_.node(graph_.value(variable).producer).name;
  const int id = AddRegister(producer, true, std::move(consumers), name);
  PhysicalRegister& reg = plan_.registers[id];
  reg.variable = in_.variables.index.at(name);
  reg.zone = in_.variables.variables[reg.variable].zone;
  reg.slot_bytes = NumBytes(variable);
  location_[variable] = {id, 0};
  return id;
}

absl::Status PlanBuilder::GuardMutated(ValueId variable, int mutator, std::map<Key, int>& guards) {
  const std::vector<int> readers = Readers(variable, mutator);
  if (readers.empty()) return absl::OkStatus();
  const Node& node = graph_.node(graph_.value(variable).producer);
  if (plan_.actors[mutator].acts_per_step > 1) {
    return absl::UnimplementedError(absl::StrCat(Where(node), ": overwritten by '", plan_.actors[mutator].name,
                                                 "' in each of ", plan_.micro_batches, " micro-batches, but read by '",
                                                 plan_.actors[readers[0]].name, "' too"));
  }
  int reg = -1;
  if (OtherRanksRead(variable)) {
    reg = AddVariableRegister(mutator, readers, variable);
  } else {
    const auto [it, inserted] = guards.emplace(Key{mutator, true, readers}, 0);
    if (inserted) it->second = AddRegister(mutator, true, readers, absl::StrCat("order ", node.name));
    reg = it->second;
  }
  plan_.registers[reg].initially_filled = 1;
  plan_.registers[reg].slots = 1;  // for any readers: with another slot the mutator would not wait for them
  return absl::OkStatus();
}

void PlanBuilder::GuardConstant(ValueId variable) {
  std::set<int> readers;
  for (NodeId id : consumers_[variable]) {
    if (IsBoxing(id) && in_.boxings.ReadsOtherRanks(graph_, graph_.node(id))) {
      readers.insert(chains_.chain_of_node[id]);
    }
  }
  if (readers.empty()) return;
  const int publisher = Publisher(graph_.value(variable).dist->placement);
  const int reg = AddVariableRegister(publisher, {readers.begin(), readers.end()}, variable);
  plan_.registers[reg].others_only = true;
}

absl::Status PlanBuilder::MakeVariableRegisters() {
  std::map<Key, int> guards;
  for (ValueId value = 0; value < graph_.num_values(); ++value) {
    if (!IsVariable(value)) continue;
    const int mutator = FindMutator(value);
    if (mutator >= 0) {
      OF_RETURN_IF_ERROR(GuardMutated(value, mutator, guards));
    } else {
      GuardConstant(value);
    }
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

// `boxed`: as a boxing reads it, on any rank.
PhysicalOperand PlanBuilder::Operand(ValueId value, bool boxed) const {
  PhysicalOperand operand;
  operand.value = value;
  operand.num_bytes = NumBytes(value);
  const Node& producer = graph_.node(graph_.value(value).producer);
  const Location& location = location_[value];
  if (location.reg >= 0 && (boxed || !IsVariable(value))) {
    operand.place = Place::kRegister;
    operand.index = location.reg;
    operand.offset = location.offset;
  } else if (IsVariable(value)) {
    operand.place = Place::kVariable;
    operand.index = in_.variables.index.at(producer.name);
  } else if (MakerOf(value) == OpKind::kAccumulate) {
    operand.place = Place::kPinned;  // must outlive the act: the next one adds to it
  }
  return operand;
}

absl::Status PlanBuilder::AddInstruction(PhysicalActor& actor, NodeId id) {
  const Node& node = graph_.node(id);
  const bool boxing = IsBoxing(id);
  PhysicalInstruction instruction;
  instruction.node = id;
  for (ValueId input : node.inputs) {
    const Placement& placement = graph_.value(input).dist->placement;
    if (!boxing && !HasRanksOf(placement, *node.placement)) {
      return absl::InternalError(absl::StrCat(Where(node), ": runs on ", node.placement->ToString(),
                                              ", but an input lies on ", placement.ToString()));
    }
    instruction.inputs.push_back(Operand(input, boxing));
  }
  for (ValueId output : node.outputs) instruction.outputs.push_back(Operand(output, false));
  if (boxing && in_.boxings.by_sending()) OF_RETURN_IF_ERROR(AddSendBuffers(node, instruction));
  if (boxing) {
    OF_ASSIGN_OR_RETURN_AT(instruction.landed, in_.boxings.LandedBytes(graph_, node), Where(node));
  }
  if (MayNeedScratch(node)) AddScratch(node.outputs[0], Part::kKernel, KernelScratchOf(node), instruction);
  if (in_.boxings.by_sending()) AddTransfer(node, instruction);  // else the host addresses all memory
  actor.instructions.push_back(std::move(instruction));
  return absl::OkStatus();
}

absl::Status PlanBuilder::AddSendBuffers(const Node& node, PhysicalInstruction& instruction) {
  OF_ASSIGN_OR_RETURN_AT(const SendBuffers buffers, in_.boxings.BuffersOf(graph_, node), Where(node));
  AddScratch(node.outputs[0], Part::kPacked, buffers.packed, instruction);
  AddScratch(node.outputs[0], Part::kReceived, buffers.received, instruction);
  return absl::OkStatus();
}

// Transfer memory for what goes to the host, or through it to disk, and comes from there.
void PlanBuilder::AddTransfer(const Node& node, PhysicalInstruction& instruction) const {
  const Queue queue = QueueOf(node, in_.ops.KindOf(node.op));
  if (QueueKindOf(queue).launches || (node.inputs.empty() && node.outputs.empty())) return;
  const int64_t num_bytes = TransferBytes(in_.ops.KindOf(node.op), instruction, Align);
  AddScratch(node.outputs.empty() ? node.inputs[0] : node.outputs[0], Part::kTransfer, num_bytes, instruction);
}

void PlanBuilder::AddScratch(ValueId value, Part part, int64_t num_bytes, PhysicalInstruction& instruction) {
  if (num_bytes == 0) return;
  PhysicalOperand operand;
  operand.value = value;
  operand.part = part;
  operand.num_bytes = num_bytes;
  instruction.scratch.push_back(operand);
}

bool PlanBuilder::MayNeedScratch(const Node& node) const {
  if (in_.kernel_scratch.num_bytes == nullptr || node.outputs.empty()) return false;
  return in_.kernel_scratch.ops.count(node.op) > 0 || InputsOfOp(graph_, node, in_.ops).size() < node.inputs.size();
}

// The most scratch memory of the kernel on any rank.
int64_t PlanBuilder::KernelScratchOf(const Node& node) const {
  const auto shards = [&](absl::Span<const ValueId> values, int index) {
    std::vector<ShardType> types;
    for (const ValueId id : values) {
      const Value& value = graph_.value(id);
      types.push_back({value.type.dtype, ShardShape(value.type.shape, *value.dist, index), value.type.shape,
                       value.type.ragged, value.layout});
    }
    return types;
  };
  const absl::Span<const ValueId> inputs = InputsOfOp(graph_, node, in_.ops);
  int64_t most = 0;
  for (const int index : CornersOf(*node.placement)) {
    most = std::max(most, in_.kernel_scratch.num_bytes(*in_.ops.Find(node.op), node.attrs, shards(inputs, index),
                                                       shards(node.outputs, index)));
  }
  return most;
}

}  // namespace

absl::StatusOr<PhysicalPlan> BuildPhysicalPlan(const PlanInput& input, std::string name) {
  return PlanBuilder(input, std::move(name)).Build();
}

}  // namespace oneflow
