#include "compiler/lower/plan_text.h"

#include <map>

#include "absl/strings/ascii.h"
#include "absl/strings/str_join.h"
#include "compiler/lower/plan_reader.h"
#include "compiler/lower/zones_text.h"
#include "oneflow_core/queues.h"
#include "oneflow_core/variable_role.h"
#include "oneflow_core/zones.h"
#include "sbp/boxing.h"

namespace oneflow {
namespace {

// "0-7,12".
std::string RankList(const google::protobuf::RepeatedField<int32_t>& ranks) {
  std::string text;
  for (int i = 0; i < ranks.size();) {
    int end = i;
    while (end + 1 < ranks.size() && ranks[end + 1] == ranks[end] + 1) ++end;
    absl::StrAppend(&text, text.empty() ? "" : ",", ranks[i]);
    if (end > i) absl::StrAppend(&text, "-", ranks[end]);
    i = end + 1;
  }
  return text;
}

class Writer {
 public:
  Writer(const pb::PlanSet& set, const PlanReader& reader) : set_(set), reader_(reader) {}

  absl::StatusOr<std::string> Write() {
    absl::StrAppend(&out_, "job '", set_.job(), "' version ", set_.version(), ", ", set_.hosts().num_ranks(),
                    " ranks in ", set_.classes_size(), " classes, seed ", set_.seed(), "\n");
    for (const pb::PluginFile& plugin : set_.plugins()) {
      absl::StrAppend(&out_, "plugin '", plugin.path(), "' ", plugin.sha256(), "\n");
    }
    for (int c = 0; c < set_.classes_size(); ++c) ShowClass(c);
    for (const pb::ClassVariable& variable : set_.variables()) ShowVariable(variable);
    for (const pb::ClassPlan& plan : set_.plans()) OF_RETURN_IF_ERROR(ShowPlan(plan));
    return std::move(out_);
  }

 private:
  void ShowClass(int c) {
    const pb::RankClass& of = set_.classes(c);
    absl::StrAppend(&out_, "class ", c, " ranks ", RankList(of.ranks()), ": ", ZonesText(of), "\n");
    for (const pb::ClassPlan& plan : set_.plans()) {
      const pb::ClassMemory& memory = plan.memory(c);
      std::vector<std::string> regions;
      for (int zone = 0; zone < memory.zones_size(); ++zone) {
        const pb::RegionBytes& region = memory.zones(zone);
        if (IsZone(zone) && !ZoneKindOf(zone).of_device && region.bytes() == 0) continue;
        regions.push_back(absl::StrCat(ZoneName(zone), " ", region.bytes(), " (at least ", region.bound(), ")"));
      }
      absl::StrAppend(&out_, "  plan '", plan.name(), "': ", absl::StrJoin(regions, ", "), " bytes\n");
    }
  }

  std::string Show(const google::protobuf::RepeatedPtrField<pb::ClassOffset>& offsets) const {
    return absl::StrJoin(offsets, " ", [](std::string* out, const pb::ClassOffset& offset) {
      absl::StrAppend(out, "c", offset.class_(), "+", offset.offset());
    });
  }

  std::string ShowTensor(int index) const {
    const PlanReader::Tensor& tensor = reader_.tensor(index);
    return absl::StrCat(tensor.ToString(), " ", ToString(tensor.dist.sbp), " g", set_.tensors(index).grid());
  }

  void ShowVariable(const pb::ClassVariable& variable) {
    const PlanReader::Tensor& tensor = reader_.tensor(variable.tensor());
    absl::StrAppend(&out_, "variable '", variable.name(), "' ", tensor.type.ToString(), " ", tensor.dist.ToString(),
                    " ", variable.init(), MarkOf(static_cast<VariableRole>(variable.role())), " ",
                    ZoneName(variable.zone()), " ", Show(variable.offsets()), "\n");
  }

  absl::Status ShowPlan(const pb::ClassPlan& plan) {
    OF_ASSIGN_OR_RETURN(const int64_t moved, PlannedBytesMoved(set_, plan));
    absl::StrAppend(&out_, "plan '", plan.name(), "': ", plan.actors_size(), " actors, ", plan.registers_size(),
                    " registers, ", plan.micro_batches(), " micro-batches per step, boxing moves ", moved,
                    " bytes per step\n  mesh ", reader_.grid(plan.mesh()).ToString(), "\n  registers\n");
    for (int r = 0; r < plan.registers_size(); ++r) ShowRegister(plan.registers(r), r);
    absl::StrAppend(&out_, "  actors\n");
    for (int a = 0; a < plan.actors_size(); ++a) ShowActor(plan.actors(a), a);
    if (plan.orders_size() > 0) absl::StrAppend(&out_, "  orders\n");
    for (const pb::ClassOrder& order : plan.orders()) {
      absl::StrAppend(&out_, "    class ", order.class_(), " ", QueueName(order.queue()), ": a",
                      absl::StrJoin(order.actors(), " a"), "\n");
    }
    return absl::OkStatus();
  }

