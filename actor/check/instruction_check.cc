#include "actor/check/instruction_check.h"

#include <string>

#include "actor/check/bounds.h"
#include "actor/instruction/kinds.h"
#include "oneflow_core/dtype.h"
#include "oneflow_core/memory_layout.h"
#include "oneflow_core/zones.h"

namespace oneflow {
namespace {

// The memory that an operand may use: a slot, a landed slot, or a zone.
struct Room {
  int64_t base = 0;  // what decides the alignment of its beginning
  int64_t limit = 0;
};

class OperandChecker {
 public:
  OperandChecker(const pb::Program& program, const pb::Plan& plan, const pb::Actor& actor, const InstructionKind& kind)
      : program_(program), plan_(plan), actor_(actor), kind_(kind) {}

  absl::Status Check(const pb::Operand& operand, bool output) const {
    OF_ASSIGN_OR_RETURN(const int64_t bytes, NumBytes(operand.dtype(), operand.dims()));
    OF_RETURN_IF_ERROR(CheckBox(operand.start(), operand.dims(), operand.logical_dims()));
    if (operand.ragged() < 0 || operand.ragged() > operand.dims_size()) {
      return Malformed("its ragged dimension is ", operand.ragged(), " of ", operand.dims_size());
    }
    OF_RETURN_IF_ERROR(CheckLayout(operand));
    OF_ASSIGN_OR_RETURN(const Room room, RoomOf(operand, output));
    if (!Inside(operand.offset(), bytes, room.limit)) {
      return Malformed(bytes, " bytes at ", operand.offset(), " reach outside the ", room.limit, " bytes of its ",
                       operand.register_() >= 0 ? "slot" : "zone");
    }
    OF_RETURN_IF_ERROR(CheckZone(operand, bytes));
    const int64_t alignment =
        kind_.calls_kernel ? kKernelAlignment : static_cast<int64_t>(SizeOf(static_cast<DType>(operand.dtype())));
    if (bytes > 0 && (room.base | operand.offset()) % alignment != 0) {
      return Malformed("its memory at ", room.base, "+", operand.offset(), " is not aligned to ", alignment, " bytes");
    }
    return absl::OkStatus();
  }

 private:
  // The zone of an operand that passed RoomOf().
  int ZoneOf(const pb::Operand& operand) const {
    if (operand.landed()) return kWorkZone;
    return operand.register_() >= 0 ? plan_.registers(operand.register_()).zone() : operand.zone();
  }

  // Nothing computes in a tier. Where that is a file, whole blocks are read and written.
  absl::Status CheckZone(const pb::Operand& operand, int64_t bytes) const {
    const ZoneKind& zone = ZoneKindOf(ZoneOf(operand));
    if (zone.of_device || bytes == 0) return absl::OkStatus();
    if (!kind_.reaches_tiers) return Malformed("it lies in the ", zone.name, " zone, which only moves reach");
    if (!zone.in_file) return absl::OkStatus();
    OF_ASSIGN_OR_RETURN(const Room room, RoomOf(operand, /*output=*/false));
    const int64_t whole = (bytes + kFileBlock - 1) / kFileBlock * kFileBlock;
    if ((room.base | operand.offset()) % kFileBlock == 0 && room.base + operand.offset() + whole <= FileBytes()) {
      return absl::OkStatus();
    }
    return Malformed(bytes, " bytes at ", room.base, "+", operand.offset(), " are not whole blocks of ", kFileBlock,
                     " in the ", FileBytes(), " bytes of the disk zone");
  }
  int64_t FileBytes() const { return BytesOfZone(program_.ranks(actor_.rank()), kDiskZone); }

  // Only kernels and moves take blocks, with whole blocks of channels on the rank.
  absl::Status CheckLayout(const pb::Operand& x) const {
    if (x.layout() == static_cast<int>(MemoryLayout::kRowMajor)) return absl::OkStatus();
    if (x.layout() != static_cast<int>(MemoryLayout::kChannelBlocks)) {
      return Malformed("its layout ", x.layout(), " is unknown");
    }
    if (!kind_.calls_kernel && !kind_.reaches_tiers) return Malformed("it lies in blocks, but must be row-major");
    if (FitsBlocks(x.dims(), x.dims_size())) return absl::OkStatus();
    return Malformed("blocks of ", kBlockChannels, " channels cannot be made of ", Text(x.dims()));
  }

  absl::StatusOr<Room> RoomOf(const pb::Operand& operand, bool output) const {
    if (operand.landed()) {
      const pb::Landing* const landing = FindLanding(actor_, operand.register_());
      if (output || landing == nullptr || !kind_.reads_landings) {
        return Malformed("nothing of register ", operand.register_(), " lands here");
      }
      return Room{.limit = landing->slot_bytes()};
    }
    if (operand.register_() >= 0) return SlotOf(operand.register_(), output);
    if (!IsZone(operand.zone())) return Malformed("zone ", operand.zone(), " is unknown");
    return Room{.limit = BytesOfZone(program_.ranks(actor_.rank()), operand.zone())};
  }

  absl::StatusOr<Room> SlotOf(int id, bool output) const {
    // An op that overwrites a variable has the register that it fills among its inputs.
    if (FindPort(actor_.outputs(), id) == nullptr && (output || FindPort(actor_.inputs(), id) == nullptr)) {
      return Malformed("register ", id, " is no ", output ? "output" : "port", " of the actor");
    }
    const pb::Register& reg = plan_.registers(id);
    if (program_.ranks(plan_.actors(reg.producer()).rank()).host() != program_.ranks(actor_.rank()).host()) {
      return Malformed("register ", id, " is on another host");
    }
    return Room{.base = reg.slots() > 1 ? reg.offset() | reg.slot_stride() : reg.offset(), .limit = reg.slot_bytes()};
  }

  const pb::Program& program_;
  const pb::Plan& plan_;
  const pb::Actor& actor_;
  const InstructionKind& kind_;
};

absl::Status CheckScratch(const pb::Instruction& in, int64_t limit) {
  if (!Inside(in.scratch_offset(), in.scratch_bytes(), limit)) {
    return Malformed(in.scratch_bytes(), " bytes of scratch memory at ", in.scratch_offset(),
                     " reach outside the zone of ", limit);
  }
  if (in.scratch_bytes() > 0 && in.scratch_offset() % kKernelAlignment != 0) {
    return Malformed("its scratch memory at ", in.scratch_offset(), " is not aligned to ", kKernelAlignment, " bytes");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckInstruction(const pb::Program& program, const pb::Plan& plan, const pb::Actor& actor,
                              const pb::Instruction& in) {
  const InstructionKind* const kind = FindKind(in.kind());
  if (kind == nullptr) return Malformed("kind ", in.kind(), " is unknown");
  if (!pb::Reduce_IsValid(in.reduce())) return Malformed("reduction ", in.reduce(), " is unknown");
  const OperandChecker operands(program, plan, actor, *kind);
  for (int i = 0; i < in.inputs_size(); ++i) {
    OF_RETURN_IF_ERROR_AT(operands.Check(in.inputs(i), /*output=*/false), absl::StrCat("input ", i));
  }
  for (int i = 0; i < in.outputs_size(); ++i) {
    OF_RETURN_IF_ERROR_AT(operands.Check(in.outputs(i), /*output=*/true), absl::StrCat("output ", i));
  }
  OF_RETURN_IF_ERROR(CheckScratch(in, BytesOfZone(program.ranks(actor.rank()), kWorkZone)));
  return kind->check({program, actor, in});
}

}  // namespace oneflow
