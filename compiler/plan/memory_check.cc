#include "compiler/plan/memory_check.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "compiler/plan/direct_order.h"
#include "compiler/plan/lifetimes.h"
#include "oneflow_core/queues.h"
#include "oneflow_core/zones.h"

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

// A part of a plan's region and its time of use.
struct Use {
  // Those of a kind are not compared with one another: of workspaces of computing one is in use at a time, and its
  // inside is checked separately; loads may take turns (direct_order.h).
  enum Kind { kWorkspace, kLoaded, kLasting };

  Interval at;
  Ticks when;
  Kind kind = kLasting;
};

// Goes through the ticks of one zone of one class and checks each use against those in use.
class Sweep {
 public:
  explicit Sweep(const std::vector<Use>& uses) : uses_(uses) {}

  absl::Status Run(absl::string_view where) {
    std::vector<std::pair<int, int>> begins, ends;  // (tick, use)
    for (size_t i = 0; i < uses_.size(); ++i) {
      if (uses_[i].at.begin == uses_[i].at.end) continue;
      begins.push_back({uses_[i].when.first, static_cast<int>(i)});
      ends.push_back({uses_[i].when.last, static_cast<int>(i)});
    }
    std::sort(begins.begin(), begins.end());
    std::sort(ends.begin(), ends.end());
    size_t ended = 0;
    for (const auto& [tick, id] : begins) {
      for (; ended < ends.size() && ends[ended].first < tick; ++ended) End(ends[ended].second);
      const Use* const other = Begin(id);
      if (other == nullptr) continue;
      return absl::InternalError(
          absl::StrCat(where, ": ", Show(uses_[id].at), " and ", Show(other->at), " overlap at tick ", tick));
    }
    return absl::OkStatus();
  }

 private:
  // The use on the same bytes, or null.
  const Use* Begin(int id) {
    const Use& use = uses_[id];
    auto next = lasting_.lower_bound(use.at.begin);
    if (next != lasting_.end() && next->first < use.at.end) return &uses_[next->second];
    if (next != lasting_.begin()) {
      const Use& before = uses_[std::prev(next)->second];
      if (before.at.end > use.at.begin) return &before;
    }
    for (int kind = 0; kind < Use::kLasting; ++kind) {
      if (kind == use.kind) continue;
      for (const int other : in_use_[kind]) {
        if (Overlap(uses_[other].at.begin, uses_[other].at.end, use.at.begin, use.at.end)) return &uses_[other];
      }
    }
    if (use.kind == Use::kLasting) {
      lasting_.emplace(use.at.begin, id);
    } else {
      in_use_[use.kind].insert(id);
    }
    return nullptr;
  }

  void End(int id) {
    const Use& use = uses_[id];
    if (use.kind == Use::kLasting) {
      lasting_.erase(use.at.begin);
    } else {
      in_use_[use.kind].erase(id);
    }
  }

