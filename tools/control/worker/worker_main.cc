#include "tools/control/worker/worker_main.h"

#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "actor/collective/nccl_collectives.h"
#include "actor/engine.h"
#include "actor/free_memory.h"
#include "actor/transport/peer_network.h"
#include "tools/control/process/stop_signals.h"
#include "tools/control/security/passed_identity.h"
#include "tools/control/worker/agreement.h"
#include "tools/control/worker/daemon_link.h"
#include "tools/control/worker/engine_options.h"
#include "tools/control/worker/loss_watch.h"
#include "tools/control/worker/phases.h"
#include "tools/control/worker/rest.h"
#include "tools/control/worker/stats.h"
#include "tools/control/worker/summaries.h"
#include "tools/control/worker/waits_answers.h"
#include "tools/job/packed_program.h"
#include "tools/job/plugins.h"
#include "tools/job/visible_text.h"

namespace oneflow {
namespace {

constexpr absl::Duration kAssignment = absl::Seconds(30);
// The scheduler gives up on workers that do not start sooner, and then we are killed; this is the end of the line if it
// cannot.
constexpr absl::Duration kStart = absl::Seconds(120);
constexpr absl::Duration kPeers = absl::Seconds(30);
// A peer may still be in the last steps that we have finished; if the peer fails, the daemon kills us.
constexpr absl::Duration kDismissal = absl::Minutes(10);

pb::WorkerHello MakeHello(const WorkerArgs& args, const std::string& peer_address) {
  pb::WorkerHello hello;
  hello.set_job(args.job);
  hello.set_attempt(args.attempt);
  hello.set_process(args.process);
  hello.set_pid(getpid());
  hello.set_peer_address(peer_address);
  return hello;
}

absl::StatusOr<pb::Program> ReadProgram(const pb::WorkerAssignment& assignment) {
  pb::PackedProgram packed;
  if (!packed.ParseFromString(assignment.program())) {
    return absl::InvalidArgumentError(
        absl::StrCat("the program (", assignment.program().size(), " bytes) does not parse"));
  }
  return UnpackProgram(packed);
}

// The next message, which must be of the kind that `has` tells.
absl::StatusOr<pb::ToWorker> Expect(DaemonLink& link, bool (pb::ToWorker::*has)() const, absl::string_view what,
                                    absl::Duration timeout) {
  OF_ASSIGN_OR_RETURN_AT(pb::ToWorker message, link.Receive(timeout), absl::StrCat("waiting for the ", what));
  if ((message.*has)()) return message;
  return absl::InternalError(
      absl::StrCat("the daemon sent message kind ", message.kind_case(), " instead of the ", what));
}

int Fail(const absl::Status& status) {
  std::cerr << "error: " << VisibleText(status.message()) << std::endl;
  return 1;
}

// Reports the error, the last of the worker's messages.
void Tell(DaemonLink& link, const absl::Status& status) {
  pb::FromWorker failed;
  *failed.mutable_failed() = ToProto(status);
  link.reports().Add(std::move(failed));
  link.Close();
}

// While it lives the engine is asked.
struct Asked {
  WaitsAnswers& answers;
  Asked(WaitsAnswers& answers, Engine& engine) : answers(answers) { answers.Ask(&engine); }
  ~Asked() { answers.Ask(nullptr); }
};

absl::Status Work(const WorkerArgs& args, DaemonLink& link, PeerNetwork& peers, WaitsAnswers& answers) {
  OF_ASSIGN_OR_RETURN(const pb::ToWorker assigned,
                      Expect(link, &pb::ToWorker::has_assignment, "assignment", kAssignment));
  const pb::JobSpec& spec = assigned.assignment().spec();
  OF_ASSIGN_OR_RETURN(pb::Program program, ReadProgram(assigned.assignment()));
  OF_RETURN_IF_ERROR(LoadPlugins(program.plugins()));
  OF_ASSIGN_OR_RETURN(const pb::ToWorker started, Expect(link, &pb::ToWorker::has_start, "start", kStart));
  if (args.processes > 1) {
    const auto& addresses = started.start().peer_addresses();
    OF_RETURN_IF_ERROR(peers.Connect(std::vector<std::string>(addresses.begin(), addresses.end()), kPeers));
  }

  ReportQueue& reports = link.reports();
  EngineOptions options = EngineOptionsOf(spec);
  options.process = args.process;
  const auto on_notice = [&reports](const pb::Notice& notice) {
    pb::FromWorker message;
    *message.mutable_notice() = notice;
    message.mutable_notice()->set_text(VisibleText(notice.text()));
    reports.Add(std::move(message));
  };
  LossWatch losses;
  std::optional<Summaries> summaries;
  if (!spec.tensorboard().empty()) summaries.emplace(spec, args.process, on_notice);
  options.on_fetch = [&reports, &losses, &summaries, &spec](Fetched fetched) {
    CountAsWhole(spec, fetched);
    losses.Observe(fetched);
    pb::TimedValue value = MakeTimedValue(std::move(fetched));
    if (summaries) summaries->Observe(value);
    reports.AddFetched(std::move(value));
  };
  options.peers = args.processes > 1 ? &peers : nullptr;
  options.on_stall = [&reports](pb::ProcessWaits waits) {
    pb::FromWorker stalled;
    *stalled.mutable_waits()->mutable_waits() = std::move(waits);
    reports.Add(std::move(stalled));
  };
  options.on_stuck = [&link](const absl::Status& status) {
    Tell(link, status);
    std::_Exit(Fail(status));
  };
  OF_RETURN_IF_ERROR(CheckFreeMemory(program, args.process));
  std::unique_ptr<Collectives> collectives;
  if (program.communicators_size() > 0) {
    OF_ASSIGN_OR_RETURN(collectives, MakeNcclCollectives(program, args.process, options.peers));
    options.collectives = collectives.get();
  }
  OF_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine, Engine::Create(std::move(program), std::move(options)));
  const Asked asked(answers, *engine);
  WorkerContext context{.process = args.process,
                        .num_processes = args.processes,
                        .first_attempt = assigned.assignment().attempt() <= 1,
                        .attempt = assigned.assignment().attempt(),
                        .stop = &link.asked_to_stop(),
                        .saves = &link.asked_to_save(),
                        .losses = &losses,
                        .summaries = summaries ? &*summaries : nullptr};
  context.on_done = [&reports, &engine](int part, const pb::Phase& what) {
    pb::FromWorker done;
    done.mutable_phase_done()->set_part(part);
    *done.mutable_phase_done()->mutable_done() = what;
    *done.mutable_phase_done()->mutable_stats() = MakeWorkerStats(engine->stats());
    reports.Add(std::move(done));
  };
  context.on_look = [&reports, &engine] {
    pb::FromWorker message;
    *message.mutable_stats() = MakeWorkerStats(engine->stats());
    message.mutable_stats()->clear_ops();
    reports.Add(std::move(message));
  };
  context.on_notice = on_notice;
  const absl::Status ran = RunPhases(*engine, spec, context);
  if (!ran.ok()) {
    engine->Abort(ran);  // peers that wait for us in the next phase must hear of it
    return ran;
  }
  pb::FromWorker finished;
  finished.mutable_finished();
  reports.Add(std::move(finished));
  // The engine, and with it our registers, stays until no peer can need it.
  return Expect(link, &pb::ToWorker::has_dismissal, "dismissal", kDismissal).status();
}

}  // namespace

