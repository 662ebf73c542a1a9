#include "actor/transport/shipments.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "oneflow_core/zones.h"

namespace oneflow {
namespace {

constexpr char kGap[8] = {};

// Goes to the next index of some dimensions, the last one fastest, and moves `offset` by their strides.
void Advance(absl::Span<const int64_t> extent, absl::Span<const int64_t> stride, std::vector<int64_t>& at,
             int64_t& offset) {
  for (size_t d = at.size(); d-- > 0;) {
    offset += stride[d];
    if (++at[d] < extent[d]) return;
    offset -= at[d] * stride[d];
    at[d] = 0;
  }
}

// The runs of a box, strides in bytes, that lands at `place`; returns the end of its landing.
int64_t ForEachRunOfBox(const char* first, int64_t place, absl::Span<const int64_t> extent,
                        absl::Span<const int64_t> stride, int64_t element_bytes,
                        absl::FunctionRef<void(int64_t, Shipment::Run)> take) {
  int64_t run = element_bytes;
  size_t dims = extent.size();
  for (; dims > 0 && (extent[dims - 1] == 1 || stride[dims - 1] == run); --dims) run *= extent[dims - 1];
  int64_t left = run > 0 ? 1 : 0;
  for (size_t d = 0; d < dims; ++d) left *= extent[d];
  std::vector<int64_t> at(dims, 0);
  for (int64_t offset = 0; left > 0; --left, place += run) {
    take(place, {first + offset, static_cast<size_t>(run)});
    Advance(extent, stride, at, offset);
  }
  return place;
}

// Slots per step.
int64_t RateOf(const pb::Plan& plan, int reg) {
  const pb::Actor& producer = plan.actors(plan.registers(reg).producer());
  const auto& ports = producer.outputs();
  const auto port = std::find_if(ports.begin(), ports.end(), [&](const pb::Port& x) { return x.register_() == reg; });
  return producer.acts_per_step() / port->acts_per_slot();
}

Message FirstFilled(int plan, int reg, int consumer) {
  return {Message::Kind::kFilled, 0, static_cast<uint16_t>(plan), consumer, reg, 0};
}

const char* SlotsOf(const pb::Register& reg, int rank, const JobMemory& memory) {
  const char* const base = memory.Base(rank, reg.zone());
  return base == nullptr ? nullptr : base + reg.offset();
}

}  // namespace

Shipment::Shipment(const pb::Shipment& from, const pb::Register& reg, const char* slots)
    : slots_(slots), slot_stride_(reg.slot_stride()) {
  int64_t end = 0;
  for (const pb::Parcel& parcel : from.parcels()) {
    const auto size = static_cast<int64_t>(SizeOf(static_cast<DType>(parcel.dtype())));
    const bool is_behind_rows = !parcels_.empty() && parcels_.back().rows.has_value();
    Parcel& to = parcels_.emplace_back();
    to.offset = parcel.offset();
    to.place = ParcelOffset(end);
    to.gap = is_behind_rows ? 0 : to.place - end;
    to.element_bytes = size;
    end = to.place + size;
    for (int d = 0; d < parcel.extent_size(); ++d) {
      to.extent.push_back(parcel.extent(d));
      to.stride.push_back(parcel.stride(d) * size);
      end = to.place + (end - to.place) * parcel.extent(d);
    }
    if (!parcel.has_counts()) continue;
    has_rows_ = true;
    const int dim = parcel.counts().stride_size();
    RowBox& rows = to.rows.emplace();
    rows.groups.assign(to.extent.begin(), to.extent.begin() + dim);
    rows.count_stride.assign(parcel.counts().stride().begin(), parcel.counts().stride().end());
    rows.first_row = parcel.counts().first_row();
    rows.rows = to.extent[dim];
  }
}

void Shipment::CountRows(int parcel, const Counts& counts) {
  parcels_[parcel].counts = counts;
  if (counts.shipment != nullptr) counts.shipment->counted_.push_back(this);
}

void Shipment::OnFilled(const Message& message, Send send) {
  ++filled_;
  waiting_.push_back(message);
  SendReady(send);
  for (Shipment* const rows : counted_) rows->SendReady(send);
}

void Shipment::SendReady(Send send) {
  for (; !waiting_.empty() && CountsAreThere(); ++sent_) {
    send(waiting_.front(), *this);
    waiting_.pop_front();
  }
}

// For the data that is sent next.
bool Shipment::CountsAreThere() const {
  return std::all_of(parcels_.begin(), parcels_.end(), [this](const Parcel& parcel) {
    const Counts& counts = parcel.counts;
    return counts.shipment == nullptr || sent_ / counts.fillings < counts.initial + counts.shipment->filled_;
  });
}

const int32_t* Shipment::CountsOf(const Parcel& parcel) const {
  const Counts& counts = parcel.counts;
  const int64_t slot = sent_ / counts.fillings % counts.num_slots;
  return reinterpret_cast<const int32_t*>(counts.slots + slot * counts.slot_stride);
}

void Shipment::ForEachRun(int32_t slot, absl::FunctionRef<void(int64_t, Run)> take) const {
  for (const Parcel& parcel : parcels_) {
    if (parcel.gap > 0) take(parcel.place - parcel.gap, {kGap, static_cast<size_t>(parcel.gap)});
    const char* const first = slots_ + slot * slot_stride_ + parcel.offset;
    if (parcel.rows.has_value()) {
      ForEachRunOfRows(parcel, first, take);
    } else {
      ForEachRunOfBox(first, parcel.place, parcel.extent, parcel.stride, parcel.element_bytes, take);
    }
  }
}

// The filled ones, group by group.
void Shipment::ForEachRunOfRows(const Parcel& parcel, const char* first,
                                absl::FunctionRef<void(int64_t, Run)> take) const {
  const RowBox& rows = *parcel.rows;
  const int32_t* const counts = CountsOf(parcel);
  const size_t dim = rows.groups.size();
  std::vector<int64_t> extent(parcel.extent.begin() + static_cast<int64_t>(dim), parcel.extent.end());
  int64_t groups = 1, place = parcel.place;
  for (const int64_t of : rows.groups) groups *= of;
  std::vector<int64_t> at(dim, 0), at_count(dim, 0);
  for (int64_t offset = 0, count = 0; groups > 0; --groups) {
    extent[0] = rows.Filled(counts[count]);
    place = ForEachRunOfBox(first + offset, place, extent, absl::MakeConstSpan(parcel.stride).subspan(dim),
                            parcel.element_bytes, take);
    Advance(rows.groups, parcel.stride, at, offset);
    Advance(rows.groups, rows.count_stride, at_count, count);
  }
}

void Shipment::CopyTo(int32_t slot, char* target) const {
  ForEachRun(slot, [&](int64_t place, Run run) { std::memcpy(target + place, run.data(), run.size()); });
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
    const int registers = program.plans(p).registers_size();
    for (int r = 0; r < registers; ++r) AddShipments(program, process, p, r, memory);
    for (int r = 0; r < registers; ++r) AddCounts(program, p, r, memory);
    for (int a = 0; a < program.plans(p).actors_size(); ++a) AddLandings(program, process, p, a, memory);
  }
}

