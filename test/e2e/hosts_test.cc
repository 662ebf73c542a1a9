// What tests of several hosts stand on: that hosts reach one another, and in no other way than over their links.
#include "test/e2e/hosts.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "gmock/gmock.h"
#include "test/e2e/oneflow_command.h"
#include "test/e2e/processes.h"
#include "test/support/status_matchers.h"
#include "tools/control/process/ready_pipe.h"

namespace oneflow::e2e {
namespace {

constexpr absl::Duration kHostsLimit = absl::Seconds(60);
constexpr int kPort = 5000;

// Takes one connection to the end and prints how many bytes came, and in how many seconds from the first to the last.
constexpr char kReceive[] = R"(exec python3 -c "
import os, socket, sys, time
server = socket.create_server(('0.0.0.0', int(sys.argv[1])))
os.write(3, b'listening\n')
connection, _ = server.accept()
count = first = last = 0
while piece := connection.recv(1 << 20):
    last = time.monotonic()
    first = first or last
    count += len(piece)
print(count, last - first)
" )";
// To an address and a port a number of megabytes.
constexpr char kSend[] = R"(exec python3 -c "
import socket, sys
connection = socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=20)
for _ in range(int(sys.argv[3])): connection.sendall(bytes(10**6))
" )";

class HostsTest : public ::testing::Test {
 protected:
  struct Received {
    int64_t bytes = 0;
    double seconds = 0;
  };

  void SetUp() override {
    if (const std::string why = Hosts::WhyNot(); !why.empty()) GTEST_SKIP() << why;
    ASSERT_OK_AND_ASSIGN(hosts_, Hosts::Make(3));
  }

  std::string Run(int host, const std::string& command) const {
    const absl::StatusOr<std::string> wrote = hosts_->Run(host, command);
    EXPECT_OK(wrote);
    return wrote.value_or("");
  }
  // Starts a command that says by descriptor 3 that it is ready, and waits until it is.
  std::unique_ptr<ChildProcess> Serve(int host, const std::string& command, const std::string& log) const {
    const absl::StatusOr<std::unique_ptr<ReadyPipe>> ready = ReadyPipe::Make();
    EXPECT_OK(ready);
    auto started = hosts_->Start(host, command, dir_.File(log), (*ready)->write_fd());
    EXPECT_OK(started);
    EXPECT_OK((*ready)->Await(kHostsLimit)) << ReadFile(dir_.File(log));
    return *std::move(started);
  }
  // Its log takes one result for each host.
  std::unique_ptr<ChildProcess> Receive(int host) const {
    return Serve(host, absl::StrCat(kReceive, kPort), "received by " + hosts_->name(host));
  }
  std::string Sending(int to, int megabytes) const {
    return absl::StrCat(kSend, hosts_->address(to), " ", kPort, " ", megabytes);
  }
  // What Receive() has printed, when it has ended.
  Received Result(ChildProcess& receiver, int host) const {
    EXPECT_TRUE(receiver.WaitForExit(kHostsLimit));
    const std::string text = ReadFile(dir_.File("received by " + hosts_->name(host)));
    const std::vector<std::string> words = absl::StrSplit(absl::StripTrailingAsciiWhitespace(text), ' ');
    Received received;
    EXPECT_TRUE(words.size() == 2 && absl::SimpleAtoi(words[0], &received.bytes) &&
                absl::SimpleAtod(words[1], &received.seconds))
        << text;
    return received;
  }
  Received Transfer(int from, int to, int megabytes) const {
    const auto receiver = Receive(to);
    Run(from, Sending(to, megabytes));
    return Result(*receiver, to);
  }

