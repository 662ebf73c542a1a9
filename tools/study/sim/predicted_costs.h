// What acts and messages should cost, by what is known of devices and links before anything ran: a roofline.
//
//   kernel       the longer of its flops at the device's speed and its bytes at its memory's, or their sum
//   call         bytes of its operands at the memory's speed, or that of the bus between a device and its host
//   copy         bytes at the memory's speed; from another rank alpha + beta * bytes of the link between them
//   shipment     what comes with a message from another host: beta * bytes
//   collective   a ring: alpha for every other member, beta for the bytes that pass, on the slowest of its links
//   message      alpha of the link between the ranks
//
// What crosses hosts takes a card of the host that waits for it, which its devices share evenly; a shipment takes one
// of its sender's, too. What share of its full
// speeds a device reaches for a kernel of so many flops and bytes is in the table of devices (sbp/topology.h).
#pragma once

#include <vector>

#include "actor/sim/simulator.h"
#include "oneflow_core/op.h"
#include "sbp/topology.h"

namespace oneflow {

// Whose kernels an act is made of: one for each instruction, as this engine has them, or those of libraries that run
// several as one (kernel_groups.h), which other systems use; those had no products that add to sums of gradients once.
enum class PricedKernels : uint8_t { kOwn, kFused, kFusedButSums };

// What an act costs, wherever its rank has its card.
struct PredictedAct {
  int64_t ns = 0;
  int64_t link_ns = 0;
  int devices_of_card = 0;  // that share the card, which also carries what lands for it; 0: it takes none
  bool on_disk = false;     // the transfer is one of the host's disk
};

// On a rank: cards are dealt out to the host's devices in their order, and the first device of a card gives it its
// number. Numbers of disks, one for each host, are behind those of cards that receive and that send.
ActCost PredictedCost(const Topology& topology, const PredictedAct& act, int rank);

// Of a message between two ranks, and of so many bytes that come with it.
int64_t PredictedMessageNs(const Topology& topology, int from, int to);
int64_t PredictedShipmentNs(const Topology& topology, int from, int to, int64_t num_bytes);
// The card by which `sender` sends as `from` sends to `to`, numbered apart from those that receive; -1: by none.
int64_t PredictedSenderLink(const Topology& topology, int from, int to, int sender);

class PredictedCosts {
 public:
  // Borrows all but `topology`. REQUIRES: the program lies on the topology. Of a program of some ranks, acts of others
  // cost nothing.
  PredictedCosts(const pb::Program& program, int plan, Topology topology, const OpRegistry& ops,
                 PricedKernels kernels = PricedKernels::kOwn);

  // Borrows this.
  SimulatedCosts Costs() const;
  const std::vector<PredictedAct>& acts() const { return acts_; }  // by actor
  // Of what comes with a message about a register to an actor; 0 if nothing does.
  int64_t ShipmentNs(int32_t actor, int32_t register_id) const;
  int64_t SenderLink(int32_t actor, int32_t register_id) const;
  // Of one instruction of an actor alone.
  ActCost CostOf(const pb::Actor& actor, const pb::Instruction& instruction) const;

 private:
  PredictedAct CostOf(const pb::Actor& actor, PricedKernels kernels) const;
  // `bytes`: between memory and the kernel; negative: those of its operands.
  void Add(const pb::Actor& actor, const pb::Instruction& instruction, double bytes, PredictedAct& cost) const;
  int RankOfRegister(int32_t register_id) const { return plan_.actors(plan_.registers(register_id).producer()).rank(); }
  void AddCopy(const pb::Instruction& copy, int rank, PredictedAct& cost) const;
  void AddCollective(const pb::Instruction& collective, int rank, PredictedAct& cost) const;
  // So many transfers from one rank to another, which `rank` has to wait for.
  void AddTransfers(int times, int from, int to, double num_bytes, int rank, PredictedAct& cost) const;

  const pb::Program& program_;
  const pb::Plan& plan_;
  const Topology topology_;
  const OpRegistry& ops_;
  std::vector<PredictedAct> acts_;  // by actor
};

}  // namespace oneflow
