#include "compiler/plan/memory_check.h"

#include <algorithm>
#include <map>

namespace oneflow {
namespace {

using Place = PhysicalOperand::Place;

struct Interval {
  int64_t begin = 0;
  int64_t end = 0;
  std::string name;
};

bool Overlap(int64_t a, int64_t a_end, int64_t b, int64_t b_end) { return a < b_end && b < a_end; }

std::string Show(const Interval& x) { return absl::StrCat("'", x.name, "' [", x.begin, ",", x.end, ")"); }

absl::Status CheckDisjoint(std::vector<Interval> intervals, int64_t size, absl::string_view where) {
  std::stable_sort(intervals.begin(), intervals.end(), [](const Interval& a, const Interval& b) {
    return std::tie(a.begin, a.end) < std::tie(b.begin, b.end);
  });
  const Interval* previous = nullptr;
  for (const Interval& x : intervals) {
    if (x.begin < 0 || x.end > size) {
      return absl::InternalError(absl::StrCat(where, ": ", Show(x), " lies outside its ", size, " bytes"));
    }
    if (x.begin == x.end) continue;
    if (x.begin % kAlignment != 0) return absl::InternalError(absl::StrCat(where, ": ", Show(x), " is not aligned"));
    if (previous != nullptr && x.begin < previous->end) {
      return absl::InternalError(absl::StrCat(where, ": ", Show(*previous), " and ", Show(x), " overlap"));
    }
    previous = &x;
  }
  return absl::OkStatus();
}

class Checker {
 public:
  Checker(const PlanInput& input, const PhysicalPlan& plan) : in_(input), plan_(plan) {}

  absl::Status Check() {
    OF_RETURN_IF_ERROR(CheckZones());
    OF_RETURN_IF_ERROR(CheckRegisterContents());
    for (const PhysicalActor& actor : plan_.actors) {
      OF_RETURN_IF_ERROR_AT(CheckAct(actor), absl::StrCat("'", actor.name, "' on rank ", actor.rank));
    }
    return absl::OkStatus();
  }

 private:
  using What = std::pair<ValueId, PhysicalOperand::Part>;
  using Content = std::map<int64_t, std::pair<int64_t, What>>;  // begin -> (end, what lies there)

  std::string NameOf(ValueId value) const { return in_.graph.node(in_.graph.value(value).producer).name; }
  std::string NameOf(const What& what) const {
    constexpr const char* kPrefixes[] = {"", "packed ", "received "};
    return absl::StrCat(kPrefixes[static_cast<int>(what.second)], NameOf(what.first));
  }

  absl::Status CheckZones() const {
    for (size_t rank = 0; rank < plan_.ranks.size(); ++rank) {
      for (Zone zone : {Zone::kPrivate, Zone::kShared}) {
        std::vector<Interval> intervals;
        AddVariables(static_cast<int>(rank), zone, intervals);
        OF_RETURN_IF_ERROR(AddRegisters(static_cast<int>(rank), zone, intervals));
        const RankMemory& memory = plan_.ranks[rank];
        if (zone == Zone::kPrivate) {
          intervals.push_back({memory.workspace_offset, memory.workspace_offset + memory.workspace, "workspace"});
          OF_RETURN_IF_ERROR(AddPinned(static_cast<int>(rank), intervals));
        }
        OF_RETURN_IF_ERROR(CheckDisjoint(std::move(intervals), memory.end[static_cast<int>(zone)],
                                         absl::StrCat("rank ", rank, ", ", Name(zone), " zone")));
      }
    }
    return absl::OkStatus();
  }

  void AddVariables(int rank, Zone zone, std::vector<Interval>& intervals) const {
    for (const PlannedVariable& variable : in_.variables.variables) {
      for (const VariableShard& shard : variable.shards) {
        if (shard.rank != rank || shard.zone != zone) continue;
        intervals.push_back({shard.offset, shard.offset + shard.num_bytes, variable.name});
      }
    }
  }

