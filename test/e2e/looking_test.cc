// What a cluster shows of itself: its page in a browser with three jobs going on, and its metrics.
#include <filesystem>
#include <regex>
#include <tuple>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "nlohmann/json.hpp"
#include "test/e2e/oneflow_command.h"
#include "test/support/names.h"
#include "test/support/paths.h"
#include "tools/control/http/httplib.h"
#include "tools/control/process/child.h"

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

// A scheduler with a page and metrics, and a daemon with metrics.
class Cluster {
 public:
  Cluster() {
    std::string line;
    scheduler_ = work.Serve(
        {"scheduler", "--address=127.0.0.1:0", "--db=" + work.Path("jobs.db"), "--page=0", "--metrics-port=0"}, line);
    std::tie(address, page) = std::pair<std::string, std::string>(absl::StrSplit(line, ' '));
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
    work.Fetch(url, "metrics");
    return RunPython(work, "check_metrics.py", {}, work.Path("metrics"));
  }

  const Workspace work;
  std::string address, page;

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

class PageTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(kBrowser)) GTEST_SKIP() << "no browser: " << kBrowser << " is not installed";
  }
  // What is seen of this part of the page when the condition holds. Nothing may have gone wrong in its program.
  json Look(const std::string& address, const std::string& size, const std::string& scheme,
            const std::string& condition, const std::string& expression,
            const std::vector<std::string>& colours = {}) const {
    const json seen = RunPython(cluster_.work, "browser.py",
                                Join({kBrowser, cluster_.page + address, cluster_.work.Path("picture.png"), size,
                                      scheme, condition, expression},
                                     colours));
    if (HasFailure()) return seen;
    EXPECT_THAT(seen.at("trouble"), IsEmpty());
    return seen;
  }

  static constexpr char kBrowser[] = "/usr/bin/chromium";
  const Cluster cluster_;
};

// Loss curves of three runs over one another, while they go on.
TEST_F(PageTest, ShowsThreeRunsGoingOn) {
  cluster_.Submit("first");
  cluster_.Submit("<b>second</b><script>throw 1</script>");
  cluster_.Submit("third", {"--set", "train.schedule={learning_rate: 0.01}"});
  cluster_.Submit("waits", {"--set", "mesh.dp=8"});
  // Each has 100 points at least, by the letters between which they stand in its path.
  const std::string drawn =
      "[...document.querySelectorAll('[data-chart=loss] path.curve:not(.dashed)')]"
      ".filter((path) => path.getAttribute('d').split('L').length >= 100).map((path) => path.dataset.line)";
  for (const auto& [scheme, colours] : {std::pair("light", std::vector<std::string>{"#2166c4", "#d1495b", "#1f8a4c"}),
                                        std::pair("dark", std::vector<std::string>{"#6ba6f5", "#f0808e", "#5cc98a"})}) {
    const json seen =
        Look("", "1360x1000", scheme, absl::StrCat(drawn, ".length == 3 && document.querySelector('.dashed')"),
             absl::StrCat("({lines: ", drawn,
                          ", errors: document.body.dataset.errors, live: "
                          "document.getElementById('live').textContent, counts: "
                          "document.getElementById('counts').textContent, bold: "
                          "document.querySelectorAll('b').length})"),
             colours);
    if (HasFailure()) return;
    EXPECT_EQ(seen.at("value").at("lines"), json({"3 third", "2 <b>second</b><script>throw 1</script>", "1 first"}));
    EXPECT_EQ(seen.at("value").at("errors"), "0");
    EXPECT_EQ(seen.at("value").at("live"), "live");
    EXPECT_EQ(seen.at("value").at("counts"), "1 queued, 3 running");
    EXPECT_EQ(seen.at("value").at("bold"), 0);
    for (const std::string& colour : colours) EXPECT_GT(seen.at("colours").at(colour), 150) << colour << ", " << scheme;
  }
}

// On a telephone nothing is wider than the screen.
TEST_F(PageTest, FitsANarrowScreen) {
  cluster_.Submit("first");
  const json seen = Look("", "390x844", "light", "document.querySelectorAll('[data-chart] path.curve').length > 3",
                         "document.documentElement.scrollWidth");
  if (HasFailure()) return;
  EXPECT_LE(seen.at("value"), 390);
}

