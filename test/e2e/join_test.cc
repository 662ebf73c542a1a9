// `oneflow join` under a real Slurm, whose controller and two nodes are on this machine, and under mpirun of Open MPI.
#include <netinet/in.h>
#include <pwd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "nlohmann/json.hpp"
#include "test/e2e/oneflow_command.h"
#include "test/support/status_matchers.h"
#include "tools/control/process/child.h"

namespace oneflow::e2e {
namespace {

// A port of loopback that nobody has just now.
int FreePort() {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  socklen_t length = sizeof(address);
  EXPECT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), length), 0);
  EXPECT_EQ(getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length), 0);
  close(fd);
  return ntohs(address.sin_port);
}

class SlurmTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (std::system("command -v slurmctld slurmd srun >/dev/null 2>&1") != 0) GTEST_SKIP() << "Slurm is not installed";
    setenv("SLURM_CONF", work_.Write("slurm.conf", Configuration()).c_str(), 1);
    std::filesystem::create_directory(work_.Path("state"));
    Serve({"slurmctld", "-D"});
    for (const std::string node : {"127.0.0.2", "127.0.0.3"}) {
      std::filesystem::create_directory(work_.Path(absl::StrCat("spool-", node)));
      Serve({"slurmd", "-D", "-N", node});
    }
    ASSERT_TRUE(Await([this] { return Shell("sinfo -h -t idle -o %D") == "2\n"; })) << Shell("sinfo");
  }
  void TearDown() override { unsetenv("SLURM_CONF"); }

  // Signed by nobody, and for processes of anybody's tree: what a test of one machine needs.
  std::string Configuration() const {
    char host[256] = {};
    gethostname(host, sizeof(host) - 1);
    const std::string name = std::string(host).substr(0, std::string(host).find('.'));
    const std::string user = getpwuid(geteuid())->pw_name;
    return absl::StrCat(
        "ClusterName=test\nSlurmctldHost=", name, "(127.0.0.1)\nSlurmUser=", user, "\nSlurmdUser=", user,
        "\nAuthType=auth/none\nCredType=cred/none\nSlurmctldPort=", FreePort(),
        "\nStateSaveLocation=", work_.Path("state"), "\nSlurmdSpoolDir=", work_.Path("spool-%n"),
        "\nSlurmctldPidFile=", work_.Path("ctld.pid"), "\nSlurmdPidFile=", work_.Path("%n.pid"),
        "\nSlurmctldLogFile=", work_.Path("ctld.log"), "\nSlurmdLogFile=", work_.Path("%n.log"),
        "\nProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nMpiDefault=none\nReturnToService=2\n"
        "SelectType=select/cons_tres\nSelectTypeParameters=CR_CPU\nKillWait=20\n",
        Node("127.0.0.2", name), Node("127.0.0.3", name), "PartitionName=all Nodes=ALL Default=YES State=UP\n");
  }
  static std::string Node(const std::string& node, const std::string& host) {
    return absl::StrCat("NodeName=", node, " NodeHostname=", host, " NodeAddr=127.0.0.1 Port=", FreePort(),
                        " CPUs=1 RealMemory=100\n");
  }

  void Serve(std::vector<std::string> arguments) {
    ChildOptions options;
    options.executable = absl::StrCat("/usr/sbin/", arguments[0]);
    options.log_path = work_.Path(absl::StrCat(arguments[0], ".out"));
    options.arguments = std::move(arguments);
    ASSERT_OK_AND_ASSIGN(servers_.emplace_back(), ChildProcess::Start(std::move(options)));
  }

  // What a command wrote.
  std::string Shell(const std::string& command) const {
    const std::string out = work_.Path("shell.out");
    (void)!std::system(absl::StrCat(command, " >", out, " 2>&1").c_str());
    return ReadFile(out);
  }
  static bool Await(const std::function<bool()>& condition, absl::Duration limit = absl::Seconds(60)) {
    for (const absl::Time end = absl::Now() + limit; absl::Now() < end; absl::SleepFor(absl::Milliseconds(100))) {
      if (condition()) return true;
    }
    return false;
  }

  // A job of two nodes with checkpoints, and weights at its end.
  std::vector<std::string> Join(const std::string& name, int steps) const {
    return {"join",      work_.GptJob(),
            "--port",    absl::StrCat(FreePort()),
            "--metrics", work_.Path(name + ".metrics"),
            "--set",     "mesh={dp: 2}",
            "--set",     absl::StrCat("train.steps=", steps),
            "--set",     absl::StrCat("checkpoint={every: 100 keep: 2 on_stop: true path: \"", work_.Path(name), "\"}"),
            "--set",     absl::StrCat("save_weights=", work_.Path(name + ".safetensors"))};
  }
  // Submits it as a batch job; its number.
  std::string Submit(const std::string& name, int steps) const {
    std::string script = absl::StrCat("#!/bin/sh\nexec srun '", Command(), "' ");
    for (const std::string& word : Join(name, steps)) absl::StrAppend(&script, "'", word, "' ");
    work_.Write(name + ".sh", script + "\n");
    const std::string answer = Shell(absl::StrCat("sbatch --parsable --requeue --open-mode=append -N2 -n2 -o ",
                                                  work_.Path(name + ".out"), " ", work_.Path(name + ".sh")));
    return std::string(absl::StripSuffix(answer, "\n"));
  }
  int NumLines(const std::string& file) const { return static_cast<int>(LinesIn(work_.Path(file)).size()); }
  bool Ended(const std::string& job) const { return Shell("squeue -h -o %i -j " + job).find(job + "\n") != 0; }

  const Workspace work_;
  std::vector<std::unique_ptr<ChildProcess>> servers_;
};