  absl::Status AddRegisters(int rank, Zone zone, std::vector<Interval>& intervals) const {
    for (const PhysicalRegister& reg : plan_.registers) {
      if (plan_.actors[reg.producer].rank != rank || reg.zone != zone) continue;
      if (reg.variable >= 0) {
        OF_RETURN_IF_ERROR(CheckIsVariable(reg, rank));
      } else if (reg.slot_bytes > reg.slot_stride) {
        return absl::InternalError(absl::StrCat("register '", reg.name, "': slots of ", reg.slot_bytes, " bytes are ",
                                                reg.slot_stride, " bytes apart"));
      } else {
        intervals.push_back(
            {reg.offset, reg.offset + reg.slots * reg.slot_stride, absl::StrCat("register ", reg.name)});
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckIsVariable(const PhysicalRegister& reg, int rank) const {
    const PlannedVariable& variable = in_.variables.variables[reg.variable];
    for (const VariableShard& shard : variable.shards) {
      if (shard.rank == rank && shard.zone == reg.zone && shard.offset == reg.offset &&
          shard.num_bytes == reg.slot_bytes && reg.slot_stride == 0) {
        return absl::OkStatus();
      }
    }
    return absl::InternalError(absl::StrCat("register '", reg.name, "' at ", reg.offset, " with ", reg.slot_bytes,
                                            " bytes is not variable '", variable.name, "' of rank ", rank));
  }

  absl::Status AddPinned(int rank, std::vector<Interval>& intervals) const {
    for (const PhysicalActor& actor : plan_.actors) {
      if (actor.rank != rank) continue;
      for (const PhysicalInstruction& instruction : actor.instructions) {
        for (const PhysicalOperand& x : instruction.outputs) {
          if (x.place == Place::kPinned) intervals.push_back({x.offset, x.offset + x.num_bytes, NameOf(x.value)});
        }
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckRegisterContents() const {
    std::vector<std::vector<Interval>> tensors(plan_.registers.size());
    for (const PhysicalActor& actor : plan_.actors) {
      for (const PhysicalInstruction& instruction : actor.instructions) {
        for (const PhysicalOperand& x : instruction.outputs) {
          if (x.place == Place::kRegister)
            tensors[x.reg].push_back({x.offset, x.offset + x.num_bytes, NameOf(x.value)});
        }
      }
    }
    for (size_t r = 0; r < tensors.size(); ++r) {
      const PhysicalRegister& reg = plan_.registers[r];
      OF_RETURN_IF_ERROR(
          CheckDisjoint(std::move(tensors[r]), reg.slot_bytes, absl::StrCat("register '", reg.name, "'")));
    }
    return absl::OkStatus();
  }

  absl::Status CheckAct(const PhysicalActor& actor) const {
    const RankMemory& memory = plan_.ranks[actor.rank];
    Content content;
    for (const PhysicalInstruction& instruction : actor.instructions) {
      for (const PhysicalOperand& x : instruction.inputs) {
        if (x.place == Place::kWorkspace)
          OF_RETURN_IF_ERROR_AT(CheckRead(x, content), Where(in_.graph.node(instruction.node)));
      }
      for (size_t o = 0; o < instruction.outputs.size(); ++o) {
        const PhysicalOperand& x = instruction.outputs[o];
        if (x.place != Place::kWorkspace) continue;
        if (x.offset < memory.workspace_offset || x.offset + x.num_bytes > memory.workspace_offset + memory.workspace) {
          return absl::InternalError(
              absl::StrCat("'", NameOf(x.content()), "' at ", x.offset, " lies outside the workspace"));
        }
        OF_RETURN_IF_ERROR(CheckWrite(instruction, static_cast<int>(o)));
        Overwrite(x, content);
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckRead(const PhysicalOperand& x, const Content& content) const {
    if (x.num_bytes == 0) return absl::OkStatus();
    const auto it = content.find(x.offset);
    if (it != content.end() && it->second.first == x.offset + x.num_bytes && it->second.second == x.content()) {
      return absl::OkStatus();
    }
    std::string found = "nothing";
    for (const auto& [begin, entry] : content) {
      if (Overlap(begin, entry.first, x.offset, x.offset + x.num_bytes))
        found = Show({begin, entry.first, NameOf(entry.second)});
    }
    return absl::InternalError(
        absl::StrCat("reads ", Show({x.offset, x.offset + x.num_bytes, NameOf(x.content())}), " but finds ", found));
  }

  // An output may lie on an input of its own instruction only where the op works in place.
  absl::Status CheckWrite(const PhysicalInstruction& instruction, int o) const {
    const PhysicalOperand& out = instruction.outputs[o];
    const Node& node = in_.graph.node(instruction.node);
    const OpDef* op = node.op == "boxing" ? nullptr : in_.ops.Find(node.op);
    const auto overlaps = [&](const PhysicalOperand& x) {
      return x.place == Place::kWorkspace &&
             Overlap(x.offset, x.offset + x.num_bytes, out.offset, out.offset + out.num_bytes);
    };
    for (size_t i = 0; i < instruction.inputs.size(); ++i) {
      const PhysicalOperand& x = instruction.inputs[i];
      if (!overlaps(x)) continue;
      const std::pair<int, int> pair(static_cast<int>(i), o);
      const bool allowed = op != nullptr && std::count(op->in_place.begin(), op->in_place.end(), pair) > 0;
      if (!allowed || x.offset != out.offset || x.num_bytes != out.num_bytes) {
        return absl::InternalError(absl::StrCat(Where(node), ": output ", o, " overlaps input ", i, " at ", x.offset));
      }
    }
    for (int other = 0; other < o; ++other) {
      if (overlaps(instruction.outputs[other])) {
        return absl::InternalError(
            absl::StrCat(Where(node), ": outputs ", other, " and ", o, " overlap at ", out.offset));
      }
    }
    return absl::OkStatus();
  }

  static void Overwrite(const PhysicalOperand& x, Content& content) {
    for (auto it = content.begin(); it != content.end();) {
      it = Overlap(it->first, it->second.first, x.offset, x.offset + x.num_bytes) ? content.erase(it) : std::next(it);
    }
    if (x.num_bytes > 0) content[x.offset] = {x.offset + x.num_bytes, x.content()};
  }

  const PlanInput& in_;
  const PhysicalPlan& plan_;
};

}  // namespace

absl::Status CheckMemory(const PlanInput& input, const PhysicalPlan& plan) { return Checker(input, plan).Check(); }

}  // namespace oneflow
