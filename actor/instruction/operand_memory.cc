#include "actor/instruction/operand_memory.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace oneflow {
namespace {

// Memory of the rank, in all slots of its register.
struct Area {
  std::string name;
  int reg = -1;
  pb::Zone zone = pb::PRIVATE;
  int64_t begin = 0;      // in the zone, of the first slot
  int64_t num_bytes = 0;  // in one slot
  int64_t end = 0;        // in the zone, of the last slot

  std::string ToString() const {
    return absl::StrCat(name, ", ", num_bytes, " bytes at ", begin, " of the ",
                        zone == pb::SHARED ? "shared" : "private", " zone");
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
    for (int i = 0; i < instruction_.inputs_size(); ++i) {
      OF_ASSIGN_OR_RETURN(inputs_.emplace_back(), AreaOf(absl::StrCat("input ", i), instruction_.inputs(i)));
    }
    for (int i = 0; i < instruction_.outputs_size(); ++i) {
      OF_ASSIGN_OR_RETURN(outputs_.emplace_back(), AreaOf(absl::StrCat("output ", i), instruction_.outputs(i)));
    }
    for (const int i : op_.mutates) OF_RETURN_IF_ERROR(CheckMutated(i));
    for (size_t i = 0; i < outputs_.size(); ++i) OF_RETURN_IF_ERROR(CheckOutput(i));
    return CheckScratch();
  }

 private:
  absl::StatusOr<Area> AreaOf(std::string name, const pb::Operand& operand) const {
    const int64_t bytes = NumBytes(operand);
    if (operand.register_() < 0) {
      return Area{std::move(name), -1, operand.zone(), operand.offset(), bytes, operand.offset() + bytes};
    }
    const pb::Register& reg = plan_.registers(operand.register_());
    const int rank = plan_.actors(reg.producer()).rank();
    if (rank != actor_.rank()) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, " lies on rank ", rank, " but a kernel of rank ", actor_.rank(), " uses its own memory"));
    }
    const int64_t begin = reg.offset() + operand.offset();
    const int64_t others = reg.slots() > 1 ? (reg.slots() - 1) * reg.slot_stride() : 0;
    return Area{std::move(name), operand.register_(), reg.zone(), begin, bytes, begin + others + bytes};
  }

  static absl::Status CheckApart(const Area& written, const Area& other) {
    if (!Overlap(written, other)) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(written.ToString(), ", overlaps ", other.ToString()));
  }

  // Registers that the actor only reads are others' to write; a peer's are mapped without the right to.
  absl::Status CheckMutated(int index) const {
    const Area& written = inputs_[index];
    const auto& ports = actor_.outputs();
    const auto fills = [&](const pb::Port& port) { return port.register_() == written.reg; };
    if (written.reg >= 0 && std::none_of(ports.begin(), ports.end(), fills)) {
      return absl::InvalidArgumentError(
          absl::StrCat(written.name, " is overwritten but register ", written.reg, " is no output of the actor"));
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
    const Area scratch = {"scratch memory", -1, pb::PRIVATE, begin, bytes, begin + bytes};
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
