#include "actor/check/register_check.h"

#include <algorithm>

#include "actor/check/bounds.h"
#include "actor/check/shipment_check.h"
#include "oneflow_core/zones.h"

namespace oneflow {
namespace {

// Of all registers of a program together, also of those without bytes: the runtime keeps some bytes for each slot.
constexpr int64_t kMaxSlots = int64_t{1} << 24;

// Producer and consumer use as many slots per step, and the consumer can read them.
absl::Status CheckConsumer(const pb::Program& program, const pb::Plan& plan, int id, const pb::Port& out,
                           int consumer) {
  const pb::Register& reg = plan.registers(id);
  const pb::Actor& from = plan.actors(reg.producer());
  const pb::Actor& to = plan.actors(consumer);
  const pb::Port* in = FindPort(to.inputs(), id);
  if (in == nullptr) return Malformed("it has no such input");
  if (in->acts_per_slot() < 1 || out.acts_per_slot() < 1) return absl::OkStatus();  // reported with the actor
  const int filled = from.acts_per_step() / out.acts_per_slot();
  const int freed = to.acts_per_step() / in->acts_per_slot();
  if (filled != freed) return Malformed("per step ", filled, " slots are filled, but ", freed, " are freed");
  if (!IsRank(program, to.rank())) return Malformed("rank ", to.rank(), " is not one of ", program.ranks_size());
  const pb::Rank &sender = program.ranks(from.rank()), &reader = program.ranks(to.rank());
  if (sender.host() != reader.host()) return absl::OkStatus();  // it is sent
  if (reg.slot_bytes() > 0 && !ZoneKindOf(reg.zone()).peers_read && sender.process() != reader.process()) {
    return Malformed("process ", reader.process(), " cannot read ", ZoneKindOf(reg.zone()).name, " memory of process ",
                     sender.process());
  }
  return absl::OkStatus();
}

// The slots lie in the zone of the producer's rank.
absl::Status CheckPlace(const pb::Program& program, const pb::Register& reg, int rank) {
  if (reg.slots() < 1 || reg.initially_filled() < 0 || reg.initially_filled() > reg.slots()) {
    return Malformed(reg.initially_filled(), " of ", reg.slots(), " slots are filled at the beginning");
  }
  if (!IsZone(reg.zone())) return Malformed("zone ", reg.zone(), " is unknown");
  if (!ZoneKindOf(reg.zone()).of_device && reg.shipments_size() > 0) {
    return Malformed("it is sent to other hosts, but lies in the ", ZoneName(reg.zone()), " zone");
  }
  if (reg.slot_bytes() < 0 || reg.slot_bytes() > kMaxBytes || reg.slot_stride() < 0 || reg.slot_stride() > kMaxBytes ||
      (reg.slot_stride() != 0 && reg.slot_stride() < reg.slot_bytes())) {
    return Malformed("slots of ", reg.slot_bytes(), " bytes at a distance of ", reg.slot_stride());
  }
  const int64_t limit = BytesOfZone(program.ranks(rank), reg.zone());
  if (reg.slot_bytes() > 0 && !SlotsInside(reg.offset(), reg.slots(), reg.slot_bytes(), reg.slot_stride(), limit)) {
    return Malformed(reg.slots(), " slots of ", reg.slot_bytes(), " bytes, ", reg.slot_stride(), " apart, at ",
                     reg.offset(), " reach outside the zone of ", limit);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckSlots(const pb::Program& program) {
  int64_t slots = 0;
  for (const pb::Plan& plan : program.plans()) {
    for (const pb::Register& reg : plan.registers()) {
      slots += std::max(0, reg.slots());
      if (slots <= kMaxSlots) continue;
      return Malformed("plan '", plan.name(), "': with the ", reg.slots(), " slots of register '", reg.name(),
                       "' there are ", slots, ", at most ", kMaxSlots);
    }
  }
  return absl::OkStatus();
}

absl::Status CheckRegister(const pb::Program& program, const pb::Plan& plan, int id) {
  const pb::Register& reg = plan.registers(id);
  if (!IsActor(plan, reg.producer())) {
    return Malformed("producer ", reg.producer(), " is not one of ", plan.actors_size(), " actors");
  }
  const pb::Actor& producer = plan.actors(reg.producer());
  const pb::Port* out = FindPort(producer.outputs(), id);
  if (out == nullptr) return Malformed("its producer ", reg.producer(), " has no such output");
  if (!IsRank(program, producer.rank())) {
    return Malformed("its producer's rank ", producer.rank(), " is not one of ", program.ranks_size());
  }
  OF_RETURN_IF_ERROR(CheckPlace(program, reg, producer.rank()));
  for (int i = 0; i < reg.consumers_size(); ++i) {
    const int consumer = reg.consumers(i);
    if (!IsActor(plan, consumer) || (i > 0 && consumer <= reg.consumers(i - 1))) {
      return Malformed("consumer ", consumer, " is out of order or not one of ", plan.actors_size(), " actors");
    }
    OF_RETURN_IF_ERROR_AT(CheckConsumer(program, plan, id, *out, consumer), absl::StrCat("consumer ", consumer));
  }
  return CheckShipments(program, plan, reg);
}

}  // namespace oneflow
