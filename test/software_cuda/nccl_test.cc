// NCCL among software devices: what its calls compute, how ranks meet, what runs beside what.
#include <nccl.h>

#include <chrono>
#include <future>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "test/software_cuda/device_kit.h"
#include "test/software_cuda/nccl_calls.h"
#include "test/software_cuda/nccl_kit.h"
#include "test/support/names.h"

namespace oneflow::software_cuda {
namespace {

using NcclTest = DeviceTest;

// --- results ---

TEST_F(NcclTest, EveryCallAmongThreads) {
  for (const int num_ranks : {1, 2, 3, 4}) {
    const ncclUniqueId id = NewId();
    std::vector<std::vector<std::string>> wrong(num_ranks);
    std::vector<std::thread> ranks;
    for (int rank = 0; rank < num_ranks; ++rank) {
      ranks.emplace_back([&, rank] {
        ncclComm_t comm = nullptr;
        EXPECT_EQ(cudaSetDevice(rank), cudaSuccess);
        EXPECT_EQ(ncclCommInitRank(&comm, num_ranks, id, rank), ncclSuccess);
        wrong[rank] = WrongResults(num_ranks, rank, comm);
        EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
      });
    }
    for (std::thread& rank : ranks) rank.join();
    EXPECT_THAT(wrong, Each(IsEmpty()));
  }
}

TEST_F(NcclTest, EveryCallAmongProcesses) {
  const ncclUniqueId id = NewId();
  RankProcess other("make every call", id, 1, 1);
  ncclComm_t comm = nullptr;
  ASSERT_EQ(ncclCommInitRank(&comm, 2, id, 0), ncclSuccess);
  EXPECT_THAT(WrongResults(2, 0, comm), IsEmpty());
  EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
  EXPECT_EQ(other.Join(), 0);
}

// The all-reduce of one element per rank, at every rank.
template <typename T>
std::vector<T> Sums(const std::vector<T>& addends, ncclDataType_t type) {
  const int num_ranks = static_cast<int>(addends.size());
  const Ranks ranks(num_ranks);
  std::vector<std::unique_ptr<DeviceArray<T>>> arrays;
  for (int rank = 0; rank < num_ranks; ++rank) {
    arrays.push_back(ArrayOn<T>(rank, {addends[rank]}));
    T* const data = arrays[rank]->data();
    EXPECT_EQ(ncclAllReduce(data, data, 1, type, ncclSum, ranks.comm(rank), ranks.stream(rank)), ncclSuccess);
  }
  std::vector<T> sums;
  for (int rank = 0; rank < num_ranks; ++rank) {
    EXPECT_EQ(cudaStreamSynchronize(ranks.stream(rank)), cudaSuccess);
    sums.push_back(arrays[rank]->Get()[0]);
  }
  return sums;
}

TEST_F(NcclTest, SumsAreOfTheFirstRankToTheLastAndRoundedEachTime) {
  EXPECT_THAT(Sums<float>({1e8f, -1e8f, 1, 2}, ncclFloat32), Each(3));
  EXPECT_THAT(Sums<float>({2, 1, -1e8f, 1e8f}, ncclFloat32), Each(0)) << "3 - 1e8 is -1e8";
  EXPECT_THAT(Sums<int32_t>({INT32_MAX, 1, 1}, ncclInt32), Each(INT32_MIN + 1)) << "integers wrap around";
  std::vector<__nv_bfloat16> addends = {__float2bfloat16_rn(256), __float2bfloat16_rn(1), __float2bfloat16_rn(1)};
  for (const __nv_bfloat16 sum : Sums(addends, ncclBfloat16)) EXPECT_EQ(__bfloat162float(sum), 256);
}

// --- groups and orders ---

// Enough that no socket holds it.
constexpr size_t kLarge = size_t{2} << 20;

TEST_F(NcclTest, LargeSendsBothWaysInAGroupDoNotWaitForOneAnother) {
  constexpr int kNumRanks = 3;
  const Ranks ranks(kNumRanks);
  std::vector<std::unique_ptr<DeviceArray<int32_t>>> ins, outs;
  for (int rank = 0; rank < kNumRanks; ++rank) {
    std::vector<int32_t> values(kLarge / sizeof(int32_t));
    std::iota(values.begin(), values.end(), rank << 24);
    ins.push_back(ArrayOn(rank, values));
    outs.push_back(ArrayOn(rank, std::vector<int32_t>(kNumRanks * values.size())));
    const size_t count = values.size();
    ncclGroupStart();
    for (const int peer :
         {(rank + 1) % kNumRanks, (rank + 2) % kNumRanks}) {  // twice: sent in an order, received in it
      ncclSend(ins[rank]->data(), count / 2, ncclInt32, peer, ranks.comm(rank), ranks.stream(rank));
      ncclSend(ins[rank]->data() + count / 2, count - count / 2, ncclInt32, peer, ranks.comm(rank), ranks.stream(rank));
    }
    for (int peer = 0; peer < kNumRanks; ++peer) {
      int32_t* const out = outs[rank]->data() + peer * count;
      if (peer == rank) continue;
      ncclRecv(out, count / 2, ncclInt32, peer, ranks.comm(rank), ranks.stream(rank));
      ncclRecv(out + count / 2, count - count / 2, ncclInt32, peer, ranks.comm(rank), ranks.stream(rank));
    }
    EXPECT_EQ(ncclGroupEnd(), ncclSuccess);
  }
  for (int rank = 0; rank < kNumRanks; ++rank) {
    EXPECT_EQ(cudaStreamSynchronize(ranks.stream(rank)), cudaSuccess);
    const std::vector<int32_t> got = outs[rank]->Get();
    const size_t count = got.size() / kNumRanks;
    for (int peer = 0; peer < kNumRanks; ++peer) {
      if (peer == rank) continue;
      const std::vector<int32_t> of_peer(got.begin() + peer * count, got.begin() + (peer + 1) * count);
      EXPECT_TRUE(of_peer == ins[peer]->Get()) << "rank " << rank << " from " << peer;
    }
  }
}

TEST_F(NcclTest, AGroupHasCallsOfSeveralCommunicatorsAndCollectivesBesideSends) {
  const Ranks first(2), second(2);
  auto a = ArrayOn<float>(0, {1, 2, 0}), b = ArrayOn<float>(1, {3, 4, 0});
  ncclGroupStart();
  ncclAllReduce(a->data(), a->data(), 1, ncclFloat32, ncclSum, first.comm(0), first.stream(0));
  ncclSend(a->data() + 1, 1, ncclFloat32, 1, first.comm(0), first.stream(0));
  ncclRecv(b->data() + 2, 1, ncclFloat32, 0, first.comm(1), first.stream(1));  // collectives go first all the same
  ncclAllReduce(b->data(), b->data(), 1, ncclFloat32, ncclSum, first.comm(1), first.stream(1));
  ncclSend(b->data() + 1, 1, ncclFloat32, 0, second.comm(1), second.stream(1));
  ncclRecv(a->data() + 2, 1, ncclFloat32, 1, second.comm(0), second.stream(0));
  EXPECT_EQ(cudaStreamQuery(first.stream(0)), cudaSuccess) << "nothing begins before the group ends";
  EXPECT_EQ(ncclGroupEnd(), ncclSuccess);
  for (const Ranks* ranks : {&first, &second}) {
    for (const int rank : {0, 1}) EXPECT_EQ(cudaStreamSynchronize(ranks->stream(rank)), cudaSuccess);
  }
  EXPECT_THAT(a->Get(), ElementsAre(4, 2, 4));
  EXPECT_THAT(b->Get(), ElementsAre(4, 4, 2));
}

TEST_F(NcclTest, AnErrorInAGroupIsTheGroups) {
  const Ranks ranks(2);
  auto a = ArrayOn<float>(0, {1});
  ncclGroupStart();
  EXPECT_EQ(ncclSend(a->data(), 1, ncclFloat32, 1, ranks.comm(0), ranks.stream(0)), ncclSuccess);
  EXPECT_EQ(ncclSend(a->data(), 1, ncclFloat32, 2, ranks.comm(0), ranks.stream(0)), ncclInvalidArgument);
  EXPECT_THAT(ncclGetLastError(nullptr), HasSubstr("rank 2 of 2 does not exist"));
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidArgument);
  EXPECT_EQ(cudaStreamSynchronize(ranks.stream(0)), cudaSuccess) << "nothing was begun";
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage) << "there is no group";
}

