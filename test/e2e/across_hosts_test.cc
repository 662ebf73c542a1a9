// Jobs on hosts that share nothing: a scheduler on the first, a daemon on each, and workers that reach one another over
// the network only. The losses are those of one device, and no more crosses the links than the plan says.
#include "test/e2e/across_hosts.h"

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "test/e2e/losses.h"
#include "test/e2e/metrics_pipe.h"
#include "test/e2e/oneflow_command.h"
#include "test/support/status_matchers.h"

namespace oneflow::e2e {
namespace {

class AcrossHostsOf : public AcrossHosts, public ::testing::WithParamInterface<const char*> {
 protected:
  std::string Job() const { return GetParam() == std::string("gpt") ? work_.GptJob() : work_.ConvNetJob(); }
};

TEST_P(AcrossHostsOf, TwoHostsLearnAsOneDevice) {
  Stand(2, 1);
  const std::vector<double> alone = work_.Losses(Job(), {});
  for (const char* mesh : {"dp: 2", "tp: 2", "pp: 2"}) {
    SCOPED_TRACE(mesh);
    ExpectSameLosses(LossesAcross(Job(), On(2, 1, mesh)), alone);
  }
}

TEST_P(AcrossHostsOf, TwoHostsOfTwoDevicesLearnAsOneDevice) {
  Stand(2, 2);
  const std::vector<double> alone = work_.Losses(Job(), {});
  ExpectSameLosses(LossesAcross(Job(), On(2, 2, "dp: 2 tp: 2")), alone);
  ExpectSameLosses(LossesAcross(Job(), Join(On(2, 2, "dp: 4"), {"--set", "cluster.processes=4"})), alone);
}

TEST_P(AcrossHostsOf, FourHostsLearnAsOneDevice) {
  Stand(4, 1);
  const std::vector<double> alone = work_.Losses(Job(), {});
  ExpectSameLosses(LossesAcross(Job(), On(4, 1, "dp: 2 tp: 2")), alone);
  ExpectSameLosses(LossesAcross(Job(), Join(On(4, 1, "pp: 2 dp: 2"), {"--set", "train.micro_batches=2"})), alone);
}

INSTANTIATE_TEST_SUITE_P(Models, AcrossHostsOf, ::testing::Values("gpt", "convnet"),
                         [](const auto& info) { return std::string(info.param); });

// They do as hosts of a plan, and not as one of two processes.
TEST_F(AcrossHosts, HostsOfOneNameAreToldApart) {
  Stand(2, 1, {}, "twin");
  const std::string job = work_.GptJob();
  const Outcome listed = work_.Run({"nodes", "--scheduler", scheduler_}, hosts_->In(0));
  EXPECT_THAT(listed.out, ContainsRegex("host0 +twin(.|\n)*host1 +twin"));
  ExpectSameLosses(LossesAcross(job, On(2, 1, "dp: 2")), work_.Losses(job, {}));
  const Outcome submitted = work_.Run(
      Join(Join({"submit", job, "--scheduler", scheduler_}, On(1, 2, "dp: 2")), {"--set", "cluster.processes=2"}),
      hosts_->In(0));
  ASSERT_EQ(submitted.exit_code, 0) << submitted.err;
  const Outcome jobs = work_.Run({"jobs", "--scheduler", scheduler_}, hosts_->In(0));
  EXPECT_THAT(jobs.out, HasSubstr("host 0 of the plan takes 2 cpu devices; no machine offers more than 1"));
}

// Of a model whose tensors are large beside messages. Two runs, so that what starts a job is not counted.
TEST_F(AcrossHosts, LinksCarryWhatThePlanSays) {
  Stand(2, 1);
  const std::string job = work_.GptJob();
  for (const char* mesh : {"dp: 2", "tp: 2"}) {
    SCOPED_TRACE(mesh);
    const std::vector<std::string> wide = Join(On(2, 1, mesh), {"--set", "model.gpt.width=256"});
    const int64_t planned = 20 * PlannedOf(job, wide, 2).with_headers;
    const int64_t once = BytesSentBy(job, wide);
    const int64_t twice = BytesSentBy(job, Join(wide, {"--set", "train.steps=40"}));
    EXPECT_THAT(twice - once, AllOf(Ge(planned - planned / 100), Le(planned + planned / 100)));
  }
}

// Where the library is missing nobody misses it but jobs that need it, which say so.
TEST_F(AcrossHosts, UcxIsLoadedByJobsThatHaveOtherHosts) {
  Stand(2, 2,
        {"unshare", "--mount", "sh", "-c",
         R"(for ucx in $(ldconfig -p | sed -n 's/.*libucp\.so\.0 .*=> //p'); do mount --bind /dev/null "$ucx"; done
            exec "$@")",
         "sh"});
  const std::vector<std::string> on_cluster = Join({"run", work_.GptJob()}, At());
  const Outcome inside = work_.Run(Join(on_cluster, On(1, 2, "dp: 2")), hosts_->In(0));
  EXPECT_EQ(inside.exit_code, 0) << inside.err;
  const Outcome across = work_.Run(Join(on_cluster, On(2, 1, "dp: 2")), hosts_->In(0));
  EXPECT_EQ(across.exit_code, 1);
  EXPECT_THAT(
      across.err,
      ContainsRegex("worker [01] .* on daemon 'host[01]': data between hosts: UCX cannot be set up: .*libucp\\.so\\.0: "
                    "file too short"));
}

TEST_F(AcrossHosts, AClusterWithCertificatesLearnsAsOneDevice) {
  tls_ = secrets_.File("certs");
  const Outcome made = work_.Run({"certs", "init", tls_, "--host", "10.0.0.1", "--host", "10.0.0.2"});
  ASSERT_EQ(made.exit_code, 0) << made.err;
  Stand(2, 2);
  const std::vector<double> alone = work_.Losses(work_.GptJob(), {});
  for (const char* mesh : {"dp: 2 tp: 2", "pp: 2 dp: 2"}) {
    SCOPED_TRACE(mesh);
    ExpectSameLosses(LossesAcross(work_.GptJob(), On(2, 2, mesh)), alone);
  }
  // Two workers of a host, which read each other's memory.
  const std::vector<std::string> four = Join(On(2, 2, "dp: 4"), {"--set", "cluster.processes=4"});
  ExpectSameLosses(LossesAcross(work_.GptJob(), four), alone);
}

// Each from the other host.
TEST_F(AcrossHosts, IntrudersAreRefusedAndLogged) {
  tls_ = secrets_.File("certs");
  for (const std::string& folder : {tls_, work_.Path("false")}) {
    ASSERT_EQ(work_.Run({"certs", "init", folder, "--host", "10.0.0.1"}).exit_code, 0);
  }
  Stand(2, 1);
  const auto ask = [&](const std::vector<std::string>& access) {
    return work_.Run(Join({"jobs", "--scheduler", scheduler_}, access), hosts_->In(1));
  };
  EXPECT_EQ(ask({"--tls", tls_ + "/user"}).exit_code, 0);
  const Outcome without = ask({});
  EXPECT_EQ(without.exit_code, 1);
  EXPECT_THAT(without.err, HasSubstr("someone listens there and hangs up: does it want --tls, or other certificates?"));
  const Outcome with_wrong = ask({"--tls", work_.Path("false/user")});
  EXPECT_EQ(with_wrong.exit_code, 1);
  EXPECT_THAT(with_wrong.err, HasSubstr("certificate verify failed: are the certificates on both sides of one CA?"));
  EXPECT_THAT(servers_[0]->Errors(), HasSubstr("refused in the TLS handshake"));
  const Outcome daemon = work_.Run({"daemon", "--scheduler", scheduler_, "--tls", tls_ + "/user"}, hosts_->In(1));
  EXPECT_EQ(daemon.exit_code, 1);
  EXPECT_THAT(daemon.err, HasSubstr("it is for oneflow:user; this takes one for oneflow:cluster"));
}

TEST_F(AcrossHosts, AUsersTokenIsNoAdmins) {
  tls_ = secrets_.File("certs");
  ASSERT_EQ(work_.Run({"certs", "init", tls_, "--host", "10.0.0.1", "--host", "10.0.0.2"}).exit_code, 0);
  tokens_ = work_.Path("tokens");
  const auto as = [&](const std::string& user, const std::string& role) {
    const Outcome made = work_.Run({"token", "add", tokens_, user, "--role", role});
    EXPECT_EQ(made.exit_code, 0) << made.err;
    return Join(hosts_->In(1), {absl::StrCat("ONEFLOW_TOKEN=", made.out.substr(0, made.out.find('\n')))});
  };
  ASSERT_EQ(work_.Run({"token", "add", tokens_, "nobody", "--role", "read"}).exit_code, 0);
  Stand(2, 1);
  const std::vector<std::string> alice = as("alice", "submit"), root = as("root", "admin");
  const std::vector<std::string> drain = Join({"drain", "host0"}, At());
  const Outcome refused = work_.Run(drain, alice);
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.err, HasSubstr("the token of 'alice' has the role 'submit'; this takes 'admin'"));
  EXPECT_THAT(servers_[0]->Errors(), ContainsRegex("refused to drain a node for ipv4:10.0.0.2:[0-9]+: the token of"));
  EXPECT_THAT(work_.Run(Join({"jobs"}, At()), hosts_->In(1)).err, HasSubstr("no token came"));
  EXPECT_EQ(work_.Run(drain, root).exit_code, 0);
  const Outcome submitted = work_.Run(Join({"submit", work_.GptJob()}, At()), alice);
  EXPECT_EQ(submitted.exit_code, 0) << submitted.err;
  const Outcome described = work_.Run(Join({"jobs", "describe", "1"}, At()), alice);
  EXPECT_THAT(described.out, HasSubstr("by 'alice', priority 0"));
}