void Shipments::AddShipments(const pb::Program& program, int process, int plan, int reg, const JobMemory& memory) {
  const pb::Register& from = program.plans(plan).registers(reg);
  const int rank = program.plans(plan).actors(from.producer()).rank();
  if (program.ranks(rank).process() != process) return;
  for (const pb::Shipment& shipment : from.shipments()) {
    const Message first = FirstFilled(plan, reg, shipment.consumer());
    shipments_.try_emplace(KeyOf(first), shipment, from, SlotsOf(from, rank, memory));
    for (int32_t slot = 0; slot < from.initially_filled(); ++slot) {
      initial_[plan].push_back(first);
      initial_[plan].back().slot = slot;
    }
  }
}

void Shipments::AddCounts(const pb::Program& program, int plan, int reg, const JobMemory& memory) {
  const pb::Plan& of = program.plans(plan);
  const int rank = of.actors(of.registers(reg).producer()).rank();
  for (const pb::Shipment& shipment : of.registers(reg).shipments()) {
    Shipment* const rows = Of(FirstFilled(plan, reg, shipment.consumer()));
    for (int p = 0; rows != nullptr && p < shipment.parcels_size(); ++p) {
      if (!shipment.parcels(p).has_counts()) continue;
      const pb::RowCounts& counts = shipment.parcels(p).counts();
      const pb::Register& its = of.registers(counts.register_());
      Shipment* const their = Of(FirstFilled(plan, counts.register_(), shipment.consumer()));
      rows->CountRows(p, {.slots = SlotsOf(its, rank, memory) + counts.offset(),
                          .slot_stride = its.slot_stride(),
                          .num_slots = its.slots(),
                          .fillings = RateOf(of, reg) / RateOf(of, counts.register_()),
                          .initial = its.initially_filled(),
                          .shipment = their == rows ? nullptr : their});  // of one slot they are always there
    }
  }
}

void Shipments::AddLandings(const pb::Program& program, int process, int plan, int actor, const JobMemory& memory) {
  const pb::Actor& to = program.plans(plan).actors(actor);
  if (program.ranks(to.rank()).process() != process) return;
  char* const base = memory.Base(to.rank(), kWorkZone);
  for (const pb::Landing& landing : to.landings()) {
    const pb::Register& reg = program.plans(plan).registers(landing.register_());
    landings_.emplace(Key{plan, landing.register_(), actor},
                      Landing(landing, reg, base == nullptr ? nullptr : base + landing.offset()));
    const int producer = program.plans(plan).actors(reg.producer()).rank();
    if (program.ranks(producer).process() != process) from_peers_[plan] += reg.initially_filled();
  }
}

Shipment* Shipments::Of(const Message& message) {
  if (message.kind != Message::Kind::kFilled) return nullptr;
  const auto it = shipments_.find(KeyOf(message));
  return it == shipments_.end() ? nullptr : &it->second;
}

void Shipments::OnFilled(const Message& message, Shipment& shipment, Shipment::Send send) {
  if (!shipment.is_counted()) return send(message, shipment);
  std::lock_guard<std::mutex> lock(counted_mu_);
  shipment.OnFilled(message, send);
}

Landing* Shipments::LandingOf(const Message& message) {
  if (message.kind != Message::Kind::kFilled) return nullptr;
  const auto it = landings_.find(KeyOf(message));
  return it == landings_.end() ? nullptr : &it->second;
}

}  // namespace oneflow