// What a rank adds twice on two streams comes in the order of the calls, though the first stream is held.
TEST_F(NcclTest, WorkOfACommunicatorRunsInTheOrderOfItsCallsOnWhateverStreams) {
  const Ranks ranks(2);
  const Stream other;  // of device 0
  auto a = ArrayOn<float>(0, {1}), b = ArrayOn<float>(1, {10});
  std::promise<void> open;
  Enqueue(ranks.stream(0), "a gate", [opened = open.get_future().share()] { opened.wait(); });
  const auto add = [](float* data, ncclComm_t comm, cudaStream_t stream) {
    return ncclAllReduce(data, data, 1, ncclFloat32, ncclSum, comm, stream);
  };
  EXPECT_EQ(add(a->data(), ranks.comm(0), ranks.stream(0)), ncclSuccess);
  EXPECT_EQ(add(a->data(), ranks.comm(0), other.get()), ncclSuccess);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(add(b->data(), ranks.comm(1), ranks.stream(1)), ncclSuccess);
  EXPECT_TRUE(IsHeld(other.get()));
  open.set_value();
  EXPECT_EQ(cudaStreamSynchronize(other.get()), cudaSuccess);
  EXPECT_THAT(a->Get(), ElementsAre(22));
}

// --- setting up and ending ---

