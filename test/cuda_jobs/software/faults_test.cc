// What becomes of a run when devices fail, and of communicators when peers do not come or go: no wait is for ever.
#include <signal.h>

#include <atomic>
#include <cstdlib>
#include <thread>

#include "absl/time/clock.h"
#include "actor/collective/nccl_collectives.h"
#include "actor/transport/peer_network.h"
#include "gmock/gmock.h"
#include "kernels/device.h"
#include "kernels/tensor_arg.h"
#include "test/laws/layouts_law.h"
#include "test/support/cuda/software_device.h"
#include "test/support/names.h"
#include "tools/control/process/child.h"

namespace oneflow {
namespace {

constexpr absl::Duration kPromise = absl::Seconds(3);
constexpr absl::Duration kStart = absl::Seconds(30);  // of a process on a busy machine

class DeviceFaultsTest : public testing::LayoutsLaw {
 protected:
  void TearDown() override { software_cuda::ForgetErrors(); }

  absl::StatusOr<Job> JobOf(const std::string& mesh, int steps) {
    OF_ASSIGN_OR_RETURN(SourcedConfig sourced, ParseConfig(Mlp(), "law"));
    for (const std::string& one : {mesh, std::string("cluster.device=cuda"), absl::StrCat("train.steps=", steps)}) {
      OF_RETURN_IF_ERROR(ApplyOverride(one, sourced));
    }
    return MakeJob(std::move(sourced), JobKind::kTrain, ops_);
  }
};

// One device fails while others wait for it in collectives.
TEST_F(DeviceFaultsTest, ADeviceThatFailsEndsTheRun) {
  for (const int failing : {0, 1, 2}) {
    ASSERT_OK_AND_ASSIGN(Job job, JobOf("mesh={dp:3}", 100000000));
    ASSERT_OK_AND_ASSIGN(const pb::Program program, CompileToProgram(job, ops_));
    absl::Time failed = absl::InfiniteFuture();
    const absl::Status status = RunInPlace(job.spec, program, [&](const pb::JobEvent& event) {
                                  if (event.fetched().name() != "loss" || event.fetched().step() != 3) return;
                                  failed = absl::Now();
                                  software_cuda::FailDevice(failing);
                                }).status();
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kInternal,
                                 HasSubstr(absl::StrCat("rank ", failing, " (cuda:", failing, ")"))));
    EXPECT_LT(absl::Now() - failed, kPromise);
    software_cuda::ForgetErrors();
  }
}

// Of two steps every piece of work in turn, down to the last, which nothing on the device waits for.
TEST_F(DeviceFaultsTest, WhateverWorkFailsTheRunFails) {
  ASSERT_OK_AND_ASSIGN(Job job, JobOf("mesh={dp:1}", 2));
  ASSERT_OK_AND_ASSIGN(const pb::Program program, CompileToProgram(job, ops_));
  for (pb::Phase& phase : *job.spec.mutable_phases()) {  // the look at the weights behind the steps would fail too
    if (phase.has_train()) phase.mutable_train()->mutable_stop()->set_not_finite(false);
  }
  int64_t begin = 0, end = 0;
  const auto count = [&](const pb::JobEvent& event) {
    if (event.state().state() == pb::RUNNING) begin = software_cuda::WorkOf(0);
    if (event.has_phase_done()) end = software_cuda::WorkOf(0);
  };
  ASSERT_OK(RunInPlace(job.spec, program, count));
  const int64_t work = end - begin;
  ASSERT_GT(work, 50);
  int64_t last = 0;  // that failed
  for (int64_t failing = 1; failing <= work; failing += failing + 20 < work ? 7 : 1) {
    int64_t number = 0;
    const auto fail = [&](const pb::JobEvent& event) {
      if (event.state().state() != pb::RUNNING) return;
      number = software_cuda::WorkOf(0) + failing;
      software_cuda::FailDeviceAtWork(0, number);
    };
    const absl::Status status = RunInPlace(job.spec, program, fail).status();
    const bool came = software_cuda::WorkOf(0) >= number;  // runs differ in a few waits of one stream for another
    software_cuda::ForgetErrors();
    if (!came) continue;
    last = failing;
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kInternal, HasSubstr("rank 0 (cuda:0)")))
        << "work " << failing << " of " << work;
  }
  EXPECT_GT(last, work - 20);
}

