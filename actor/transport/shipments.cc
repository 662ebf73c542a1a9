#include "actor/transport/shipments.h"

#include <cstring>
#include <utility>

namespace oneflow {
namespace {

constexpr char kGap[8] = {};

}  // namespace

Shipment::Shipment(const pb::Shipment& from, const pb::Register& reg, const char* slots)
    : slots_(slots), slot_stride_(reg.slot_stride()) {
  for (const pb::Parcel& parcel : from.parcels()) {
    const auto size = static_cast<int64_t>(SizeOf(static_cast<DType>(parcel.dtype())));
    Parcel& to = parcels_.emplace_back();
    to.offset = parcel.offset();
    to.gap = ParcelOffset(num_bytes_) - num_bytes_;
    to.run_bytes = size;
    int d = parcel.extent_size();
    for (; d > 0 && (parcel.extent(d - 1) == 1 || parcel.stride(d - 1) * size == to.run_bytes); --d) {
      to.run_bytes *= parcel.extent(d - 1);
    }
    int64_t runs = to.run_bytes > 0 ? 1 : 0;
    for (int i = 0; i < d; ++i) {
      to.extent.push_back(parcel.extent(i));
      to.stride.push_back(parcel.stride(i) * size);
      runs *= parcel.extent(i);
    }
    num_runs_ += runs + (to.gap > 0 ? 1 : 0);
    num_bytes_ += to.gap + runs * to.run_bytes;
  }
}

void Shipment::ForEachRun(int32_t slot, absl::FunctionRef<void(Run)> take) const {
  for (const Parcel& parcel : parcels_) {
    if (parcel.gap > 0) take({kGap, static_cast<size_t>(parcel.gap)});
    const char* const first = slots_ + slot * slot_stride_ + parcel.offset;
    std::vector<int64_t> at(parcel.extent.size(), 0);
    int64_t left = parcel.run_bytes > 0 ? 1 : 0;
    for (const int64_t extent : parcel.extent) left *= extent;
    for (int64_t offset = 0; left > 0; --left) {
      take({first + offset, static_cast<size_t>(parcel.run_bytes)});
      for (size_t d = at.size(); d-- > 0;) {
        offset += parcel.stride[d];
        if (++at[d] < parcel.extent[d]) break;
        offset -= at[d] * parcel.stride[d];
        at[d] = 0;
      }
    }
  }
}

void Shipment::CopyTo(int32_t slot, char* target) const {
  ForEachRun(slot, [&](Run run) {
    std::memcpy(target, run.data(), run.size());
    target += run.size();
  });
}

void Landing::OnArrived(const Message& message, absl::FunctionRef<void(const Message&)> filled) {
  arrived_[message.slot] = message;
  while (arrived_[next_].has_value()) {
    filled(*std::exchange(arrived_[next_], std::nullopt));
    next_ = (next_ + 1) % slots_;
  }
}

Shipments::Shipments(const pb::Program& program, int process, const JobMemory& memory)
    : initial_(program.plans_size()), from_peers_(program.plans_size(), 0) {
  for (int p = 0; p < program.plans_size(); ++p) {
    for (int r = 0; r < program.plans(p).registers_size(); ++r) AddShipments(program, process, p, r, memory);
    for (int a = 0; a < program.plans(p).actors_size(); ++a) AddLandings(program, process, p, a, memory);
  }
}

void Shipments::AddShipments(const pb::Program& program, int process, int plan, int reg, const JobMemory& memory) {
  const pb::Register& from = program.plans(plan).registers(reg);
  const int rank = program.plans(plan).actors(from.producer()).rank();
  if (program.ranks(rank).process() != process) return;
  const char* const base = memory.Base(rank, from.zone());
  for (const pb::Shipment& shipment : from.shipments()) {
    const Message first{Message::Kind::kFilled, 0, static_cast<uint16_t>(plan), shipment.consumer(), reg, 0};
    shipments_.emplace(KeyOf(first), Shipment(shipment, from, base == nullptr ? nullptr : base + from.offset()));
    for (int32_t slot = 0; slot < from.initially_filled(); ++slot) {
      initial_[plan].push_back(first);
      initial_[plan].back().slot = slot;
    }
  }
}

void Shipments::AddLandings(const pb::Program& program, int process, int plan, int actor, const JobMemory& memory) {
  const pb::Actor& to = program.plans(plan).actors(actor);
  if (program.ranks(to.rank()).process() != process) return;
  char* const base = memory.Base(to.rank(), pb::PRIVATE);
  for (const pb::Landing& landing : to.landings()) {
    const pb::Register& reg = program.plans(plan).registers(landing.register_());
    landings_.emplace(Key{plan, landing.register_(), actor},
                      Landing(landing, reg, base == nullptr ? nullptr : base + landing.offset()));
    const int producer = program.plans(plan).actors(reg.producer()).rank();
    if (program.ranks(producer).process() != process) from_peers_[plan] += reg.initially_filled();
  }
}

const Shipment* Shipments::Of(const Message& message) const {
  if (message.kind != Message::Kind::kFilled) return nullptr;
  const auto it = shipments_.find(KeyOf(message));
  return it == shipments_.end() ? nullptr : &it->second;
}

Landing* Shipments::LandingOf(const Message& message) {
  if (message.kind != Message::Kind::kFilled) return nullptr;
  const auto it = landings_.find(KeyOf(message));
  return it == landings_.end() ? nullptr : &it->second;
}

}  // namespace oneflow