int WorkerMain(const WorkerArgs& args) {
  std::optional<StopSignals> signals;
  if (args.parent_only) signals.emplace([](int signal) { std::_Exit(128 + signal); }, SignalSender::kParent);
  // Of a batch system, for the first process of the job. Our end is our daemon's to say.
  for (const int signal : {SIGUSR1, SIGUSR2, SIGHUP}) {
    if (!args.parent_only) std::signal(signal, SIG_IGN);
  }
  std::signal(SIGXFSZ, SIG_IGN);  // a file that may not grow is an error where it is written
  const absl::StatusOr<TlsIdentity> identity = TakeIdentity(args.identity_fd);
  if (!identity.ok()) return Fail(identity.status());
  uint64_t run = 0;
  if (!absl::SimpleHexAtoi(args.run, &run)) {
    return Fail(absl::InvalidArgumentError(absl::StrCat("--run: '", args.run, "' is no number in hexadecimal digits")));
  }
  absl::StatusOr<std::unique_ptr<PeerNetwork>> peers =
      PeerNetwork::Create(args.process, args.processes, args.attempt, args.peer_host, *identity, run);
  if (!peers.ok()) return Fail(peers.status());
  WaitsAnswers answers(args.process);
  absl::StatusOr<std::unique_ptr<DaemonLink>> link = DaemonLink::Open(
      args.daemon, MakeHello(args, (*peers)->address()),
      [](absl::Status lost) {
        // Engine threads are running and cannot be stopped in order from here; the system takes back all they hold.
        std::_Exit(Fail(lost));
      },
      [&answers] { return answers.Answer(); }, *identity);
  if (!link.ok()) return Fail(link.status());
  const absl::Status worked = Work(args, **link, **peers, answers);
  if (worked.ok()) {
    (*link)->Close();
    return 0;
  }
  Tell(**link, worked);
  return Fail(worked);
}

}  // namespace oneflow
