#include "compiler/lower/plan_check.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "compiler/lower/plan_places.h"
#include "compiler/lower/plan_reader.h"
#include "compiler/lower/wait_graph.h"
#include "oneflow_core/queues.h"
#include "sbp/boxing.h"

namespace oneflow {
namespace {

// The most acts and waits of a step that the proof spells out: 100 times those of the largest plans, and some GB of
// memory.
constexpr int64_t kMostWaits = int64_t{1} << 24;

template <typename... Parts>
absl::Status NotProved(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(parts...));
}

// Numbers of instances: `first` to first + count - 1.
struct Ids {
  int64_t first = 0, count = 0;
  std::string of;
};

// They follow one another from 0, as positions in the program of all ranks.
absl::Status CheckIds(std::vector<Ids> ids) {
  std::sort(ids.begin(), ids.end(), [](const Ids& a, const Ids& b) { return a.first < b.first; });
  int64_t next = 0;
  for (const Ids& of : ids) {
    const int64_t end = of.first + of.count;
    if (of.first != next || end > INT32_MAX) {
      return NotProved(of.of, ": its instances have numbers from ", of.first, " to ", end - 1,
                       ", those before it end at ", next - 1);
    }
    next = end;
  }
  return absl::OkStatus();
}

template <typename Items>
absl::Status CheckNames(absl::string_view what, const Items& items) {
  absl::flat_hash_set<absl::string_view> names;
  for (const auto& item : items) {
    if (item.name().empty()) return NotProved("a ", what, " has no name");
    if (!names.insert(item.name()).second) return NotProved(what, " '", item.name(), "': the name is used twice");
  }
  return absl::OkStatus();
}

class PlanChecker {
 public:
  PlanChecker(const pb::PlanSet& set, const PlanReader& reader, const pb::ClassPlan& plan)
      : set_(set), reader_(reader), plan_(plan) {}

  absl::StatusOr<PlanProof> Check() {
    OF_RETURN_IF_ERROR(CheckPorts());
    OF_RETURN_IF_ERROR(CheckRatesOfActors());
    OF_RETURN_IF_ERROR(CheckNumbers());
    OF_RETURN_IF_ERROR(CheckLayouts());
    OF_RETURN_IF_ERROR(CheckBoxings());
    OF_ASSIGN_OR_RETURN(const WaitGraph graph, WaitGraphOf(plan_));
    OF_RETURN_IF_ERROR(Count(graph));
    OF_RETURN_IF_ERROR(CheckOrdersOfQueues());
    OF_RETURN_IF_ERROR(CheckLive(graph));
    return proof_;
  }

 private:
  // Actors and registers agree on producers and consumers.
  absl::Status CheckPorts() const {
    using Port = std::pair<int, int>;  // actor, register
    absl::flat_hash_set<Port> inputs, outputs;
    for (int a = 0; a < plan_.actors_size(); ++a) {
      OF_RETURN_IF_ERROR(AddPorts(a, plan_.actors(a).inputs(), "input", inputs));
      OF_RETURN_IF_ERROR(AddPorts(a, plan_.actors(a).outputs(), "output", outputs));
    }
    for (int r = 0; r < plan_.registers_size(); ++r) {
      const pb::ClassRegister& reg = plan_.registers(r);
      if (reg.others_only() && reg.variable() < 0) {
        return NotProved("register '", reg.name(),
                         "' is waited for on other ranks only, but no variable has its memory");
      }
      if (outputs.erase({reg.producer(), r}) == 0) return NoPort(reg, reg.producer(), "output");
      for (const int consumer : reg.consumers()) {
        if (inputs.erase({consumer, r}) == 0) return NoPort(reg, consumer, "input");
      }
    }
    for (const auto* const left : {&inputs, &outputs}) {
      if (left->empty()) continue;
      const auto [actor, reg] = *std::min_element(left->begin(), left->end());
      return NotProved("actor '", plan_.actors(actor).name(), "' has an ", left == &inputs ? "input" : "output",
                       " register '", plan_.registers(reg).name(), "', which does not name it");
    }
    return absl::OkStatus();
  }

  template <typename Ports>
  absl::Status AddPorts(int actor, const Ports& ports, absl::string_view what,
                        absl::flat_hash_set<std::pair<int, int>>& all) const {
    for (const pb::Port& port : ports) {
      if (all.insert({actor, port.register_()}).second) continue;
      return NotProved("actor '", plan_.actors(actor).name(), "' has ", what, " register '",
                       plan_.registers(port.register_()).name(), "' twice");
    }
    return absl::OkStatus();
  }
  absl::Status NoPort(const pb::ClassRegister& reg, int actor, absl::string_view what) const {
    return NotProved("register '", reg.name(), "' is ", what, " of actor '", plan_.actors(actor).name(),
                     "', which does not name it");
  }

