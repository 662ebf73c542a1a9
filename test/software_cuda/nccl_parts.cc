// What this program does when a test has started it as a rank (nccl_kit.h): its part, and no tests.
#include <nccl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>

#include "gtest/gtest.h"
#include "test/software_cuda/nccl_calls.h"

namespace oneflow::software_cuda {
namespace {

std::string Variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

constexpr int kNumRanks = 2;

[[noreturn]] void WaitToBeKilled(const ncclUniqueId& id) {
  const int output = std::stoi(Variable("NCCL_TEST_OUTPUT"));
  if (write(output, id.internal, sizeof id.internal) != sizeof id.internal) std::abort();
  for (;;) pause();
}

// Of the communicator that the test has begun.
struct Rank {
  ncclUniqueId id = {};
  int rank = 0;
  ncclComm_t comm = nullptr;
};

// Parts end with a number.

int MakeAnId(Rank rank) {
  if (ncclGetUniqueId(&rank.id) == ncclSuccess) WaitToBeKilled(rank.id);
  return 1;
}

int Join(Rank* rank) { return ncclCommInitRank(&rank->comm, kNumRanks, rank->id, rank->rank); }

int JoinAndWait(Rank rank) {
  if (Join(&rank) == ncclSuccess) WaitToBeKilled(rank.id);
  return 1;
}

int JoinAndLeave(Rank rank) { return Join(&rank) == ncclSuccess && ncclCommAbort(rank.comm) == ncclSuccess ? 0 : 1; }

int MakeEveryCall(Rank rank) {
  if (Join(&rank) != ncclSuccess) return 1;
  const auto wrong = WrongResults(kNumRanks, rank.rank, rank.comm);
  for (const std::string& line : wrong) std::fprintf(stderr, "%s\n", line.c_str());
  return wrong.empty() && ncclCommDestroy(rank.comm) == ncclSuccess ? 0 : 1;
}

int RunPart(const std::string& part) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // with the test
  const std::map<std::string, int (*)(Rank rank)> parts = {{"make an id and wait", MakeAnId},
                                                           {"tell what joining says", [](Rank x) { return Join(&x); }},
                                                           {"join and wait", JoinAndWait},
                                                           {"join and leave", JoinAndLeave},
                                                           {"make every call", MakeEveryCall}};
  Rank rank = {.rank = std::stoi(Variable("NCCL_TEST_RANK"))};
  std::strncpy(rank.id.internal, Variable("NCCL_TEST_ID").c_str(), sizeof rank.id.internal - 1);
  if (cudaSetDevice(std::stoi(Variable("NCCL_TEST_DEVICE"))) != cudaSuccess) return 1;
  return parts.at(part)(rank);
}

class Part : public ::testing::Environment {
  void SetUp() override {
    const std::string part = Variable("NCCL_TEST_PART");
    if (!part.empty()) std::_Exit(RunPart(part));
  }
};

[[maybe_unused]] const ::testing::Environment* const added = ::testing::AddGlobalTestEnvironment(new Part);

}  // namespace
}  // namespace oneflow::software_cuda