  void ShowRegister(const pb::ClassRegister& reg, int id) {
    absl::StrAppend(&out_, "    r", id, " '", reg.name(), "' on ", reader_.grid(reg.grid()).ToString(), " a",
                    reg.producer(), " -> a", absl::StrJoin(reg.consumers(), " a"), " slots=", reg.slots());
    if (reg.initially_filled() > 0) absl::StrAppend(&out_, " filled=", reg.initially_filled());
    absl::StrAppend(&out_, " bytes=", reg.slot_bytes());
    if (reg.variable() >= 0) {
      absl::StrAppend(&out_, " of the variable");
    } else if (reg.slot_bytes() > 0) {
      absl::StrAppend(&out_, " ", ZoneName(reg.zone()), " +", reg.offset());
    }
    absl::StrAppend(&out_, "\n");
  }

  static std::string ShowPorts(const google::protobuf::RepeatedPtrField<pb::Port>& ports) {
    return absl::StrJoin(ports, " ", [](std::string* out, const pb::Port& port) {
      absl::StrAppend(out, "r", port.register_());
      if (port.acts_per_slot() > 1) absl::StrAppend(out, "/", port.acts_per_slot());
    });
  }

  void ShowActor(const pb::ClassActor& actor, int id) {
    absl::StrAppend(&out_, "    a", id, " on ", reader_.grid(actor.grid()).ToString(), " '", actor.name(),
                    "' acts=", actor.acts_per_step(), " queue=", QueueName(actor.queue()),
                    " priority=", actor.priority(), " in: ", ShowPorts(actor.inputs()),
                    " out: ", ShowPorts(actor.outputs()), "\n");
    for (const pb::ClassInstruction& instruction : actor.instructions()) ShowInstruction(instruction);
  }

  void ShowInstruction(const pb::ClassInstruction& instruction) {
    const auto operands = [&](const google::protobuf::RepeatedPtrField<pb::ClassOperand>& list) {
      return absl::StrJoin(list, ", ", [&](std::string* out, const pb::ClassOperand& x) {
        static constexpr const char* kPlaces[] = {"r", "v", "w", "p"};
        absl::StrAppend(out, ShowTensor(x.tensor()), "@", kPlaces[x.place()]);
        const bool indexed = x.place() == pb::ClassOperand::REGISTER || x.place() == pb::ClassOperand::VARIABLE;
        if (indexed) absl::StrAppend(out, x.index());
        if (x.offset() > 0 || !indexed) absl::StrAppend(out, "+", x.offset());
      });
    };
    absl::StrAppend(&out_, "      ", instruction.op(), " '", instruction.node(), "' (", operands(instruction.inputs()),
                    ") -> (", operands(instruction.outputs()), ")",
                    instruction.scratch_bytes() > 0
                        ? absl::StrCat(" scratch=", instruction.scratch_bytes(), "@w+", instruction.scratch_offset())
                        : "",
                    instruction.source().empty() ? "" : absl::StrCat("  # ", instruction.source()), "\n");
  }

  const pb::PlanSet& set_;
  const PlanReader& reader_;
  std::string out_;
};

}  // namespace

absl::StatusOr<std::vector<PlannedBoxing>> PlannedBoxings(const pb::PlanSet& set, const pb::ClassPlan& plan) {
  OF_ASSIGN_OR_RETURN(const PlanReader reader, PlanReader::Open(set));
  std::map<std::pair<int, int>, int64_t> known;
  std::vector<PlannedBoxing> boxings;
  for (const pb::ClassActor& actor : plan.actors()) {
    for (const pb::ClassInstruction& instruction : actor.instructions()) {
      if (instruction.kind() != pb::Instruction::COPY) continue;
      const int from = instruction.inputs(0).tensor(), to = instruction.outputs(0).tensor();
      const auto [it, inserted] = known.try_emplace({from, to}, 0);
      if (inserted) {
        const PlanReader::Tensor& x = reader.tensor(from);
        OF_ASSIGN_OR_RETURN(const BoxingStep step,
                            OneBoxingStep(x.type, x.dist, reader.tensor(to).dist, reader.topology()));
        it->second = BytesMoved(x.type, step);
      }
      boxings.push_back({&actor, &instruction, it->second * actor.acts_per_step()});
    }
  }
  return boxings;
}

absl::StatusOr<int64_t> PlannedBytesMoved(const pb::PlanSet& set, const pb::ClassPlan& plan) {
  OF_ASSIGN_OR_RETURN(const std::vector<PlannedBoxing> boxings, PlannedBoxings(set, plan));
  int64_t bytes = 0;
  for (const PlannedBoxing& boxing : boxings) bytes += boxing.bytes;
  return bytes;
}

absl::StatusOr<std::string> PlanText(const pb::PlanSet& set) {
  OF_ASSIGN_OR_RETURN(const PlanReader reader, PlanReader::Open(set));
  OF_RETURN_IF_ERROR(CheckPlanIndices(set, reader));
  return Writer(set, reader).Write();
}

}  // namespace oneflow
