#include "tools/control/scheduler/metrics.h"

#include "absl/strings/str_cat.h"
#include "tools/job/visible_text.h"

namespace oneflow {
namespace {

constexpr size_t kMostJobs = 1000;
constexpr absl::Duration kAfterEnd = absl::Minutes(5);  // several scrapes
constexpr char kPlanOfSteps[] = "train";

}  // namespace

void WriteJobCounts(const std::array<int64_t, pb::JobState_ARRAYSIZE>& counts, Families& families) {
  for (int state = 0; state < pb::JobState_ARRAYSIZE; ++state) {
    families.Gauge("oneflow_jobs", "Jobs by state; those that are QUEUED are the queue",
                   {{"state", pb::JobState_Name(static_cast<pb::JobState>(state))}},
                   static_cast<double>(counts[state]));
  }
}

void WriteNodes(const std::vector<pb::Node>& nodes, Families& families) {
  double up = 0, away = 0, drained = 0;
  std::map<std::string, double> offered, used;  // by kind
  for (const pb::Node& node : nodes) {
    (node.away() ? away : up) += 1;
    drained += node.drained();
    offered["cpu"] += node.cpu_devices();
    offered["cuda"] += node.cuda_devices();
    used["cpu"] += node.used_cpu();
    used["cuda"] += node.used_cuda();
  }
  const char* const kDaemons = "oneflow_daemons";
  families.Gauge(kDaemons, "Daemons by state", {{"state", "up"}}, up);
  families.Gauge(kDaemons, "", {{"state", "away"}}, away);
  families.Gauge("oneflow_drained_daemons", "Daemons that get no new jobs", {}, drained);
  for (const char* kind : {"cpu", "cuda"}) {
    families.Gauge("oneflow_devices", "Devices that daemons offer", {{"device", kind}}, offered[kind]);
    families.Gauge("oneflow_used_devices", "Devices that jobs have", {{"device", kind}}, used[kind]);
  }
}

void SchedulerMetrics::Add(const pb::JobSpec& spec, int64_t number) {
  JobCounts& job = jobs_[number];
  job.name = VisibleText(spec.name());
  job.unit = spec.sample_unit();
  job.sizes = StepSizes(spec);
  job.forget = absl::InfiniteFuture();
  if (job.step_seconds == nullptr) job.step_seconds = std::make_unique<prometheus::Histogram>(SecondsBuckets());
}

void SchedulerMetrics::OnRestored(const pb::JobSpec& spec, const pb::JobStatus& status) {
  absl::MutexLock lock(&mu_);
  Add(spec, status.job());
}

void SchedulerMetrics::OnHeard(absl::Duration late) {
  lateness_.Observe(absl::ToDoubleSeconds(std::max(late, absl::ZeroDuration())));
}

void SchedulerMetrics::OnStored(const Effects& effects, absl::Duration took) {
  if (effects.stores()) batches_.Observe(absl::ToDoubleSeconds(took));
  absl::MutexLock lock(&mu_);
  for (const NewJob& job : effects.new_jobs) Add(job.spec, job.job);
  for (const auto& [number, event] : effects.events) {
    const auto found = jobs_.find(number);
    if (found == jobs_.end()) continue;
    JobCounts& job = found->second;
    if (event.has_fetched()) OnFetched(job, event.time_us(), event.fetched());
    if (event.has_phase_done() || event.has_state()) OnTimed(job, job.clock.Stop());
    if (event.has_phase_done() && event.phase_done().done().run().plan() == "evaluate") ++job.evaluations;
    if (!event.has_state()) continue;
    const bool ended = event.state().state() >= pb::FINISHED;
    job.forget = ended ? absl::FromUnixMicros(event.time_us()) + kAfterEnd : absl::InfiniteFuture();
  }
  events_ += static_cast<int64_t>(effects.events.size());
}

void SchedulerMetrics::OnFetched(JobCounts& job, int64_t time_us, const pb::FetchedValue& value) {
  if (value.plan() != kPlanOfSteps || value.values_size() != 1) return;
  if (job.step_name.empty()) job.step_name = value.name();
  job.values[value.name()] = value.values(0);
  if (value.name() != job.step_name) return;
  ++job.steps;
  job.samples += job.sizes.StageOf(value.step()).size.samples;
  OnTimed(job, job.clock.Tick(value.step(), time_us));
}

void SchedulerMetrics::OnTimed(JobCounts& job, const std::optional<StepClock::Span>& span) {
  for (int64_t i = 0; span && i < span->steps; ++i) job.step_seconds->Observe(span->seconds);
}

// Those that ended first; they have the lowest numbers as a rule.
void SchedulerMetrics::Forget(absl::Time now) {
  for (auto it = jobs_.begin(); it != jobs_.end();) {
    const bool ended = it->second.forget != absl::InfiniteFuture();
    const bool forget = it->second.forget <= now || (ended && jobs_.size() > kMostJobs);
    it = forget ? jobs_.erase(it) : std::next(it);
  }
}

void SchedulerMetrics::Write(Families& families, absl::Time now) {
  families.Histogram("oneflow_heartbeat_lateness_seconds", "How much later than it should have been a daemon was heard",
                     {}, lateness_);
  families.Histogram("oneflow_store_batch_seconds", "Time that a transaction of the store took", {}, batches_);
  absl::MutexLock lock(&mu_);
  families.Counter("oneflow_store_events_total", "Events of jobs that were stored", {}, static_cast<double>(events_));
  Forget(now);
  size_t told = 0;
  for (const auto& [number, job] : jobs_) {
    if (job.steps == 0) continue;  // it waits, or has only begun
    if (++told > kMostJobs) return;
    const MetricLabels labels = {{"job", absl::StrCat(number)}, {"name", job.name}};
    const auto with = [&labels](const char* label, const std::string& value) {
      MetricLabels more = labels;
      more.emplace_back(label, value);
      return more;
    };
    families.Counter("oneflow_job_steps_total", "Training steps done, those that another attempt did again included",
                     labels, static_cast<double>(job.steps));
    families.Counter("oneflow_job_samples_total", "What these steps were trained on, in the job's unit",
                     with("unit", job.unit), static_cast<double>(job.samples));
    families.Counter("oneflow_job_evaluations_total", "Evaluations done", labels, static_cast<double>(job.evaluations));
    families.Histogram("oneflow_job_step_seconds",
                       "Time of a training step, as a mean over a tenth of a second or a run", labels,
                       *job.step_seconds);
    for (const auto& [name, value] : job.values) {
      families.Gauge("oneflow_job_value", "What the last training step fetched: its loss, learning rate, norms",
                     with("value", name), value);
    }
  }
}

}  // namespace oneflow
