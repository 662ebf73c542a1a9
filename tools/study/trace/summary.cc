#include "tools/study/trace/summary.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "actor/trace/track.h"
#include "oneflow_core/queues.h"
#include "tools/study/trace/step_division.h"

namespace oneflow {
namespace {

// "'forward.2' on rank 0".
std::string ActorText(const Trace& trace, int32_t plan, int32_t actor) {
  const pb::Actor& a = trace.head.program().plans(plan).actors(actor);
  return absl::StrCat("'", a.name(), "' on rank ", a.rank());
}

// The largest first; equal ones in their order.
template <typename Key, typename Value, typename Fn>
std::vector<std::pair<Key, int64_t>> Largest(const std::map<Key, Value>& from, int rows, const Fn& ns) {
  std::vector<std::pair<Key, int64_t>> sorted;
  for (const auto& [key, value] : from) sorted.push_back({key, ns(value)});
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  if (static_cast<int>(sorted.size()) > rows) sorted.resize(rows);
  return sorted;
}
constexpr auto kItself = [](int64_t ns) { return ns; };

class SummaryWriter {
 public:
  SummaryWriter(const Trace& trace, const TraceSummary& summary, const TraceTextOptions& options)
      : trace_(trace), s_(summary), options_(options), plan_(trace.head.program().plans(summary.steps.plan)) {}

  std::string Text() {
    Head();
    Division();
    if (options_.rank < 0) Path();
    Queues();
    return std::move(text_);
  }

 private:
  double MsPerStep(int64_t ns) const {
    return 1e-6 * static_cast<double>(ns) / static_cast<double>(s_.steps.num_steps());
  }
  static double Percent(int64_t part, int64_t whole) {
    return whole == 0 ? 0 : 100 * static_cast<double>(part) / static_cast<double>(whole);
  }
  std::string Name(int32_t actor) const { return ActorText(trace_, s_.steps.plan, actor); }

  void Head() {
    const pb::Program& program = trace_.head.program();
    absl::StrAppendFormat(&text_, "job '%s', plan '%s': %d actors on %d ranks in %d processes\n", program.job(),
                          plan_.name(), plan_.actors_size(), program.ranks_size(), trace_.head.processes_size());
    absl::StrAppendFormat(&text_, "%d steps, of which %d are whole and %d are looked at; %d acts lost\n", s_.steps.seen,
                          s_.steps.whole, s_.steps.num_steps(), s_.lost_acts);
    if (s_.clock_error_ns > 0) {
      absl::StrAppendFormat(&text_, "clocks of processes agree to %.1f us\n",
                            1e-3 * static_cast<double>(s_.clock_error_ns));
    }
    std::vector<double> seconds;
    for (const TraceWindow& window : s_.steps.windows) {
      seconds.insert(seconds.end(), window.step_seconds.begin(), window.step_seconds.end());
    }
    const auto [least, most] = std::minmax_element(seconds.begin(), seconds.end());
    absl::StrAppendFormat(&text_, "step: %.3f ms median (%.3f to %.3f)\n", 1e3 * s_.steps.median_seconds(),
                          1e3 * *least, 1e3 * *most);
  }

  void Path() {
    if (const TraceEdge* edge = s_.bottleneck()) {
      const CriticalPath::EdgeTime& time = s_.path.edges.at(*edge);
      absl::StrAppendFormat(&text_, "bottleneck: %s: %.3f ms of a step (%.1f%%), of it %.3f on the way\n",
                            EdgeText(trace_, s_.steps.plan, *edge), MsPerStep(time.total),
                            Percent(time.total, s_.path.total), MsPerStep(time.on_the_way));
    }
    absl::StrAppendFormat(&text_, "critical path: %s\n", PathByQueue());
    absl::StrAppendFormat(&text_, "\ncritical path, by actor            ms/step\n");
    for (const auto& [actor, ns] : Largest(s_.path.actors, options_.rows, kItself)) Row(ns, s_.path.total, Name(actor));
    Row(s_.path.on_the_way, s_.path.total, "on the way from act to act");
    absl::StrAppendFormat(&text_, "\ncritical path, by edge             ms/step\n");
    const auto total = [](const CriticalPath::EdgeTime& time) { return time.total; };
    for (const auto& [edge, ns] : Largest(s_.path.edges, options_.rows, total)) {
      Row(ns, s_.path.total, EdgeText(trace_, s_.steps.plan, edge));
    }
  }
  // Of the rank that is asked for, or of that which bounds the others.
  void Division() {
    const int rank = options_.rank < 0 ? CriticalRank(trace_, s_) : options_.rank;
    for (const StepDivision& division : DivideSteps(trace_, s_.steps)) {
      if (division.rank != rank) continue;
      absl::StrAppendFormat(&text_, "\nstep of rank %d%s\n", rank,
                            options_.rank < 0 ? ", which has most of the critical path   ms/step" : "   ms/step");
      absl::StrAppend(&text_, DivisionText(division, s_.steps));
    }
    absl::StrAppend(&text_, "\n");
  }

  // Of all ranks together.
  std::string PathByQueue() const {
    std::map<int, int64_t> queues;
    for (const auto& [actor, ns] : s_.path.actors) queues[QueueOf(plan_.actors(actor))] += ns;
    std::string text;
    for (const auto& [queue, ns] : queues) {
      absl::StrAppendFormat(&text, "%.1f%% %s, ", Percent(ns, s_.path.total), QueueName(queue));
    }
    return absl::StrCat(text, absl::StrFormat("%.1f%% on the way", Percent(s_.path.on_the_way, s_.path.total)));
  }
  void Row(int64_t ns, int64_t whole, const std::string& what) {
    absl::StrAppendFormat(&text_, "  %12.3f %6.1f%%  %s\n", MsPerStep(ns), Percent(ns, whole), what);
  }

