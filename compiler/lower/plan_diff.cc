#include "compiler/lower/plan_diff.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_join.h"
#include "compiler/lower/compile.h"
#include "compiler/lower/plan_reader.h"
#include "compiler/lower/plan_text.h"
#include "oneflow_core/queues.h"
#include "oneflow_core/zones.h"

namespace oneflow {
namespace {

// Lines of one section; `plan show` of both has more.
constexpr size_t kMostLines = 24;
constexpr size_t kMostNames = 4;

// By name: its description.
using Facts = std::map<std::string, std::string>;

// "h*/out" of "h12/out".
std::string WithoutNumbers(const std::string& name) {
  std::string pattern;
  for (const char c : name) {
    if (!absl::ascii_isdigit(c)) {
      pattern += c;
    } else if (pattern.empty() || pattern.back() != '*') {
      pattern += '*';
    }
  }
  return pattern;
}

// Lines that each describe many names; names that differ only in numbers are one.
class Changes {
 public:
  void Add(const std::string& sign, const std::string& name, const std::string& what) {
    const auto [it, is_new] = index_.try_emplace(sign + what, groups_.size());
    if (is_new) groups_.push_back({sign + what, {}, {}});
    groups_[it->second].Add(name);
  }

  // The differences, and entries of one side only.
  void Compare(const Facts& a, const Facts& b) {
    for (const auto& [name, what] : a) {
      const auto it = b.find(name);
      if (it == b.end()) {
        Add("- ", name, what);
      } else if (it->second != what) {
        Add("", name, absl::StrCat(what, " -> ", it->second));
      }
    }
    for (const auto& [name, what] : b) {
      if (a.count(name) == 0) Add("+ ", name, what);
    }
  }

  std::string Text(absl::string_view title, const std::string& indent) const {
    if (groups_.empty()) return "";
    std::string text = absl::StrCat(indent, title, "\n");
    for (size_t g = 0; g < std::min(groups_.size(), kMostLines); ++g) {
      absl::StrAppend(&text, indent, "  ", groups_[g].what, ": ", groups_[g].Names(), "\n");
    }
    if (groups_.size() > kMostLines) {
      absl::StrAppend(&text, indent, "  and ", groups_.size() - kMostLines, " lines more\n");
    }
    return text;
  }

 private:
  // Names with the same description.
  struct Group {
    std::string what;
    std::vector<std::pair<std::string, int>> alike;  // a name, and the number of names like it except for numbers
    std::map<std::string, size_t> index;

    void Add(const std::string& name) {
      const auto [it, is_new] = index.try_emplace(WithoutNumbers(name), alike.size());
      if (is_new) alike.push_back({name, 0});
      ++alike[it->second].second;
    }

    // "'wte', 'h*/out' (4 alike) and 7 more".
    std::string Names() const {
      std::vector<std::string> shown;
      int more = 0;
      for (const auto& [name, count] : alike) {
        if (shown.size() == kMostNames) {
          more += count;
        } else {
          shown.push_back(count == 1 ? absl::StrCat("'", name, "'")
                                     : absl::StrCat("'", WithoutNumbers(name), "' (", count, " alike)"));
        }
      }
      return absl::StrCat(absl::StrJoin(shown, ", "), more == 0 ? "" : absl::StrCat(" and ", more, " more"));
    }
  };
  std::vector<Group> groups_;
  std::map<std::string, size_t> index_;
};

template <typename T>
std::string Changed(const std::string& what, const T& a, const T& b, absl::string_view unit = "") {
  return a == b ? "" : absl::StrCat(what, ": ", a, " -> ", b, unit, "\n");
}

// One of the two plan sets.
class Side {
 public:
  static absl::StatusOr<Side> Open(const pb::PlanSet& set) {
    OF_ASSIGN_OR_RETURN(PlanReader reader, PlanReader::Open(set));
    return Side(set, std::move(reader));
  }

  const pb::PlanSet& set() const { return *set_; }
  std::string Mesh(const pb::ClassPlan& plan) const { return reader_.grid(plan.mesh()).ToString(); }

  std::string Hosts() const {
    const pb::JobHosts& hosts = set_->hosts();
    return absl::StrCat(hosts.num_ranks(), " ranks on ", hosts.device(), ", ", hosts.ranks_per_process(),
                        " per process");
  }

