#include "tools/control/scheduler/effect_writer.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "glog/logging.h"
#include "tools/control/scheduler/spec.h"

namespace oneflow {
namespace {

// What is no longer kept is deleted piece by piece with room for others in between.
constexpr absl::Duration kPruneGap = absl::Milliseconds(50);

absl::Status IsDamaged(const absl::Status& what) {
  return absl::DataLossError(absl::StrCat("the store is damaged: ", what.message()));
}

}  // namespace

EffectWriter::EffectWriter(std::unique_ptr<Store> store, const EndedJobsRule& keep, const SteadyClock& clock,
                           Owner& owner)
    : keep_(keep), clock_(clock), owner_(owner), store_(std::move(store)) {}

void EffectWriter::Start() {
  thread_ = std::thread([this] { Loop(); });
}

void EffectWriter::Finish() {
  {
    absl::MutexLock lock(&mu_);
    nobody_performs_ = true;
  }
  if (thread_.joinable()) thread_.join();
}

int64_t EffectWriter::Perform(Effects effects) {
  absl::MutexLock lock(&mu_);
  if (effects.empty()) return performed_;
  pending_.Append(std::move(effects));
  return ++performed_;
}

absl::Status EffectWriter::AwaitStored(int64_t place) {
  absl::MutexLock lock(&mu_);
  const auto stored = [this, place]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return stored_ >= place || !failure_.ok(); };
  mu_.Await(absl::Condition(&stored));
  return failure_;
}

bool EffectWriter::HasPending() {
  absl::MutexLock lock(&mu_);
  return !pending_.empty();
}

absl::Status EffectWriter::failure() {
  absl::MutexLock lock(&mu_);
  return failure_;
}

// Takes all that has come since it last looked: the more there is, the fewer transactions it takes.
void EffectWriter::Loop() {
  absl::Time prune = clock_.Now() + keep_.every;
  while (true) {
    bool has_pending = false;
    {
      absl::MutexLock lock(&mu_);
      const auto called = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return !pending_.empty() || nobody_performs_; };
      mu_.AwaitWithTimeout(absl::Condition(&called), std::max(prune - clock_.Now(), absl::ZeroDuration()));
      has_pending = !pending_.empty();
      if (!has_pending && nobody_performs_) return;
    }
    if (has_pending) StorePending();
    ThinSome();
    if (failure().ok() && clock_.Now() >= prune) {
      prune = clock_.Now() + (PruneSome() ? std::min(kPruneGap, keep_.every) : keep_.every);
    }
  }
}

void EffectWriter::StorePending() {
  Effects effects;
  int64_t place = 0;
  {
    absl::MutexLock lock(&mu_);
    effects = std::exchange(pending_, {});
    place = performed_;
    if (!failure_.ok()) return;  // what is not stored is not told
  }
  const absl::Time begin = clock_.Now();
  LostStarts lost;
  if (const absl::Status stored = Write(effects, lost); !stored.ok()) return Fail(stored);
  owner_.OnStored(effects, clock_.Now() - begin);
  std::vector<LostStart> starts;
  for (auto& [job, start] : lost) starts.push_back(std::move(start));
  owner_.Tell(effects, starts);
  absl::MutexLock lock(&mu_);
  stored_ = place;
}

absl::Status EffectWriter::Write(Effects& effects, LostStarts& lost) {
  absl::MutexLock lock(&store_mu_);
  OF_RETURN_IF_ERROR(store_->Apply(effects, effects.durable()));
  OF_RETURN_IF_ERROR(AddPlans(effects, lost));
  std::erase_if(effects.messages, [&lost](const auto& told) {
    return told.second.has_start() && lost.contains(told.second.start().job());
  });
  return absl::OkStatus();
}

// Jobs whose plan is damaged are added to `lost`, and nobody is told to start them.
absl::Status EffectWriter::AddPlans(Effects& effects, LostStarts& lost) {
  std::string hash, plan;       // the last one: the processes of a job follow one another
  std::set<SessionId> have_it;  // daemons keep the last one too
  for (auto& [session, message] : effects.messages) {
    if (!message.has_start()) continue;
    pb::JobSpec& spec = *message.mutable_start()->mutable_spec();
    if (spec.plan_hash() != hash) {
      absl::StatusOr<std::string> loaded = store_->LoadPlan(spec.plan_hash());
      if (absl::IsNotFound(loaded.status())) {
        LostStart& start = lost[message.start().job()];
        start.job = message.start().job();
        start.attempt = message.start().attempt();
        start.processes.push_back(message.start().process());
        start.why = std::string(IsDamaged(loaded.status()).message());
        continue;
      }
      OF_RETURN_IF_ERROR(loaded.status());
      plan = *std::move(loaded);
      hash = spec.plan_hash();
      have_it.clear();
    }
    if (have_it.insert(session).second) spec.set_plan(plan);
  }
  return absl::OkStatus();
}

