#include "compiler/lower/plan_places.h"

#include <algorithm>
#include <array>
#include <set>
#include <tuple>
#include <utility>

#include "compiler/lower/plan_reader.h"
#include "compiler/lower/program_instructions.h"
#include "compiler/plan/variables.h"
#include "oneflow_core/zones.h"

namespace oneflow {
namespace {

template <typename... Parts>
absl::Status Misplaced(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(parts...));
}

// The most bytes of a zone: sums of a few of them do not overflow, and no machine has as much.
constexpr int64_t kMostBytes = int64_t{1} << 56;

// Operands of kernels begin at a multiple of this; those of copies at one of an element's size.
constexpr int64_t kAlignment = 64;

absl::Status CheckAligned(absl::string_view what, int64_t offset, int64_t alignment = kAlignment) {
  if (offset % alignment == 0) return absl::OkStatus();
  return Misplaced(what, ": begins at ", offset, ", which is no multiple of ", alignment);
}

absl::Status CheckFits(absl::string_view what, int64_t offset, int64_t bytes, int64_t room) {
  if (offset >= 0 && bytes >= 0 && bytes <= room && offset <= room - bytes) return absl::OkStatus();
  return Misplaced(what, ": ", bytes, " bytes at ", offset, "; there is room for ", room);
}

absl::Status CheckPlace(absl::string_view what, int64_t offset, int64_t bytes, int64_t room) {
  OF_RETURN_IF_ERROR(CheckFits(what, offset, bytes, room));
  return bytes > 0 ? CheckAligned(what, offset) : absl::OkStatus();
}

class Places {
 public:
  Places(const pb::PlanSet& set, const PlanReader& reader) : set_(set) {
    for (int g = 0; g < set.grids_size(); ++g) classes_.push_back(ClassesOn(reader, g));
    for (int t = 0; t < set.tensors_size(); ++t) {
      bytes_.push_back(ShardBytes(reader.tensor(t).type, reader.tensor(t).dist));
    }
  }

  absl::Status Check() {
    for (int c = 0; c < set_.classes_size(); ++c) {
      OF_RETURN_IF_ERROR_AT(CheckClass(set_.classes(c)), absl::StrCat("class ", c));
    }
    OF_RETURN_IF_ERROR(CheckVariables());
    for (const pb::ClassPlan& plan : set_.plans()) {
      OF_RETURN_IF_ERROR_AT(CheckPlan(plan), absl::StrCat("plan '", plan.name(), "'"));
    }
    return absl::OkStatus();
  }

 private:
  static absl::Status CheckClass(const pb::RankClass& of) {
    if (of.zones_size() > kNumZones) return Misplaced(of.zones_size(), " zones; there are ", kNumZones);
    for (int zone = 0; zone < of.zones_size(); ++zone) {
      const std::string name = absl::StrCat(ZoneName(zone), " zone");
      const int64_t bytes = BytesOfZone(of, zone), variables = VariableBytesOfZone(of, zone);
      OF_RETURN_IF_ERROR(CheckFits(name, 0, bytes, kMostBytes));
      OF_RETURN_IF_ERROR(CheckFits(absl::StrCat("variables of the ", name), 0, variables, bytes));
      OF_RETURN_IF_ERROR(CheckAligned(absl::StrCat("the region behind the variables of the ", name), variables));
    }
    return of.host_bytes() >= 0 ? absl::OkStatus() : Misplaced(of.host_bytes(), " bytes of the host's memory");
  }

