// What engines of several processes record together.
#include <thread>

#include "actor/engine.h"
#include "actor/trace/chrome_trace.h"
#include "actor/transport/peer_network.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "test/actor/test_device.h"
#include "test/actor/trace/chain.h"
#include "test/support/status_matchers.h"
#include "test/support/test_dir.h"

namespace oneflow {
namespace {

TEST(EngineProcessesTest, TraceIntoOneFile) {
  const TestDir dir;
  std::vector<std::unique_ptr<PeerNetwork>> networks;
  std::vector<std::string> addresses;
  for (int p = 0; p < 2; ++p) {
    ASSERT_OK_AND_ASSIGN(auto network, PeerNetwork::Create(p, 2, 3));
    addresses.push_back(network->address());
    networks.push_back(std::move(network));
  }
  absl::Status statuses[2];
  const auto run = [&](int p) -> absl::Status {
    OF_RETURN_IF_ERROR(networks[p]->Connect(addresses, absl::Seconds(20)));
    EngineOptions options;
    options.ops = &testing::TestOps();
    options.open_device = TestDevice::Open;
    options.on_fetch = [](Fetched) {};
    options.trace_bytes = 1 << 20;
    options.process = p;
    options.peers = networks[p].get();
    TestPlan plan = Chain({0, 0, 1, 1});
    OF_ASSIGN_OR_RETURN(auto engine, Engine::Create(plan.set(), std::move(options)));
    OF_RETURN_IF_ERROR(engine->Run("p", 0, 30));
    return engine->SaveTrace(dir.File("t.json"));
  };
  std::thread other([&] { statuses[1] = run(1); });
  statuses[0] = run(0);
  other.join();
  ASSERT_OK(statuses[0]);
  ASSERT_OK(statuses[1]);
  ASSERT_OK_AND_ASSIGN(const Trace trace, ReadChromeTrace(dir.File("t.json")));
  EXPECT_EQ(trace.acts.size(), 30u * (2 * testing::kMicroBatches + 4));
  EXPECT_EQ(trace.head.processes_size(), 2);
  ExpectSense(trace);
}

}  // namespace
}  // namespace oneflow