TEST_F(PageTest, ShowsPlanTimelineNodesAndWhatAQueuedJobLacks) {
  ASSERT_EQ(
      cluster_.work
          .Run({"run", cluster_.work.GptJob(), "--scheduler=" + cluster_.address, "--trace",
                cluster_.work.Path("trace.json"), "--set", "mesh.dp=2", "--set", "generate={tokens: 8 prompt: 'the'}"})
          .exit_code,
      0);
  cluster_.Submit("waits", {"--set", "mesh.dp=8"});
  const std::string text = "document.getElementById('job').innerText";
  EXPECT_THAT(Look("#job=1&tab=plan", "1360x1000", "light", "document.querySelectorAll('.bar').length > 3", text)
                  .at("value")
                  .get<std::string>(),
              AllOf(HasSubstr("weights"), HasSubstr("optimizer"), HasSubstr("actor")));
  EXPECT_GT(Look("#job=1&tab=timeline", "1360x1000", "light", "document.querySelector('[data-acts]')",
                 "Number(document.querySelector('[data-acts]').dataset.acts)", {"#2166c4"})
                .at("colours")
                .at("#2166c4"),
            500);
  EXPECT_THAT(Look("#job=1&tab=curves", "1360x1000", "light", text + ".includes('generated')", text)
                  .at("value")
                  .get<std::string>(),
              HasSubstr("generated\n"));
  EXPECT_THAT(Look("#job=1&tab=events", "1360x1000", "dark", text + ".includes('FINISHED')", text)
                  .at("value")
                  .get<std::string>(),
              AllOf(HasSubstr("RUNNING"), HasSubstr("wrote "), HasSubstr("trace.json")));
  EXPECT_THAT(Look("#job=2", "1360x1000", "light", text + ".includes('waits')", text).at("value").get<std::string>(),
              HasSubstr("waits: host 0 of the plan takes 8 cpu devices"));
  EXPECT_THAT(Look("api/jobs/1/explain", "1360x1000", "light", "document.body.innerText.length > 100",
                   "document.body.innerText")
                  .at("value")
                  .get<std::string>(),
              HasSubstr("train"));
}

// Who submits a job names files in it; the scheduler, which may read more than that user, opens none of them.
TEST(LookingTest, ThePageOpensNothingThatASubmitterNames) {
  const Workspace work;
  const std::string secret = work.Write("secret", "top-secret: 1");
  std::string ready;
  const auto scheduler = work.Serve({"scheduler", "--address=127.0.0.1:0", absl::StrCat("--db=", work.Path("jobs.db")),
                                     "--page=0", "--allow-path", work.Path("tmp")},
                                    ready);
  const std::vector<std::string> places = absl::StrSplit(ready, ' ');
  ASSERT_THAT(places, ::testing::SizeIs(2)) << ready;
  work.Write("slots", "");
  const Outcome submitted = work.Run({"submit", work.GptJob(), "--scheduler", places[0], "--set",
                                      absl::StrCat("trace={file: '", work.Path("trace.json"), "'}"), "--set",
                                      absl::StrCat("slots=", work.Path("slots"))});
  ASSERT_EQ(submitted.exit_code, 0) << submitted.err;
  std::filesystem::remove(work.Path("slots"));
  std::filesystem::create_symlink(secret, work.Path("slots"));
  std::filesystem::create_symlink(secret, work.Path("trace.json"));
  for (const char* what : {"explain", "trace"}) {
    httplib::Client browser(places[1].substr(0, places[1].rfind('/')));
    browser.set_read_timeout(60);
    const httplib::Result answer = browser.Get(absl::StrCat("/api/jobs/1/", what));
    ASSERT_TRUE(answer) << what;
    const std::string& shown = answer->body;
    EXPECT_THAT(shown, Not(HasSubstr("secret: 1"))) << what;
    EXPECT_THAT(shown, Not(HasSubstr("top-"))) << what;
    if (std::string(what) == "explain") {
      EXPECT_THAT(shown, HasSubstr("train"));
    } else {
      EXPECT_THAT(shown, HasSubstr("is not for jobs"));
    }
  }
}

// The page is there for as long as the command runs.
TEST(LookingTest, ARunHasAPageOfItsOwn) {
  const Workspace work;
  const Outcome both = work.Run({"run", work.GptJob(), "--page=0", "--scheduler=127.0.0.1:1"});
  EXPECT_EQ(both.exit_code, 1);
  EXPECT_THAT(both.err, HasSubstr("--page is of an embedded cluster; that of --scheduler has its own"));
  const Outcome wrong = work.Run({"run", work.GptJob(), "--page=here"});
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_THAT(wrong.err, HasSubstr("--page: 'here': is no port, nor HOST:PORT"));
  const Outcome run = work.Run({"run", work.GptJob(), "--page=0"});
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_THAT(run.out, ::testing::ContainsRegex("the page is at http://127.0.0.1:[0-9]+/\n"));
}

}  // namespace
}  // namespace oneflow::e2e
