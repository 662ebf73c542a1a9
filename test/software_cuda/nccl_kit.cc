#include "test/software_cuda/nccl_kit.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

extern char** environ;

namespace oneflow::software_cuda {

ncclUniqueId NewId() {
  ncclUniqueId id;
  EXPECT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  return id;
}

ncclConfig_t Blocking(bool blocks) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = blocks;
  return config;
}

ncclResult_t StateOf(ncclComm_t comm) {
  ncclResult_t state = ncclInternalError;
  EXPECT_EQ(ncclCommGetAsyncError(comm, &state), ncclSuccess);
  return state;
}

ncclResult_t Settled(ncclComm_t comm) {
  ncclResult_t state = StateOf(comm);
  for (; state == ncclInProgress; state = StateOf(comm)) std::this_thread::yield();
  return state;
}

void AwaitState(ncclComm_t comm, ncclResult_t state) {
  while (StateOf(comm) != state) std::this_thread::yield();
}

void DoOtherThings() {
  const Stream other;
  for (int i = 0; i < 300; ++i) Enqueue(other.get(), "something else", [] {});
  cudaStreamSynchronize(other.get());
}

bool IsHeld(cudaStream_t stream) {
  DoOtherThings();
  return cudaStreamQuery(stream) == cudaErrorNotReady;
}

Ranks::Ranks(int num_ranks, bool blocks) : comms_(num_ranks) {
  const ncclUniqueId id = NewId();
  ncclConfig_t config = Blocking(blocks);
  ncclGroupStart();
  for (int rank = 0; rank < num_ranks; ++rank) {
    EXPECT_EQ(cudaSetDevice(rank), cudaSuccess);
    EXPECT_EQ(ncclCommInitRankConfig(&comms_[rank], num_ranks, id, rank, &config), ncclSuccess);
    EXPECT_EQ(comms_[rank], nullptr) << "it comes with the end of the group";
    streams_.push_back(std::make_unique<Stream>());
  }
  EXPECT_EQ(ncclGroupEnd(), blocks ? ncclSuccess : ncclInProgress);
  EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
  for (const ncclComm_t comm : comms_) EXPECT_EQ(Settled(comm), ncclSuccess);
}

Ranks::~Ranks() {
  for (size_t rank = 0; rank < comms_.size(); ++rank) Abort(static_cast<int>(rank));
}

void Ranks::Abort(int rank) {
  EXPECT_EQ(ncclCommAbort(comms_[rank]), ncclSuccess);
  comms_[rank] = nullptr;
}

RankProcess::RankProcess(const std::string& part, const ncclUniqueId& id, int rank, int device,
                         const std::string& host_id) {
  int ends[2];
  EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const std::vector<std::string> variables = {"NCCL_TEST_PART=" + part,
                                              "NCCL_TEST_ID=" + std::string(id.internal),
                                              "NCCL_TEST_RANK=" + std::to_string(rank),
                                              "NCCL_TEST_DEVICE=" + std::to_string(device),
                                              "NCCL_TEST_OUTPUT=3",
                                              "NCCL_HOSTID=" + host_id};
  std::vector<char*> environment;
  for (const std::string& variable : variables) environment.push_back(const_cast<char*>(variable.c_str()));
  for (char** variable = environ; *variable != nullptr; ++variable) environment.push_back(*variable);
  environment.push_back(nullptr);
  char name[] = "software_cuda_test";
  char* arguments[] = {name, nullptr};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 3);
  EXPECT_EQ(posix_spawn(&pid_, "/proc/self/exe", &actions, nullptr, arguments, environment.data()), 0);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  output_ = ends[0];
}

ncclUniqueId RankProcess::AwaitSign() {
  ncclUniqueId id = {};
  EXPECT_EQ(read(output_, id.internal, sizeof id.internal), static_cast<ssize_t>(sizeof id.internal)) << "it has ended";
  return id;
}

void RankProcess::Kill() {
  if (pid_ == 0) return;
  kill(pid_, SIGKILL);
  Join();
}

int RankProcess::Join() {
  int status = 0;
  EXPECT_EQ(waitpid(pid_, &status, 0), pid_);
  pid_ = 0;
  close(output_);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace oneflow::software_cuda
