#include "test/e2e/hosts.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "glog/logging.h"
#include "test/e2e/oneflow_command.h"
#include "test/e2e/processes.h"
#include "tools/control/process/ready_pipe.h"

namespace oneflow::e2e {
namespace {

constexpr absl::Duration kCommandLimit = absl::Seconds(60);  // of a command, on a busy machine

// Of all namespaces but that of users. Killed with whoever made it, and all processes in it with its first.
const char* const kUnshareAll[] = {"unshare", "--net",  "--pid",        "--mount",     "--ipc",
                                   "--uts",   "--fork", "--kill-child", "--mount-proc"};

std::vector<std::string> UnshareAll() { return {std::begin(kUnshareAll), std::end(kUnshareAll)}; }

std::vector<std::string> Shell(const std::string& script) { return {"sh", "-ec", script}; }

ChildOptions Options(std::vector<std::string> command, const std::string& log_path, int passed_fd) {
  return {
      .executable = "/usr/bin/env", .arguments = Join({"env"}, command), .log_path = log_path, .passed_fd = passed_fd};
}

// How long a tbf's bucket may be sent at once: more than a timer's tick, or the rate is not reached.
constexpr double kBurstSeconds = 4e-3;
constexpr double kLeastBurstBytes = 64 << 10;  // what TCP hands down at once

// What waits for its turn longer is dropped, as by a switch.
constexpr char kQueueLatency[] = "50ms";

}  // namespace

std::string Hosts::WhyNot() {
  if (geteuid() != 0) return "hosts with networks of their own need root";
  static const bool permitted = [] {
    bool ended_well = false;
    const auto child = ChildProcess::Start(Options(Join(UnshareAll(), {"true"}), "/dev/null", -1), [&](ChildExit exit) {
      ended_well = exit.exit_code == 0 && exit.signal == 0;
    });
    return child.ok() && (*child)->WaitForExit(kCommandLimit) && ended_well;
  }();
  return permitted ? "" : "this machine permits no namespaces";
}

absl::StatusOr<std::unique_ptr<Hosts>> Hosts::Make(int count) {
  std::unique_ptr<Hosts> hosts(new Hosts);
  OF_RETURN_IF_ERROR(hosts->AddSwitch());
  for (int i = 0; i < count; ++i) OF_RETURN_IF_ERROR_AT(hosts->AddHost(), hosts->name(i));
  return hosts;
}

std::string Hosts::address(int host) const { return absl::StrCat("10.0.0.", host + 1); }
std::string Hosts::name(int host) const { return absl::StrCat("host", host); }

std::vector<std::string> Hosts::InSwitch() const {
  return {"nsenter", absl::StrCat("--net=/proc/", switch_.pid, "/ns/net"), "--"};
}

std::vector<std::string> Hosts::In(int host) const {
  return {"nsenter", absl::StrCat("--target=", hosts_[host].pid),
          "--net",   "--pid",
          "--mount", "--ipc",
          "--uts",   "--",
          "env",     "TMPDIR=/dev/shm"};
}

absl::StatusOr<std::unique_ptr<ChildProcess>> Hosts::Keep(std::vector<std::string> command,
                                                          const std::string& script) const {
  OF_ASSIGN_OR_RETURN(const std::unique_ptr<ReadyPipe> ready, ReadyPipe::Make());
  const std::string log = dir_.File(absl::StrCat("keeper", ++commands_));
  const std::vector<std::string> keeping = Join(std::move(command), Shell(script + "\necho >&3\nexec sleep infinity"));
  OF_ASSIGN_OR_RETURN(std::unique_ptr<ChildProcess> keeper,
                      ChildProcess::Start(Options(keeping, log, ready->write_fd())));
  const absl::Status is_ready = ready->Await(kCommandLimit).status();
  if (!is_ready.ok()) return absl::AbortedError(absl::StrCat(is_ready.message(), "; it wrote: ", ReadFile(log)));
  return keeper;
}

absl::Status Hosts::AddSwitch() {
  OF_ASSIGN_OR_RETURN(switch_.keeper, Keep({"unshare", "--net"},
                                           "ip link add switch type bridge\n"
                                           "ip link set switch up"));
  switch_.pid = switch_.keeper->pid();  // unshare has become the shell, and the shell the sleep
  return absl::OkStatus();
}

// Without IPv6, whose own messages would be counted.
absl::Status Hosts::AddHost() {
  const int host = count();
  const std::string script = absl::StrCat("hostname ", name(host), R"(
mount -t tmpfs tmpfs /dev/shm
for all in /proc/sys/net/ipv6/conf/*/disable_ipv6; do if [ -e $all ]; then echo 1 >$all; fi; done
ip link set lo up)");
  Namespaces made;
  OF_ASSIGN_OR_RETURN(made.keeper, Keep(Join(InSwitch(), UnshareAll()), script));
  std::vector<Process> inside = DescendantsOf(made.keeper->pid());
  for (Process& process : inside) process.Close();
  if (inside.size() != 1) return absl::InternalError(absl::StrCat(inside.size(), " processes in a new host, not 1"));
  made.pid = inside.front().pid;
  const std::string port = absl::StrCat("port", host);
  OF_RETURN_IF_ERROR(
      RunWith(Join(InSwitch(), Shell(absl::StrCat("ip link add ", port, " type veth peer name eth0 netns ", made.pid,
                                                  "\nip link set ", port, " master switch up"))))
          .status());
  hosts_.push_back(std::move(made));
  return Run(host, absl::StrCat("ip address add ", address(host), "/24 dev eth0; ip link set eth0 up")).status();
}

absl::StatusOr<std::string> Hosts::RunWith(std::vector<std::string> command) const {
  const std::string log = dir_.File(absl::StrCat("command", ++commands_));
  ChildExit exit;
  OF_ASSIGN_OR_RETURN(const std::unique_ptr<ChildProcess> child,
                      ChildProcess::Start(Options(command, log, -1), [&](ChildExit ended) { exit = ended; }));
  const bool ended = child->WaitForExit(kCommandLimit);
  std::string text = ReadFile(log);
  if (ended && exit.exit_code == 0 && exit.signal == 0) return text;
  const std::string how = !ended ? absl::StrCat("still runs after ", absl::FormatDuration(kCommandLimit))
                                 : absl::StrCat("ended with code ", exit.exit_code, ", signal ", exit.signal);
  return absl::AbortedError(absl::StrCat("'", absl::StrJoin(command, " "), "' ", how, "; it wrote: ", text));
}

absl::StatusOr<std::string> Hosts::Run(int host, const std::string& command) const {
  return RunWith(Join(In(host), Shell(command)));
}

absl::StatusOr<std::unique_ptr<ChildProcess>> Hosts::Start(int host, const std::string& command,
                                                           const std::string& log_path, int passed_fd) const {
  return ChildProcess::Start(Options(Join(In(host), Shell(command)), log_path, passed_fd));
}

absl::Status Hosts::Shape(double megabits_per_s) const {
  const double bytes_per_s = megabits_per_s * 1e6 / 8;
  const auto burst = static_cast<int64_t>(std::max(kLeastBurstBytes, bytes_per_s * kBurstSeconds));
  const std::string command =
      absl::StrCat("tc qdisc replace dev eth0 root tbf rate ", static_cast<int64_t>(bytes_per_s), "bps burst ", burst,
                   " latency ", kQueueLatency);  // tc's bps are bytes
  for (int host = 0; host < count(); ++host) OF_RETURN_IF_ERROR_AT(Run(host, command).status(), name(host));
  return absl::OkStatus();
}

absl::Status Hosts::Unshape() const {
  for (int host = 0; host < count(); ++host) {
    OF_RETURN_IF_ERROR_AT(Run(host, "tc qdisc replace dev eth0 root noqueue").status(), name(host));
  }
  return absl::OkStatus();
}

absl::Status Hosts::SetPort(int host, const std::string& state) const {
  return RunWith(Join(InSwitch(), {"ip", "link", "set", absl::StrCat("port", host), state})).status();
}

absl::Status Hosts::Cut(int host) const { return SetPort(host, "down"); }
absl::Status Hosts::Heal(int host) const { return SetPort(host, "up"); }

absl::StatusOr<Traffic> Hosts::CountTraffic(int host) const {
  // "  eth0: " and 16 numbers, of which the first are bytes received, the ninth bytes and the tenth packets sent.
  std::ifstream devices(absl::StrCat("/proc/", hosts_[host].pid, "/net/dev"));
  for (std::string word; devices >> word;) {
    if (word != "eth0:") continue;
    std::vector<int64_t> counts(10);
    for (int64_t& count : counts) devices >> count;
    if (devices) return Traffic{.sent = counts[8], .received = counts[0], .packets_sent = counts[9]};
  }
  return absl::InternalError(absl::StrCat(name(host), ": no counters of eth0"));
}

}  // namespace oneflow::e2e
