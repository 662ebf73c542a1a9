#include "actor/engine/telling.h"

#include <map>
#include <thread>
#include <utility>
#include <vector>

#include "actor/diagnosis.h"
#include "actor/trace/save_trace.h"
#include "glog/logging.h"
#include "oneflow_core/queues.h"
#include "oneflow_core/zones.h"

namespace oneflow {
namespace {

using SteadyClock = std::chrono::steady_clock;

// How long Waits() watches who is busy: some acts of most jobs.
constexpr std::chrono::milliseconds kWindow(300);
// Then, how long a thread may take to answer: enough for one that waits for its turn on a busy host.
constexpr std::chrono::milliseconds kAnswerTime(300);

// Instructions by op, of all lanes together, ordered by name.
std::vector<OpTime> OpTimes(const LoadedJob& job) {
  std::map<std::string, OpTime> ops;
  for (const Lane& lane : job.lanes) {
    for (const OpTime& time : lane.executor->op_times()) {
      OpTime& sum = ops[time.op];
      sum.op = time.op;
      sum.calls += time.calls;
      sum.seconds += time.seconds;
    }
  }
  std::vector<OpTime> times;
  for (auto& [op, sum] : ops) times.push_back(std::move(sum));
  return times;
}

}  // namespace

void Telling::SetDoing(std::string what, std::string plan) {
  std::lock_guard<std::mutex> lock(mu_);
  doing_ = std::move(what);
  running_plan_ = std::move(plan);
}

pb::ProcessWaits Telling::Waits() { return WaitsAfter(kWindow); }

pb::ProcessWaits Telling::WaitsAfter(std::chrono::milliseconds window) {
  std::lock_guard<std::mutex> one_at_a_time(waits_mu_);
  struct Before {
    double busy = 0;
    int64_t acts = 0;
  };
  std::vector<Before> before;
  const auto begin = SteadyClock::now();
  for (const auto& thread : job_.threads) before.push_back({thread->busy_seconds(), thread->acts()});
  std::this_thread::sleep_for(window);
  pb::ProcessWaits waits;
  waits.set_process(job_.process);
  waits.set_window_seconds(std::chrono::duration<double>(SteadyClock::now() - begin).count());
  std::vector<pb::QueueWaits> queues(job_.threads.size());
  for (size_t i = 0; i < job_.threads.size(); ++i) {
    queues[i].set_busy_seconds(job_.threads[i]->busy_seconds() - before[i].busy);
    queues[i].set_acts(job_.threads[i]->acts() - before[i].acts);
    job_.threads[i]->AskWaits();
  }
  const auto until = SteadyClock::now() + kAnswerTime;
  for (size_t i = 0; i < job_.threads.size(); ++i) {
    queues[i].MergeFrom(job_.threads[i]->Waits(until));
    *waits.add_queues() = std::move(queues[i]);
  }
  std::lock_guard<std::mutex> lock(mu_);
  waits.set_doing(doing_);
  waits.set_plan(running_plan_);
  return waits;
}

Telling::RunWatch::RunWatch(Telling& telling)
    : telling_(telling), stall_(absl::Seconds(telling.options_.stall_seconds)) {}

void Telling::RunWatch::Look() {
  if (!stall_.IsStalled(clock_.Look(), telling_.job_.NumActs())) return;
  const pb::ProcessWaits waits = telling_.WaitsAfter(std::chrono::milliseconds(0));  // no activity would be visible
  const EngineOptions& options = telling_.options_;
  if (options.on_stall) return options.on_stall(waits);
  LOG(WARNING) << "process " << options.process << ": no act has ended for " << options.stall_seconds << " s\n"
               << DiagnosisText(Diagnose({waits}));
}

EngineStats Telling::Stats() const {
  EngineStats stats;
  stats.acts = job_.NumActs();
  for (const int rank : job_.ranks) stats.register_bytes += BytesOfZones(job_.program.ranks(rank));
  for (const Lane& lane : job_.lanes) {
    if (QueueKindOf(lane.queue).is_main) {
      stats.run_seconds += lane.thread->run_seconds();
      stats.idle_seconds += lane.thread->idle_seconds();
      stats.kernel_seconds += lane.executor->seconds();
    }
    if (QueueKindOf(lane.queue).moves_between_ranks) stats.communication_seconds += lane.executor->seconds();
    stats.bytes_moved += lane.executor->bytes_moved();
    stats.scratch_bytes += lane.executor->scratch_bytes();
  }
  stats.ops = OpTimes(job_);
  stats.bytes_sent = job_.others->bytes_sent();
  return stats;
}

absl::Status Telling::SaveTrace(const std::string& path, const std::function<absl::Status()>& barrier) const {
  if (options_.trace_bytes <= 0) return absl::FailedPreconditionError("acts are not recorded");
  TraceSource source{.program = job_.program, .process = job_.process, .peers = options_.peers};
  for (const auto& trace : job_.traces) source.rings.push_back(trace.get());
  return oneflow::SaveTrace(source, path, barrier);
}

}  // namespace oneflow