  absl::Status CheckRatesOfActors() const {
    if (plan_.micro_batches() < 1) return NotProved(plan_.micro_batches(), " micro-batches");
    for (const pb::ClassActor& actor : plan_.actors()) {
      const std::string where = absl::StrCat("actor '", actor.name(), "'");
      if (actor.acts_per_step() != 1 && actor.acts_per_step() != plan_.micro_batches()) {
        return NotProved(where, ": ", actor.acts_per_step(), " acts per step; the plan has ", plan_.micro_batches(),
                         " micro-batches");
      }
      if (!IsQueue(actor.queue())) return NotProved(where, ": queue ", actor.queue(), " is unknown");
      if (plan_.beside() != (actor.queue() == kBesideQueue)) {
        return NotProved(where, ": is on queue '", QueueName(actor.queue()), "' of a plan that ",
                         plan_.beside() ? "runs" : "does not run", " beside others");
      }
      if (!pb::Section_IsValid(actor.section()) || actor.chunk() < 0)
        return NotProved(where, ": section ", actor.section(), " of chunk ", actor.chunk(), " is unknown");
    }
    return absl::OkStatus();
  }

  absl::Status CheckNumbers() const {
    std::vector<Ids> actors, registers;
    for (const pb::ClassActor& actor : plan_.actors()) {
      int64_t count = reader_.grid(actor.grid()).size();
      if (actor.senders() >= 0 && actor.senders() != actor.grid()) count += NumSendersOnly(actor);
      actors.push_back({actor.first_id(), count, absl::StrCat("actor '", actor.name(), "'")});
    }
    for (const pb::ClassRegister& reg : plan_.registers()) {
      registers.push_back(
          {reg.first_id(), reader_.grid(reg.grid()).size(), absl::StrCat("register '", reg.name(), "'")});
    }
    OF_RETURN_IF_ERROR(CheckIds(std::move(actors)));
    return CheckIds(std::move(registers));
  }

  int64_t NumSendersOnly(const pb::ClassActor& actor) const {
    const std::vector<int>& receive = reader_.grid(actor.grid()).ranks();
    const std::set<int> receivers(receive.begin(), receive.end());
    const std::vector<int>& send = reader_.grid(actor.senders()).ranks();
    return std::count_if(send.begin(), send.end(), [&](int rank) { return receivers.count(rank) == 0; });
  }

  absl::Status CheckBoxings() const {
    std::set<std::pair<int, int>> seen;
    for (const pb::ClassActor& actor : plan_.actors()) {
      for (const pb::ClassInstruction& of : actor.instructions()) {
        if (of.kind() != pb::Instruction::COPY || !seen.emplace(of.inputs(0).tensor(), of.outputs(0).tensor()).second)
          continue;
        const PlanReader::Tensor& from = reader_.tensor(of.inputs(0).tensor());
        const PlanReader::Tensor& to = reader_.tensor(of.outputs(0).tensor());
        const std::string where = absl::StrCat("actor '", actor.name(), "': boxing '", of.node(), "'");
        if (from.type != to.type) return NotProved(where, ": from ", from.type.ToString(), " to ", to.type.ToString());
        OF_RETURN_IF_ERROR_AT(CheckOneBoxingStep(from.type, from.dist, to.dist, reader_.topology()), where);
      }
    }
    return absl::OkStatus();
  }

  // Instructions that move elements, or hand them over, find them row-major. Kernels check their own operands.
  absl::Status CheckLayouts() const {
    for (const pb::ClassActor& actor : plan_.actors()) {
      for (const pb::ClassInstruction& of : actor.instructions()) {
        if (of.kind() == pb::Instruction::COMPUTE) continue;
        const auto check = [&](const pb::ClassOperand& x) {
          const PlanReader::Tensor& tensor = reader_.tensor(x.tensor());
          if (tensor.layout == MemoryLayout::kRowMajor) return absl::OkStatus();
          return NotProved("actor '", actor.name(), "': ", of.op(), " '", of.node(), "': ", tensor.ToString(),
                           " must be row-major");
        };
        for (const pb::ClassOperand& x : of.inputs()) OF_RETURN_IF_ERROR(check(x));
        for (const pb::ClassOperand& x : of.outputs()) OF_RETURN_IF_ERROR(check(x));
      }
    }
    return absl::OkStatus();
  }

  // Checks the cost of the proof beforehand.
  absl::Status Count(const WaitGraph& graph) {
    const auto acts = [&](const WaitGraph::Port& port) { return graph.actors[port.actor].acts_per_step; };
    for (const WaitGraph::Actor& actor : graph.actors) proof_.acts += actor.acts_per_step;
    for (const WaitGraph::Register& reg : graph.registers) {
      if (reg.slots > kMostWaits) return NotProved("register '", reg.name, "': ", reg.slots, " slots");
      for (const WaitGraph::Port& reader : reg.consumers) {
        proof_.data += acts(reader);
        proof_.credits += acts(reg.producer);
      }
    }
    for (const std::vector<int>& order : graph.orders) proof_.ordered += static_cast<int64_t>(order.size());
    const int64_t all = proof_.acts + proof_.data + proof_.credits + proof_.ordered;
    return all <= kMostWaits ? absl::OkStatus() : NotProved(all, " acts and waits in a step, at most ", kMostWaits);
  }

