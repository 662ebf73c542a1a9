// What a cluster tells Prometheus of itself.
#include <filesystem>
#include <regex>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "nlohmann/json.hpp"
#include "test/e2e/oneflow_command.h"
#include "test/support/paths.h"
#include "tools/process/child.h"

namespace oneflow::e2e {
namespace {

using nlohmann::json;

// The last line of what a Python script prints; a failure of the test if it fails.
json RunPython(const Workspace& work, const std::string& script, std::vector<std::string> arguments,
               const std::string& input = "/dev/null") {
  static int runs = 0;
  ChildOptions options;
  options.executable = "/bin/sh";
  options.arguments = {"sh",
                       "-c",
                       "script=$1; input=$2; shift 2; exec /usr/bin/python3 $script \"$@\" <$input",
                       "sh",
                       absl::StrCat(SourceDir(), "/test/e2e/", script),
                       input};
  options.arguments.insert(options.arguments.end(), arguments.begin(), arguments.end());
  options.log_path = work.Path(absl::StrCat("python-", ++runs));
  ChildExit ended;
  auto child = ChildProcess::Start(options, [&ended](ChildExit exit) { ended = exit; });
  EXPECT_TRUE(child.ok() && (*child)->WaitForExit(absl::Seconds(120)));
  const std::string text = ReadFile(options.log_path);
  EXPECT_EQ(ended.exit_code, 0) << script << ": " << text;
  const json parsed = json::parse(text.substr(text.rfind("\n", text.size() - 2) + 1), nullptr, false);
  EXPECT_FALSE(parsed.is_discarded()) << text;
  return parsed;
}

// A scheduler and a daemon with metrics.
class Cluster {
 public:
  Cluster() {
    scheduler_ =
        work.Serve({"scheduler", "--address=127.0.0.1:0", "--db=" + work.Path("jobs.db"), "--metrics-port=0"}, address);
    std::string line;
    daemon_ =
        work.Serve({"daemon", "--scheduler=" + address, "--name=first", "--cpu-devices=4", "--metrics-port=0"}, line);
  }

  // A job that goes on for as long as the test does.
  void Submit(const std::string& name, std::vector<std::string> more = {}) const {
    const Outcome outcome = work.Run(Join(
        {"submit", work.GptJob(), "--scheduler=" + address, "--set", "name=" + name, "--set", "train.steps=1000000",
         "--set", "train.schedule.kind=constant", "--set", "evaluate={every: 50 batches: 2}"},
        more));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  }

  // What the scheduler, or the daemon, tells Prometheus now.
  json Metrics(bool of_scheduler) const {
    const std::string url = Said(of_scheduler ? *scheduler_ : *daemon_, "metrics are at (http://[0-9.:]+/metrics)");
    ChildOptions options;
    options.executable = "/usr/bin/python3";
    options.arguments = {"python3", "-c",
                         "import sys, urllib.request as r; print(r.urlopen(sys.argv[1]).read().decode(), end='')", url};
    options.log_path = work.Path("metrics");
    std::filesystem::remove(options.log_path);
    const auto child = ChildProcess::Start(options);
    EXPECT_TRUE(child.ok() && (*child)->WaitForExit(absl::Seconds(30)));
    return RunPython(work, "check_metrics.py", {}, work.Path("metrics"));
  }

  const Workspace work;
  std::string address;

 private:
  static std::string Said(const RunningCommand& command, const std::string& pattern) {
    std::smatch match;
    const std::string text = command.Errors();
    EXPECT_TRUE(std::regex_search(text, match, std::regex(pattern))) << text;
    return match.size() > 1 ? match[1].str() : "";
  }

  std::unique_ptr<RunningCommand> scheduler_, daemon_;
};

double ValueOf(const json& metrics, const std::string& name) {
  return metrics.contains(name) ? metrics.at(name).get<double>() : -1;
}

TEST(LookingTest, MetricsAreAsPrometheusReadsThem) {
  const Cluster cluster;
  cluster.Submit("a \"quoted\\ name");
  cluster.Submit("waits", {"--set", "mesh.dp=8"});
  const std::string job = "{job=\"1\",name=\"a \"quoted\\ name\"";
  json scheduler, daemon;
  const absl::Time deadline = absl::Now() + absl::Seconds(60);
  do {
    scheduler = cluster.Metrics(/*of_scheduler=*/true);
    daemon = cluster.Metrics(/*of_scheduler=*/false);
    if (HasFailure()) return;
  } while ((ValueOf(scheduler, "oneflow_job_evaluations_total" + job + "}") < 1 ||
            ValueOf(daemon, "oneflow_worker_acts_total" + job + ",process=\"0\"}") < 1) &&
           absl::Now() < deadline);
  EXPECT_EQ(ValueOf(scheduler, "oneflow_jobs{state=\"RUNNING\"}"), 1);
  EXPECT_EQ(ValueOf(scheduler, "oneflow_jobs{state=\"QUEUED\"}"), 1);
  EXPECT_EQ(ValueOf(scheduler, "oneflow_daemons{state=\"up\"}"), 1);
  EXPECT_EQ(ValueOf(scheduler, "oneflow_used_devices{device=\"cpu\"}"), 1);
  EXPECT_GT(ValueOf(scheduler, "oneflow_heartbeat_lateness_seconds_count"), 0);
  EXPECT_GT(ValueOf(scheduler, "oneflow_store_batch_seconds_count"), 0);
  const double steps = ValueOf(scheduler, "oneflow_job_steps_total" + job + "}");
  EXPECT_GE(steps, 50);
  EXPECT_EQ(ValueOf(scheduler, "oneflow_job_samples_total" + job + ",unit=\"tokens\"}"), steps * 8 * 16);
  const double timed = ValueOf(scheduler, "oneflow_job_step_seconds_count" + job + "}");
  EXPECT_GT(timed, 0);
  EXPECT_LT(timed, steps);
  EXPECT_GT(ValueOf(scheduler, "oneflow_job_value" + job + ",value=\"loss\"}"), 0);
  EXPECT_EQ(ValueOf(daemon, "oneflow_daemon_workers"), 1);
  EXPECT_EQ(ValueOf(daemon, "oneflow_daemon_connected"), 1);
  const std::string process = job.substr(1) + ",process=\"0\"}";
  EXPECT_GT(ValueOf(daemon, "oneflow_worker_plan_bytes{for=\"weights\"," + process), 0);
  EXPECT_GT(ValueOf(daemon, "oneflow_worker_peak_bytes{" + process), 1e6);
  EXPECT_GT(ValueOf(daemon, "oneflow_worker_cpu_seconds_total{" + process), 0);
}

}  // namespace
}  // namespace oneflow::e2e