  absl::Status CheckVariables() {
    using Lies = std::tuple<int, int, int64_t, int64_t, int>;  // class, zone, from, to, variable
    std::vector<Lies> lies;
    for (int v = 0; v < set_.variables_size(); ++v) {
      const pb::ClassVariable& variable = set_.variables(v);
      const std::string where = absl::StrCat("variable '", variable.name(), "'");
      if (!IsZone(variable.zone())) return Misplaced(where, ": zone ", variable.zone(), " is unknown");
      const int64_t bytes = bytes_[variable.tensor()];
      for (const int c : classes_[set_.tensors(variable.tensor()).grid()]) {
        const int64_t offset = OffsetIn(variable.offsets(), c);
        const int64_t room = VariableBytesOfZone(set_.classes(c), variable.zone());
        const std::string on = absl::StrCat("on ranks of class ", c);
        OF_RETURN_IF_ERROR_AT(CheckPlace(on, offset, bytes, room), where);
        if (bytes > 0) lies.emplace_back(c, variable.zone(), offset, offset + bytes, v);
      }
    }
    std::sort(lies.begin(), lies.end());
    for (size_t i = 1; i < lies.size(); ++i) {
      const auto& [c, zone, from, to, v] = lies[i];
      const auto& [c0, zone0, from0, to0, v0] = lies[i - 1];
      if (c != c0 || zone != zone0 || from >= to0) continue;
      return Misplaced("variables '", set_.variables(v0).name(), "' and '", set_.variables(v).name(),
                       "' overlap on ranks of class ", c, ": one ends at ", to0, ", the other begins at ", from);
    }
    return absl::OkStatus();
  }

  absl::Status CheckPlan(const pb::ClassPlan& plan) {
    for (int c = 0; c < plan.memory_size(); ++c) {
      const pb::RankClass& of = set_.classes(c);
      const std::string where = absl::StrCat("memory of class ", c);
      for (int zone = 0; zone < std::max(of.zones_size(), plan.memory(c).zones_size()); ++zone) {
        OF_RETURN_IF_ERROR_AT(CheckFits(absl::StrCat(ZoneName(zone), " region"), RegionBegin(set_, plan, c, zone),
                                        BytesOfZone(plan.memory(c), zone), BytesOfZone(of, zone)),
                              where);
      }
    }
    for (const pb::ClassRegister& reg : plan.registers()) {
      OF_RETURN_IF_ERROR_AT(CheckRegister(plan, reg), absl::StrCat("register '", reg.name(), "'"));
    }
    for (const pb::ClassActor& actor : plan.actors()) {
      OF_RETURN_IF_ERROR_AT(CheckActor(plan, actor), absl::StrCat("actor '", actor.name(), "'"));
    }
    return absl::OkStatus();
  }

  // The region of the plan on the rank of a grid that has the least.
  int64_t Room(const pb::ClassPlan& plan, int zone, int grid) const {
    int64_t room = INT64_MAX;
    for (const int c : classes_[grid]) {
      room = std::min(room, BytesOfZone(plan.memory(c), zone));
    }
    return room;
  }

  absl::Status CheckRegister(const pb::ClassPlan& plan, const pb::ClassRegister& reg) const {
    if (!IsZone(reg.zone())) return Misplaced("zone ", reg.zone(), " is unknown");
    if (reg.slots() < 1) return Misplaced(reg.slots(), " slots");
    if (reg.initially_filled() > 0 && reg.slots() > 1) {
      return Misplaced(reg.slots(),
                       " slots of a register that is overwritten in place; with more than 1 its writer does ",
                       "not wait for its readers");
    }
    if (reg.variable() >= 0) {
      const pb::ClassVariable& variable = set_.variables(reg.variable());
      if (reg.slot_stride() != 0) return Misplaced("slots of a variable are ", reg.slot_stride(), " bytes apart");
      if (reg.zone() != variable.zone() || set_.tensors(variable.tensor()).grid() != reg.grid()) {
        return Misplaced("lies in zone ", reg.zone(), " on grid ", reg.grid(), ", its variable '", variable.name(),
                         "' in zone ", variable.zone(), " on grid ", set_.tensors(variable.tensor()).grid());
      }
      return CheckFits("a slot in its variable", 0, reg.slot_bytes(), bytes_[variable.tensor()]);
    }
    if (reg.slot_bytes() == 0) {
      if (reg.slot_stride() == 0) return absl::OkStatus();
      return Misplaced("slots without bytes are ", reg.slot_stride(), " bytes apart");
    }
    const int64_t others = reg.slots() - 1;
    const int64_t room = Room(plan, reg.zone(), reg.grid());
    const bool strides = others > 0 || reg.slot_stride() != 0;
    if (reg.slot_bytes() < 0 || (strides && reg.slot_stride() < reg.slot_bytes()) ||
        reg.slot_stride() > room / std::max<int64_t>(1, others)) {
      return Misplaced(reg.slots(), " slots of ", reg.slot_bytes(), " bytes, ", reg.slot_stride(),
                       " apart; there is room for ", room);
    }
    if (others > 0) OF_RETURN_IF_ERROR(CheckAligned("its second slot", reg.slot_stride()));
    const int64_t bytes = others == 0 ? reg.slot_bytes() : others * reg.slot_stride() + reg.slot_bytes();
    return CheckPlace("its slots", reg.offset(), bytes, room);
  }

