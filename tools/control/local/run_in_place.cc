#include "tools/control/local/run_in_place.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "actor/collective/nccl_collectives.h"
#include "actor/diagnosis.h"
#include "actor/free_memory.h"
#include "compiler/lower/program.h"
#include "proto/plan.pb.h"
#include "tools/control/worker/engine_options.h"
#include "tools/control/worker/phases.h"
#include "tools/control/worker/rest.h"
#include "tools/control/worker/stats.h"
#include "tools/control/worker/summaries.h"
#include "tools/job/plugins.h"

namespace oneflow {
namespace {

// Numbers and times events, one at a time.
class EventSink {
 public:
  explicit EventSink(const std::function<void(const pb::JobEvent&)>& on_event) : on_event_(on_event) {}

  void Emit(pb::JobEvent event) {
    if (!on_event_) return;
    absl::MutexLock lock(&mu_);
    event.set_sequence(next_++);
    event.set_time_us(absl::ToUnixMicros(absl::Now()));
    on_event_(event);
  }
  void Stall(const std::string& text) {
    pb::JobEvent event;
    event.mutable_stall()->set_text(text);
    Emit(std::move(event));
  }
  void State(pb::JobState state, absl::string_view message = "") {
    pb::JobEvent event;
    event.mutable_state()->set_state(state);
    event.mutable_state()->set_message(std::string(message));
    Emit(std::move(event));
  }
  void Value(pb::FetchedValue value) {
    pb::JobEvent event;
    *event.mutable_fetched() = std::move(value);
    Emit(std::move(event));
  }

 private:
  const std::function<void(const pb::JobEvent&)>& on_event_;
  absl::Mutex mu_;
  int64_t next_ ABSL_GUARDED_BY(mu_) = 0;
};

absl::StatusOr<EngineStats> Run(const pb::JobSpec& spec, pb::Program program, EventSink& sink) {
  OF_RETURN_IF_ERROR(LoadPlugins(program.plugins()));
  EngineOptions options = EngineOptionsOf(spec);
  LossWatch losses;
  const auto on_notice = [&sink](const pb::Notice& notice) {
    pb::JobEvent event;
    *event.mutable_notice() = notice;
    sink.Emit(std::move(event));
  };
  std::optional<Summaries> summaries;
  if (!spec.tensorboard().empty()) summaries.emplace(spec, /*process=*/0, on_notice);
  options.on_fetch = [&sink, &losses, &summaries, &spec](Fetched fetched) {
    CountAsWhole(spec, fetched);
    losses.Observe(fetched);
    pb::TimedValue value = MakeTimedValue(std::move(fetched));
    if (summaries) summaries->Observe(value);
    sink.Value(std::move(*value.mutable_value()));
  };
  Engine* running = nullptr;
  options.on_stall = [&sink, &running, rule = spec.stall(), seconds = options.stall_seconds](pb::ProcessWaits waits) {
    const std::string text =
        absl::StrCat("nothing moved in process 0 for ", seconds, " s: ", DiagnosisText(Diagnose({std::move(waits)})));
    if (rule.abort()) return running->Abort(absl::DeadlineExceededError(text));
    sink.Stall(text);
  };
  OF_RETURN_IF_ERROR(CheckFreeMemory(program, /*process=*/0));
  std::unique_ptr<Collectives> collectives;
  if (program.communicators_size() > 0) {
    OF_ASSIGN_OR_RETURN(collectives, MakeNcclCollectives(program, /*process=*/0, /*peers=*/nullptr));
    options.collectives = collectives.get();
  }
  OF_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine, Engine::Create(std::move(program), std::move(options)));
  running = engine.get();
  sink.State(pb::RUNNING);
  WorkerContext context{.losses = &losses, .summaries = summaries ? &*summaries : nullptr};
  context.on_done = [&sink, &engine](int part, const pb::Phase& what) {
    pb::JobEvent counted;
    counted.mutable_stats()->set_part(part);
    *counted.mutable_stats()->mutable_stats() = MakeWorkerStats(engine->stats());
    sink.Emit(std::move(counted));
    pb::JobEvent done;
    done.mutable_phase_done()->set_part(part);
    *done.mutable_phase_done()->mutable_done() = what;
    sink.Emit(std::move(done));
  };
  context.on_notice = on_notice;
  OF_RETURN_IF_ERROR(RunPhases(*engine, spec, context));
  return engine->stats();
}

}  // namespace

absl::StatusOr<EngineStats> RunInPlace(const pb::JobSpec& spec, const pb::PlanSet& plan,
                                       const std::function<void(const pb::JobEvent&)>& on_event) {
  OF_ASSIGN_OR_RETURN(pb::Program program, ProgramOf(plan, /*process=*/0, spec.plan_hash()));
  return RunInPlace(spec, std::move(program), on_event);
}

absl::StatusOr<EngineStats> RunInPlace(const pb::JobSpec& spec, pb::Program program,
                                       const std::function<void(const pb::JobEvent&)>& on_event) {
  if (spec.processes() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("job '", spec.name(), "': runs in place in 1 process, not in ", spec.processes()));
  }
  EventSink sink(on_event);
  absl::StatusOr<EngineStats> stats = Run(spec, std::move(program), sink);
  if (stats.ok()) {
    sink.State(pb::FINISHED);
  } else {
    sink.State(pb::FAILED, stats.status().message());
  }
  return stats;
}

}  // namespace oneflow