  Facts Variables() const {
    Facts facts;
    for (const pb::ClassVariable& variable : set_->variables()) {
      facts[variable.name()] =
          absl::StrCat(Layout(variable.tensor()),
                       variable.zone() == kPrivateZone ? "" : absl::StrCat(", ", ZoneName(variable.zone())));
    }
    return facts;
  }

  Facts Values(const pb::ClassPlan& plan) const {
    Facts facts;
    for (const pb::ClassActor& actor : plan.actors()) {
      for (const pb::ClassInstruction& of : actor.instructions()) {
        if (of.kind() == pb::Instruction::COPY) continue;
        for (int o = 0; o < of.outputs_size(); ++o) {
          facts[o == 0 ? of.node() : absl::StrCat(of.node(), ":", o)] = Layout(of.outputs(o).tensor());
        }
      }
    }
    return facts;
  }

  absl::StatusOr<Facts> Boxings(const pb::ClassPlan& plan) const {
    OF_ASSIGN_OR_RETURN(const std::vector<PlannedBoxing> boxings, PlannedBoxings(*set_, plan));
    Facts facts;
    for (const PlannedBoxing& boxing : boxings) {
      const int from = boxing.instruction->inputs(0).tensor(), to = boxing.instruction->outputs(0).tensor();
      facts[boxing.instruction->node()] =
          absl::StrCat(Layout(from), " to ", reader_.tensor(to).dist.ToString(), ", ", boxing.bytes, " bytes a step");
    }
    return facts;
  }

  static Facts Slots(const pb::ClassPlan& plan) {
    Facts facts;
    for (const pb::ClassRegister& reg : plan.registers()) {
      if (reg.variable() >= 0) continue;
      std::string& slots = facts[reg.name()];
      absl::StrAppend(&slots, slots.empty() ? "" : " and ", reg.slots(), reg.slots() == 1 ? " slot" : " slots");
    }
    return facts;
  }

  static std::string Actors(const pb::ClassPlan& plan, int queue) {
    int actors = 0, acts = 0;
    for (const pb::ClassActor& actor : plan.actors()) {
      if (actor.queue() != queue) continue;
      ++actors;
      acts += actor.acts_per_step();
    }
    return absl::StrCat(actors, " (", acts, " acts)");
  }

  // At the fullest time of the class.
  static std::map<std::string, int64_t> Memory(const pb::ClassMemory& memory) {
    std::map<std::string, int64_t> bytes;
    for (const pb::MemoryUse& use : memory.at_peak()) bytes[use.what()] += use.bytes();
    for (const ZoneKind& kind : kZones) {
      bytes[absl::StrCat("plan's region, ", kind.name)] = BytesOfZone(memory, kind.zone);
    }
    return bytes;
  }

 private:
  Side(const pb::PlanSet& set, PlanReader reader) : set_(&set), reader_(std::move(reader)) {}

  std::string Layout(int tensor) const {
    return absl::StrCat(reader_.tensor(tensor).ToString(), " ", reader_.tensor(tensor).dist.ToString());
  }

