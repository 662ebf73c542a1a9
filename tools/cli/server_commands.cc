// `oneflow scheduler`, `daemon` and `worker`: the processes of a cluster.
#include <string>
#include <vector>

#include "tools/cli/commands.h"
#include "tools/cli/usage.h"
#include "tools/control/daemon/daemon_main.h"
#include "tools/control/scheduler/scheduler_main.h"
#include "tools/control/worker/worker_main.h"
#include "tools/page/page.h"

namespace oneflow {
namespace {

void AddMetricsPort(CLI::App& app, std::string& place) {
  app.add_option("--metrics-port", place, "serve /metrics for Prometheus at PORT of this machine, or HOST:PORT")
      ->check(PlaceToServe());
}

RunFunction DeclareScheduler(CLI::App& app, ParsedArguments& arguments) {
  SchedulerArgs& scheduler = arguments.New<SchedulerArgs>();
  app.add_option("--address", scheduler.address, "host:port to listen on")
      ->capture_default_str()
      ->check(HostAndPort(true));
  app.add_option("--db", scheduler.db, "file of jobs and events")->capture_default_str();
  app.add_option("--devices-per-user", scheduler.devices_per_user,
                 "how many devices of a kind the jobs of a user may have at a time; 0: all")
      ->capture_default_str()
      ->check(WholeFrom(0));
  app.add_option("--keep-jobs", scheduler.keep_jobs,
                 "how many jobs that ended are kept, with their events, plans and logs; earlier ones are forgotten")
      ->capture_default_str()
      ->check(CLI::Range(int64_t{0}, int64_t{1'000'000}));
  app.add_option("--keep-days", scheduler.keep_days, "how many days after their end they are kept")
      ->capture_default_str()
      ->check(CLI::Range(int64_t{0}, int64_t{36'500}));
  AddTls(app, scheduler.tls);
  app.add_option("--tokens", scheduler.tokens,
                 "file of tokens, as `token add` makes it; default: whoever reaches the port may ask everything");
  AddInsecure(app, scheduler.insecure);
  AddLostAfter(app, scheduler.lost_after,
               "seconds of silence after which a daemon is taken for dead while others are heard; default: 2.5");
  app.add_flag("--parent-only", scheduler.parent_only)->group("");
  AddMetricsPort(app, scheduler.metrics);
  CLI::Option* const page = AddPage(app, scheduler.page);
  app.add_option("--allow-path", scheduler.allow_paths,
                 "folder whose files, traces of jobs, the page may show; may be repeated; default: none where others "
                 "than this machine's users may submit jobs")
      ->allow_extra_args(false)
      ->needs(page);
  app.add_option("--ready-fd", scheduler.ready_fd,
                 "descriptor that takes the address, and that of a page, once it serves")
      ->check(WholeFrom(0));
  return [&scheduler] { return SchedulerMain(scheduler, ServePage); };
}

RunFunction DeclareDaemon(CLI::App& app, ParsedArguments& arguments) {
  DaemonArgs& daemon = arguments.New<DaemonArgs>();
  app.add_option("--scheduler", daemon.scheduler, "address of the scheduler")
      ->capture_default_str()
      ->check(HostAndPort(false));
  app.add_option("--name", daemon.name, "unique in the cluster; default: the host's name")->check(Utf8());
  app.add_option("--cpu-devices", daemon.cpu_devices,
                 "cpu devices to offer; default: one for each part of the machine's memory (NUMA node)")
      ->check(CLI::Range(0, kMostDevices));
  app.add_option("--cuda-devices", daemon.cuda_devices, "cuda devices to offer; default: all that nvidia-smi lists")
      ->check(CLI::Range(0, kMostDevices));
  app.add_option("--cores", daemon.cores, "cores for the cpu devices; 0: all")->check(CLI::Range(0, kMostCores));
  app.add_option("--work-dir", daemon.work_dir, "directory of the workers' logs; default: a temporary one");
  app.add_option("--peer-host", daemon.peer_host, "where workers listen for workers of other daemons")
      ->capture_default_str()
      ->check(HostAlone());
  app.add_option("--allow-path", daemon.allow_paths,
                 "folder that jobs may read and write; may be repeated; / alone: everything. Default: everything if "
                 "the scheduler "
                 "is on this machine and without --tls, else nothing")
      ->allow_extra_args(false);
  app.add_option("--allow-plugin", daemon.allow_plugins,
                 "library, or folder of libraries, that jobs may load: its code runs with this daemon's rights; may be "
                 "repeated. Default: none")
      ->allow_extra_args(false);
  AddTls(app, daemon.tls);
  AddInsecure(app, daemon.insecure);
  AddLostAfter(app, daemon.lost_after,
               "seconds of silence after which a worker is taken for frozen, and killed; default: 2");
  app.add_flag("--parent-only", daemon.parent_only)->group("");
  app.add_flag("--one-job", daemon.one_job)->group("");
  AddMetricsPort(app, daemon.metrics);
  app.add_option("--ready-fd", daemon.ready_fd, "descriptor that takes a line once it is registered")
      ->check(WholeFrom(0));
  return [&daemon] { return DaemonMain(daemon); };
}

RunFunction DeclareWorker(CLI::App& app, ParsedArguments& arguments) {
  WorkerArgs& worker = arguments.New<WorkerArgs>();
  app.add_option("--daemon", worker.daemon)->required();
  app.add_option("--job", worker.job)->required();
  app.add_option("--attempt", worker.attempt)->required();
  app.add_option("--run", worker.run)->required();
  app.add_option("--process", worker.process)->required();
  app.add_option("--processes", worker.processes)->required();
  app.add_option("--peer-host", worker.peer_host);
  app.add_option("--identity-fd", worker.identity_fd);
  app.add_flag("--parent-only", worker.parent_only);
  return [&worker] { return WorkerMain(worker); };
}

}  // namespace

std::vector<Command> ServerCommands() {
  return {
      {"scheduler", "serve as the scheduler of a cluster", DeclareScheduler},
      {"daemon", "offer this machine's devices to a scheduler", DeclareDaemon},
      {"worker", "one process of a job; started by a daemon", DeclareWorker, {}, /*for_people=*/false},
  };
}

}  // namespace oneflow