  // The actors that act on ranks of each class; those of them that make calls only.
  std::vector<std::set<int>> ActorsOf(bool only_calls) const {
    std::vector<std::set<int>> actors(set_.classes_size());
    for (int a = 0; a < plan_.actors_size(); ++a) {
      const pb::ClassActor& actor = plan_.actors(a);
      if (only_calls && (actor.senders() < 0 || actor.instructions().empty())) continue;
      for (const int c : ClassesOn(reader_, actor.grid())) actors[c].insert(a);
      if (actor.senders() < 0) continue;
      for (const int c : ClassesOn(reader_, actor.senders())) actors[c].insert(a);
    }
    return actors;
  }

  // Each order is of acts of its queue, and all calls of a class are in order.
  absl::Status CheckOrdersOfQueues() const {
    const std::vector<std::set<int>> acts = ActorsOf(/*only_calls=*/false);
    std::set<std::pair<int, int>> queues;
    std::vector<std::set<int>> ordered(set_.classes_size());
    for (const pb::ClassOrder& order : plan_.orders()) {
      const std::string where = absl::StrCat("order of class ", order.class_(), ", queue ", order.queue());
      if (!IsQueue(order.queue())) return NotProved(where, ": there is no such queue");
      if (!queues.emplace(order.class_(), order.queue()).second) return NotProved(where, ": there are two");
      for (const int a : order.actors()) {
        const pb::ClassActor& actor = plan_.actors(a);
        if (actor.queue() != order.queue()) {
          return NotProved(where, ": actor '", actor.name(), "' is on queue ", actor.queue());
        }
        if (acts[order.class_()].count(a) == 0) {
          return NotProved(where, ": actor '", actor.name(), "' does not act on ranks of that class");
        }
        ordered[order.class_()].insert(a);
      }
    }
    const std::vector<std::set<int>> calls = ActorsOf(/*only_calls=*/true);
    for (int c = 0; c < set_.classes_size(); ++c) {
      for (const int a : calls[c]) {
        if (ordered[c].count(a) > 0) continue;
        return NotProved("actor '", plan_.actors(a).name(), "' makes calls, but is in no order of class ", c);
      }
    }
    return absl::OkStatus();
  }

  const pb::PlanSet& set_;
  const PlanReader& reader_;
  const pb::ClassPlan& plan_;
  PlanProof proof_;
};

}  // namespace

absl::StatusOr<std::vector<PlanProof>> CheckPlanSet(const pb::PlanSet& set) {
  OF_ASSIGN_OR_RETURN(const PlanReader reader, PlanReader::Open(set));
  OF_RETURN_IF_ERROR(CheckPlanIndices(set, reader));
  OF_RETURN_IF_ERROR(CheckNames("variable", set.variables()));
  OF_RETURN_IF_ERROR(CheckNames("plan", set.plans()));
  OF_RETURN_IF_ERROR(CheckPlanPlaces(set, reader));
  std::vector<PlanProof> proofs;
  if (std::count_if(set.plans().begin(), set.plans().end(), [](const auto& plan) { return plan.beside(); }) > 1) {
    return NotProved("several plans run beside others; their memory would overlap");
  }
  for (const pb::ClassPlan& plan : set.plans()) {
    OF_ASSIGN_OR_RETURN_AT(PlanProof proof, PlanChecker(set, reader, plan).Check(),
                           absl::StrCat("plan '", plan.name(), "'"));
    proofs.push_back(proof);
  }
  return proofs;
}

std::string ProofText(const pb::PlanSet& set, const std::vector<PlanProof>& proofs) {
  std::string text = absl::StrCat("job '", set.job(), "': ", set.hosts().num_ranks(), " ranks in ", set.classes_size(),
                                  " classes; tables, indices and numbers agree\nmemory: ", set.variables_size(),
                                  " variables overlap nowhere; everything lies within its zone\n");
  for (int p = 0; p < set.plans_size(); ++p) {
    const PlanProof& proof = proofs[p];
    absl::StrAppend(&text, "plan '", set.plans(p).name(), "': ", set.plans(p).actors_size(), " actors, ", proof.acts,
                    " acts a step; ", proof.data, " waits for data, ", proof.credits, " for credits, ", proof.ordered,
                    " acts in order: no deadlock\n");
  }
  absl::StrAppend(&text,
                  "not proved: that buffers with common memory are never in use at once; that there are kernels\n");
  return text;
}

}  // namespace oneflow
