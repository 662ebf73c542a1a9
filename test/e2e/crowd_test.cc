// A scheduler on one core with a crowd: daemons that are heard every half a second while many jobs wait and users go
// on asking. Not part of every test run, since it wants a core for the scheduler alone:
//
//   ONEFLOW_CROWD_DAEMONS=200 [ONEFLOW_CROWD_JOBS=1000] e2e_test --gtest_filter=CrowdTest.*
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <memory>
#include <regex>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "proto/control.grpc.pb.h"
#include "test/e2e/oneflow_command.h"
#include "test/support/status_matchers.h"
#include "test/tools/support/job_spec.h"
#include "tools/control/client.h"
#include "tools/control/process/child.h"

namespace oneflow::e2e {
namespace {

constexpr absl::Duration kHeartbeat = absl::Milliseconds(500);
constexpr absl::Duration kWatched = absl::Seconds(20);
constexpr char kLatest[] = "0.2";  // seconds, as a bucket of the metrics says it

int FromEnvironment(const char* name, int otherwise) {
  const char* const text = std::getenv(name);
  int value = otherwise;
  if (text != nullptr && !absl::SimpleAtoi(text, &value)) ADD_FAILURE() << name << " is '" << text << "'";
  return value;
}

// A daemon of two devices that is heard, over a connection of its own, and does nothing else.
class HeardDaemon {
 public:
  HeardDaemon(const std::string& scheduler, int number) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    channel_ = grpc::CreateCustomChannel(scheduler, grpc::InsecureChannelCredentials(), arguments);
    stream_ = pb::Scheduler::NewStub(channel_)->DaemonSession(&context_);
    pb::FromDaemon hello;
    hello.mutable_hello()->set_name(absl::StrCat("d", number));
    hello.mutable_hello()->set_host(absl::StrCat("h", number));
    hello.mutable_hello()->set_memory("m");
    hello.mutable_hello()->set_pid(number + 1);
    hello.mutable_hello()->set_cpu_devices(2);
    hello.mutable_hello()->set_incarnation(number + 1);
    pb::ToDaemon welcome;
    is_registered_ = stream_->Write(hello) && stream_->Read(&welcome) && welcome.has_welcome();
    thread_ = std::thread([this] { Beat(); });
  }
  ~HeardDaemon() {
    done_ = true;
    thread_.join();
    context_.TryCancel();
    stream_->Finish();
  }

  bool is_registered() const { return is_registered_; }

 private:
  void Beat() {
    pb::FromDaemon alive;
    alive.mutable_heartbeat();
    for (absl::Time next = absl::Now() + kHeartbeat; !done_; next += kHeartbeat) {
      absl::SleepFor(next - absl::Now());
      if (!stream_->Write(alive)) return;
    }
  }

  std::shared_ptr<grpc::Channel> channel_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<pb::FromDaemon, pb::ToDaemon>> stream_;
  bool is_registered_ = false;
  std::atomic<bool> done_ = false;
  std::thread thread_;
};

// Heartbeats that came, and those that came in time.
struct Heard {
  int64_t all = 0, in_time = 0;
};
Heard ReadHeard(const Workspace& work, const std::string& url) {
  const std::string metrics = work.Fetch(url, "metrics");
  Heard heard;
  const auto number = [&metrics](const std::string& name) {
    const std::string line = absl::StrCat("\n", name, " ");
    const size_t begin = metrics.find(line);
    return begin == metrics.npos ? -1 : std::atoll(metrics.c_str() + begin + line.size());
  };
  heard.all = number("oneflow_heartbeat_lateness_seconds_count");
  heard.in_time = number(absl::StrCat("oneflow_heartbeat_lateness_seconds_bucket{le=\"", kLatest, "\"}"));
  return heard;
}

TEST(CrowdTest, NoHeartbeatIsHeardLate) {
  const int num_daemons = FromEnvironment("ONEFLOW_CROWD_DAEMONS", 0);
  if (num_daemons == 0) GTEST_SKIP() << "ONEFLOW_CROWD_DAEMONS says how many daemons there are";
  const Workspace work;
  std::string address;
  const auto scheduler =
      work.Serve({"scheduler", "--address=127.0.0.1:0", "--db=" + work.Path("jobs.db"), "--metrics-port=0"}, address,
                 {"taskset", "-c", "0"});
  std::smatch url;
  const std::string said = scheduler->Errors();
  ASSERT_TRUE(std::regex_search(said, url, std::regex("metrics are at (http://[0-9.:]+/metrics)"))) << said;

  std::vector<std::unique_ptr<HeardDaemon>> daemons;
  for (int i = 0; i < num_daemons; ++i) {
    daemons.push_back(std::make_unique<HeardDaemon>(address, i));
    ASSERT_TRUE(daemons.back()->is_registered());
  }
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Client> client, Client::Connect(address));
  const pb::JobSpec job = testing::EmptyJob(/*processes=*/1, /*devices_per_process=*/3);  // more than any daemon has
  const int num_jobs = FromEnvironment("ONEFLOW_CROWD_JOBS", 1000);
  for (int i = 0; i < num_jobs; ++i) ASSERT_OK(client->Submit(job));

  const Heard before = ReadHeard(work, url[1].str());
  const absl::Time end = absl::Now() + kWatched;
  int asked = 0;
  for (int64_t oldest = 1; absl::Now() < end; ++oldest) {
    ASSERT_OK(client->Submit(job));
    ASSERT_OK(client->Cancel(oldest));
    if (++asked % 10 == 0) {
      ASSERT_OK(client->List());
    }
    absl::SleepFor(absl::Milliseconds(100));
  }
  const Heard after = ReadHeard(work, url[1].str());
  const int64_t all = after.all - before.all, late = all - (after.in_time - before.in_time);
  std::cout << all << " heartbeats, of which " << late << " came more than " << kLatest << " s late; " << asked
            << " jobs were submitted and cancelled meanwhile" << std::endl;
  EXPECT_GT(all, num_daemons * static_cast<int64_t>(kWatched / kHeartbeat) / 2);
  EXPECT_EQ(late, 0);
}

}  // namespace
}  // namespace oneflow::e2e
