#include "actor/program_check.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "actor/collective_check.h"
#include "actor/init.h"
#include "actor/transport/shipments.h"
#include "oneflow_core/dtype.h"
#include "oneflow_core/memory_layout.h"
#include "oneflow_core/mesh.h"

namespace oneflow {
namespace {

// Far more than any machine has, and small enough that sums of two never overflow.
constexpr int64_t kMaxBytes = int64_t{1} << 56;
// Of all registers of a program together, also of those without bytes: the runtime keeps some bytes for each slot.
constexpr int64_t kMaxSlots = int64_t{1} << 24;
// The most plans: the message format has 16 bits for them (Message::plan).
constexpr int kMaxPlans = 65535;
// Kernels may assume this alignment of what they compute on (kernels/kernel.h).
constexpr int64_t kAlignment = 64;

using Dims = google::protobuf::RepeatedField<int64_t>;

std::string Text(const Dims& dims) { return absl::StrCat("[", absl::StrJoin(dims, ","), "]"); }

template <typename... Parts>
absl::Status Bad(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(parts...));
}

// The product of `dims` if no size is negative and the product is at most kMaxBytes.
std::optional<int64_t> Count(const Dims& dims) {
  int64_t count = 1;
  for (const int64_t dim : dims) {
    if (dim < 0 || dim > kMaxBytes) return std::nullopt;
    if (dim > 0 && count > kMaxBytes / dim) return std::nullopt;
    count *= dim;
  }
  return count;
}

absl::StatusOr<int64_t> NumBytes(int dtype, const Dims& dims) {
  if (!pb::DType_IsValid(dtype)) return Bad("dtype ", dtype, " is unknown");
  const std::optional<int64_t> count = Count(dims);
  const int64_t size = static_cast<int64_t>(SizeOf(static_cast<DType>(dtype)));
  if (!count || *count > kMaxBytes / size) return Bad("dimensions ", Text(dims), " are no shape");
  return *count * size;
}

// Whether [offset, offset + size) lies in [0, limit); an empty range may lie at its end.
bool Inside(int64_t offset, int64_t size, int64_t limit) {
  return offset >= 0 && size >= 0 && offset <= limit && size <= limit - offset;
}

// A box of a logical tensor.
absl::Status CheckBox(const Dims& start, const Dims& extent, const Dims& logical) {
  if (start.size() != logical.size() || extent.size() != logical.size()) {
    return Bad("shard ", Text(start), "+", Text(extent), " has another rank than the logical tensor ", Text(logical));
  }
  if (!Count(logical)) return Bad("dimensions ", Text(logical), " are no shape");
  for (int i = 0; i < logical.size(); ++i) {
    if (!Inside(start[i], extent[i], logical[i])) {
      return Bad("shard ", Text(start), "+", Text(extent), " lies outside the logical tensor ", Text(logical));
    }
  }
  return absl::OkStatus();
}

bool Overlap(const pb::Shard& a, const pb::Shard& b) {
  for (int i = 0; i < a.start_size(); ++i) {
    if (std::max(a.start(i), b.start(i)) >= std::min(a.start(i) + a.extent(i), b.start(i) + b.extent(i))) return false;
  }
  return true;
}

class Checker {
 public:
  explicit Checker(const pb::Program& set) : set_(set) {}

  absl::Status Run(int num_processes) const {
    if (set_.version() != kRuntimeProgramVersion) {
      return Bad("program: version is ", set_.version(), ", this runtime reads ", kRuntimeProgramVersion);
    }
    if (set_.ranks().empty()) return Bad("program: it has no ranks");
    for (int r = 0; r < set_.ranks_size(); ++r) {
      OF_RETURN_IF_ERROR_AT(CheckRank(set_.ranks(r), num_processes), absl::StrCat("rank ", r));
    }
    std::set<std::string> names;
    for (const pb::Variable& variable : set_.variables()) {
      const std::string where = absl::StrCat("variable '", variable.name(), "'");
      OF_RETURN_IF_ERROR_AT(CheckVariable(variable), where);
      if (!names.insert(variable.name()).second) return Bad(where, ": the name is used twice");
    }
    for (int c = 0; c < set_.communicators_size(); ++c) {
      std::set<int> members;
      for (const int rank : set_.communicators(c).ranks()) {
        if (!IsRank(rank) || !members.insert(rank).second) {
          return Bad("communicator ", c, ": rank ", rank, " is named twice or not one of ", set_.ranks_size());
        }
      }
    }
    if (set_.plans_size() > kMaxPlans) return Bad("program: ", set_.plans_size(), " plans, at most ", kMaxPlans);
    OF_RETURN_IF_ERROR(CheckSlots());
    names.clear();
    for (const pb::Plan& plan : set_.plans()) {
      const std::string where = absl::StrCat("plan '", plan.name(), "'");
      OF_RETURN_IF_ERROR_AT(CheckPlan(plan), where);
      if (!names.insert(plan.name()).second) return Bad(where, ": the name is used twice");
    }
    return absl::OkStatus();
  }