  // Of every queue; but of many those that are busiest.
  void Queues() {
    std::vector<const QueueUse*> shown;
    for (const QueueUse& use : s_.queues) {
      if (options_.rank < 0 || use.rank == options_.rank) shown.push_back(&use);
    }
    const size_t all = shown.size(), most = options_.rank < 0 ? 2 * static_cast<size_t>(options_.rows) : all;
    if (all > most) {
      std::stable_sort(shown.begin(), shown.end(),
                       [](const auto* a, const auto* b) { return a->total_busy() > b->total_busy(); });
      shown.resize(most);
      std::sort(shown.begin(), shown.end());  // they lie in their order
    }
    absl::StrAppendFormat(&text_, "\n%-26s %7s %7s %7s %7s %7s %7s %7s\n", "queue", "busy", "data", "slot", "turn",
                          "late", "rest", "behind");
    for (const QueueUse* use : shown) QueueRow(*use);
    if (all > most) absl::StrAppendFormat(&text_, "(the %d busiest of %d; --rank shows one rank's)\n", most, all);
    for (const QueueUse* use : shown) QueueDetail(*use);
  }
  std::string QueueText(const QueueUse& use) const {
    return absl::StrCat("rank ", use.rank, " ", QueueName(use.queue));
  }
  void QueueRow(const QueueUse& use) {
    const int64_t whole = use.total();
    absl::StrAppendFormat(
        &text_, "%-26s %6.1f%% %6.1f%% %6.1f%% %6.1f%% %6.1f%% %6.1f%% %6.1f%%\n", QueueText(use),
        Percent(use.total_busy(), whole), Percent(use.waited(pb::FILLED), whole), Percent(use.waited(pb::FREED), whole),
        Percent(use.waited(pb::TURN), whole), Percent(use.late, whole),
        Percent(use.rest + use.waited(pb::START) + use.waited(pb::ITSELF), whole), Percent(use.contended, whole));
  }
  void QueueDetail(const QueueUse& use) {
    const int rows = options_.rank < 0 ? 3 : options_.rows * 4;
    absl::StrAppendFormat(&text_, "\n%s\n", QueueText(use));
    for (const auto& [actor, ns] : Largest(use.busy, rows, kItself)) {
      Row(ns, use.total(), absl::StrCat("busy with '", plan_.actors(actor).name(), "'"));
    }
    for (const auto& [wait, ns] : Largest(use.waits, rows, kItself)) Row(ns, use.total(), WaitText(wait));
  }
  std::string WaitText(const QueueWait& wait) const {
    const std::string whose = absl::StrCat(", for '", plan_.actors(wait.actor).name(), "'");
    if (wait.cause == pb::TURN) return absl::StrCat("waits for other collectives", whose);
    if (wait.cause != pb::FILLED && wait.cause != pb::FREED) return absl::StrCat("waits for its run", whose);
    const pb::Register& reg = plan_.registers(wait.register_id);
    if (wait.cause == pb::FREED) return absl::StrCat("waits for a free slot of register '", reg.name(), "'", whose);
    return absl::StrCat("waits for register '", reg.name(), "' from ", Name(reg.producer()), whose);
  }

  const Trace& trace_;
  const TraceSummary& s_;
  const TraceTextOptions options_;
  const pb::Plan& plan_;
  std::string text_;
};

}  // namespace

const TraceEdge* TraceSummary::bottleneck() const {
  const auto it = std::max_element(path.edges.begin(), path.edges.end(),
                                   [](const auto& a, const auto& b) { return a.second.total < b.second.total; });
  return it == path.edges.end() ? nullptr : &it->first;
}

absl::StatusOr<TraceSummary> Summarize(const Trace& trace, absl::string_view plan) {
  TraceSummary summary;
  OF_ASSIGN_OR_RETURN(summary.steps, FindSteps(trace, plan));
  summary.path = FindCriticalPath(trace, summary.steps);
  summary.queues = FindQueueUse(trace, summary.steps);
  int64_t largest = 0, second = 0;
  for (const pb::TraceProcess& process : trace.head.processes()) {
    summary.lost_acts += process.lost_acts();
    second = std::max(second, std::min(largest, process.clock_error_ns()));
    largest = std::max(largest, process.clock_error_ns());
  }
  summary.clock_error_ns = largest + second;  // each is with process 0
  return summary;
}

std::string EdgeText(const Trace& trace, int32_t plan, const TraceEdge& edge) {
  const pb::Plan& p = trace.head.program().plans(plan);
  const std::string from = ActorText(trace, plan, edge.from), to = ActorText(trace, plan, edge.to);
  if (edge.cause == pb::FILLED) {
    return absl::StrCat("register '", p.registers(edge.register_id).name(), "' from ", from, " to ", to);
  }
  if (edge.cause == pb::FREED) {
    return absl::StrCat("slot of register '", p.registers(edge.register_id).name(), "' freed by ", from, " for ", to);
  }
  const pb::Actor& actor = p.actors(edge.to);
  return absl::StrCat("queue '", QueueName(QueueOf(actor)), "' of rank ", actor.rank(), ": '",
                      p.actors(edge.from).name(), "', then '", actor.name(), "'");
}

std::string SummaryText(const Trace& trace, const TraceSummary& summary, const TraceTextOptions& options) {
  return SummaryWriter(trace, summary, options).Text();
}

}  // namespace oneflow
