#include "actor/trace/trace.h"

#include <algorithm>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "actor/trace/traced_program.h"

namespace oneflow {
namespace {

// Beyond what any job does; sums and products of such numbers cannot overflow.
constexpr int64_t kMostActs = int64_t{1} << 40;
constexpr int64_t kMostNs = int64_t{1} << 60;

auto NumbersOf(const TracedAct& act) { return std::tuple(act.run, act.plan, act.actor, act.act); }

}  // namespace

absl::Status CheckTracedAct(const pb::TraceHead& head, const TracedAct& act) {
  const auto wrong = [](const auto&... what) { return absl::InvalidArgumentError(absl::StrCat(what...)); };
  if (act.plan < 0 || act.plan >= head.program().plans_size()) {
    return wrong("an act is of plan ", act.plan, ", of ", head.program().plans_size());
  }
  const pb::Plan& plan = head.program().plans(act.plan);
  if (act.actor < 0 || act.actor >= plan.actors_size()) {
    return wrong("an act is of actor ", act.actor, " of plan '", plan.name(), "', which has ", plan.actors_size());
  }
  const pb::Actor& actor = plan.actors(act.actor);
  const auto where = [&] { return absl::StrCat("act ", act.act, " of '", actor.name(), "'"); };
  if (act.act < 0 || act.act > kMostActs || act.step < 0) return wrong(where(), ", in step ", act.step);
  const auto is_time = [](int64_t ns) { return ns >= -kMostNs && ns <= kMostNs; };
  if (!is_time(act.ready_ns) || !is_time(act.begin_ns) || !is_time(act.end_ns) || act.end_ns < act.begin_ns) {
    return wrong(where(), ": ready at ", act.ready_ns, " ns, from ", act.begin_ns, " to ", act.end_ns, " ns");
  }
  const bool waited = act.cause == pb::FILLED || act.cause == pb::FREED;
  if (waited && PortOf(act.cause == pb::FILLED ? actor.inputs() : actor.outputs(), act.register_id) == nullptr) {
    return wrong(where(), " waited for register ", act.register_id, ", of which it has no port");
  }
  return absl::OkStatus();
}

void SortActs(std::vector<TracedAct>& acts) {
  std::sort(acts.begin(), acts.end(), [](const TracedAct& a, const TracedAct& b) {
    return std::tuple(a.begin_ns, NumbersOf(a)) < std::tuple(b.begin_ns, NumbersOf(b));
  });
}

ActIndex::ActIndex(const Trace& trace) : trace_(trace), order_(trace.acts.size()) {
  for (const TracedAct& act : trace.acts) ++of_actor_[{act.run, act.plan, act.actor}].end;
  uint32_t begin = 0;
  for (auto& [actor, part] : of_actor_) {
    const uint32_t size = part.end;
    part = {begin, begin};
    begin += size;
  }
  for (size_t i = 0; i < trace.acts.size(); ++i) {
    const TracedAct& act = trace.acts[i];
    order_[of_actor_[{act.run, act.plan, act.actor}].end++] = static_cast<uint32_t>(i);
  }
  const auto earlier = [&](uint32_t a, uint32_t b) { return trace.acts[a].act < trace.acts[b].act; };
  for (const auto& [actor, part] : of_actor_) {  // mostly they are in order
    const auto first = order_.begin() + part.begin, last = order_.begin() + part.end;
    if (!std::is_sorted(first, last, earlier)) std::sort(first, last, earlier);
  }
}

const TracedAct* ActIndex::Find(int32_t run, int32_t plan, int32_t actor, int64_t act) const {
  const auto found = of_actor_.find({run, plan, actor});
  if (found == of_actor_.end()) return nullptr;
  const auto first = order_.begin() + found->second.begin, last = order_.begin() + found->second.end;
  // Where nothing was lost, the difference of their numbers is the distance from the first one.
  const int64_t ahead = act - trace_.acts[*first].act;
  if (ahead >= 0 && ahead < last - first && trace_.acts[*(first + ahead)].act == act) {
    return &trace_.acts[*(first + ahead)];
  }
  const auto it =
      std::lower_bound(first, last, act, [&](uint32_t i, int64_t wanted) { return trace_.acts[i].act < wanted; });
  return it == last || trace_.acts[*it].act != act ? nullptr : &trace_.acts[*it];
}

const TracedAct* ActIndex::CauseOf(const TracedAct& act) const {
  switch (act.cause) {
    case pb::ITSELF:
      return Find(act.run, act.plan, act.actor, act.act - 1);
    case pb::FILLED:
      return Filler(act);
    case pb::FREED:
      return LastFreer(act);
    default:
      return nullptr;
  }
}

// Slots that were filled at first come before those that the producer fills.
const TracedAct* ActIndex::Filler(const TracedAct& act) const {
  const pb::Plan& plan = trace_.PlanOf(act);
  const pb::Register& reg = plan.registers(act.register_id);
  const pb::Port* in = PortOf(plan.actors(act.actor).inputs(), act.register_id);
  const pb::Port* out = PortOf(plan.actors(reg.producer()).outputs(), act.register_id);
  if (in == nullptr || out == nullptr) return nullptr;
  const int64_t filling = act.act / in->acts_per_slot() - reg.initially_filled();
  if (filling < 0) return nullptr;
  return Find(act.run, act.plan, reg.producer(), (filling + 1) * out->acts_per_slot() - 1);
}

const TracedAct* ActIndex::LastFreer(const TracedAct& act) const {
  const pb::Plan& plan = trace_.PlanOf(act);
  const pb::Register& reg = plan.registers(act.register_id);
  const pb::Port* out = PortOf(plan.actors(act.actor).outputs(), act.register_id);
  if (out == nullptr) return nullptr;
  const int64_t reading = act.act / out->acts_per_slot() + reg.initially_filled() - reg.slots();
  if (reading < 0) return nullptr;
  const TracedAct* last = nullptr;
  for (const int32_t consumer : reg.consumers()) {
    const pb::Port* in = PortOf(plan.actors(consumer).inputs(), act.register_id);
    const TracedAct* freer =
        in == nullptr ? nullptr : Find(act.run, act.plan, consumer, (reading + 1) * in->acts_per_slot() - 1);
    if (freer != nullptr && (last == nullptr || freer->end_ns > last->end_ns)) last = freer;
  }
  return last;
}

}  // namespace oneflow