 private:
  bool IsRank(int rank) const { return rank >= 0 && rank < set_.ranks_size(); }
  int64_t ZoneBytes(int rank, int zone) const {
    return zone == pb::SHARED ? set_.ranks(rank).shared_bytes() : set_.ranks(rank).private_bytes();
  }

  absl::Status CheckRank(const pb::Rank& rank, int num_processes) const {
    if (rank.process() < 0 || rank.process() >= num_processes) {
      return Bad("process ", rank.process(), " is not one of the job's ", num_processes);
    }
    if (rank.host() < 0) return Bad("host ", rank.host(), " is none");
    OF_RETURN_IF_ERROR(Device::Parse(rank.device()).status());
    if (rank.private_bytes() < 0 || rank.private_bytes() > kMaxBytes || rank.shared_bytes() < 0 ||
        rank.shared_bytes() > kMaxBytes) {
      return Bad("zones of ", rank.private_bytes(), " and ", rank.shared_bytes(), " bytes");
    }
    if (!Inside(0, rank.private_variable_bytes(), rank.private_bytes()) ||
        !Inside(0, rank.shared_variable_bytes(), rank.shared_bytes())) {
      return Bad("variables take ", rank.private_variable_bytes(), " and ", rank.shared_variable_bytes(),
                 " bytes of zones of ", rank.private_bytes(), " and ", rank.shared_bytes());
    }
    return absl::OkStatus();
  }

  absl::Status CheckVariable(const pb::Variable& variable) const {
    if (variable.name().empty()) return Bad("it has no name");
    OF_RETURN_IF_ERROR(NumBytes(variable.dtype(), variable.dims()).status());
    const int64_t count = *Count(variable.dims());
    OF_RETURN_IF_ERROR(ParseInit(variable.init(), count).status());
    std::vector<const pb::Shard*> owners;
    int64_t owned = 0;
    for (int i = 0; i < variable.shards_size(); ++i) {
      const pb::Shard& shard = variable.shards(i);
      const std::string where = absl::StrCat("shard ", i);
      if (!IsRank(shard.rank())) return Bad(where, ": rank ", shard.rank(), " is not one of ", set_.ranks_size());
      OF_RETURN_IF_ERROR_AT(CheckBox(shard.start(), shard.extent(), variable.dims()), where);
      if (!pb::Zone_IsValid(shard.zone())) return Bad(where, ": zone ", shard.zone(), " is unknown");
      OF_ASSIGN_OR_RETURN(const int64_t bytes, NumBytes(variable.dtype(), shard.extent()));
      const int64_t limit = ZoneBytes(shard.rank(), shard.zone());
      if (!Inside(shard.offset(), bytes, limit)) {
        return Bad(where, ": ", bytes, " bytes at ", shard.offset(), " reach outside the zone of ", limit);
      }
      if (!shard.owner() || bytes == 0) continue;
      owned += *Count(shard.extent());
      for (const pb::Shard* other : owners) {
        if (Overlap(*other, shard)) return Bad(where, ": another owner's shard overlaps it");
      }
      owners.push_back(&shard);
    }
    if (owned != count && !set_.has_process()) return Bad("owners hold ", owned, " of its ", count, " elements");
    return absl::OkStatus();
  }

  absl::Status CheckPlan(const pb::Plan& plan) const {
    if (plan.micro_batches() < 1) return Bad("micro_batches is ", plan.micro_batches());
    if (set_.has_process()) {
      OF_RETURN_IF_ERROR_AT(CheckIds(plan.actors()), "actors");
      OF_RETURN_IF_ERROR_AT(CheckIds(plan.registers()), "registers");
    }
    for (int r = 0; r < plan.registers_size(); ++r) {
      OF_RETURN_IF_ERROR_AT(CheckRegister(plan, r), absl::StrCat("register ", r, " '", plan.registers(r).name(), "'"));
    }
    for (int a = 0; a < plan.actors_size(); ++a) {
      OF_RETURN_IF_ERROR_AT(CheckActor(plan, a), absl::StrCat("actor ", a, " '", plan.actors(a).name(), "'"));
    }
    return CheckCollectives(set_, plan);
  }

  template <typename Items>
  static absl::Status CheckIds(const Items& items) {
    int before = -1;
    for (const auto& item : items) {
      if (item.id() <= before) return Bad("id ", item.id(), " comes after ", before);
      before = item.id();
    }
    return absl::OkStatus();
  }

  // The use of register `id` among `ports`; null if there is none.
  static const pb::Port* FindPort(const google::protobuf::RepeatedPtrField<pb::Port>& ports, int id) {
    for (const pb::Port& port : ports) {
      if (port.register_() == id) return &port;
    }
    return nullptr;
  }