// Each of its paths, also where a link leads outside.
TEST_F(AcrossHosts, AJobsPathOutsideIsRefused) {
  allowed_ = work_.Path("allowed");
  std::filesystem::create_directory(allowed_);
  std::filesystem::copy_file(work_.Path("text"), work_.Path("allowed/text"));
  std::filesystem::create_symlink(work_.Path("text"), work_.Path("allowed/link"));
  Stand(2, 1);
  const auto run = [&](const std::string& text, const std::vector<std::string>& more) {
    const std::string data = absl::StrCat("data.text.path=", work_.Path(text));
    return work_.Run(Join(Join({"run", work_.GptJob(), "--set", data}, Join(On(2, 1, "dp: 2"), more)), At()),
                     hosts_->In(0));
  };
  const Outcome inside = run("allowed/text", {"--save-weights", work_.Path("allowed/w")});
  EXPECT_EQ(inside.exit_code, 0) << inside.err;
  EXPECT_EQ(run("text", {}).exit_code, 1);
  const Outcome by_link = run("allowed/link", {});
  EXPECT_EQ(by_link.exit_code, 1);
  EXPECT_THAT(by_link.err, AllOf(ContainsRegex("worker [01] on daemon 'host[01]': data 'path' of node "),
                                 HasSubstr(absl::StrCat("which leads to '", work_.Path("text"),
                                                        "', is not for jobs; "
                                                        "this daemon allows what is beneath '",
                                                        allowed_, "'"))));
  for (const std::string& where : {std::string("save_weights"), std::string("checkpoint.path")}) {
    const Outcome outside = run("allowed/text", {"--set", absl::StrCat(where, "=", work_.Path("allowed/../outside"))});
    EXPECT_EQ(outside.exit_code, 1) << where;
    EXPECT_THAT(outside.err, HasSubstr("/outside' is not for jobs; this daemon allows")) << where;
  }
  EXPECT_FALSE(std::filesystem::exists(work_.Path("outside")));
  EXPECT_THAT(absl::StrCat(servers_[1]->Errors(), servers_[2]->Errors()), HasSubstr("is not for jobs; this daemon"));
}

