#include "actor/instruction/operand_memory.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "oneflow_core/zones.h"

namespace oneflow {
namespace {

// Memory of the rank, in all slots of its register.
struct Area {
  const char* side = "";  // "input", and which of them; -1: there is one
  int index = -1;
  int reg = -1;
  int zone = kWorkZone;
  int64_t begin = 0;      // in the zone, of the first slot
  int64_t num_bytes = 0;  // in one slot
  int64_t end = 0;        // in the zone, of the last slot

  std::string Name() const { return index < 0 ? side : absl::StrCat(side, " ", index); }
  std::string ToString() const {
    return absl::StrCat(Name(), ", ", num_bytes, " bytes at ", begin, " of the ", ZoneKindOf(zone).name, " zone");
  }
};

// Slots of one register are used together, so only places within a slot matter there.
bool Overlap(const Area& a, const Area& b) {
  if (a.num_bytes == 0 || b.num_bytes == 0 || a.zone != b.zone) return false;
  if (a.reg >= 0 && a.reg == b.reg) return a.begin < b.begin + b.num_bytes && b.begin < a.begin + a.num_bytes;
  return a.begin < b.end && b.begin < a.end;
}

bool AreSame(const Area& a, const Area& b) {
  return a.reg == b.reg && a.begin == b.begin && a.num_bytes == b.num_bytes;
}

int64_t NumBytes(const pb::Operand& operand) {
  int64_t bytes = static_cast<int64_t>(SizeOf(static_cast<DType>(operand.dtype())));
  for (const int64_t dim : operand.dims()) bytes *= dim;
  return bytes;
}

class AreaChecker {
 public:
  AreaChecker(const OpDef& op, const pb::Plan& plan, const pb::Actor& actor, const pb::Instruction& instruction)
      : op_(op), plan_(plan), actor_(actor), instruction_(instruction) {}

  absl::Status Run() {
    OF_RETURN_IF_ERROR(Add("input", instruction_.inputs(), inputs_));
    OF_RETURN_IF_ERROR(Add("output", instruction_.outputs(), outputs_));
    for (const int i : op_.mutates) OF_RETURN_IF_ERROR(CheckMutated(i));
    for (size_t i = 0; i < outputs_.size(); ++i) OF_RETURN_IF_ERROR(CheckOutput(i));
    return CheckScratch();
  }

 private:
  absl::Status Add(const char* side, const google::protobuf::RepeatedPtrField<pb::Operand>& operands,
                   std::vector<Area>& areas) const {
    areas.reserve(operands.size());
    for (int i = 0; i < operands.size(); ++i) {
      const pb::Operand& x = operands[i];
      const int64_t bytes = NumBytes(x);
      areas.push_back({side, i, x.register_(), x.zone(), x.offset(), bytes, x.offset() + bytes});
      if (x.register_() >= 0) OF_RETURN_IF_ERROR(PutIntoRegister(plan_.registers(x.register_()), areas.back()));
    }
    return absl::OkStatus();
  }

  absl::Status PutIntoRegister(const pb::Register& reg, Area& area) const {
    area.zone = reg.zone();
    area.begin += reg.offset();
    area.end += reg.offset() + (area.num_bytes > 0 ? (reg.slots() - 1) * reg.slot_stride() : 0);
    const int rank = plan_.actors(reg.producer()).rank();
    if (rank == actor_.rank()) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(area.Name(), " lies on rank ", rank, " but a kernel of rank ",
                                                   actor_.rank(), " uses its own memory"));
  }

  static absl::Status CheckApart(const Area& written, const Area& other) {
    if (!Overlap(written, other)) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(written.ToString(), ", overlaps ", other.ToString()));
  }

  // Other actors write the registers that this one only reads; a peer's are mapped read-only. What nobody but the rank
  // sees it may overwrite: what was loaded from a tier, and is stored there again.
  absl::Status CheckMutated(int index) const {
    const Area& written = inputs_[index];
    const auto& ports = actor_.outputs();
    const auto fills = [&](const pb::Port& port) { return port.register_() == written.reg; };
    if (written.reg >= 0 && written.zone != kPrivateZone && std::none_of(ports.begin(), ports.end(), fills)) {
      return absl::InvalidArgumentError(
          absl::StrCat(written.Name(), " is overwritten but register ", written.reg, " is no output of the actor"));
    }
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (static_cast<int>(i) != index) OF_RETURN_IF_ERROR(CheckApart(written, inputs_[i]));
    }
    return absl::OkStatus();
  }

  absl::Status CheckOutput(size_t index) const {
    const auto in_place = [&](size_t input) {
      const std::pair<int, int> pair(static_cast<int>(input), static_cast<int>(index));
      return std::find(op_.in_place.begin(), op_.in_place.end(), pair) != op_.in_place.end();
    };
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (in_place(i) && AreSame(outputs_[index], inputs_[i])) continue;
      OF_RETURN_IF_ERROR(CheckApart(outputs_[index], inputs_[i]));
    }
    for (size_t i = 0; i < index; ++i) OF_RETURN_IF_ERROR(CheckApart(outputs_[index], outputs_[i]));
    return absl::OkStatus();
  }

  absl::Status CheckScratch() const {
    const int64_t begin = instruction_.scratch_offset(), bytes = instruction_.scratch_bytes();
    const Area scratch = {"scratch memory", -1, -1, kWorkZone, begin, bytes, begin + bytes};
    if (bytes == 0) return absl::OkStatus();
    for (const std::vector<Area>* const areas : {&inputs_, &outputs_}) {
      for (const Area& area : *areas) OF_RETURN_IF_ERROR(CheckApart(scratch, area));
    }
    return absl::OkStatus();
  }

  const OpDef& op_;
  const pb::Plan& plan_;
  const pb::Actor& actor_;
  const pb::Instruction& instruction_;
  std::vector<Area> inputs_, outputs_;
};

}  // namespace

absl::Status CheckOperandMemory(const OpDef& op, const pb::Plan& plan, const pb::Actor& actor,
                                const pb::Instruction& instruction) {
  return AreaChecker(op, plan, actor, instruction).Run();
}

}  // namespace oneflow
