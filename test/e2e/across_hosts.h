// A cluster on hosts that share nothing: a scheduler on the first, a daemon on each, and workers that reach one another
// over the network only.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "test/e2e/hosts.h"
#include "test/e2e/oneflow_command.h"
#include "test/support/paths.h"
#include "test/support/status_matchers.h"
#include "test/support/test_dir.h"

namespace oneflow::e2e {

class AcrossHosts : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = Hosts::WhyNot(); !why.empty()) GTEST_SKIP() << why;
  }
  // Hosts with a daemon each, and a scheduler on the first. `name`: what all of them take themselves for.
  void Stand(int count, int devices_each, const std::vector<std::string>& within = {}, const std::string& name = "") {
    ASSERT_OK_AND_ASSIGN(hosts_, Hosts::Make(count));
    for (int host = 0; host < count && !name.empty(); ++host) {
      ASSERT_OK(hosts_->Run(host, "hostname " + name).status());
    }
    const std::vector<std::string> with_tokens =
        tokens_.empty() ? std::vector<std::string>() : std::vector<std::string>{"--tokens", tokens_};
    const std::vector<std::string> serve = {"scheduler", "--address", hosts_->address(0) + ":0", "--db",
                                            work_.Path("jobs.db")};
    Serve(0, Join(Join(serve, ServerAccess()), with_tokens), scheduler_);
    for (int host = 0; host < count; ++host) {
      std::string registered;
      Serve(host,
            Join({"daemon", "--scheduler", scheduler_, "--cpu-devices", absl::StrCat(devices_each), "--cores",
                  absl::StrCat(devices_each), "--peer-host", hosts_->address(host), "--work-dir",
                  work_.Path(hosts_->name(host)), "--name", hosts_->name(host), "--allow-path", allowed_},
                 ServerAccess()),
            registered, Join(within, core_each_ ? OnCore(host) : std::vector<std::string>()));
    }
  }
  static std::vector<std::string> OnCore(int core) { return {"taskset", "--cpu-list", absl::StrCat(core)}; }
  // In plain text unless there are certificates.
  std::vector<std::string> ServerAccess() const {
    return tls_.empty() ? std::vector<std::string>{"--insecure"} : std::vector<std::string>{"--tls", tls_ + "/cluster"};
  }
  // How a user reaches the scheduler.
  std::vector<std::string> At() const {
    return Join({"--scheduler", scheduler_},
                tls_.empty() ? std::vector<std::string>() : std::vector<std::string>{"--tls", tls_ + "/user"});
  }
  void Serve(int host, const std::vector<std::string>& arguments, std::string& line,
             const std::vector<std::string>& within = {}) {
    servers_.push_back(work_.Serve(arguments, line, Join(hosts_->In(host), within)));
  }

  // Arguments that lay a job out on hosts with so many devices each.
  static std::vector<std::string> On(int hosts, int devices_each, const std::string& mesh) {
    return {"--set", absl::StrCat("mesh={", mesh, "}"), "--set",
            absl::StrCat("cluster={hosts { count: ", hosts, " devices: ", devices_each, " }}")};
  }
  std::vector<double> LossesAcross(const std::string& job, const std::vector<std::string>& arguments) const {
    return work_.Losses(job, Join(arguments, At()), hosts_->In(0));
  }
  // What all hosts have sent while the job ran.
  int64_t BytesSentBy(const std::string& job, const std::vector<std::string>& arguments) const {
    const int64_t before = BytesSent();
    LossesAcross(job, arguments);
    return BytesSent() - before;
  }
  // Without the headers of packets: Ethernet's 14 bytes, 20 of IP, 32 of TCP with its time stamps.
  int64_t BytesSent() const {
    constexpr int64_t kHeaders = 66;
    int64_t sum = 0;
    for (int host = 0; host < hosts_->count(); ++host) {
      const Traffic traffic = *hosts_->CountTraffic(host);
      sum += traffic.sent - kHeaders * traffic.packets_sent;
    }
    return sum;
  }
  struct Planned {
    int64_t payloads = 0, with_headers = 0;  // bytes
  };
  // What a step of the first plan sends to other hosts, all processes together.
  Planned PlannedOf(const std::string& job, const std::vector<std::string>& arguments, int processes) const {
    Planned planned;
    for (int process = 0; process < processes; ++process) {
      const Outcome shown = work_.Run(Join({"plan", "show", job, "--process", absl::StrCat(process)}, arguments));
      planned.payloads += NumberBehind(shown.out, "to other hosts ");
      planned.with_headers += NumberBehind(shown.out, "with headers ");
    }
    return planned;
  }
  static int64_t NumberBehind(const std::string& text, const std::string& words) {
    const std::vector<std::string> parts = absl::StrSplit(text, absl::MaxSplits(words, 1));
    int64_t number = 0;
    EXPECT_TRUE(parts.size() > 1 && absl::SimpleAtoi(parts[1].substr(0, parts[1].find(' ')), &number)) << text;
    return number;
  }

  // Seconds of a step of ddp_gpt.py on the first two hosts, a core each; `more`: arguments of it.
  double SecondsOfDdp(const std::string& python, const std::string& more = "") const {
    constexpr absl::Duration kLongest = absl::Minutes(5);
    std::vector<std::unique_ptr<ChildProcess>> ranks;
    for (int host = 0; host < 2; ++host) {
      auto rank = hosts_->Start(
          host,
          absl::StrCat("exec taskset --cpu-list ", host, " ", python, " ", SourceDir(), "/test/e2e/ddp_gpt.py ", host,
                       " ", hosts_->address(0), " ", work_.Path("ddp"), " ", more),
          work_.Path(absl::StrCat("ddp.log.", host)));
      EXPECT_OK(rank);
      if (rank.ok()) ranks.push_back(*std::move(rank));
    }
    for (const auto& rank : ranks) EXPECT_TRUE(rank->WaitForExit(kLongest)) << ReadFile(work_.Path("ddp.log.0"));
    double seconds = 0;
    EXPECT_TRUE(absl::SimpleAtod(ReadFile(work_.Path("ddp")), &seconds)) << ReadFile(work_.Path("ddp.log.0"));
    return seconds;
  }

  const Workspace work_;
  std::unique_ptr<Hosts> hosts_;
  std::string scheduler_;                                 // its address
  std::string allowed_ = work_.Path("");                  // what jobs may use
  const testing::TestDir secrets_;                        // where no daemon lets its jobs read
  std::string tls_;                                       // folder of certificates; empty: plain text
  bool core_each_ = false;                                // daemon i and its workers have core i to themselves
  std::string tokens_;                                    // file of them; empty: none
  std::vector<std::unique_ptr<RunningCommand>> servers_;  // end before their hosts
};

}  // namespace oneflow::e2e