bool EffectWriter::PruneSome() {
  const absl::StatusOr<int64_t> expired = [this] {
    absl::MutexLock lock(&store_mu_);
    return store_->FindExpired(keep_, clock_.Now(), passed_over_);
  }();
  if (!expired.ok()) Fail(expired.status());
  if (expired.value_or(0) == 0) {
    passed_over_ = 0;
    return false;
  }
  switch (owner_.Forget(*expired)) {
    case Owner::Forgetting::kLater:
      return true;
    case Owner::Forgetting::kNotYet:
      passed_over_ = *expired;
      return true;
    case Owner::Forgetting::kForgotten:
      break;
  }
  const absl::Status deleted = [&] {
    absl::MutexLock lock(&store_mu_);
    return store_->DeletePart(*expired);
  }();
  if (!deleted.ok()) Fail(deleted);
  return true;
}

void EffectWriter::ThinSome() {
  if (!failure().ok()) return;
  const int64_t grown = [this] {
    absl::MutexLock lock(&store_mu_);
    return store_->FindGrown();
  }();
  if (grown == 0) return;
  const int64_t first_unread = owner_.FirstUnread(grown);
  const absl::Status thinned = [&] {
    absl::MutexLock lock(&store_mu_);
    return store_->Thin(grown, first_unread);
  }();
  if (!thinned.ok()) Fail(thinned);
}

void EffectWriter::Fail(const absl::Status& status) {
  {
    absl::MutexLock lock(&mu_);
    failure_ = status;
  }
  owner_.OnStoreFailed(status);
}

absl::StatusOr<std::vector<StoredJob>> EffectWriter::LoadJobs() {
  absl::MutexLock lock(&store_mu_);
  OF_ASSIGN_OR_RETURN(std::vector<StoredJob> jobs, store_->LoadJobs());
  for (StoredJob& job : jobs) {
    if (job.status.state() < pb::FINISHED) OF_RETURN_IF_ERROR(CheckRestored(job));
  }
  return jobs;
}

absl::Status EffectWriter::CheckRestored(StoredJob& job) {
  if (job.valid.ok()) {
    const absl::Status loaded = LoadPlans(job.spec);
    if (!loaded.ok() && !absl::IsNotFound(loaded)) return loaded;
    job.valid = loaded.ok() ? ValidateSpec(job.spec) : IsDamaged(loaded);
  }
  if (job.valid.ok()) job.gangs = GangsOf(job.spec);
  job.spec.clear_plan();
  for (pb::Fallback& fallback : *job.spec.mutable_fallbacks()) fallback.clear_plan();
  return absl::OkStatus();
}

absl::StatusOr<std::map<std::string, pb::StoredDaemon>> EffectWriter::LoadDaemons() {
  absl::MutexLock lock(&store_mu_);
  return store_->LoadDaemons();
}

absl::StatusOr<pb::JobSpec> EffectWriter::LoadSpec(int64_t job, bool with_plan) {
  absl::MutexLock lock(&store_mu_);
  OF_ASSIGN_OR_RETURN(pb::JobSpec spec, store_->LoadSpec(job));
  if (with_plan) OF_RETURN_IF_ERROR(LoadPlans(spec));
  return spec;
}

absl::Status EffectWriter::LoadPlans(pb::JobSpec& spec) {
  OF_ASSIGN_OR_RETURN(*spec.mutable_plan(), store_->LoadPlan(spec.plan_hash()));
  for (pb::Fallback& fallback : *spec.mutable_fallbacks()) {
    OF_ASSIGN_OR_RETURN(*fallback.mutable_plan(), store_->LoadPlan(fallback.plan_hash()));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<pb::JobEvent>> EffectWriter::LoadEvents(int64_t job, int64_t from, int limit) {
  absl::MutexLock lock(&store_mu_);
  return store_->LoadEvents(job, from, limit);
}

}  // namespace oneflow