TEST_F(SlurmTest, TasksOfAStepTrainAsOneMachineDoes) {
  const Outcome ended = work_.Run(Join("joined", 20), {"srun", "-N2", "-n2"});
  ASSERT_EQ(ended.exit_code, 0) << ended.err << ended.out;
  EXPECT_EQ(LossesIn(work_.Path("joined.metrics")), work_.Losses(work_.GptJob(), OnMesh("dp: 2", 2)));
  const Outcome refused =
      work_.Run(e2e::Join(Join("refused", 20), {"--set", "cluster.processes=1"}), {"srun", "-N2", "-n2"});
  EXPECT_NE(refused.exit_code, 0);
  EXPECT_THAT(refused.err, HasSubstr("cluster.processes is 1; Slurm has begun 2 tasks"));
}

TEST_F(SlurmTest, ARequeuedJobGoesOnAndACancelledOneIsSaved) {
  const int steps = 1500;
  const std::string whole = Submit("whole", steps);
  ASSERT_TRUE(Await([&] { return Ended(whole); })) << ReadFile(work_.Path("whole.out"));

  const std::string job = Submit("requeued", steps);
  ASSERT_TRUE(AwaitLines(work_.Path("requeued.metrics"), 150)) << ReadFile(work_.Path("requeued.out"));
  Shell("scontrol requeue " + job);
  ASSERT_TRUE(Await([&] { return Shell("squeue -h -o %t -j " + job) == "PD\n"; })) << Shell("squeue");
  Shell("scontrol update StartTime=now JobId=" + job);
  ASSERT_TRUE(Await([&] { return Ended(job); })) << ReadFile(work_.Path("requeued.out"));
  const std::vector<nlohmann::json> lines = LinesIn(work_.Path("requeued.metrics"));
  ASSERT_THAT(lines, ::testing::SizeIs(steps)) << "each step once";
  for (int step = 0; step < steps; ++step) ASSERT_EQ(lines[step]["step"], step + 1);
  EXPECT_THAT(ReadFile(work_.Path("requeued.out")), HasSubstr("goes on from step "));
  EXPECT_TRUE(ReadFile(work_.Path("requeued.safetensors")) == ReadFile(work_.Path("whole.safetensors")));

  const std::string cancelled = Submit("cancelled", 1'000'000);
  ASSERT_TRUE(AwaitLines(work_.Path("cancelled.metrics"), 10)) << ReadFile(work_.Path("cancelled.out"));
  Shell("scancel --signal=USR1 " + cancelled);  // to all tasks, and all that they have begun
  ASSERT_TRUE(Await([&] {
    return absl::StrContains(ReadFile(work_.Path("cancelled.out")), "saving a checkpoint of job 1, which goes on");
  })) << ReadFile(work_.Path("cancelled.out"));
  ASSERT_TRUE(AwaitLines(work_.Path("cancelled.metrics"), NumLines("cancelled.metrics") + 100)) << "it goes on";
  Shell("scontrol suspend " + cancelled);
  absl::SleepFor(absl::Seconds(4));
  Shell("scontrol resume " + cancelled);
  ASSERT_TRUE(AwaitLines(work_.Path("cancelled.metrics"), NumLines("cancelled.metrics") + 100))
      << ReadFile(work_.Path("cancelled.out"));
  Shell("scancel " + cancelled);
  ASSERT_TRUE(Await([&] { return Ended(cancelled); }));
  const size_t last = LinesIn(work_.Path("cancelled.metrics")).size();
  EXPECT_THAT(Shell(absl::StrCat("ls ", work_.Path("cancelled"))), HasSubstr(absl::StrCat(last)));
  EXPECT_THAT(ReadFile(work_.Path("cancelled.out")), HasSubstr("oneflow: the job was cancelled"));
}

TEST(MpirunTest, TasksTrainAsOneMachineDoes) {
  if (std::system("command -v mpirun >/dev/null 2>&1") != 0) GTEST_SKIP() << "Open MPI is not installed";
  const Workspace work;
  const std::string metrics = work.Path("joined.metrics");
  const Outcome ended = work.Run(
      {"join", work.GptJob(), "--port", absl::StrCat(FreePort()), "--metrics", metrics, "--set", "mesh={dp: 2}"},
      {"env", "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", "mpirun", "--oversubscribe", "--bind-to",
       "none", "-n", "2"});
  ASSERT_EQ(ended.exit_code, 0) << ended.err << ended.out;
  EXPECT_EQ(LossesIn(metrics), work.Losses(work.GptJob(), OnMesh("dp: 2", 2)));
}

}  // namespace
}  // namespace oneflow::e2e
