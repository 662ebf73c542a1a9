#include "compiler/plan/memory_check.h"

#include <algorithm>
#include <array>
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
      OF_RETURN_IF_ERROR_AT(CheckAct(actor), absl::StrCat("'", actor.name, "'"));
      OF_RETURN_IF_ERROR_AT(CheckPinned(actor), absl::StrCat("'", actor.name, "'"));
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

  // Of every class, by zone: what lies there.
  using Zones = std::vector<std::array<std::vector<Interval>, kNumZones>>;

  absl::Status CheckZones() const {
    Zones zones(plan_.classes.size());
    for (const PlannedVariable& variable : in_.variables.variables) {
      AddToClasses(variable.offsets, variable.num_bytes, variable.zone, variable.name, zones);
    }
    for (const PhysicalRegister& reg : plan_.registers) OF_RETURN_IF_ERROR(AddRegister(reg, zones));
    for (const PhysicalActor& actor : plan_.actors) {
      AddToClasses(actor.pinned_offsets, actor.pinned, Zone::kPrivate, actor.name, zones);
    }
    for (size_t c = 0; c < zones.size(); ++c) {
      const ClassMemory& memory = plan_.classes[c];
      zones[c][0].push_back({memory.workspace_offset, memory.workspace_offset + memory.workspace, "workspace"});
      for (Zone zone : {Zone::kPrivate, Zone::kShared}) {
        const int z = static_cast<int>(zone);
        OF_RETURN_IF_ERROR(
            CheckDisjoint(std::move(zones[c][z]), memory.end[z], absl::StrCat("class ", c, ", ", Name(zone), " zone")));
      }
    }
    return absl::OkStatus();
  }

  static void AddToClasses(const std::vector<int64_t>& offsets, int64_t num_bytes, Zone zone, const std::string& name,
                           Zones& zones) {
    for (size_t c = 0; c < offsets.size(); ++c) {
      if (offsets[c] < 0) continue;
      zones[c][static_cast<int>(zone)].push_back({offsets[c], offsets[c] + num_bytes, name});
    }
  }

  absl::Status AddRegister(const PhysicalRegister& reg, Zones& zones) const {
    if (reg.variable >= 0) return CheckIsVariable(reg);
    if (reg.slot_bytes > reg.slot_stride) {
      return absl::InternalError(absl::StrCat("register '", reg.name, "': slots of ", reg.slot_bytes, " bytes are ",
                                              reg.slot_stride, " bytes apart"));
    }
    for (const int c : in_.classes.In(reg.placement)) {
      if (reg.offsets[c] >= 0) continue;
      return absl::InternalError(absl::StrCat("register '", reg.name, "': has no place in class ", c));
    }
    AddToClasses(reg.offsets, reg.slots * reg.slot_stride, reg.zone, absl::StrCat("register ", reg.name), zones);
    return absl::OkStatus();
  }

  absl::Status CheckIsVariable(const PhysicalRegister& reg) const {
    const PlannedVariable& variable = in_.variables.variables[reg.variable];
    if (reg.placement == variable.dist.placement && reg.zone == variable.zone && reg.slot_stride == 0 &&
        reg.slot_bytes == variable.num_bytes) {
      return absl::OkStatus();
    }
    return absl::InternalError(absl::StrCat("register '", reg.name, "' of ", reg.slot_bytes, " bytes on ",
                                            reg.placement.ToString(), " is not variable '", variable.name, "' of ",
                                            variable.num_bytes, " bytes on ", variable.dist.placement.ToString()));
  }

  absl::Status CheckRegisterContents() const {
    std::vector<std::vector<Interval>> tensors(plan_.registers.size());
    for (const PhysicalActor& actor : plan_.actors) {
      for (const PhysicalInstruction& instruction : actor.instructions) {
        for (const PhysicalOperand& x : instruction.outputs) {
          if (x.place == Place::kRegister)
            tensors[x.index].push_back({x.offset, x.offset + x.num_bytes, NameOf(x.value)});
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

  // That the actor's pinned memory holds what its acts leave there, each by itself.
  static absl::Status CheckPinned(const PhysicalActor& actor) {
    std::vector<Interval> intervals;
    for (const PhysicalInstruction& instruction : actor.instructions) {
      for (const PhysicalOperand& x : instruction.outputs) {
        if (x.place != Place::kPinned) continue;
        intervals.push_back({x.offset, x.offset + x.num_bytes, absl::StrCat("value ", x.value)});
      }
    }
    return CheckDisjoint(std::move(intervals), actor.pinned, "pinned memory");
  }

  absl::Status CheckAct(const PhysicalActor& actor) const {
    for (size_t c = 0; c < actor.pinned_offsets.size(); ++c) {
      if (actor.pinned_offsets[c] < 0 || actor.workspace <= plan_.classes[c].workspace) continue;
      return absl::InternalError(absl::StrCat("takes a workspace of ", actor.workspace, " bytes, class ", c, " has ",
                                              plan_.classes[c].workspace));
    }
    Content content;
    for (const PhysicalInstruction& instruction : actor.instructions) {
      for (const PhysicalOperand& x : instruction.inputs) {
        if (x.place == Place::kWorkspace)
          OF_RETURN_IF_ERROR_AT(CheckRead(x, content), Where(in_.graph.node(instruction.node)));
      }
      std::vector<PhysicalOperand> written = instruction.scratch;
      written.insert(written.end(), instruction.outputs.begin(), instruction.outputs.end());
      for (size_t o = 0; o < written.size(); ++o) {
        const PhysicalOperand& x = written[o];
        if (x.place != Place::kWorkspace) continue;
        if (x.offset < 0 || x.offset + x.num_bytes > actor.workspace) {
          return absl::InternalError(
              absl::StrCat("'", NameOf(x.content()), "' at ", x.offset, " lies outside the workspace"));
        }
        OF_RETURN_IF_ERROR(CheckWrite(instruction, written, static_cast<int>(o)));
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
  absl::Status CheckWrite(const PhysicalInstruction& instruction, const std::vector<PhysicalOperand>& written,
                          int o) const {
    const PhysicalOperand& out = written[o];
    const Node& node = in_.graph.node(instruction.node);
    const OpDef* op = node.op == "boxing" ? nullptr : in_.ops.Find(node.op);
    const auto overlaps = [&](const PhysicalOperand& x) {
      return x.place == Place::kWorkspace &&
             Overlap(x.offset, x.offset + x.num_bytes, out.offset, out.offset + out.num_bytes);
    };
    for (size_t i = 0; i < instruction.inputs.size(); ++i) {
      const PhysicalOperand& x = instruction.inputs[i];
      if (!overlaps(x)) continue;
      const std::pair<int, int> pair(static_cast<int>(i), o);  // an op that works in place has no scratch before
      const bool allowed = op != nullptr && std::count(op->in_place.begin(), op->in_place.end(), pair) > 0;
      if (!allowed || x.offset != out.offset || x.num_bytes != out.num_bytes) {
        return absl::InternalError(absl::StrCat(Where(node), ": output ", o, " overlaps input ", i, " at ", x.offset));
      }
    }
    for (int other = 0; other < o; ++other) {
      if (overlaps(written[other])) {
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