// One whose device hangs in a kernel cannot wait for it: it ends with the first error, though peers have let go.
TEST_F(DeviceFaultsTest, AKernelThatHangsEndsTheProcessWithTheFirstError) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  ASSERT_OK_AND_ASSIGN(Job job, JobOf("mesh={dp:2}", 100000000));
  ASSERT_OK_AND_ASSIGN(const pb::Program program, CompileToProgram(job, ops_));
  job.spec.mutable_stall()->set_seconds(0.5);
  job.spec.mutable_stall()->set_abort(true);
  const absl::Time before = absl::Now();
  EXPECT_EXIT(
      {
        const auto hang = [&](const pb::JobEvent& event) {
          if (event.fetched().name() != "loss" || event.fetched().step() != 3) return;
          software_cuda::HangDeviceAtWork(1, software_cuda::WorkOf(1) + 10);
        };
        RunInPlace(job.spec, program, hang).status().IgnoreError();
        std::_Exit(2);
      },
      ::testing::ExitedWithCode(1), "error: nothing moved in process 0 for 0.5 s");
  EXPECT_LT(absl::Now() - before, kStart);
}

// Two processes with a device each, as one communicator; both live in this one.
class CommunicatorFaultsTest : public ::testing::Test {
 protected:
  CommunicatorFaultsTest() {
    for (const int rank : {0, 1}) {
      pb::Rank& to = *program_.add_ranks();
      to.set_process(rank);
      to.set_device(absl::StrCat("cuda:", rank));
      to_one_.add_ranks()->CopyFrom(to);
    }
    program_.add_communicators()->add_ranks(0);
    program_.mutable_communicators(0)->add_ranks(1);
    // The same ranks, both in process 0.
    to_one_.mutable_ranks(1)->set_process(0);
    *to_one_.add_communicators() = program_.communicators(0);
  }

  CollectiveCall AllReduce(int rank, const TensorArg& x, DeviceContext& device) const {
    return {.rank = rank, .in = x, .out = x, .stream = device.stream()};
  }

  pb::Program program_, to_one_;
};

TEST_F(CommunicatorFaultsTest, PeersThatDoNotComeAreWaitedForSoLongAndNoLonger) {
  const absl::Time before = absl::Now();
  EXPECT_THAT(MakeNcclCollectives(program_, 0, nullptr, absl::Milliseconds(300)).status(),
              StatusIs(absl::StatusCode::kUnavailable,
                       "communicator 0 of ranks 0, 1: not all of its ranks have come within 300ms: here are 0 "
                       "(cuda:0); missing may be 1 (process 1)"));
  EXPECT_GE(absl::Now() - before, absl::Milliseconds(300));
  EXPECT_LT(absl::Now() - before, kPromise);
}

// Of three the first and the last lack the same process; that in the middle comes.
TEST_F(CommunicatorFaultsTest, ACommunicatorThatWaitsHoldsUpNoOther) {
  pb::Program three = to_one_;
  three.add_ranks()->set_process(1);
  three.mutable_ranks(2)->set_device("cuda:2");
  three.clear_communicators();
  for (const std::vector<int>& ranks : std::vector<std::vector<int>>{{0, 2}, {0, 1}, {1, 2}}) {
    pb::Communicator& it = *three.add_communicators();
    for (const int rank : ranks) it.add_ranks(rank);
  }
  EXPECT_THAT(MakeNcclCollectives(three, 0, nullptr, absl::Milliseconds(300)).status(),
              StatusIs(absl::StatusCode::kUnavailable,
                       "communicator 0 of ranks 0, 2: not all of its ranks have come within 300ms: here are 0 "
                       "(cuda:0); missing may be 2 (process 1); likewise of communicators 2"));
}

// A rank that is not waited for any longer lets its device go on; later calls fail.
TEST_F(CommunicatorFaultsTest, AbortFreesADeviceThatWaitsForItsPeer) {
  ASSERT_OK_AND_ASSIGN(const auto collectives, MakeNcclCollectives(to_one_, 0, nullptr));
  std::string why;
  const auto device = MakeCudaDevice(0, &why);
  ASSERT_NE(device, nullptr) << why;
  ASSERT_EQ(device->BindThread(), nullptr);
  const std::vector<int64_t> dims = {4}, start = {0};
  const TensorArg x = {device->Allocate(16), DType::kFloat32, 1, 4, dims.data(), dims.data(), start.data()};
  ASSERT_EQ(collectives->Launch(AllReduce(0, x, *device)), nullptr);
  int event = 0;
  ASSERT_EQ(device->RecordEvent(&event), nullptr);
  std::atomic<bool> came = false;
  std::thread waits([&] {
    device->WaitEvent(event);
    came = true;
  });
  absl::SleepFor(absl::Milliseconds(100));
  EXPECT_FALSE(came) << "rank 1 has not made the call";
  EXPECT_OK(collectives->Check());
  const absl::Time before = absl::Now();
  collectives->Abort();
  waits.join();
  EXPECT_LT(absl::Now() - before, kPromise);
  EXPECT_STREQ(collectives->Launch(AllReduce(0, x, *device)), "the communicator was aborted");
}