TEST_F(NcclTest, SetUpWithoutBlockingIsInProgressUntilAllAreThere) {
  const ncclUniqueId id = NewId();
  ncclConfig_t config = Blocking(false);
  ncclComm_t first = nullptr, second = nullptr;
  EXPECT_EQ(ncclCommInitRankConfig(&first, 2, id, 0, &config), ncclInProgress);
  EXPECT_EQ(StateOf(first), ncclInProgress);
  auto a = ArrayOn<float>(0, {1}), b = ArrayOn<float>(1, {2});
  const Stream stream;
  const auto send = [&] { return ncclSend(a->data(), 1, ncclFloat32, 1, first, stream.get()); };
  EXPECT_EQ(send(), ncclInvalidArgument) << "it is not ready";
  EXPECT_EQ(ncclCommDestroy(first), ncclInvalidArgument);
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  EXPECT_EQ(ncclCommInitRankConfig(&second, 2, id, 1, &config), ncclInProgress);
  const Stream other;
  EXPECT_EQ(Settled(first), ncclSuccess);
  EXPECT_EQ(Settled(second), ncclSuccess);
  EXPECT_EQ(send(), ncclInProgress) << "calls of such communicators are put on their stream later";
  EXPECT_EQ(Settled(first), ncclSuccess);
  EXPECT_TRUE(IsHeld(stream.get())) << "it is there when the state says so";
  EXPECT_EQ(ncclRecv(b->data(), 1, ncclFloat32, 0, second, other.get()), ncclInProgress);
  EXPECT_EQ(Settled(second), ncclSuccess);
  EXPECT_EQ(cudaStreamSynchronize(other.get()), cudaSuccess);
  EXPECT_THAT(b->Get(), ElementsAre(1));
  EXPECT_EQ(ncclCommDestroy(first), ncclSuccess);
  EXPECT_EQ(ncclCommDestroy(second), ncclSuccess);
}