  absl::Status CheckActor(const pb::ClassPlan& plan, const pb::ClassActor& actor) const {
    const int64_t room = std::min(Room(plan, kWorkZone, actor.grid()),
                                  actor.senders() < 0 ? INT64_MAX : Room(plan, kWorkZone, actor.senders()));
    OF_RETURN_IF_ERROR(CheckPlace("its kept memory", actor.pinned_offset(), actor.pinned_bytes(), room));
    std::set<int> ports;
    for (const pb::Port& port : actor.inputs()) ports.insert(port.register_());
    for (const pb::Port& port : actor.outputs()) ports.insert(port.register_());
    for (const pb::ClassInstruction& of : actor.instructions()) {
      const std::string where = absl::StrCat("'", of.node(), "'");
      const auto check = [&](const pb::ClassOperand& x) -> absl::Status {
        const auto size = static_cast<int64_t>(SizeOf(static_cast<DType>(set_.tensors(x.tensor()).dtype())));
        OF_RETURN_IF_ERROR_AT(
            CheckAligned("operand", x.offset(), of.kind() == pb::Instruction::COPY ? size : kAlignment), where);
        return Annotate(CheckOperand(plan, actor, ports, x), where);
      };
      for (const pb::ClassOperand& x : of.inputs()) OF_RETURN_IF_ERROR(check(x));
      for (const pb::ClassOperand& x : of.outputs()) OF_RETURN_IF_ERROR(check(x));
      OF_RETURN_IF_ERROR_AT(CheckPlace("its packed data", of.packed_offset(), of.packed_bytes(), room), where);
      OF_RETURN_IF_ERROR_AT(CheckPlace("its received data", of.received_offset(), of.received_bytes(), room), where);
      OF_RETURN_IF_ERROR_AT(CheckPlace("its scratch memory", of.scratch_offset(), of.scratch_bytes(), room), where);
    }
    return absl::OkStatus();
  }

  absl::Status CheckOperand(const pb::ClassPlan& plan, const pb::ClassActor& actor, const std::set<int>& ports,
                            const pb::ClassOperand& x) const {
    const int64_t bytes = bytes_[x.tensor()];
    if (x.place() == pb::ClassOperand::REGISTER) {
      const pb::ClassRegister& reg = plan.registers(x.index());
      // A variable that nobody overwrites is read without waiting for it.
      if (reg.variable() < 0 && ports.count(x.index()) == 0)
        return Misplaced("register '", reg.name(), "' is not one of its actor's");
      return CheckFits(absl::StrCat("operand in register '", reg.name(), "'"), x.offset(), bytes, reg.slot_bytes());
    }
    if (x.place() == pb::ClassOperand::VARIABLE) {
      const pb::ClassVariable& variable = set_.variables(x.index());
      return CheckFits(absl::StrCat("operand in variable '", variable.name(), "'"), x.offset(), bytes,
                       bytes_[variable.tensor()]);
    }
    if (x.place() == pb::ClassOperand::PINNED) {
      return CheckFits("operand in the kept memory of its actor", x.offset(), bytes, actor.pinned_bytes());
    }
    return CheckFits("operand in the workspace", x.offset(), bytes,
                     Room(plan, kWorkZone, set_.tensors(x.tensor()).grid()));
  }

  const pb::PlanSet& set_;
  std::vector<std::vector<int>> classes_;  // by grid
  std::vector<int64_t> bytes_;             // by tensor: of its largest shard
};

}  // namespace

std::vector<int> ClassesOn(const PlanReader& reader, int grid) {
  std::set<int> classes;
  for (const int rank : reader.grid(grid).ranks()) classes.insert(reader.class_of_rank(rank));
  return {classes.begin(), classes.end()};
}

absl::Status CheckPlanPlaces(const pb::PlanSet& set, const PlanReader& reader) { return Places(set, reader).Check(); }

}  // namespace oneflow
