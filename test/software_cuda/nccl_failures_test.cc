// NCCL among software devices when ranks die, stay away, leave, or do not do the same.
#include <nccl.h>

#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "test/software_cuda/device_kit.h"
#include "test/software_cuda/nccl_kit.h"
#include "test/support/cuda/memory.h"
#include "test/support/names.h"

namespace oneflow::software_cuda {
namespace {

class NcclFailuresTest : public DeviceTest {
 protected:
  // A sum of one element at this rank.
  static ncclResult_t Sum(const Ranks& ranks, int rank, DeviceArray<float>* array) {
    return ncclAllReduce(array->data(), array->data(), 1, ncclFloat32, ncclSum, ranks.comm(rank), ranks.stream(rank));
  }
};

// --- ranks that do not come ---

TEST_F(NcclFailuresTest, ACallThatOthersDoNotMakeWaits) {
  const Ranks ranks(2);
  auto a = ArrayOn<float>(0, {1}), b = ArrayOn<float>(1, {10});
  for (int i = 0; i < 2; ++i) EXPECT_EQ(Sum(ranks, 0, a.get()), ncclSuccess);
  EXPECT_EQ(Sum(ranks, 1, b.get()), ncclSuccess);
  EXPECT_EQ(cudaStreamSynchronize(ranks.stream(1)), cudaSuccess);
  EXPECT_TRUE(IsHeld(ranks.stream(0)));
  EXPECT_EQ(StateOf(ranks.comm(0)), ncclSuccess);
  EXPECT_EQ(Sum(ranks, 1, b.get()), ncclSuccess);
  EXPECT_EQ(cudaStreamSynchronize(ranks.stream(0)), cudaSuccess);
}

TEST_F(NcclFailuresTest, ASendWaitsForItsReceive) {
  Ranks ranks(2);
  auto a = ArrayOn<float>(0, {1}), b = ArrayOn<float>(1, {2});
  EXPECT_EQ(ncclSend(a->data(), 1, ncclFloat32, 1, ranks.comm(0), ranks.stream(0)), ncclSuccess);
  EXPECT_EQ(ncclSend(b->data(), 1, ncclFloat32, 0, ranks.comm(1), ranks.stream(1)), ncclSuccess);
  for (const int rank : {0, 1}) EXPECT_TRUE(IsHeld(ranks.stream(rank)));
  for (const int rank : {0, 1}) ranks.Abort(rank);
}

TEST_F(NcclFailuresTest, ASetUpToWhichOthersDoNotComeIsAborted) {
  ncclConfig_t config = Blocking(false);
  ncclComm_t comm = nullptr;
  EXPECT_EQ(ncclCommInitRankConfig(&comm, 2, NewId(), 0, &config), ncclInProgress);
  DoOtherThings();
  EXPECT_EQ(StateOf(comm), ncclInProgress);
  EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
  EXPECT_EQ(ncclCommAbort(comm), ncclInvalidArgument) << "it is gone";
}

TEST_F(NcclFailuresTest, ASetUpFailsWithTheProcessThatMadeTheId) {
  RankProcess other("make an id and wait", {}, 1, 1);
  const ncclUniqueId id = other.AwaitSign();
  ncclConfig_t config = Blocking(false);
  ncclComm_t comm = nullptr;
  EXPECT_EQ(ncclCommInitRankConfig(&comm, 2, id, 0, &config), ncclInProgress);
  EXPECT_EQ(StateOf(comm), ncclInProgress);
  other.Kill();
  AwaitState(comm, ncclRemoteError);
  EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
}

// --- abort ---

TEST_F(NcclFailuresTest, AbortingLetsAStreamGoThatWaitsAndWhatComesLaterDoesNothing) {
  Ranks ranks(2);
  auto a = ArrayOn<float>(0, {1});
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Sum(ranks, 0, a.get()), ncclSuccess);
  bool ran = false;
  Enqueue(ranks.stream(0), "what is behind", [&ran] { ran = true; });
  EXPECT_TRUE(IsHeld(ranks.stream(0)));
  ranks.Abort(0);
  EXPECT_EQ(cudaStreamSynchronize(ranks.stream(0)), cudaSuccess);
  EXPECT_TRUE(ran);
  EXPECT_THAT(a->Get(), ElementsAre(1));
  EXPECT_EQ(StateOf(ranks.comm(1)), ncclSuccess) << "others are not told";
}

// It frees buffers, and freeing waits for all streams of the device.
TEST_F(NcclFailuresTest, AbortingWaitsForTheDevice) {
  Ranks ranks(2);
  auto a = ArrayOn<float>(0, {1});
  const Stream other;
  std::promise<void> open;
  Enqueue(other.get(), "a gate", [opened = open.get_future().share()] { opened.wait(); });
  EXPECT_EQ(Sum(ranks, 0, a.get()), ncclSuccess);
  auto aborted = std::async(std::launch::async, [&] { ranks.Abort(0); });
  EXPECT_EQ(cudaStreamSynchronize(ranks.stream(0)), cudaSuccess) << "its own work ends at once";
  DoOtherThings();
  EXPECT_EQ(aborted.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
  open.set_value();
  aborted.get();
}

// Each of two communicators has a call that the peer does not make. Aborted one after the other, the first would wait
// for ever behind the second.
TEST_F(NcclFailuresTest, CommunicatorsOfADeviceThatAllWaitAreAbortedTogether) {
  Ranks first(2), second(2);
  auto a = ArrayOn<float>(0, {1}), b = ArrayOn<float>(0, {1});
  EXPECT_EQ(Sum(first, 0, a.get()), ncclSuccess);
  EXPECT_EQ(Sum(second, 0, b.get()), ncclSuccess);
  auto aborted = std::async(std::launch::async, [&] { first.Abort(0); });
  EXPECT_EQ(cudaStreamSynchronize(first.stream(0)), cudaSuccess);
  DoOtherThings();
  EXPECT_EQ(aborted.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
  second.Abort(0);
  aborted.get();
}

TEST_F(NcclFailuresTest, ASetUpThatFindsNoMemoryFails) {
  size_t free = 0, total = 0;
  ASSERT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
  ASSERT_TRUE(HoldOn(0, free - kNcclRankBytes / 2));
  ncclConfig_t config = Blocking(false);
  ncclComm_t comm = nullptr;
  EXPECT_EQ(ncclCommInitRankConfig(&comm, 1, NewId(), 0, &config), ncclInProgress);
  EXPECT_EQ(Settled(comm), ncclUnhandledCudaError);
  EXPECT_THAT(ncclGetLastError(comm), HasSubstr("out of memory"));
  EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
  LetGoOn(0, free - kNcclRankBytes / 2);
  EXPECT_EQ(ncclCommInitRankConfig(&comm, 1, NewId(), 0, &config), ncclInProgress);
  EXPECT_EQ(Settled(comm), ncclSuccess);
  size_t less = 0;
  ASSERT_EQ(cudaMemGetInfo(&less, &total), cudaSuccess);
  EXPECT_EQ(free - less, kNcclRankBytes);
  EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
  ASSERT_EQ(cudaMemGetInfo(&less, &total), cudaSuccess);
  EXPECT_EQ(less, free);
}

TEST_F(NcclFailuresTest, AbortingInTheMiddleOfALargeTransfer) {
  Ranks ranks(2);
  const std::vector<float> values(1 << 20);
  auto a = ArrayOn(0, values), b = ArrayOn(1, values);
  EXPECT_EQ(ncclRecv(b->data(), values.size(), ncclFloat32, 0, ranks.comm(1), ranks.stream(1)), ncclSuccess);
  EXPECT_EQ(ncclSend(a->data(), values.size(), ncclFloat32, 1, ranks.comm(0), ranks.stream(0)), ncclSuccess);
  ranks.Abort(1);
  EXPECT_EQ(cudaStreamSynchronize(ranks.stream(1)), cudaSuccess);
  ranks.Abort(0);
  EXPECT_EQ(cudaStreamSynchronize(ranks.stream(0)), cudaSuccess);
}

TEST_F(NcclFailuresTest, AbortingEndsAFinalizeAndADestroyThatWait) {
  Ranks ranks(2);
  auto a = ArrayOn<float>(0, {1});
  EXPECT_EQ(Sum(ranks, 0, a.get()), ncclSuccess);
  auto finalized = std::async(std::launch::async, [&] { return ncclCommFinalize(ranks.comm(1)); });
  auto destroyed = std::async(std::launch::async, [&] { return ncclCommDestroy(ranks.comm(0)); });
  EXPECT_TRUE(IsHeld(ranks.stream(0)));
  ranks.Abort(0);
  EXPECT_EQ(destroyed.get(), ncclSuccess);
  ranks.Abort(1);
  EXPECT_EQ(finalized.get(), ncclSuccess);
}

// --- ranks that die ---

TEST_F(NcclFailuresTest, ADeadRankIsToldToThoseWhoAskAndItsPeersWaitOn) {
  const ncclUniqueId id = NewId();
  RankProcess other("join and wait", id, 1, 1);
  ncclComm_t comm = nullptr;
  ASSERT_EQ(ncclCommInitRank(&comm, 2, id, 0), ncclSuccess);
  other.AwaitSign();
  auto a = ArrayOn<float>(0, {1});
  const Stream stream;
  const auto sum = [&] { return ncclAllReduce(a->data(), a->data(), 1, ncclFloat32, ncclSum, comm, stream.get()); };
  EXPECT_EQ(sum(), ncclSuccess);
  EXPECT_TRUE(IsHeld(stream.get()));
  EXPECT_EQ(StateOf(comm), ncclSuccess);
  other.Kill();
  EXPECT_EQ(StateOf(comm), ncclRemoteError);
  EXPECT_THAT(ncclGetLastError(comm), HasSubstr("rank 0 of 2: rank 1 has ended"));
  EXPECT_TRUE(IsHeld(stream.get()));
  EXPECT_EQ(sum(), ncclRemoteError);
  EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream.get()), cudaSuccess);
}

TEST_F(NcclFailuresTest, ARankThatLeavesInOrderIsNotDead) {
  const ncclUniqueId id = NewId();
  RankProcess other("join and leave", id, 1, 1);
  ncclComm_t comm = nullptr;
  ASSERT_EQ(ncclCommInitRank(&comm, 2, id, 0), ncclSuccess);
  EXPECT_EQ(other.Join(), 0);
  EXPECT_EQ(StateOf(comm), ncclSuccess);
  EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
}

// --- devices that fail ---

TEST_F(NcclFailuresTest, AFailedDeviceWaitsForNobody) {
  const Ranks ranks(2);
  auto a = ArrayOn<float>(0, {1});
  EXPECT_EQ(Sum(ranks, 0, a.get()), ncclSuccess);
  EXPECT_EQ(Sum(ranks, 0, a.get()), ncclSuccess);
  EXPECT_TRUE(IsHeld(ranks.stream(0)));
  const Stream other;
  Enqueue(other.get(), "work", [] { Report("does wrong"); });
  EXPECT_EQ(cudaStreamSynchronize(ranks.stream(0)), cudaErrorIllegalAddress);
  EXPECT_EQ(Sum(ranks, 0, a.get()), ncclUnhandledCudaError);
  EXPECT_EQ(StateOf(ranks.comm(0)), ncclSuccess);
  EXPECT_THAT(TakeDefects(), ElementsAre("work: does wrong"));
}

TEST_F(NcclFailuresTest, OperandsLieOnTheDevice) {
  const Ranks ranks(2);
  auto a = ArrayOn<float>(0, {1, 2}), far = ArrayOn<float>(1, {1});
  float host = 1;
  const auto defects = [&](const float* in, float* out) {
    EXPECT_EQ(ncclAllReduce(in, out, 1, ncclFloat32, ncclSum, ranks.comm(0), ranks.stream(0)), ncclSuccess);
    EXPECT_EQ(cudaStreamSynchronize(ranks.stream(0)), cudaErrorIllegalAddress);
    ForgetErrors();
    return TakeDefects();
  };
  EXPECT_THAT(defects(&host, a->data()),
              ElementsAre("rank 0 of 2, call 1: all-reduce of 1 float32, sum: the input, 4 bytes, do not lie in an "
                          "allocation"));
  EXPECT_THAT(defects(a->data(), a->data() + 2), ElementsAre(HasSubstr("call 2: all-reduce of 1 float32, sum: the "
                                                                       "output, 4 bytes, do not lie in")));
  EXPECT_THAT(defects(a->data(), far->data()), ElementsAre(HasSubstr("lie on device 1, the work is on 0")));
}

// --- ranks at odds ---

struct Odds {
  std::function<ncclResult_t(float*data, ncclComm_t comm, cudaStream_t stream)> one, other;
  std::string one_is, other_is;
};

TEST_F(NcclFailuresTest, RanksThatDoNotMakeTheSameCallAreReported) {
  const auto sum = [](size_t count, ncclRedOp_t reduction = ncclSum, ncclDataType_t type = ncclFloat32) {
    return [=](float* data, ncclComm_t comm, cudaStream_t stream) {
      return ncclAllReduce(data, data, count, type, reduction, comm, stream);
    };
  };
  const auto broadcast = [](int root) {
    return [=](float* data, ncclComm_t comm, cudaStream_t stream) {
      return ncclBroadcast(data, data, 8, ncclFloat32, root, comm, stream);
    };
  };
  const auto gather = [](float* data, ncclComm_t comm, cudaStream_t stream) {
    return ncclAllGather(data, data + 8, 8, ncclFloat32, comm, stream);
  };
  const auto send = [](float* data, ncclComm_t comm, cudaStream_t stream) {
    return ncclSend(data, 8, ncclFloat32, 1, comm, stream);
  };
  const auto receive = [](size_t count) {
    return [=](float* data, ncclComm_t comm, cudaStream_t stream) {
      return ncclRecv(data, count, ncclFloat32, 0, comm, stream);
    };
  };
  const auto group_of_two = [&](float* data, ncclComm_t comm, cudaStream_t stream) {
    ncclGroupStart();
    for (const int at : {0, 8}) EXPECT_EQ(sum(8)(data + at, comm, stream), ncclSuccess);
    return ncclGroupEnd();
  };
  const std::string sums = "all-reduce of 8 float32, sum";
  const std::vector<Odds> cases = {
      {gather, sum(8), "all-gather of 8 float32", sums},
      {group_of_two, sum(8), sums + ", 1 of 2 in a group", sums},
      {sum(7), sum(8), "all-reduce of 7 float32, sum", sums},
      {sum(8, ncclMax), sum(8), "all-reduce of 8 float32, max", sums},
      {sum(8, ncclSum, ncclInt32), sum(8), "all-reduce of 8 int32, sum", sums},
      {broadcast(0), broadcast(1), "broadcast of 8 float32 from rank 0", "broadcast of 8 float32 from rank 1"},
      {send, receive(9), "send of 8 float32 to rank 1", "receive of 9 float32 from rank 0"},
      {send, sum(8), "send of 8 float32 to rank 1", sums},
      {sum(8), receive(8), sums, "receive of 8 float32 from rank 0"}};
  for (const Odds& odds : cases) {
    const Ranks ranks(2);
    auto a = ArrayOn<float>(0, std::vector<float>(24, 1)), b = ArrayOn<float>(1, std::vector<float>(24, 2));
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(sum(8)(a->data(), ranks.comm(0), ranks.stream(0)), ncclSuccess);
      EXPECT_EQ(sum(8)(b->data(), ranks.comm(1), ranks.stream(1)), ncclSuccess);
    }
    EXPECT_EQ(odds.one(a->data(), ranks.comm(0), ranks.stream(0)), ncclSuccess);
    EXPECT_EQ(odds.other(b->data(), ranks.comm(1), ranks.stream(1)), ncclSuccess);
    for (const int rank : {0, 1}) {
      EXPECT_EQ(cudaStreamSynchronize(ranks.stream(rank)), cudaSuccess);
      EXPECT_EQ(StateOf(ranks.comm(rank)), ncclInvalidUsage);
    }
    EXPECT_THAT(TakeDefects(),
                UnorderedElementsAre("rank 0 of 2, call 3: " + odds.one_is + "; rank 1 is at " + odds.other_is,
                                     "rank 1 of 2, call 3: " + odds.other_is + "; rank 0 is at " + odds.one_is));
    EXPECT_EQ(sum(8)(a->data(), ranks.comm(0), ranks.stream(0)), ncclInvalidUsage) << "it stays";
  }
}

TEST_F(NcclFailuresTest, RanksThatWaitForOthersAtOddsAreToldToo) {
  const Ranks ranks(3);
  std::vector<std::unique_ptr<DeviceArray<float>>> arrays;
  for (const int rank : {0, 1, 2}) arrays.push_back(ArrayOn<float>(rank, {1}));
  for (const int rank : {0, 1}) EXPECT_EQ(Sum(ranks, rank, arrays[rank].get()), ncclSuccess);
  EXPECT_EQ(ncclSend(arrays[2]->data(), 1, ncclFloat32, 0, ranks.comm(2), ranks.stream(2)), ncclSuccess);
  for (const int rank : {0, 1, 2}) {
    EXPECT_EQ(cudaStreamSynchronize(ranks.stream(rank)), cudaSuccess);
    EXPECT_EQ(StateOf(ranks.comm(rank)), ncclInvalidUsage);
  }
  EXPECT_THAT(TakeDefects(),
              ::testing::Contains(HasSubstr(
                  "rank 0 of 3, call 1: all-reduce of 1 float32, sum; rank 2 is at send of 1 float32 to rank 0")));
  EXPECT_THAT(arrays[1]->Get(), ElementsAre(1));
}

}  // namespace
}  // namespace oneflow::software_cuda
