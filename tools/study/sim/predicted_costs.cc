#include "tools/study/sim/predicted_costs.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "oneflow_core/queues.h"
#include "tools/study/sim/kernel_groups.h"
#include "tools/study/sim/op_work.h"

namespace oneflow {
namespace {

int64_t Ns(double seconds) { return static_cast<int64_t>(1e9 * seconds); }

double BytesOf(const pb::Operand& operand) {
  double bytes = static_cast<double>(SizeOf(static_cast<DType>(operand.dtype())));
  for (const int64_t dim : operand.dims()) bytes *= static_cast<double>(dim);
  return bytes;
}

double MemorySeconds(const DeviceSpeeds& device, double bytes) {
  return bytes / (device.memory_bytes_per_s * ShareAt(device.memory_efficiency, bytes));
}

double KernelSeconds(const DeviceSpeeds& device, const pb::Instruction& instruction, const OpWork& work) {
  const double rate = ProductRate(device, instruction) * ShareAt(device.product_efficiency, work.flops);
  const double flops_s = work.flops / rate, memory_s = MemorySeconds(device, work.bytes);
  return device.hides_memory ? std::max(flops_s, memory_s) : flops_s + memory_s;
}

// Between a device's memory and its host's: what copies from and to pinned memory reach over PCIe 4.0 x16, whose wires
// carry 31.5e9. Another device reaches more; what is called for so many bytes is rarely what a step waits for.
constexpr double kHostBytesPerS = 25e9;

// Of a host function, without the time of its code, which nobody knows: its operands to the host and back, or a look
// at all of them where the host computes itself.
double CallSeconds(const DeviceSpeeds& device, const pb::Instruction& call, const OpWork& work) {
  return device.device == DeviceKind::kCpu ? KernelSeconds(device, call, work) : work.bytes / kHostBytesPerS;
}

GroupedBytes GroupsOf(const pb::Actor& actor, PricedKernels kernels) {
  if (kernels == PricedKernels::kOwn) return {};
  const bool with_sums = kernels == PricedKernels::kFused;
  return GroupKernels(actor, with_sums ? GradientSums::kOfProducts : GradientSums::kOfTheirOwn);
}

// That share the card of `rank` which carries what goes from one rank to another.
int DevicesOfCard(const Topology& topology, int from, int to, int rank) {
  const auto cards = std::llround(topology.LinkBetween(from, to).beta_s_per_byte / topology.HostBeta(from, to));
  const int64_t devices = topology.GroupOf(rank).devices;
  return static_cast<int>((devices + cards - 1) / cards);
}

}  // namespace

int64_t PredictedMessageNs(const Topology& topology, int from, int to) {
  return from == to ? 0 : Ns(topology.LinkBetween(from, to).alpha_s);
}

int64_t PredictedShipmentNs(const Topology& topology, int from, int to, int64_t num_bytes) {
  return Ns(topology.LinkBetween(from, to).beta_s_per_byte * static_cast<double>(num_bytes));
}

int64_t PredictedSenderLink(const Topology& topology, int from, int to, int sender) {
  if (topology.Between(from, to) != Distance::kNetwork) return -1;
  const int devices = DevicesOfCard(topology, from, to, from);
  return topology.num_ranks() + sender - topology.DeviceOf(sender) % devices;
}

ActCost PredictedCost(const Topology& topology, const PredictedAct& act, int rank) {
  if (act.on_disk) return {act.ns, act.link_ns, 2 * int64_t{topology.num_ranks()} + rank - topology.DeviceOf(rank)};
  const int64_t card = act.devices_of_card == 0 ? -1 : rank - topology.DeviceOf(rank) % act.devices_of_card;
  return {act.ns, act.link_ns, card};
}

PredictedCosts::PredictedCosts(const pb::Program& program, int plan, Topology topology, const OpRegistry& ops,
                               PricedKernels kernels)
    : program_(program), plan_(program.plans(plan)), topology_(std::move(topology)), ops_(ops) {
  for (const pb::Actor& actor : plan_.actors()) acts_.push_back(CostOf(actor, kernels));
}

PredictedAct PredictedCosts::CostOf(const pb::Actor& actor, PricedKernels kernels) const {
  const DeviceSpeeds& device = topology_.GroupOf(actor.rank()).device;
  PredictedAct cost;
  if (QueueKindOf(actor.queue()).moves_between_ranks) cost.ns = Ns(device.act_s);
  const GroupedBytes groups = GroupsOf(actor, kernels);
  for (int i = 0; i < actor.instructions_size(); ++i)
    Add(actor, actor.instructions(i), groups.bytes.empty() ? -1 : groups.bytes[i], cost);
  for (const pb::Landing& landing : actor.landings()) {
    const int from = RankOfRegister(landing.register_()), rank = actor.rank();
    if (topology_.Between(from, rank) == Distance::kNetwork)
      cost.devices_of_card = DevicesOfCard(topology_, from, rank, rank);
  }
  return cost;
}

ActCost PredictedCosts::CostOf(const pb::Actor& actor, const pb::Instruction& instruction) const {
  PredictedAct cost;
  Add(actor, instruction, /*bytes=*/-1, cost);
  return PredictedCost(topology_, cost, actor.rank());
}

void PredictedCosts::Add(const pb::Actor& actor, const pb::Instruction& instruction, double bytes,
                         PredictedAct& cost) const {
  if (instruction.kind() == pb::Instruction::COPY) return AddCopy(instruction, actor.rank(), cost);
  if (instruction.kind() == pb::Instruction::COLLECTIVE) return AddCollective(instruction, actor.rank(), cost);
  const DeviceSpeeds& device = topology_.GroupOf(actor.rank()).device;
  if (instruction.kind() == pb::Instruction::MOVE) {
    cost.on_disk = !QueueKindOf(actor.queue()).launches;
    const Link& link = cost.on_disk ? device.disk_tier : device.host_tier;
    const double seconds = link.alpha_s + link.beta_s_per_byte * BytesOf(instruction.inputs(0));
    (cost.on_disk ? cost.link_ns : cost.ns) += Ns(seconds);
    return;
  }
  OpWork work = WorkOf(instruction, ops_);
  if (bytes >= 0) work.bytes = bytes;
  const bool calls = instruction.kind() == pb::Instruction::CALL;
  cost.ns += Ns(calls ? CallSeconds(device, instruction, work) : KernelSeconds(device, instruction, work));
}

int64_t PredictedCosts::ShipmentNs(int32_t actor, int32_t register_id) const {
  for (const pb::Landing& landing : plan_.actors(actor).landings()) {
    if (landing.register_() == register_id) {
      return PredictedShipmentNs(topology_, RankOfRegister(register_id), plan_.actors(actor).rank(),
                                 landing.slot_bytes());
    }
  }
  return 0;
}

int64_t PredictedCosts::SenderLink(int32_t actor, int32_t register_id) const {
  const int from = RankOfRegister(register_id);
  return PredictedSenderLink(topology_, from, plan_.actors(actor).rank(), from);
}

void PredictedCosts::AddTransfers(int times, int from, int to, double num_bytes, int rank, PredictedAct& cost) const {
  const Link link = topology_.LinkBetween(from, to);
  const int64_t ns = Ns(times * (link.alpha_s + link.beta_s_per_byte * num_bytes));
  if (topology_.Between(from, to) != Distance::kNetwork) {
    cost.ns += ns;
    return;
  }
  cost.devices_of_card = DevicesOfCard(topology_, from, to, rank);
  cost.link_ns += ns;
}

void PredictedCosts::AddCopy(const pb::Instruction& copy, int rank, PredictedAct& cost) const {
  std::map<int, double> bytes;  // by rank that is read
  for (const pb::Piece& piece : copy.pieces()) {
    const pb::Operand& from = copy.inputs(piece.input());
    if (from.landed()) continue;
    double count = static_cast<double>(SizeOf(static_cast<DType>(from.dtype())));
    for (const int64_t extent : piece.extent()) count *= static_cast<double>(extent);
    bytes[from.register_() < 0 ? rank : RankOfRegister(from.register_())] += count;
  }
  for (const auto& [from, num_bytes] : bytes) {
    if (from != rank) AddTransfers(1, from, rank, num_bytes, rank, cost);
  }
  cost.ns += Ns(MemorySeconds(topology_.GroupOf(rank).device, WorkOf(copy, ops_).bytes));
}

void PredictedCosts::AddCollective(const pb::Instruction& collective, int rank, PredictedAct& cost) const {
  const auto& members = program_.communicators(collective.communicator()).ranks();
  const int n = members.size();
  if (collective.collective() == "exchange") {
    const auto& rows = collective.outputs().empty() ? collective.inputs() : collective.outputs();  // alike at both ends
    const double size = rows.empty() ? 0 : SizeOf(static_cast<DType>(rows[0].dtype()));
    for (const pb::Transfer& transfer : collective.transfers()) {
      const int peer = members[transfer.peer()];
      const int64_t most = std::max(transfer.send_count(), transfer.receive_count());
      if (peer != rank && most > 0) AddTransfers(1, peer, rank, size * static_cast<double>(most), rank, cost);
    }
    return;
  }
  double whole = 0;  // the larger end: what was gathered, or is to be scattered
  for (const auto* operands : {&collective.inputs(), &collective.outputs()}) {
    for (const pb::Operand& operand : *operands) whole = std::max(whole, BytesOf(operand));
  }
  int slow_from = rank, slow_to = rank;
  double slowest = -1;
  for (int i = 0; i < n; ++i) {
    const int from = members[i], to = members[(i + 1) % n];
    const Link link = topology_.LinkBetween(from, to);
    const double seconds = link.alpha_s + link.beta_s_per_byte * whole / n;
    if (seconds > slowest) slowest = seconds, slow_from = from, slow_to = to;
  }
  const int rounds = collective.collective() == "all-reduce" ? 2 * (n - 1) : n - 1;
  AddTransfers(rounds, slow_from, slow_to, whole / n, rank, cost);
}

SimulatedCosts PredictedCosts::Costs() const {
  SimulatedCosts costs;
  costs.act = [this](int32_t actor, int64_t) {
    return PredictedCost(topology_, acts_[actor], plan_.actors(actor).rank());
  };
  costs.message_ns = [this](int32_t from, int64_t, int32_t to, int32_t) {
    return PredictedMessageNs(topology_, plan_.actors(from).rank(), plan_.actors(to).rank());
  };
  costs.shipment_ns = [this](int32_t, int64_t, int32_t to, int32_t register_id) { return ShipmentNs(to, register_id); };
  costs.shipment_link = [this](int32_t, int32_t to, int32_t register_id) { return SenderLink(to, register_id); };
  return costs;
}

}  // namespace oneflow