  const std::vector<Use>& uses_;
  std::map<int64_t, int> lasting_;  // by their beginning: registers and pinned memory, which are disjoint
  std::array<std::set<int>, Use::kLasting> in_use_;  // of the other kinds
};

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
  using Content = std::map<int64_t, std::pair<int64_t, What>>;  // begin -> (end, content)

  std::string NameOf(ValueId value) const { return in_.graph.node(in_.graph.value(value).producer).name; }
  std::string NameOf(const What& what) const {
    constexpr const char* kPrefixes[] = {"", "packed ", "received ", "scratch of ", "transfer of "};
    return absl::StrCat(kPrefixes[static_cast<int>(what.second)], NameOf(what.first));
  }

  // Of every class, by zone: variables, and the contents of the plan's region.
  using Zones = std::vector<std::array<std::vector<Interval>, kNumZones>>;
  using Regions = std::vector<std::array<std::vector<Use>, kNumZones>>;

  absl::Status CheckZones() const {
    Zones zones(plan_.classes.size());
    for (const PlannedVariable& variable : in_.variables.variables) {
      for (size_t c = 0; c < variable.offsets.size(); ++c) {
        if (variable.offsets[c] < 0) continue;
        zones[c][static_cast<int>(variable.zone)].push_back(
            {variable.offsets[c], variable.offsets[c] + variable.num_bytes, variable.name});
      }
    }
    for (size_t c = 0; c < zones.size(); ++c) {
      for (int z = 0; z < kNumZones; ++z) {
        OF_RETURN_IF_ERROR(CheckDisjoint(std::move(zones[c][z]), in_.variables.num_bytes[c][z], NameOfZone(c, z)));
      }
    }
    return CheckRegions();
  }

  static std::string NameOfZone(size_t rank_class, int zone) {
    return absl::StrCat("class ", rank_class, ", ", ZoneName(zone), " zone");
  }

  absl::Status CheckRegions() const {
    const Lifetimes lifetimes(in_, plan_);
    Regions regions(plan_.classes.size());
    const DirectOrder order(in_, plan_);
    OF_RETURN_IF_ERROR(CheckTurns(lifetimes, order));
    const std::set<int> loaded(order.registers().begin(), order.registers().end());
    for (size_t r = 0; r < plan_.registers.size(); ++r) {
      const PhysicalRegister& reg = plan_.registers[r];
      OF_RETURN_IF_ERROR(CheckRegister(reg));
      if (reg.variable >= 0 || reg.slot_bytes == 0) continue;
      const Interval at{reg.offset, reg.offset + reg.slots * reg.slot_stride, absl::StrCat("register ", reg.name)};
      const Use::Kind kind = loaded.count(static_cast<int>(r)) > 0 ? Use::kLoaded : Use::kLasting;
      for (const Ticks& when : lifetimes.OfRegister(static_cast<int>(r))) {
        regions[when.rank_class][static_cast<int>(reg.zone)].push_back({at, when, kind});
      }
    }
    for (size_t a = 0; a < plan_.actors.size(); ++a) {
      const PhysicalActor& actor = plan_.actors[a];
      const Interval pinned{actor.pinned_offset, actor.pinned_offset + actor.pinned, actor.name};
      for (const int c : ClassesOf(in_.classes, actor)) {
        regions[c][0].push_back({pinned, {c, 0, lifetimes.clocks()[c].num_ticks - 1}});
      }
      AddWorkspace(static_cast<int>(a), lifetimes, regions);
    }
    for (size_t c = 0; c < regions.size(); ++c) {
      for (int z = 0; z < kNumZones; ++z) OF_RETURN_IF_ERROR(CheckRegion(regions[c][z], c, z));
    }
    return absl::OkStatus();
  }

  // Of two loads on the same bytes one is over before the other begins: by the clock, or as they take turns. Quadratic
  // in the loads of a rank.
  absl::Status CheckTurns(const Lifetimes& lifetimes, const DirectOrder& order) const {
    const auto meet = [&](int a, int b) {
      for (const Ticks& x : lifetimes.OfRegister(a)) {
        for (const Ticks& y : lifetimes.OfRegister(b)) {
          if (x.rank_class == y.rank_class && x.first <= y.last && y.first <= x.last) return true;
        }
      }
      return false;
    };
    const auto end = [](const PhysicalRegister& reg) { return reg.offset + reg.slots * reg.slot_stride; };
    for (size_t i = 0; i < order.registers().size(); ++i) {
      for (size_t j = 0; j < i; ++j) {
        const int first = order.registers()[j], second = order.registers()[i];
        const PhysicalRegister &a = plan_.registers[first], &b = plan_.registers[second];
        if (a.zone != b.zone || !Overlap(a.offset, end(a), b.offset, end(b))) continue;
        if (!meet(first, second) || order.TakeTurns(first, second)) continue;
        return absl::InternalError(absl::StrCat(Show({a.offset, end(a), absl::StrCat("register ", a.name)}), " and ",
                                                Show({b.offset, end(b), absl::StrCat("register ", b.name)}),
                                                " overlap, and do not take turns"));
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckRegion(const std::vector<Use>& uses, size_t rank_class, int zone) const {
    const int64_t size = plan_.classes[rank_class].bytes[zone];
    for (const Use& use : uses) {
      if (use.at.begin < 0 || use.at.end > size) {
        return absl::InternalError(absl::StrCat(NameOfZone(rank_class, zone), ": ", Show(use.at),
                                                " lies outside the plan's ", size, " bytes"));
      }
      if (use.at.begin % kAlignment != 0 && use.at.begin != use.at.end) {
        return absl::InternalError(absl::StrCat(NameOfZone(rank_class, zone), ": ", Show(use.at), " is not aligned"));
      }
    }
    return Sweep(uses).Run(NameOfZone(rank_class, zone));
  }

  // The contents of the workspace, each from its first write to its last read.
  void AddWorkspace(int id, const Lifetimes& lifetimes, Regions& regions) const {
    struct Life {
      Interval at;
      int first, last;
    };
    std::map<What, Life> lives;
    const PhysicalActor& actor = plan_.actors[id];
    for (int i = 0; i < static_cast<int>(actor.instructions.size()); ++i) {
      const auto touch = [&](const PhysicalOperand& x) {
        if (x.place != Place::kWorkspace) return;
        if (x.part == PhysicalOperand::Part::kTransfer) return AddForAllActs(actor, x, lifetimes, regions);
        const auto [it, inserted] = lives.try_emplace(x.content());
        const int first = BeginOfUse(actor, i), last = EndOfUse(actor, i);
        if (inserted) it->second = {{x.offset, x.offset + x.num_bytes, NameOf(x.content())}, first, last};
        it->second.last = last;
      };
      for (const PhysicalOperand& x : actor.instructions[i].inputs) touch(x);
      for (const PhysicalOperand& x : actor.instructions[i].scratch) touch(x);
      for (const PhysicalOperand& x : actor.instructions[i].outputs) touch(x);
    }
    for (const auto& [what, life] : lives) {
      for (const Ticks& when : lifetimes.OfInstructions(id, life.first, life.last)) {
        const Use::Kind kind = QueueKindOf(actor.queue).is_main ? Use::kWorkspace : Use::kLasting;
        regions[when.rank_class][0].push_back({life.at, when, kind});
      }
    }
  }

  void AddForAllActs(const PhysicalActor& actor, const PhysicalOperand& x, const Lifetimes& lifetimes,
                     Regions& regions) const {
    const Interval at = {x.offset, x.offset + x.num_bytes, NameOf(x.content())};
    for (const int c : ClassesOf(in_.classes, actor))
      regions[c][0].push_back({at, {c, 0, lifetimes.clocks()[c].num_ticks - 1, true}});
  }

  absl::Status CheckRegister(const PhysicalRegister& reg) const {
    if (reg.variable >= 0) return CheckIsVariable(reg);
    if (reg.slot_bytes <= reg.slot_stride) return absl::OkStatus();
    return absl::InternalError(absl::StrCat("register '", reg.name, "': slots of ", reg.slot_bytes, " bytes are ",
                                            reg.slot_stride, " bytes apart"));
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

  // The actor's pinned memory holds the kept values of its acts, each by itself.
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

  // Boxings that are called together count as one instruction.
  static std::vector<PhysicalInstruction> Joined(const PhysicalActor& actor) {
    std::vector<PhysicalInstruction> joined;
    for (int i = 0; i < static_cast<int>(actor.instructions.size()); ++i) {
      const PhysicalInstruction& x = actor.instructions[i];
      if (BeginOfUse(actor, i) == i) {
        joined.push_back(x);
        continue;
      }
      PhysicalInstruction& group = joined.back();
      group.inputs.insert(group.inputs.end(), x.inputs.begin(), x.inputs.end());
      group.outputs.insert(group.outputs.end(), x.outputs.begin(), x.outputs.end());
      group.scratch.insert(group.scratch.end(), x.scratch.begin(), x.scratch.end());
    }
    return joined;
  }

  absl::Status CheckAct(const PhysicalActor& actor) const {
    Content content;
    for (const PhysicalInstruction& instruction : Joined(actor)) {
      for (const PhysicalOperand& x : instruction.inputs) {
        if (x.place == Place::kWorkspace)
          OF_RETURN_IF_ERROR_AT(CheckRead(x, content), Where(in_.graph.node(instruction.node)));
      }
      std::vector<PhysicalOperand> written = instruction.outputs;
      written.insert(written.end(), instruction.scratch.begin(), instruction.scratch.end());
      for (size_t o = 0; o < written.size(); ++o) {
        const PhysicalOperand& x = written[o];
        if (x.place != Place::kWorkspace) continue;
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
    const OpDef* op = in_.ops.Find(node.op);
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