// The link is down for a second in the middle of the run.
TEST_F(AcrossHosts, ALinkThatHealsAfterASecondCostsNothingButTime) {
  Stand(2, 1);
  const std::vector<double> alone = work_.Losses(work_.GptJob(), {});
  for (const char* mesh : {"dp: 2", "pp: 2"}) {
    SCOPED_TRACE(mesh);
    const std::string metrics = work_.Path(absl::StrCat("healed ", mesh));
    const std::unique_ptr<RunningCommand> run = work_.Start(
        Join(
            {"run", work_.GptJob(), "--metrics", metrics, "--scheduler", scheduler_, "--set", "data.least_read_ms=100"},
            On(2, 1, mesh)),
        /*passed_fd=*/-1, hosts_->In(0));
    ASSERT_TRUE(AwaitLines(metrics, 4)) << run->Errors();
    ASSERT_OK(hosts_->Cut(1));
    absl::SleepFor(absl::Seconds(1));
    ASSERT_OK(hosts_->Heal(1));
    const Outcome ended = run->Wait();
    EXPECT_EQ(ended.exit_code, 0) << ended.err;
    ExpectSameLosses(LossesIn(metrics), alone);
  }
}

TEST_F(AcrossHosts, AHostThatIsCutOffFailsTheJobWithItsDaemon) {
  Stand(2, 1);
  MetricsPipe steps(work_.Path("m"));
  const std::unique_ptr<RunningCommand> run =
      work_.Start(Join(Join({"run", work_.GptJob(), "--set", "train.steps=100000000", "--metrics", work_.Path("m")},
                            On(2, 1, "dp: 2")),
                       {"--scheduler", scheduler_}),
                  /*passed_fd=*/-1, hosts_->In(0));
  ASSERT_TRUE(steps.AwaitSteps(3)) << run->Errors();
  ASSERT_OK(hosts_->Cut(1));
  const absl::Time cut = absl::Now();
  const Outcome ended = run->Wait();
  EXPECT_LT(absl::Now() - cut, absl::Seconds(3));
  EXPECT_EQ(ended.exit_code, 1);
  EXPECT_THAT(ended.err, HasSubstr("daemon 'host1'"));
}

}  // namespace
}  // namespace oneflow::e2e
