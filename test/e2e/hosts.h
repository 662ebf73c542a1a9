// Hosts that share nothing, on one machine: each has its own network, processes, memory files and name.
//
//        host0 10.0.0.1     host1 10.0.0.2     host2 10.0.0.3      network, PID, mount, IPC and UTS namespaces each
//             eth0               eth0               eth0           shaped on its way out, if asked (tc tbf)
//              │                  │                  │             veth pairs; Cut() takes the switch's end down
//            port0              port1              port2
//              └──────────── bridge `switch` ─────┘                a network namespace of its own
//
//   if (const std::string why = Hosts::WhyNot(); !why.empty()) GTEST_SKIP() << why;
//   ASSERT_OK_AND_ASSIGN(hosts, Hosts::Make(2));
//   work.Start({"daemon", "--peer-host", hosts->address(1), ...}, /*passed_fd=*/-1, hosts->In(1));
//
// Files are shared, apart from /proc and /dev/shm: binaries, data and test directories lie anywhere. TMPDIR of a host
// is its own. Namespaces have no names and live as long as the processes that hold them, which the kernel kills when
// the test dies in any way: nothing is left behind, and tests run beside one another.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "oneflow_core/status.h"
#include "test/support/test_dir.h"
#include "tools/control/process/child.h"

namespace oneflow::e2e {

// What has passed a host's interface, in bytes with all headers.
struct Traffic {
  int64_t sent = 0;
  int64_t received = 0;
  int64_t packets_sent = 0;
};

class Hosts {
 public:
  // Why hosts cannot be made here, for tests to skip; empty if they can.
  static std::string WhyNot();

  // Hosts that reach one another. Errors of commands, with what these wrote. REQUIRES: WhyNot() is empty; `count` is
  // between 1 and 200.
  static absl::StatusOr<std::unique_ptr<Hosts>> Make(int count);

  int count() const { return static_cast<int>(hosts_.size()); }
  // Of the host on its network: "10.0.0.1".
  std::string address(int host) const;
  // "host0", as gethostname() tells it there.
  std::string name(int host) const;

  // What to put before a command, so that it runs in the host. The process that runs is the command's parent: signals
  // are for its group.
  std::vector<std::string> In(int host) const;
  // Runs `command` by a shell in the host and returns what it wrote. Aborted, with that, if it fails.
  absl::StatusOr<std::string> Run(int host, const std::string& command) const;
  // Starts it. What it writes goes to `log_path`, `passed_fd` becomes its descriptor 3.
  absl::StatusOr<std::unique_ptr<ChildProcess>> Start(int host, const std::string& command, const std::string& log_path,
                                                      int passed_fd = -1) const;

  // From now on every host sends at no more than this, headers included.
  absl::Status Shape(double megabits_per_s) const;
  // Or as fast as it can, again.
  absl::Status Unshape() const;
  // Pulls the host's cable, and puts it back. Connections notice by silence only.
  absl::Status Cut(int host) const;
  absl::Status Heal(int host) const;
  absl::StatusOr<Traffic> CountTraffic(int host) const;

 private:
  // A network or a host: the process that keeps its namespaces, and the first process in them.
  struct Namespaces {
    std::unique_ptr<ChildProcess> keeper;
    int pid = 0;
  };

  Hosts() = default;
  absl::Status AddSwitch();
  absl::Status AddHost();
  // Starts `command`, which makes namespaces, and `script` by a shell in them. Returns when that is done.
  absl::StatusOr<std::unique_ptr<ChildProcess>> Keep(std::vector<std::string> command, const std::string& script) const;
  absl::StatusOr<std::string> RunWith(std::vector<std::string> command) const;
  std::vector<std::string> InSwitch() const;
  absl::Status SetPort(int host, const std::string& state) const;

  const testing::TestDir dir_;
  mutable int commands_ = 0;
  Namespaces switch_;  // before the hosts: their keepers run in its network
  std::vector<Namespaces> hosts_;
};

}  // namespace oneflow::e2e