// Calls on two communicators wait for the same peer, one behind the other's back. Whichever NCCL aborts first waits for
// the device, and so for the other.
TEST_F(CommunicatorFaultsTest, AbortEndsAllCommunicatorsOfADeviceAtOnce) {
  pb::Program twice = to_one_;
  pb::Communicator& other = *twice.add_communicators();
  for (const int rank : {1, 0}) other.add_ranks(rank);
  ASSERT_OK_AND_ASSIGN(const auto collectives, MakeNcclCollectives(twice, 0, nullptr));
  std::string why;
  const auto device = MakeCudaDevice(0, &why), second = MakeCudaDevice(0, &why);  // with a stream each
  ASSERT_NE(second, nullptr) << why;
  ASSERT_EQ(device->BindThread(), nullptr);
  const std::vector<int64_t> dims = {4}, start = {0};
  const TensorArg x = {device->Allocate(16), DType::kFloat32, 1, 4, dims.data(), dims.data(), start.data()};
  const TensorArg y = {second->Allocate(16), DType::kFloat32, 1, 4, dims.data(), dims.data(), start.data()};
  CollectiveCall call = AllReduce(0, x, *device);
  ASSERT_EQ(collectives->Launch(call), nullptr);
  call = AllReduce(0, y, *second);
  call.communicator = 1;
  ASSERT_EQ(collectives->Launch(call), nullptr);
  const absl::Time before = absl::Now();
  collectives->Abort();
  EXPECT_LT(absl::Now() - before, absl::Seconds(1)) << "it waits for no device";
  for (DeviceContext* const it : {device.get(), second.get()}) {
    int event = 0;
    ASSERT_EQ(it->RecordEvent(&event), nullptr);
    ASSERT_EQ(it->WaitEvent(event), nullptr);
  }
  EXPECT_LT(absl::Now() - before, kPromise);
}

// What process 1 of the next test does; alone it does nothing.
TEST_F(CommunicatorFaultsTest, IsAPeerIfToldSo) {
  const char* const address = std::getenv("ONEFLOW_TEST_PEER");
  if (address == nullptr) return;
  ASSERT_OK_AND_ASSIGN(const auto peers, PeerNetwork::Create(1, 2, /*attempt=*/1));
  ASSERT_OK(peers->Connect({address, ""}, kStart));
  ASSERT_OK_AND_ASSIGN(const auto collectives, MakeNcclCollectives(program_, 1, peers.get()));
  while (true) absl::SleepFor(absl::Seconds(1));
}

// Nothing but NCCL tells that it is gone.
TEST_F(CommunicatorFaultsTest, APeerThatDiesIsSeen) {
  ASSERT_OK_AND_ASSIGN(const auto peers, PeerNetwork::Create(0, 2, /*attempt=*/1));
  ChildOptions options;
  options.executable = "/proc/self/exe";
  options.arguments = {"peer", "--gtest_filter=CommunicatorFaultsTest.IsAPeerIfToldSo"};
  options.environment = {absl::StrCat("ONEFLOW_TEST_PEER=", peers->address()), "CUDA_VISIBLE_DEVICES=1"};
  ASSERT_OK_AND_ASSIGN(const auto peer, ChildProcess::Start(std::move(options), [](ChildExit) {}));
  ASSERT_OK(peers->Connect({"", ""}, kStart));
  ASSERT_OK_AND_ASSIGN(const auto collectives, MakeNcclCollectives(program_, 0, peers.get()));
  EXPECT_OK(collectives->Check());
  const absl::Time before = absl::Now();
  kill(peer->pid(), SIGKILL);
  absl::Status status;
  while (status.ok() && absl::Now() - before < kPromise) status = collectives->Check();
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kUnavailable, HasSubstr("communicator 0, rank 0 (cuda:0)")));
}

}  // namespace
}  // namespace oneflow