  const pb::PlanSet* set_;
  PlanReader reader_;
};

// The class of the fullest rank.
int FullestClass(const pb::ClassPlan& plan) {
  int fullest = 0;
  for (int c = 1; c < plan.memory_size(); ++c) {
    const auto bytes = [&](int of) { return BytesOfZones(plan.memory(of)); };
    if (bytes(c) > bytes(fullest)) fullest = c;
  }
  return fullest;
}

std::string DiffMemory(const pb::ClassMemory& a, const pb::ClassMemory& b, const std::string& where) {
  const std::map<std::string, int64_t> before = Side::Memory(a);
  std::string text;
  for (const auto& [what, bytes] : Side::Memory(b)) {
    const auto it = before.find(what);
    text += Changed(absl::StrCat("    ", what), it == before.end() ? 0 : it->second, bytes, " bytes");
  }
  return text.empty() ? "" : absl::StrCat("  memory of ", where, "\n", text);
}

// Of each class if there are as many, else of the fullest.
std::string DiffMemories(const Side& a, const pb::ClassPlan& plan, const Side& b, const pb::ClassPlan& other) {
  if (plan.memory_size() != other.memory_size()) {
    if (plan.memory().empty() || other.memory().empty()) return "";
    return DiffMemory(plan.memory(FullestClass(plan)), other.memory(FullestClass(other)), "the fullest rank");
  }
  std::string text;
  for (int c = 0; c < plan.memory_size(); ++c) {
    const int ranks = a.set().classes(c).ranks_size(), others = b.set().classes(c).ranks_size();
    text += DiffMemory(plan.memory(c), other.memory(c),
                       absl::StrCat("class ", c, " (", ranks == others ? "" : absl::StrCat(ranks, " -> "), others,
                                    others == 1 ? " rank)" : " ranks)"));
  }
  return text;
}

absl::StatusOr<std::string> DiffPlans(const Side& a, const pb::ClassPlan& plan, const Side& b,
                                      const pb::ClassPlan& other) {
  std::string text = Changed("  mesh", a.Mesh(plan), b.Mesh(other));
  text += Changed("  micro-batches", plan.micro_batches(), other.micro_batches());
  Changes values, boxings, slots;
  values.Compare(a.Values(plan), b.Values(other));
  text += values.Text("values", "  ");
  OF_ASSIGN_OR_RETURN(const Facts boxed, a.Boxings(plan));
  OF_ASSIGN_OR_RETURN(const Facts boxed_other, b.Boxings(other));
  boxings.Compare(boxed, boxed_other);
  text += boxings.Text("boxings", "  ");
  for (const QueueKind& kind : kQueues) {
    text += Changed(absl::StrCat("  actors of ", kind.name), Side::Actors(plan, kind.queue),
                    Side::Actors(other, kind.queue));
  }
  slots.Compare(Side::Slots(plan), Side::Slots(other));
  text += slots.Text("registers", "  ");
  text += DiffMemories(a, plan, b, other);
  OF_ASSIGN_OR_RETURN(const int64_t moved, PlannedBytesMoved(a.set(), plan));
  OF_ASSIGN_OR_RETURN(const int64_t moved_other, PlannedBytesMoved(b.set(), other));
  text += Changed("  moved per step", moved, moved_other, " bytes");
  return text;
}

const pb::ClassPlan* FindPlan(const pb::PlanSet& set, const std::string& name) {
  for (const pb::ClassPlan& plan : set.plans()) {
    if (plan.name() == name) return &plan;
  }
  return nullptr;
}

}  // namespace

absl::StatusOr<std::string> PlanDiff(const pb::PlanSet& a, const pb::PlanSet& b) {
  OF_ASSIGN_OR_RETURN(const std::string bytes, SerializePlan(a));
  OF_ASSIGN_OR_RETURN(const std::string other_bytes, SerializePlan(b));
  if (bytes == other_bytes) return std::string("nothing changed\n");
  OF_ASSIGN_OR_RETURN(const Side one, Side::Open(a));
  OF_ASSIGN_OR_RETURN(const Side other, Side::Open(b));
  std::string text = Changed("job", a.job(), b.job());
  text += Changed("hosts", one.Hosts(), other.Hosts());
  text += Changed("classes of ranks", a.classes_size(), b.classes_size());
  text += Changed("seed", a.seed(), b.seed());
  Changes variables;
  variables.Compare(one.Variables(), other.Variables());
  text += variables.Text("variables", "");
  for (const pb::ClassPlan& plan : a.plans()) {
    const pb::ClassPlan* const twin = FindPlan(b, plan.name());
    if (twin == nullptr) {
      absl::StrAppend(&text, "- plan '", plan.name(), "'\n");
      continue;
    }
    OF_ASSIGN_OR_RETURN(const std::string changes, DiffPlans(one, plan, other, *twin));
    if (!changes.empty()) absl::StrAppend(&text, "plan '", plan.name(), "'\n", changes);
  }
  for (const pb::ClassPlan& plan : b.plans()) {
    if (FindPlan(a, plan.name()) == nullptr) absl::StrAppend(&text, "+ plan '", plan.name(), "'\n");
  }
  if (!text.empty()) return text;
  return std::string("only facts that are not compared here changed: offsets, orders, sources, attributes\n");
}

}  // namespace oneflow
