#include "actor/check/shipment_check.h"

#include <algorithm>
#include <string>
#include <vector>

#include "actor/check/bounds.h"
#include "actor/transport/shipments.h"
#include "oneflow_core/dtype.h"
#include "oneflow_core/zones.h"

namespace oneflow {
namespace {

absl::Status CheckParcel(const pb::Parcel& parcel, const pb::Register& reg) {
  OF_RETURN_IF_ERROR(NumBytes(parcel.dtype(), parcel.extent()).status());
  const auto size = static_cast<int64_t>(SizeOf(static_cast<DType>(parcel.dtype())));
  Dims slot;  // in elements, from the first of the parcel
  slot.Add((reg.slot_bytes() - parcel.offset()) / size);
  if (!Inside(parcel.offset(), 0, reg.slot_bytes()) || parcel.offset() % size != 0) {
    return Malformed("it begins at ", parcel.offset(), " of ", reg.slot_bytes(), " bytes");
  }
  return CheckReach(parcel.extent(), 0, parcel.stride(), slot);
}

// How often a step fills a register; 0 if its producer does not, which is reported elsewhere.
int64_t RateOf(const pb::Plan& plan, const pb::Register& reg) {
  const pb::Actor& producer = plan.actors(reg.producer());
  for (const pb::Port& port : producer.outputs()) {
    const bool is_it =
        port.register_() >= 0 && port.register_() < plan.registers_size() && &plan.registers(port.register_()) == &reg;
    if (is_it && port.acts_per_slot() > 0) return producer.acts_per_step() / port.acts_per_slot();
  }
  return 0;
}

// Where the counts lie: one for each group of the parcel's rows, inside the slots of their register.
absl::Status CheckPlaceOfCounts(const pb::Register& its, const pb::Parcel& parcel) {
  const pb::RowCounts& counts = parcel.counts();
  const int dim = counts.stride_size();
  if (dim >= parcel.extent_size() || counts.first_row() < 0 || counts.first_row() > kMaxBytes) {
    return Malformed("have ", dim, " dimensions of rows ", Text(parcel.extent()), " from row ", counts.first_row(),
                     " on");
  }
  constexpr auto kSize = static_cast<int64_t>(sizeof(int32_t));
  const int64_t places = its.offset() | its.slot_stride() | counts.offset();
  if (!IsZone(its.zone()) || !ZoneKindOf(its.zone()).of_device) {
    return Malformed("lie in zone ", its.zone(), ", which no device has");
  }
  if (!Inside(counts.offset(), 0, its.slot_bytes()) || places % kSize != 0) {
    return Malformed("begin at ", counts.offset(), " of ", its.slot_bytes(), " bytes");
  }
  return absl::OkStatus();
}

// The counts of the rows of a ragged parcel lie in a register of the rank that is sent to its consumer, too; each of
// its slots serves as many slots of the rows.
absl::Status CheckRowCounts(const pb::Plan& plan, const pb::Register& reg, int consumer, const pb::Parcel& parcel) {
  if (!parcel.has_counts()) return absl::OkStatus();
  const pb::RowCounts& counts = parcel.counts();
  if (counts.register_() < 0 || counts.register_() >= plan.registers_size()) {
    return Malformed("its counts are in register ", counts.register_(), ", which is not one of ",
                     plan.registers_size());
  }
  const pb::Register& its = plan.registers(counts.register_());
  const std::string where = absl::StrCat("its counts, in register ", counts.register_());
  const auto& sent = its.shipments();
  const bool is_read =
      std::any_of(sent.begin(), sent.end(), [&](const pb::Shipment& x) { return x.consumer() == consumer; });
  if (!is_read || !IsActor(plan, its.producer()) ||
      plan.actors(its.producer()).rank() != plan.actors(reg.producer()).rank()) {
    return Malformed(where, ", are not on the rank of the rows, or not sent to actor ", consumer);
  }
  if (const absl::Status place = CheckPlaceOfCounts(its, parcel); !place.ok()) {
    return Malformed(where, ", ", place.message());
  }
  const int dim = counts.stride_size();
  Dims groups, slot;  // in counts, from the first
  groups.Add(parcel.extent().begin(), parcel.extent().begin() + dim);
  slot.Add((its.slot_bytes() - counts.offset()) / static_cast<int64_t>(sizeof(int32_t)));
  OF_RETURN_IF_ERROR_AT(CheckReach(groups, 0, counts.stride(), slot), where);
  const int64_t of_rows = RateOf(plan, reg), of_counts = RateOf(plan, its);
  if (reg.initially_filled() > 0 || of_counts < 1 || of_rows % of_counts != 0) {
    return Malformed(where, ", are filled ", of_counts, " times a step, the rows ", of_rows, " times and ",
                     reg.initially_filled(), " before the first");
  }
  return absl::OkStatus();
}

struct PayloadBytes {
  int64_t all = 0, ragged = 0;
};

// The bytes of a shipment, and those for ragged rows. REQUIRES: its parcels have shapes.
absl::StatusOr<PayloadBytes> BytesOf(const pb::Shipment& shipment) {
  PayloadBytes bytes;
  bool is_behind_rows = false;
  for (const pb::Parcel& parcel : shipment.parcels()) {
    OF_ASSIGN_OR_RETURN(const int64_t of_parcel, NumBytes(parcel.dtype(), parcel.extent()));
    if (bytes.all > kMaxBytes) return Malformed("its parcels have more than ", kMaxBytes, " bytes");
    if (is_behind_rows) bytes.ragged += ParcelOffset(bytes.all) - bytes.all;
    is_behind_rows = parcel.has_counts();
    bytes.all = ParcelOffset(bytes.all) + of_parcel;
    if (is_behind_rows) bytes.ragged += of_parcel;
  }
  return bytes;
}

// The landing of the register for its consumer, if that is in the program.
const pb::Landing* LandingAt(const pb::Plan& plan, int consumer, const pb::Register& reg) {
  for (const pb::Landing& landing : plan.actors(consumer).landings()) {
    const bool is_register = landing.register_() >= 0 && landing.register_() < plan.registers_size();
    if (is_register && &plan.registers(landing.register_()) == &reg) return &landing;
  }
  return nullptr;
}

// The landing has room for exactly what comes.
absl::Status CheckRoom(const pb::Program& program, const pb::Plan& plan, const pb::Register& reg,
                       const pb::Shipment& shipment) {
  OF_ASSIGN_OR_RETURN(const PayloadBytes bytes, BytesOf(shipment));
  const int from = plan.actors(reg.producer()).rank(), to = plan.actors(shipment.consumer()).rank();
  const pb::Landing* const landing = LandingAt(plan, shipment.consumer(), reg);
  const bool is_here = program.ranks(from).process() == program.ranks(to).process();
  const bool fits =
      landing == nullptr ? !is_here : bytes.all == landing->slot_bytes() && bytes.ragged == landing->ragged_bytes();
  if (fits) return absl::OkStatus();
  return Malformed("it has ", bytes.all, " bytes, ", bytes.ragged, " of ragged rows, the landing ",
                   landing == nullptr ? -1 : landing->slot_bytes(), " and ",
                   landing == nullptr ? -1 : landing->ragged_bytes());
}

absl::Status CheckLanding(const pb::Program& program, const pb::Plan& plan, const pb::Actor& actor,
                          const pb::Landing& landing) {
  if (FindPort(actor.inputs(), landing.register_()) == nullptr) return Malformed("it is no input");
  const pb::Register& reg = plan.registers(landing.register_());
  const int producer = IsActor(plan, reg.producer()) ? plan.actors(reg.producer()).rank() : -1;
  if (!IsRank(program, producer) || program.ranks(producer).host() == program.ranks(actor.rank()).host()) {
    return Malformed("rank ", producer, " is not on another host than rank ", actor.rank());
  }
  const bool is_sent = std::any_of(reg.shipments().begin(), reg.shipments().end(), [&](const pb::Shipment& x) {
    return IsActor(plan, x.consumer()) && &plan.actors(x.consumer()) == &actor;
  });
  if (!is_sent && program.ranks(producer).process() == program.ranks(actor.rank()).process()) {
    return Malformed("nothing is sent there");
  }
  const int64_t limit = BytesOfZone(program.ranks(actor.rank()), kWorkZone);
  if (landing.offset() % kKernelAlignment != 0 || landing.slot_stride() % kKernelAlignment != 0 ||
      landing.slot_bytes() < 0 || landing.slot_stride() < landing.slot_bytes() || landing.ragged_bytes() < 0 ||
      landing.ragged_bytes() > landing.slot_bytes() ||
      !SlotsInside(landing.offset(), reg.slots(), landing.slot_stride(), landing.slot_stride(), limit)) {
    return Malformed(reg.slots(), " slots of ", landing.slot_bytes(), " bytes, ", landing.slot_stride(), " apart, at ",
                     landing.offset(), " of ", limit);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckShipments(const pb::Program& program, const pb::Plan& plan, const pb::Register& reg) {
  const int from = plan.actors(reg.producer()).rank();
  const auto& consumers = reg.consumers();
  int before = -1;
  for (const pb::Shipment& shipment : reg.shipments()) {
    const std::string where = absl::StrCat("shipment to actor ", shipment.consumer());
    if (shipment.consumer() <= before || !std::binary_search(consumers.begin(), consumers.end(), shipment.consumer())) {
      return Malformed(where, ": it is out of order or to no consumer");
    }
    before = shipment.consumer();
    const int to = plan.actors(before).rank();
    if (!IsRank(program, to)) return Malformed(where, ": rank ", to, " is not one of ", program.ranks_size());
    if (program.ranks(from).host() == program.ranks(to).host()) {
      return Malformed(where, ": rank ", from, " and rank ", to, " are on host ", program.ranks(to).host());
    }
    for (int i = 0; i < shipment.parcels_size(); ++i) {
      const std::string place = absl::StrCat(where, ": parcel ", i);
      OF_RETURN_IF_ERROR_AT(CheckParcel(shipment.parcels(i), reg), place);
      OF_RETURN_IF_ERROR_AT(CheckRowCounts(plan, reg, before, shipment.parcels(i)), place);
    }
    OF_RETURN_IF_ERROR_AT(CheckRoom(program, plan, reg, shipment), where);
  }
  return absl::OkStatus();
}

absl::Status CheckLandings(const pb::Program& program, const pb::Plan& plan, const pb::Actor& actor) {
  std::vector<std::pair<int64_t, int64_t>> areas;
  for (int i = 0; i < actor.landings_size(); ++i) {
    const pb::Landing& landing = actor.landings(i);
    OF_RETURN_IF_ERROR_AT(CheckLanding(program, plan, actor, landing),
                          absl::StrCat("landing ", i, " of register ", landing.register_()));
    const int64_t slots = plan.registers(landing.register_()).slots();
    areas.emplace_back(landing.offset(), landing.offset() + slots * landing.slot_stride());
  }
  std::sort(areas.begin(), areas.end());
  for (size_t i = 1; i < areas.size(); ++i) {
    if (areas[i].first < areas[i - 1].second) {
      return Malformed("a landing at ", areas[i].first, " begins before another ends, at ", areas[i - 1].second);
    }
  }
  return absl::OkStatus();
}

}  // namespace oneflow