  const testing::TestDir dir_;
  std::unique_ptr<Hosts> hosts_;
};

TEST_F(HostsTest, EachReachesTheOthersAndIsCalledByItsName) {
  for (int host = 0; host < 3; ++host) {
    EXPECT_EQ(Run(host, "hostname"), hosts_->name(host) + "\n");
    EXPECT_EQ(Transfer(host, (host + 1) % 3, 1).bytes, 1'000'000);
  }
}

TEST_F(HostsTest, NoneSeesProcessesOrMemoryOfAnother) {
  const auto marked =
      Serve(0, "touch /dev/shm/mark; ipcmk --shmem 64 >/dev/null; echo >&3; exec sleep 31415", "marked");
  const std::string look = "cat /proc/[0-9]*/cmdline | tr '\\0' ' '; ls /dev/shm; wc -l </proc/sysvipc/shm";
  EXPECT_THAT(Run(0, look), AllOf(HasSubstr("sleep 31415"), HasSubstr("mark\n2\n")));
  EXPECT_THAT(Run(1, look), AllOf(Not(HasSubstr("31415")), Not(HasSubstr("mark")), HasSubstr("1\n")));
}

TEST_F(HostsTest, TheLoopbackOfOneIsNotThatOfAnother) {
  const auto receiver = Receive(0);
  EXPECT_THAT(hosts_->Run(1, absl::StrCat(kSend, "127.0.0.1 ", kPort, " 1")).status().message(),
              HasSubstr("Connection refused"));
}

TEST_F(HostsTest, AShapedLinkHasItsRate) {
  constexpr double kMegabits = 100;
  ASSERT_OK(hosts_->Shape(kMegabits));
  ASSERT_OK_AND_ASSIGN(const Traffic before, hosts_->CountTraffic(0));
  const Received received = Transfer(0, 1, 10);
  ASSERT_OK_AND_ASSIGN(const Traffic after, hosts_->CountTraffic(0));
  const double megabits = (after.sent - before.sent) * 8e-6;
  EXPECT_THAT(megabits / received.seconds, AllOf(Ge(0.9 * kMegabits), Le(1.1 * kMegabits)));
}

TEST_F(HostsTest, CountersCountWhatPassesAndNothingElse) {
  std::vector<Traffic> before, after;
  for (int host = 0; host < 3; ++host) before.push_back(*hosts_->CountTraffic(host));
  Transfer(0, 1, 10);
  for (int host = 0; host < 3; ++host) after.push_back(*hosts_->CountTraffic(host));
  const auto near = [](int64_t bytes) { return AllOf(Ge(bytes), Le(bytes + bytes / 10)); };  // with headers
  EXPECT_THAT(after[0].sent - before[0].sent, near(10'000'000));
  EXPECT_THAT(after[1].received - before[1].received, near(10'000'000));
  EXPECT_THAT(after[1].sent - before[1].sent, Le(1'000'000)) << "what acknowledges";
  EXPECT_THAT(after[2].sent + after[2].received - before[2].sent - before[2].received, Le(1'000))
      << "who asks for whom";
}

TEST_F(HostsTest, ACutLinkCarriesNothingUntilItIsHealed) {
  ASSERT_OK(hosts_->Shape(100));
  const auto receiver = Receive(1);
  auto sender = hosts_->Start(0, Sending(1, 10), dir_.File("sender"));
  ASSERT_OK(sender);
  while (hosts_->CountTraffic(1)->received < 1'000'000 && !(*sender)->WaitForExit(absl::Milliseconds(1))) {
  }
  ASSERT_OK(hosts_->Cut(1));
  ASSERT_OK_AND_ASSIGN(const Traffic cut, hosts_->CountTraffic(1));
  EXPECT_THAT(cut.received, Le(9'000'000)) << "it was cut in the middle";
  EXPECT_FALSE(hosts_
                   ->Run(0, absl::StrCat("exec python3 -c \"import socket; socket.create_connection(('",
                                         hosts_->address(1), "', ", kPort, "), timeout=0.5)\""))
                   .ok());
  EXPECT_EQ(hosts_->CountTraffic(1)->received, cut.received);
  EXPECT_EQ(Transfer(0, 2, 1).bytes, 1'000'000) << "the others are not touched";
  ASSERT_OK(hosts_->Heal(1));
  EXPECT_EQ(Result(*receiver, 1).bytes, 10'000'000) << "what was on its way is sent again";
}

TEST(HostsEndTest, NothingOutlivesAKilledTest) {
  if (const std::string why = Hosts::WhyNot(); !why.empty()) GTEST_SKIP() << why;
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<ReadyPipe> ready, ReadyPipe::Make());
  const testing::TestDir dir;
  setenv("TMPDIR", dir.File("").c_str(), 1);  // the killed one does not tidy up its own
  const pid_t killed = fork();
  if (killed == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const auto hosts = Hosts::Make(2);
    if (hosts.ok() && TellReady(ready->write_fd(), "ready").ok()) pause();
    _exit(1);
  }
  ASSERT_OK(ready->Await(kHostsLimit));
  std::vector<Process> processes = DescendantsOf(killed);
  EXPECT_THAT(processes, SizeIs(5)) << "the switch's, and two for each host";
  kill(killed, SIGKILL);
  for (Process& process : processes) {
    EXPECT_TRUE(process.GoneWithin(kHostsLimit)) << process.pid << ": " << process.command;
    process.Close();
  }
  EXPECT_EQ(waitpid(killed, nullptr, 0), killed);
  unsetenv("TMPDIR");
}

}  // namespace
}  // namespace oneflow::e2e