TEST_F(NcclTest, SetUpThatBlocksWaitsForTheOthers) {
  const ncclUniqueId id = NewId();
  const auto join = [&](int rank) {
    ncclComm_t comm = nullptr;
    EXPECT_EQ(cudaSetDevice(rank), cudaSuccess);
    EXPECT_EQ(ncclCommInitRank(&comm, 2, id, rank), ncclSuccess);
    EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
  };
  auto first = std::async(std::launch::async, join, 0);
  DoOtherThings();
  EXPECT_EQ(first.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
  join(1);
  first.get();
}

TEST_F(NcclTest, FinalizingWaitsForAll) {
  Ranks ranks(2, false);
  EXPECT_EQ(ncclCommFinalize(ranks.comm(0)), ncclInProgress);
  DoOtherThings();
  EXPECT_EQ(StateOf(ranks.comm(0)), ncclInProgress);
  EXPECT_EQ(ncclCommFinalize(ranks.comm(1)), ncclInProgress);
  for (const int rank : {0, 1}) EXPECT_EQ(Settled(ranks.comm(rank)), ncclSuccess);
  auto a = ArrayOn<float>(0, {1});
  EXPECT_EQ(ncclSend(a->data(), 1, ncclFloat32, 1, ranks.comm(0), ranks.stream(0)), ncclInvalidArgument);
  const Ranks blocking(2);
  ncclGroupStart();
  for (const int rank : {0, 1}) EXPECT_EQ(ncclCommFinalize(blocking.comm(rank)), ncclSuccess);
  EXPECT_EQ(ncclGroupEnd(), ncclSuccess);
}

TEST_F(NcclTest, DestroyingWaitsForWorkOfTheRank) {
  const ncclUniqueId id = NewId();
  ncclComm_t comms[2] = {};
  ncclGroupStart();
  for (const int rank : {0, 1}) {
    ASSERT_EQ(cudaSetDevice(rank), cudaSuccess);
    ncclCommInitRank(&comms[rank], 2, id, rank);
  }
  ASSERT_EQ(ncclGroupEnd(), ncclSuccess);
  auto a = ArrayOn<float>(0, {1}), b = ArrayOn<float>(1, {2});
  const Stream other;
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  const Stream stream;
  EXPECT_EQ(ncclSend(a->data(), 1, ncclFloat32, 1, comms[0], stream.get()), ncclSuccess);
  auto destroyed = std::async(std::launch::async, [&] { return ncclCommDestroy(comms[0]); });
  EXPECT_TRUE(IsHeld(stream.get()));
  EXPECT_EQ(destroyed.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
  EXPECT_EQ(ncclRecv(b->data(), 1, ncclFloat32, 0, comms[1], other.get()), ncclSuccess);
  EXPECT_EQ(destroyed.get(), ncclSuccess);
  EXPECT_EQ(ncclCommDestroy(comms[1]), ncclSuccess);
  EXPECT_EQ(ncclCommDestroy(comms[1]), ncclInvalidArgument) << "it is gone";
}

TEST_F(NcclTest, RanksDoNotShareADevice) {
  const ncclUniqueId id = NewId();
  ncclComm_t comms[2] = {};
  ncclGroupStart();
  for (const int rank : {0, 1}) EXPECT_EQ(ncclCommInitRank(&comms[rank], 2, id, rank), ncclSuccess);
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage);
  EXPECT_THAT(ncclGetLastError(nullptr), HasSubstr("ranks 0 and 1 are both on device 0"));
  EXPECT_THAT(comms, Each(nullptr));
}

TEST_F(NcclTest, RanksOfDifferentHostsHaveDevicesOfTheirOwn) {
  for (const bool other_host : {false, true}) {
    const ncclUniqueId id = NewId();
    RankProcess other("tell what joining says", id, 1, 0, other_host ? "another machine" : "");
    ncclComm_t comm = nullptr;
    const ncclResult_t expected = other_host ? ncclSuccess : ncclInvalidUsage;
    EXPECT_EQ(ncclCommInitRank(&comm, 2, id, 0), expected);
    EXPECT_EQ(other.Join(), expected);
    EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
  }
}

TEST_F(NcclTest, WhatCannotBeIsRefused) {
  ncclComm_t comm = nullptr;
  EXPECT_EQ(ncclCommInitRank(&comm, 2, NewId(), 2), ncclInvalidArgument);
  EXPECT_EQ(ncclCommInitRank(&comm, 2, {}, 0), ncclRemoteError) << "nobody made this id";
  ncclConfig_t config = {};
  EXPECT_EQ(ncclCommInitRankConfig(&comm, 2, NewId(), 0, &config), ncclInvalidArgument);
  const Ranks ranks(2);
  auto a = ArrayOn<float>(0, {1});
  float* const data = a->data();
  const auto gather = [&](ncclDataType_t type, ncclComm_t of, cudaStream_t stream) {
    return ncclAllGather(data, data, 1, type, of, stream);
  };
  EXPECT_EQ(gather(ncclFloat32, ranks.comm(0), ranks.stream(1)), ncclInvalidUsage) << "a stream of another device";
  EXPECT_EQ(gather(static_cast<ncclDataType_t>(3), ranks.comm(0), ranks.stream(0)), ncclInvalidArgument);
  EXPECT_EQ(gather(ncclFloat32, nullptr, ranks.stream(0)), ncclInvalidArgument);
  EXPECT_EQ(ncclSend(data, 1, ncclFloat32, 0, ranks.comm(0), ranks.stream(0)), ncclInvalidUsage) << "to itself";
  EXPECT_EQ(ncclBroadcast(data, data, 1, ncclFloat32, -1, ranks.comm(0), ranks.stream(0)), ncclInvalidArgument);
  EXPECT_EQ(ncclAllGather(data, data, 0, ncclFloat32, ranks.comm(0), ranks.stream(0)), ncclSuccess) << "nothing to do";
  EXPECT_EQ(cudaStreamSynchronize(ranks.stream(0)), cudaSuccess);
}

}  // namespace
}  // namespace oneflow::software_cuda
