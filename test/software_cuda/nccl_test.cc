// NCCL among software devices: what its calls compute, and when they wait.
#include <nccl.h>

#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "test/software_cuda/device_kit.h"
#include "test/software_cuda/nccl_calls.h"

namespace oneflow::software_cuda {
namespace {

using ::testing::IsEmpty;

using NcclTest = DeviceTest;

TEST_F(NcclTest, EveryCallAmongThreads) {
  for (const int num_ranks : {2, 3, 4}) {
    ncclUniqueId id;
    ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
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
    for (const auto& of_rank : wrong) EXPECT_THAT(of_rank, IsEmpty());
  }
}

}  // namespace
}  // namespace oneflow::software_cuda
