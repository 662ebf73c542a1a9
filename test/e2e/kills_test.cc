// Jobs of all kinds in which somebody dies or freezes at any moment: a worker, a daemon, the scheduler. What users are
// promised holds whenever it happens: the job ends within three seconds and says who it was, nothing is left, and all
// checkpoints are whole. That is real time, so no other test runs beside these.
//
// ONEFLOW_KILLS says how many; without it they are few.
#include <signal.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <random>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "test/e2e/oneflow_command.h"
#include "test/e2e/processes.h"
#include "test/support/names.h"
#include "test/support/paths.h"

namespace oneflow::e2e {
namespace {

constexpr absl::Duration kStart = absl::Seconds(120);  // to the first step, on a busy machine
constexpr absl::Duration kPromise = absl::Seconds(3);
constexpr absl::Duration kGone = absl::Seconds(10);  // from the end of the command to the end of all that it started
constexpr int kLongestMs = 3000;                     // from the first step to the kill

struct KilledJob {
  const char* name;
  bool reads_text;
};
constexpr KilledJob kExamples[] = {
    {"gpt_dp2_tp2", true},        {"gpt_pp2_dp2", true},        {"gpt_meshes", true}, {"fashion_mnist", false},
    {"mlp_fashion_mnist", false}, {"margin_classifier", false}, {"wide_deep", false}, {"gpt_co2", true},
    {"gpt_zero3", true},          {"gpt_offload", true}};

// What may happen to a process, and what is said of it beside its number.
struct Fate {
  const char* process;  // a part of its command
  int signal;
  const char* cause;
};
constexpr char kScheduler[] = " scheduler --";
constexpr Fate kFates[] = {{" worker --", SIGKILL, "was killed by signal 9 (SIGKILL)"},
                           {" worker --", SIGSEGV, "was killed by signal 11 (SIGSEGV)"},
                           {" worker --", SIGSTOP, "has said nothing for 2s: it is frozen, and was killed"},
                           {" daemon --", SIGKILL, "was lost: its connection closed; it ran worker "},
                           {" daemon --", SIGSTOP, "was lost: no heartbeat for "},
                           {kScheduler, SIGKILL, "scheduler '127.0.0.1:"}};  // a client does not know its number

int NumKills() {
  constexpr int kFew = 3;
  const char* const asked = std::getenv("ONEFLOW_KILLS");
  int count = kFew;
  EXPECT_TRUE(asked == nullptr || absl::SimpleAtoi(asked, &count)) << "ONEFLOW_KILLS: '" << asked << "' is no number";
  return count;
}

// The example, made to train for days, to evaluate and to save.
std::vector<std::string> Endless(const KilledJob& example, const Workspace& work) {
  const std::vector<std::string> arguments = {
      "run",       absl::StrCat(SourceDir(), "/tools/examples/", example.name, ".pbtxt"),
      "--metrics", work.Path("metrics"),
      "--set",     "train.steps=100000000",
      "--set",     "evaluate.every=30",
      "--set",     absl::StrCat("checkpoint={path: '", work.Path("checkpoints"), "' every: 20 keep: 1}")};
  if (!example.reads_text) return arguments;
  return Join(arguments, {"--set", absl::StrCat("data.text.path=", SourceDir(), "/data/kjv.txt")});
}

// What is saved is whole, however little that is.
void ExpectWholeCheckpoints(const Workspace& work) {
  if (!std::filesystem::exists(work.Path("checkpoints"))) return;
  const Outcome listed = work.Run({"checkpoint", "ls", work.Path("checkpoints")});
  if (!absl::StrContains(listed.out, "step")) return;
  const Outcome verified = work.Run({"checkpoint", "verify", work.Path("checkpoints")});
  EXPECT_EQ(verified.exit_code, 0) << verified.out << verified.err;
}

// Lets the example run, and one of its processes meet its fate. How long it took then to end.
absl::Duration RunAndKill(const KilledJob& example, const Fate& fate, std::mt19937& random) {
  const Workspace work;
  const auto run = work.Start(Endless(example, work));
  if (!AwaitLines(work.Path("metrics"), 1, kStart)) {
    ADD_FAILURE() << "the job does not begin: " << run->Errors();
    return absl::ZeroDuration();
  }
  absl::SleepFor(absl::Milliseconds(std::uniform_int_distribution<int>(0, kLongestMs)(random)));
  std::vector<Process> processes = DescendantsOf(run->pid());
  EXPECT_THAT(processes, SizeIs(5)) << "scheduler, two daemons, two workers";
  std::vector<Process> candidates;
  std::copy_if(processes.begin(), processes.end(), std::back_inserter(candidates),
               [&](const Process& process) { return absl::StrContains(process.command, fate.process); });
  const Process& victim = candidates[random() % candidates.size()];
  const absl::Time killed = absl::Now();
  victim.Kill(fate.signal);
  const Outcome ended = run->Wait();
  const absl::Duration took = absl::Now() - killed;
  EXPECT_EQ(ended.exit_code, 1);
  EXPECT_THAT(ended.err, HasSubstr(fate.cause));
  if (absl::string_view(fate.process) != kScheduler) {
    EXPECT_THAT(ended.err, HasSubstr(absl::StrCat("(pid ", victim.pid, ")")));
  }
  for (Process& process : processes) {
    EXPECT_TRUE(process.GoneWithin(kGone)) << process.command;
    process.Close();
  }
  EXPECT_THAT(work.Leftovers(), IsEmpty());
  EXPECT_THAT(NamedSharedMemory(), IsEmpty());
  ExpectWholeCheckpoints(work);
  return took;
}

TEST(KillsTest, EndTheJobSoonWithTheCauseAndLeaveNothing) {
  const int kills = NumKills();
  for (int kill = 0; kill < kills; ++kill) {
    std::mt19937 random(kill);
    const KilledJob& example = kExamples[random() % std::size(kExamples)];
    const Fate& fate = kFates[random() % std::size(kFates)];
    const std::string what =
        absl::StrCat("kill ", kill, ": ", strsignal(fate.signal), " for a", fate.process, " of ", example.name);
    SCOPED_TRACE(what);
    const absl::Duration took = RunAndKill(example, fate, random);
    EXPECT_LT(took, kPromise);
    std::cout << what << ": ended after " << took << std::endl;
  }
}

}  // namespace
}  // namespace oneflow::e2e