  absl::Status CheckSlots() const {
    int64_t slots = 0;
    for (const pb::Plan& plan : set_.plans()) {
      for (const pb::Register& reg : plan.registers()) {
        slots += std::max(0, reg.slots());
        if (slots <= kMaxSlots) continue;
        return Bad("plan '", plan.name(), "': with the ", reg.slots(), " slots of register '", reg.name(),
                   "' there are ", slots, ", at most ", kMaxSlots);
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckRegister(const pb::Plan& plan, int id) const {
    const pb::Register& reg = plan.registers(id);
    const auto is_actor = [&](int actor) { return actor >= 0 && actor < plan.actors_size(); };
    if (!is_actor(reg.producer()))
      return Bad("producer ", reg.producer(), " is not one of ", plan.actors_size(), " actors");
    const pb::Actor& producer = plan.actors(reg.producer());
    const pb::Port* out = FindPort(producer.outputs(), id);
    if (out == nullptr) return Bad("its producer ", reg.producer(), " has no such output");
    if (!IsRank(producer.rank()))
      return Bad("its producer's rank ", producer.rank(), " is not one of ", set_.ranks_size());
    if (reg.slots() < 1 || reg.initially_filled() < 0 || reg.initially_filled() > reg.slots()) {
      return Bad(reg.initially_filled(), " of ", reg.slots(), " slots are filled at the beginning");
    }
    if (!pb::Zone_IsValid(reg.zone())) return Bad("zone ", reg.zone(), " is unknown");
    if (reg.slot_bytes() < 0 || reg.slot_bytes() > kMaxBytes || reg.slot_stride() < 0 ||
        reg.slot_stride() > kMaxBytes || (reg.slot_stride() != 0 && reg.slot_stride() < reg.slot_bytes())) {
      return Bad("slots of ", reg.slot_bytes(), " bytes at a distance of ", reg.slot_stride());
    }
    const int64_t limit = ZoneBytes(producer.rank(), reg.zone());
    const int64_t others = reg.slots() - 1;
    if (reg.slot_bytes() > 0 &&
        (!Inside(reg.offset(), reg.slot_bytes(), limit) ||
         (reg.slot_stride() > 0 && others > (limit - reg.offset() - reg.slot_bytes()) / reg.slot_stride()))) {
      return Bad(reg.slots(), " slots of ", reg.slot_bytes(), " bytes, ", reg.slot_stride(), " apart, at ",
                 reg.offset(), " reach outside the zone of ", limit);
    }
    for (int i = 0; i < reg.consumers_size(); ++i) {
      const int consumer = reg.consumers(i);
      if (!is_actor(consumer) || (i > 0 && consumer <= reg.consumers(i - 1))) {
        return Bad("consumer ", consumer, " is out of order or not one of ", plan.actors_size(), " actors");
      }
      OF_RETURN_IF_ERROR_AT(CheckConsumer(plan, id, *out, consumer), absl::StrCat("consumer ", consumer));
    }
    return CheckShipments(plan, reg);
  }

  // Parcels lie in a slot, and all readers on other hosts have one shipment.
  absl::Status CheckShipments(const pb::Plan& plan, const pb::Register& reg) const {
    const int from = plan.actors(reg.producer()).rank();
    int before = -1;
    for (const pb::Shipment& shipment : reg.shipments()) {
      const std::string where = absl::StrCat("shipment to actor ", shipment.consumer());
      const auto& consumers = reg.consumers();
      if (shipment.consumer() <= before ||
          !std::binary_search(consumers.begin(), consumers.end(), shipment.consumer())) {
        return Bad(where, ": it is out of order or to no consumer");
      }
      before = shipment.consumer();
      const int to = plan.actors(before).rank();
      if (!IsRank(to)) return Bad(where, ": rank ", to, " is not one of ", set_.ranks_size());
      if (set_.ranks(from).host() == set_.ranks(to).host()) {
        return Bad(where, ": rank ", from, " and rank ", to, " are on host ", set_.ranks(to).host());
      }
      for (int i = 0; i < shipment.parcels_size(); ++i) {
        const std::string place = absl::StrCat(where, ": parcel ", i);
        OF_RETURN_IF_ERROR_AT(CheckParcel(shipment.parcels(i), reg), place);
        OF_RETURN_IF_ERROR_AT(CheckRowCounts(plan, reg, before, shipment.parcels(i)), place);
      }
      OF_ASSIGN_OR_RETURN_AT(const PayloadBytes bytes, BytesOf(shipment), where);
      const pb::Landing* const landing = FindLanding(plan, before, reg);
      const bool is_here = set_.ranks(from).process() == set_.ranks(to).process();
      if (landing == nullptr ? is_here
                             : bytes.all != landing->slot_bytes() || bytes.ragged != landing->ragged_bytes()) {
        return Bad(where, ": it has ", bytes.all, " bytes, ", bytes.ragged, " of ragged rows, the landing ",
                   landing == nullptr ? -1 : landing->slot_bytes(), " and ",
                   landing == nullptr ? -1 : landing->ragged_bytes());
      }
    }
    return absl::OkStatus();
  }

  // If the consumer is in the program.
  static const pb::Landing* FindLanding(const pb::Plan& plan, int consumer, const pb::Register& reg) {
    for (const pb::Landing& landing : plan.actors(consumer).landings()) {
      if (landing.register_() >= 0 && landing.register_() < plan.registers_size() &&
          &plan.registers(landing.register_()) == &reg) {
        return &landing;
      }
    }
    return nullptr;
  }

  static absl::Status CheckParcel(const pb::Parcel& parcel, const pb::Register& reg) {
    OF_RETURN_IF_ERROR(NumBytes(parcel.dtype(), parcel.extent()).status());
    const auto size = static_cast<int64_t>(SizeOf(static_cast<DType>(parcel.dtype())));
    Dims slot;  // in elements, from the first of the parcel
    slot.Add((reg.slot_bytes() - parcel.offset()) / size);
    if (!Inside(parcel.offset(), 0, reg.slot_bytes()) || parcel.offset() % size != 0) {
      return Bad("it begins at ", parcel.offset(), " of ", reg.slot_bytes(), " bytes");
    }
    return CheckReach(parcel.extent(), 0, parcel.stride(), slot);
  }

  // The counts of the rows of a ragged parcel lie in a register of the rank that is sent to its consumer, too; each of
  // its slots serves as many slots of the rows.
  absl::Status CheckRowCounts(const pb::Plan& plan, const pb::Register& reg, int consumer,
                              const pb::Parcel& parcel) const {
    if (!parcel.has_counts()) return absl::OkStatus();
    const pb::RowCounts& counts = parcel.counts();
    if (counts.register_() < 0 || counts.register_() >= plan.registers_size()) {
      return Bad("its counts are in register ", counts.register_(), ", which is not one of ", plan.registers_size());
    }
    const pb::Register& its = plan.registers(counts.register_());
    const std::string where = absl::StrCat("its counts, in register ", counts.register_());
    const auto& sent = its.shipments();
    const bool is_read =
        std::any_of(sent.begin(), sent.end(), [&](const pb::Shipment& x) { return x.consumer() == consumer; });
    const bool is_made = its.producer() >= 0 && its.producer() < plan.actors_size();
    if (!is_read || !is_made || plan.actors(its.producer()).rank() != plan.actors(reg.producer()).rank()) {
      return Bad(where, ", are not on the rank of the rows, or not sent to actor ", consumer);
    }
    const int dim = counts.stride_size();
    if (dim >= parcel.extent_size() || counts.first_row() < 0 || counts.first_row() > kMaxBytes) {
      return Bad(where, ", have ", dim, " dimensions of rows ", Text(parcel.extent()), " from row ", counts.first_row(),
                 " on");
    }
    constexpr auto kSize = static_cast<int64_t>(sizeof(int32_t));
    const int64_t places = its.offset() | its.slot_stride() | counts.offset();
    if (!Inside(counts.offset(), 0, its.slot_bytes()) || places % kSize != 0) {
      return Bad(where, ", begin at ", counts.offset(), " of ", its.slot_bytes(), " bytes");
    }
    Dims groups, slot;  // in counts, from the first
    groups.Add(parcel.extent().begin(), parcel.extent().begin() + dim);
    slot.Add((its.slot_bytes() - counts.offset()) / kSize);
    OF_RETURN_IF_ERROR_AT(CheckReach(groups, 0, counts.stride(), slot), where);
    const int64_t of_rows = Rate(plan, reg), of_counts = Rate(plan, its);
    if (reg.initially_filled() > 0 || of_counts < 1 || of_rows % of_counts != 0) {
      return Bad(where, ", are filled ", of_counts, " times a step, the rows ", of_rows, " times and ",
                 reg.initially_filled(), " before the first");
    }
    return absl::OkStatus();
  }

  // How often a step fills a register; 0 if its producer does not, which is reported elsewhere.
  static int64_t Rate(const pb::Plan& plan, const pb::Register& reg) {
    const pb::Actor& producer = plan.actors(reg.producer());
    for (const pb::Port& port : producer.outputs()) {
      const bool is_it = port.register_() >= 0 && port.register_() < plan.registers_size() &&
                         &plan.registers(port.register_()) == &reg;
      if (is_it && port.acts_per_slot() > 0) return producer.acts_per_step() / port.acts_per_slot();
    }
    return 0;
  }

  struct PayloadBytes {
    int64_t all = 0, ragged = 0;
  };

  // The bytes of a shipment, and those for ragged rows. REQUIRES: its parcels have shapes.
  static absl::StatusOr<PayloadBytes> BytesOf(const pb::Shipment& shipment) {
    PayloadBytes bytes;
    bool is_behind_rows = false;
    for (const pb::Parcel& parcel : shipment.parcels()) {
      OF_ASSIGN_OR_RETURN(const int64_t of_parcel, NumBytes(parcel.dtype(), parcel.extent()));
      if (bytes.all > kMaxBytes) return Bad("its parcels have more than ", kMaxBytes, " bytes");
      if (is_behind_rows) bytes.ragged += ParcelOffset(bytes.all) - bytes.all;
      is_behind_rows = parcel.has_counts();
      bytes.all = ParcelOffset(bytes.all) + of_parcel;
      if (is_behind_rows) bytes.ragged += of_parcel;
    }
    return bytes;
  }

  absl::Status CheckConsumer(const pb::Plan& plan, int id, const pb::Port& out, int consumer) const {
    const pb::Register& reg = plan.registers(id);
    const pb::Actor& from = plan.actors(reg.producer());
    const pb::Actor& to = plan.actors(consumer);
    const pb::Port* in = FindPort(to.inputs(), id);
    if (in == nullptr) return Bad("it has no such input");
    if (in->acts_per_slot() < 1 || out.acts_per_slot() < 1) return absl::OkStatus();  // reported with the actor
    const int filled = from.acts_per_step() / out.acts_per_slot();
    const int freed = to.acts_per_step() / in->acts_per_slot();
    if (filled != freed) return Bad("per step ", filled, " slots are filled, but ", freed, " are freed");
    if (!IsRank(to.rank())) return Bad("rank ", to.rank(), " is not one of ", set_.ranks_size());
    if (set_.ranks(from.rank()).host() != set_.ranks(to.rank()).host()) return absl::OkStatus();  // it is sent
    if (reg.slot_bytes() > 0 && reg.zone() != pb::SHARED &&
        set_.ranks(from.rank()).process() != set_.ranks(to.rank()).process()) {
      return Bad("process ", set_.ranks(to.rank()).process(), " cannot read private memory of process ",
                 set_.ranks(from.rank()).process());
    }
    return absl::OkStatus();
  }

  absl::Status CheckActor(const pb::Plan& plan, int id) const {
    const pb::Actor& actor = plan.actors(id);
    if (!IsRank(actor.rank())) return Bad("rank ", actor.rank(), " is not one of ", set_.ranks_size());
    if (actor.acts_per_step() != 1 && actor.acts_per_step() != plan.micro_batches()) {
      return Bad(actor.acts_per_step(), " acts per step; the plan has ", plan.micro_batches(), " micro-batches");
    }
    if (!pb::Queue_IsValid(actor.queue())) {
      return Bad("queue ", static_cast<int>(actor.queue()), " is not one of ", pb::Queue_ARRAYSIZE);
    }
    OF_RETURN_IF_ERROR_AT(CheckPorts(plan, id, actor.inputs(), /*outputs=*/false), "inputs");
    OF_RETURN_IF_ERROR_AT(CheckPorts(plan, id, actor.outputs(), /*outputs=*/true), "outputs");
    OF_RETURN_IF_ERROR(CheckLandings(plan, actor));
    for (int i = 0; i < actor.instructions_size(); ++i) {
      const pb::Instruction& instruction = actor.instructions(i);
      OF_RETURN_IF_ERROR_AT(CheckInstruction(plan, actor, instruction),
                            absl::StrCat("instruction ", i, " '", instruction.node(), "'"));
    }
    return absl::OkStatus();
  }

  absl::Status CheckPorts(const pb::Plan& plan, int actor, const google::protobuf::RepeatedPtrField<pb::Port>& ports,
                          bool outputs) const {
    std::set<int> seen;
    for (const pb::Port& port : ports) {
      const int id = port.register_();
      if (id < 0 || id >= plan.registers_size()) {
        return Bad("register ", id, " is not one of ", plan.registers_size());
      }
      if (!seen.insert(id).second) return Bad("register ", id, " is listed twice");
      const int acts = plan.actors(actor).acts_per_step();
      if (port.acts_per_slot() < 1 || acts % port.acts_per_slot() != 0) {
        return Bad("register ", id, ": ", port.acts_per_slot(), " acts per slot do not divide ", acts,
                   " acts per step");
      }
      const pb::Register& reg = plan.registers(id);
      const bool known =
          outputs ? reg.producer() == actor
                  : std::find(reg.consumers().begin(), reg.consumers().end(), actor) != reg.consumers().end();
      if (!known) return Bad("register ", id, " does not name this actor as its ", outputs ? "producer" : "consumer");
    }
    return absl::OkStatus();
  }

  // Landings lie in the private zone, apart, and are of inputs that other hosts fill.
  absl::Status CheckLandings(const pb::Plan& plan, const pb::Actor& actor) const {
    const int64_t limit = ZoneBytes(actor.rank(), pb::PRIVATE);
    std::vector<std::pair<int64_t, int64_t>> areas;
    for (int i = 0; i < actor.landings_size(); ++i) {
      const pb::Landing& landing = actor.landings(i);
      const std::string where = absl::StrCat("landing ", i, " of register ", landing.register_());
      if (FindPort(actor.inputs(), landing.register_()) == nullptr) return Bad(where, ": it is no input");
      const pb::Register& reg = plan.registers(landing.register_());
      const int producer =
          reg.producer() >= 0 && reg.producer() < plan.actors_size() ? plan.actors(reg.producer()).rank() : -1;
      if (!IsRank(producer) || set_.ranks(producer).host() == set_.ranks(actor.rank()).host()) {
        return Bad(where, ": rank ", producer, " is not on another host than rank ", actor.rank());
      }
      const bool is_sent = std::any_of(reg.shipments().begin(), reg.shipments().end(), [&](const pb::Shipment& x) {
        return x.consumer() >= 0 && x.consumer() < plan.actors_size() && &plan.actors(x.consumer()) == &actor;
      });
      if (!is_sent && set_.ranks(producer).process() == set_.ranks(actor.rank()).process()) {
        return Bad(where, ": nothing is sent there");
      }
      const int64_t others = reg.slots() - 1;
      if (landing.offset() % kAlignment != 0 || landing.slot_stride() % kAlignment != 0 || landing.slot_bytes() < 0 ||
          landing.slot_stride() < landing.slot_bytes() || landing.ragged_bytes() < 0 ||
          landing.ragged_bytes() > landing.slot_bytes() || !Inside(landing.offset(), landing.slot_stride(), limit) ||
          (landing.slot_stride() > 0 &&
           others > (limit - landing.offset() - landing.slot_stride()) / landing.slot_stride())) {
        return Bad(where, ": ", reg.slots(), " slots of ", landing.slot_bytes(), " bytes, ", landing.slot_stride(),
                   " apart, at ", landing.offset(), " of ", limit);
      }
      areas.emplace_back(landing.offset(), landing.offset() + reg.slots() * landing.slot_stride());
    }
    std::sort(areas.begin(), areas.end());
    for (size_t i = 1; i < areas.size(); ++i) {
      if (areas[i].first < areas[i - 1].second) {
        return Bad("a landing at ", areas[i].first, " begins before another ends, at ", areas[i - 1].second);
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckInstruction(const pb::Plan& plan, const pb::Actor& actor, const pb::Instruction& in) const {
    if (!pb::Instruction::Kind_IsValid(in.kind())) return Bad("kind ", in.kind(), " is unknown");
    if (!pb::Reduce_IsValid(in.reduce())) return Bad("reduction ", in.reduce(), " is unknown");
    for (int i = 0; i < in.inputs_size(); ++i) {
      OF_RETURN_IF_ERROR_AT(CheckOperand(plan, actor, in, in.inputs(i), /*output=*/false), absl::StrCat("input ", i));
    }
    for (int i = 0; i < in.outputs_size(); ++i) {
      OF_RETURN_IF_ERROR_AT(CheckOperand(plan, actor, in, in.outputs(i), /*output=*/true), absl::StrCat("output ", i));
    }
    const int64_t limit = ZoneBytes(actor.rank(), pb::PRIVATE);
    if (!Inside(in.scratch_offset(), in.scratch_bytes(), limit)) {
      return Bad(in.scratch_bytes(), " bytes of scratch memory at ", in.scratch_offset(), " reach outside the zone of ",
                 limit);
    }
    if (in.scratch_bytes() > 0 && in.scratch_offset() % kAlignment != 0) {
      return Bad("its scratch memory at ", in.scratch_offset(), " is not aligned to ", kAlignment, " bytes");
    }
    switch (in.kind()) {
      case pb::Instruction::COMPUTE:
        return in.op().empty() ? Bad("it names no op") : absl::OkStatus();
      case pb::Instruction::COPY:
        return CheckCopy(in);
      case pb::Instruction::COLLECTIVE:
        return CheckCollective(set_, actor, in);
      case pb::Instruction::READ:
        return in.outputs().empty() ? Bad("it has no outputs") : absl::OkStatus();
      default:
        return CheckFetch(in);
    }
  }

  absl::Status CheckOperand(const pb::Plan& plan, const pb::Actor& actor, const pb::Instruction& in,
                            const pb::Operand& operand, bool output) const {
    OF_ASSIGN_OR_RETURN(const int64_t bytes, NumBytes(operand.dtype(), operand.dims()));
    OF_RETURN_IF_ERROR(CheckBox(operand.start(), operand.dims(), operand.logical_dims()));
    if (operand.ragged() < 0 || operand.ragged() > operand.dims_size()) {
      return Bad("its ragged dimension is ", operand.ragged(), " of ", operand.dims_size());
    }
    OF_RETURN_IF_ERROR(CheckLayout(in, operand));
    int64_t limit = 0, base = 0;
    if (operand.landed()) {
      const pb::Landing* const landing = LandingOf(actor, operand.register_());
      if (output || landing == nullptr || in.kind() != pb::Instruction::COPY) {
        return Bad("nothing of register ", operand.register_(), " lands here");
      }
      limit = landing->slot_bytes();
    } else if (operand.register_() >= 0) {
      const int id = operand.register_();
      // An op that overwrites a variable has the register that it fills among its inputs.
      if (FindPort(actor.outputs(), id) == nullptr && (output || FindPort(actor.inputs(), id) == nullptr)) {
        return Bad("register ", id, " is no ", output ? "output" : "port", " of the actor");
      }
      const pb::Register& reg = plan.registers(id);
      if (set_.ranks(plan.actors(reg.producer()).rank()).host() != set_.ranks(actor.rank()).host()) {
        return Bad("register ", id, " is on another host");
      }
      limit = reg.slot_bytes();
      base = reg.slots() > 1 ? reg.offset() | reg.slot_stride() : reg.offset();
    } else {
      if (!pb::Zone_IsValid(operand.zone())) return Bad("zone ", operand.zone(), " is unknown");
      limit = ZoneBytes(actor.rank(), operand.zone());
    }
    if (!Inside(operand.offset(), bytes, limit)) {
      return Bad(bytes, " bytes at ", operand.offset(), " reach outside the ", limit, " bytes of its ",
                 operand.register_() >= 0 ? "slot" : "zone");
    }
    const int64_t alignment = in.kind() == pb::Instruction::COMPUTE
                                  ? kAlignment
                                  : static_cast<int64_t>(SizeOf(static_cast<DType>(operand.dtype())));
    if (bytes > 0 && (base | operand.offset()) % alignment != 0) {
      return Bad("its memory at ", base, "+", operand.offset(), " is not aligned to ", alignment, " bytes");
    }
    return absl::OkStatus();
  }

  static const pb::Landing* LandingOf(const pb::Actor& actor, int reg) {
    for (const pb::Landing& landing : actor.landings()) {
      if (landing.register_() == reg) return &landing;
    }
    return nullptr;
  }

  // Only kernels take blocks, with whole blocks of channels on the rank.
  static absl::Status CheckLayout(const pb::Instruction& in, const pb::Operand& x) {
    if (x.layout() == static_cast<int>(MemoryLayout::kRowMajor)) return absl::OkStatus();
    if (x.layout() != static_cast<int>(MemoryLayout::kChannelBlocks))
      return Bad("its layout ", x.layout(), " is unknown");
    if (in.kind() != pb::Instruction::COMPUTE) return Bad("it lies in blocks, but must be row-major");
    if (FitsBlocks(x.dims(), x.dims_size())) return absl::OkStatus();
    return Bad("blocks of ", kBlockChannels, " channels cannot be made of ", Text(x.dims()));
  }

  absl::Status CheckCopy(const pb::Instruction& in) const {
    if (in.outputs_size() != 1) return Bad("a copy has one output, not ", in.outputs_size());
    const pb::Operand& to = in.outputs(0);
    if (in.by_counts()) OF_RETURN_IF_ERROR(CheckCounts(in));
    for (int i = 0; i < in.pieces_size(); ++i) {
      const pb::Piece& piece = in.pieces(i);
      const std::string where = absl::StrCat("piece ", i);
      if (piece.input() < 0 || piece.input() >= in.inputs_size()) {
        return Bad(where, ": input ", piece.input(), " is not one of ", in.inputs_size());
      }
      const pb::Operand& from = in.inputs(piece.input());
      if (from.dtype() != to.dtype()) return Bad(where, ": copies dtype ", from.dtype(), " to ", to.dtype());
      OF_RETURN_IF_ERROR_AT(CheckReach(piece.extent(), piece.source_offset(), piece.source_stride(), from.dims()),
                            absl::StrCat(where, ": source"));
      OF_RETURN_IF_ERROR_AT(CheckReach(piece.extent(), piece.target_offset(), piece.target_stride(), to.dims()),
                            absl::StrCat(where, ": target"));
    }
    return absl::OkStatus();
  }

  // The operand of a copy by counts that has the rows of an input: the input or, if that is packed, the output.
  static const pb::Operand& RaggedEnd(const pb::Instruction& in, const pb::Operand& input) {
    return input.ragged() > 0 ? input : in.outputs(0);
  }

  // There are counts of all groups of rows that are copied by them, and pieces are boxes of such rows.
  static absl::Status CheckCounts(const pb::Instruction& in) {
    const int sources = in.inputs_size() / 2;
    if (in.inputs_size() % 2 != 0) return Bad(in.inputs_size(), " inputs of a copy by counts");
    for (int i = 0; i < sources; ++i) {
      const pb::Operand &from = in.inputs(i), &to = in.outputs(0), &counts = in.inputs(sources + i);
      const pb::Operand& rows = RaggedEnd(in, from);
      const int groups = rows.ragged() - 1;
      const bool fit = from.ragged() == to.ragged() || from.ragged() == 0 || to.ragged() == 0;
      const auto begins_alike = [&](const Dims& of_rows, const Dims& groups_of) {
        return groups_of.size() == groups && std::equal(groups_of.begin(), groups_of.end(), of_rows.begin());
      };
      if (groups < 0 || !fit || counts.dtype() != pb::I32 || !begins_alike(rows.dims(), counts.dims()) ||
          !begins_alike(rows.start(), counts.start())) {
        return Bad("input ", i, ": counts ", Text(counts.dims()), " at ", Text(counts.start()), " of rows ",
                   Text(rows.dims()), " at ", Text(rows.start()), ", ragged dimension ", from.ragged(), " to ",
                   to.ragged());
      }
    }
    for (int i = 0; i < in.pieces_size(); ++i) {
      const pb::Piece& piece = in.pieces(i);
      if (piece.input() >= sources) return Bad("piece ", i, ": input ", piece.input(), " is counts");
      if (piece.input() < 0) continue;  // reported below
      OF_RETURN_IF_ERROR_AT(CheckPieceOfRows(in, piece), absl::StrCat("piece ", i));
    }
    return absl::OkStatus();
  }

  static absl::Status CheckPieceOfRows(const pb::Instruction& in, const pb::Piece& piece) {
    const pb::Operand &from = in.inputs(piece.input()), &to = in.outputs(0);
    const Dims& dims = RaggedEnd(in, from).dims();
    const auto check_packed = [&](const pb::Operand& x, int64_t offset) {
      const std::optional<int64_t> elements = Count(piece.extent());
      if (x.ragged() > 0 || (elements && Inside(offset, *elements, *Count(x.dims())))) return absl::OkStatus();
      return Bad("extent ", Text(piece.extent()), " packed at ", offset, " reaches outside ", Text(x.dims()));
    };
    OF_RETURN_IF_ERROR(check_packed(from, piece.source_offset()));
    OF_RETURN_IF_ERROR(check_packed(to, piece.target_offset()));
    const bool box = from.ragged() > 0 ? IsBox(piece.extent(), piece.source_offset(), piece.source_stride(), dims)
                                       : IsBox(piece.extent(), piece.target_offset(), piece.target_stride(), dims);
    if (box) return absl::OkStatus();
    return Bad("extent ", Text(piece.extent()), " from ", piece.source_offset(), " with strides ",
               Text(piece.source_stride()), " to ", piece.target_offset(), " with strides ",
               Text(piece.target_stride()), " is no box of ", Text(dims));
  }

  // Whether this is the box of a dense tensor that begins at its offset.
  static bool IsBox(const Dims& extent, int64_t offset, const Dims& strides, const Dims& dims) {
    if (extent.size() != dims.size() || strides.size() != dims.size()) return false;
    int64_t stride = 1, rest = offset;
    if (rest < 0) return false;
    for (int d = dims.size(); d-- > 0;) {
      const int64_t at = dims[d] > 0 ? rest % dims[d] : 0;
      if (strides[d] != stride || !Inside(at, extent[d], dims[d])) return false;
      stride *= dims[d];
      rest = dims[d] > 0 ? rest / dims[d] : rest;
    }
    return true;
  }

  // Every element offset + sum of index * stride is an element of a dense tensor of `dims`.
  static absl::Status CheckReach(const Dims& extent, int64_t offset, const Dims& stride, const Dims& dims) {
    if (stride.size() != extent.size()) return Bad(stride.size(), " strides for ", extent.size(), " extents");
    const int64_t count = *Count(dims);
    const std::optional<int64_t> elements = Count(extent);
    if (!elements) return Bad("extent ", Text(extent), " is no shape");
    if (*elements == 0) return absl::OkStatus();
    int64_t last = offset;
    bool inside = offset >= 0 && offset < count;
    for (int i = 0; i < extent.size() && inside; ++i) {
      const int64_t steps = extent[i] - 1;
      inside = stride[i] >= 0 && (steps == 0 || stride[i] <= (count - 1 - last) / steps);
      if (inside) last += steps * stride[i];
    }
    if (inside) return absl::OkStatus();
    return Bad("extent ", Text(extent), " at ", offset, " with strides ", Text(stride), " reaches outside ",
               Text(dims));
  }

  absl::Status CheckFetch(const pb::Instruction& in) const {
    if (in.inputs_size() != 1) return Bad("a fetch has one input, not ", in.inputs_size());
    for (const pb::Attribute& attribute : in.attributes()) {
      if (attribute.name() == "name" && attribute.value_case() == pb::Attribute::kS) return absl::OkStatus();
    }
    return Bad("a fetch has a string attribute 'name'");
  }

  const pb::Program& set_;
};

}  // namespace

absl::Status CheckProgram(const pb::Program& program, int num_processes) { return Checker(program).Run(num_processes); }

}  // namespace oneflow
