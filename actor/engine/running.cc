#include "actor/engine/running.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "actor/collective/collectives.h"
#include "oneflow_core/queues.h"

namespace oneflow {
namespace {

// The interval of checks whether a run goes on, and collectives can still end.
constexpr std::chrono::milliseconds kLookTime(100);

}  // namespace

absl::StatusOr<int> Running::PlanOf(absl::string_view plan, int64_t first_step, int64_t steps) const {
  const auto& plans = job_.program.plans();
  int index = 0;
  while (index < plans.size() && plans[index].name() != std::string(plan)) ++index;
  if (index == plans.size()) return absl::InvalidArgumentError(absl::StrCat("there is no plan '", plan, "'"));
  if (first_step < 0 || steps < 0 || steps > INT64_MAX / plans[index].micro_batches() - first_step) {
    return absl::InvalidArgumentError(
        absl::StrCat("plan '", plan, "': ", steps, " steps from step ", first_step, " cannot be run"));
  }
  return index;
}

absl::Status Running::Run(absl::string_view plan, int64_t first_step, int64_t steps) {
  OF_ASSIGN_OR_RETURN(const int index, PlanOf(plan, first_step, steps));
  const auto begin = std::chrono::steady_clock::now();
  const Telling::Doing doing(telling_, absl::StrCat("is about to run plan '", plan, "'"));
  if (job_.program.plans(index).beside()) {
    OF_RETURN_IF_ERROR(RunBeside(plan, first_step, steps));
    OF_RETURN_IF_ERROR(WaitBeside());
    return Barrier();
  }
  if (const absl::Status status = state_.Begin(static_cast<int>(ThreadsOf(index).size())); !status.ok()) {
    Fail(status, /*tell_peers=*/true);  // of a peer that was lost before this run, in which others may be already
    return failure();
  }
  const absl::Status status = RunHere(index, first_step, steps);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  std::lock_guard<std::mutex> lock(mu_);
  wall_seconds_ += took.count() * static_cast<double>(job_.ranks.size());
  return failure().ok() ? status : failure();
}

absl::Status Running::RunHere(int plan, int64_t first_step, int64_t steps) {
  const std::string& name = job_.program.plans(plan).name();
  OF_RETURN_IF_ERROR(job_.others->BringUpToDate(plan, *job_.bus));
  for (ActorThread* const thread : ThreadsOf(plan)) thread->Grant(plan, first_step, steps);
  telling_.SetDoing(absl::StrCat("runs plan '", name, "'"), name);
  OF_RETURN_IF_ERROR(WaitForThreads());
  // Variables that a peer may read in the next run are final only when all processes have reached the end of this one.
  telling_.SetDoing(absl::StrCat("has ended its part of plan '", name, "' and waits for the other processes"), name);
  absl::Status status = Barrier();
  if (!status.ok()) Fail(status, /*tell_peers=*/true);
  return status;
}

// A plan beside others has threads of its own.
std::vector<ActorThread*> Running::ThreadsOf(int plan) const {
  std::vector<ActorThread*> threads;
  for (const auto& thread : job_.threads) {
    const bool is_beside = std::any_of(job_.lanes.begin(), job_.lanes.end(), [&](const Lane& lane) {
      return lane.thread == thread.get() && lane.queue == kBesideQueue;
    });
    if (is_beside == job_.program.plans(plan).beside()) threads.push_back(thread.get());
  }
  return threads;
}

absl::Status Running::RunBeside(absl::string_view plan, int64_t first_step, int64_t steps) {
  OF_ASSIGN_OR_RETURN(const int index, PlanOf(plan, first_step, steps));
  if (!job_.program.plans(index).beside()) return Run(plan, first_step, steps);
  OF_RETURN_IF_ERROR(failure());
  const std::vector<ActorThread*> threads = ThreadsOf(index);
  OF_RETURN_IF_ERROR(beside_.state.Begin(static_cast<int>(threads.size())));
  OF_RETURN_IF_ERROR(job_.others->BringUpToDate(index, *job_.bus));
  for (ActorThread* const thread : threads) thread->Grant(index, first_step, steps);
  return absl::OkStatus();
}

absl::Status Running::WaitBeside() {
  Telling::RunWatch watch(telling_);
  while (!beside_.state.WaitFor(kLookTime)) watch.Look();
  return failure();
}

absl::Status Running::Together(const char* what, const std::function<absl::Status()>& action) {
  const Telling::Doing doing(telling_, what);
  OF_RETURN_IF_ERROR(failure());
  absl::Status status = action();
  if (!status.ok()) Fail(status, /*tell_peers=*/true);
  return status;
}

absl::Status Running::Start(int reporting) {
  const Telling::Doing doing(telling_, "warms up its devices");
  OF_RETURN_IF_ERROR(state_.Begin(reporting));
  for (const auto& thread : job_.threads) thread->Start();
  return WaitForThreads();
}

absl::Status Running::WaitForThreads() {
  Telling::RunWatch watch(telling_);
  while (!state_.WaitFor(kLookTime)) {
    if (options_.collectives != nullptr) {
      if (const absl::Status status = options_.collectives->Check(); !status.ok()) Fail(status, /*tell_peers=*/true);
    }
    watch.Look();
  }
  return failure();
}

absl::Status Running::Barrier() { return options_.peers == nullptr ? failure() : options_.peers->Barrier(); }

void Running::Fail(const absl::Status& status, bool tell_peers) {
  if (!state_.Fail(status)) return;
  beside_.state.Fail(status);
  for (const auto& thread : job_.threads) thread->Stop();
  if (job_.others != nullptr) job_.others->Interrupt(status);
  if (options_.peers != nullptr) {
    if (tell_peers) options_.peers->SendError(status);
    options_.peers->Interrupt(status);
  }
  // Otherwise devices, and threads that wait for them, would wait for peers that never come.
  if (options_.collectives != nullptr) options_.collectives->Abort();
}

double Running::wall_seconds() const {
  std::lock_guard<std::mutex> lock(mu_);
  return wall_seconds_;
}

void Running::OnThreadDone(int) { state_.ThreadEnded(); }

void Running::OnThreadFailed(int, absl::Status status) { Fail(status, /*tell_peers=*/true); }

void Running::OnMessages(int process, absl::Span<const Message> messages) {
  for (const Message& message : messages) {
    const std::optional<Message> known = job_.ids->FromPeer(message);
    const bool lands = known.has_value() && job_.others->Lands(*known);
    if (known.has_value() && !lands && Deliver(*known).ok()) continue;
    return Fail(absl::InvalidArgumentError(absl::StrCat("process ", process, " sent a message for plan ", message.plan,
                                                        " actor ", message.actor, " register ", message.register_id,
                                                        lands ? ", without its data" : ", which is not here")),
                /*tell_peers=*/true);
  }
}

absl::Status Running::Deliver(const Message& message) {
  const pb::Actor& actor = job_.program.plans(message.plan).actors(message.actor);
  ActorThread* const thread = job_.thread_at[AddressOf(actor.rank(), actor.queue())];
  if (thread == nullptr) return absl::InvalidArgumentError("nobody serves the actor here");
  thread->Post({&message, 1});
  return absl::OkStatus();
}

void Running::OnPeerError(int process, absl::Status status) {
  Fail(absl::AbortedError(absl::StrCat("process ", process, " failed first: ", status.message())),
       /*tell_peers=*/false);
}

// A process that still needs the peer is in a run, in a barrier, which notices by itself, or begins a run later.
void Running::OnPeerLost(int, absl::Status status) {
  const bool runs = state_.LosePeer(status), runs_beside = beside_.state.LosePeer(status);
  if (runs || runs_beside) Fail(status, /*tell_peers=*/true);
}

}  // namespace oneflow
