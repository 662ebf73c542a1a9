// Capture of streams into graphs, as NVIDIA documents it.
#include <cuda_runtime.h>

#include <future>
#include <set>
#include <thread>

#include "gmock/gmock.h"
#include "test/software_cuda/device_kit.h"
#include "test/support/names.h"

namespace oneflow::software_cuda {
namespace {

__global__ void AddKernel(int* sum, int value) { sum[0] += value; }
__global__ void TimesTenAndKernel(int* sum, int value) { sum[0] = sum[0] * 10 + value; }
__global__ void OutOfBoundsKernel(int* data) { data[1 << 20] = 1; }

template <typename... P, typename... A>
cudaError_t RunOne(cudaStream_t stream, void (*kernel)(P...), A... arguments) {
  const cudaLaunchConfig_t config = {.gridDim = 1, .blockDim = 1, .stream = stream};
  return cudaLaunchKernelEx(&config, kernel, arguments...);
}

class Event {
 public:
  Event() { EXPECT_EQ(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), cudaSuccess); }
  Event(const Event&) = delete;
  ~Event() { cudaEventDestroy(event_); }
  cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

// What a stream's capture became, ready to launch.
class Graph {
 public:
  // Ends the capture.
  explicit Graph(cudaStream_t stream) {
    cudaGraph_t graph = nullptr;
    EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
    EXPECT_EQ(cudaGraphGetNodes(graph, nullptr, &num_nodes_), cudaSuccess);
    EXPECT_EQ(cudaGraphInstantiate(&executable_, graph), cudaSuccess);
    EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess) << "what was made of it stays";
  }
  Graph(const Graph&) = delete;
  ~Graph() { cudaGraphExecDestroy(executable_); }
  size_t num_nodes() const { return num_nodes_; }
  cudaError_t Launch(cudaStream_t stream) const { return cudaGraphLaunch(executable_, stream); }

 private:
  size_t num_nodes_ = 0;
  cudaGraphExec_t executable_ = nullptr;
};

class GraphTest : public DeviceTest {
 protected:
  void Begin(cudaStream_t stream, cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal) {
    ASSERT_EQ(cudaStreamBeginCapture(stream, mode), cudaSuccess);
  }
  // The error that a capture ends with, and that there is no graph.
  static cudaError_t EndOf(cudaStream_t stream) {
    cudaGraph_t graph = reinterpret_cast<cudaGraph_t>(1);
    const cudaError_t error = cudaStreamEndCapture(stream, &graph);
    EXPECT_EQ(graph, nullptr);
    return error;
  }
};

TEST_F(GraphTest, WorkRunsWhenItsGraphIsLaunchedAndEveryTime) {
  DeviceArray<int> sum(1);
  sum.Set({0});
  const Stream stream;
  Begin(stream.get());
  EXPECT_EQ(RunOne(stream.get(), AddKernel, sum.data(), 1), cudaSuccess);
  EXPECT_EQ(RunOne(stream.get(), AddKernel, sum.data(), 2), cudaSuccess);
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  EXPECT_EQ(cudaStreamIsCapturing(stream.get(), &status), cudaSuccess);
  EXPECT_EQ(status, cudaStreamCaptureStatusActive);
  const Graph graph(stream.get());
  EXPECT_EQ(graph.num_nodes(), 2u);
  EXPECT_EQ(cudaStreamIsCapturing(stream.get(), &status), cudaSuccess);
  EXPECT_EQ(status, cudaStreamCaptureStatusNone);
  EXPECT_EQ(cudaStreamSynchronize(stream.get()), cudaSuccess);
  EXPECT_THAT(sum.Get(), ElementsAre(0)) << "nothing ran yet";
  for (int i = 0; i < 3; ++i) EXPECT_EQ(graph.Launch(stream.get()), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream.get()), cudaSuccess);
  EXPECT_THAT(sum.Get(), ElementsAre(9));
}

TEST_F(GraphTest, CopiesOfHostMemoryTakeWhatIsThereWhenTheyRun) {
  DeviceArray<int> data(1);
  const Stream stream;
  int pageable = 1;
  Begin(stream.get());
  EXPECT_EQ(cudaMemcpyAsync(data.data(), &pageable, sizeof(int), cudaMemcpyHostToDevice, stream.get()), cudaSuccess);
  const Graph graph(stream.get());
  pageable = 2;
  EXPECT_EQ(graph.Launch(stream.get()), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream.get()), cudaSuccess);
  EXPECT_THAT(data.Get(), ElementsAre(2));
}

// The values of 100 launches of: 1, then on two streams 2 and 3, joined before 4. With `ordered`, 3 waits for 2.
std::set<int> ValuesOfBranches(bool ordered) {
  DeviceArray<int> sum(1);
  const Stream first, second;
  const Event forked, two, joined;
  EXPECT_EQ(cudaStreamBeginCapture(first.get(), cudaStreamCaptureModeThreadLocal), cudaSuccess);
  EXPECT_EQ(RunOne(first.get(), TimesTenAndKernel, sum.data(), 1), cudaSuccess);
  EXPECT_EQ(cudaEventRecord(forked.get(), first.get()), cudaSuccess);
  EXPECT_EQ(cudaStreamWaitEvent(second.get(), forked.get(), 0), cudaSuccess);
  EXPECT_EQ(RunOne(first.get(), TimesTenAndKernel, sum.data(), 2), cudaSuccess);
  EXPECT_EQ(cudaEventRecord(two.get(), first.get()), cudaSuccess);
  if (ordered) {
    EXPECT_EQ(cudaStreamWaitEvent(second.get(), two.get(), 0), cudaSuccess);
  }
  EXPECT_EQ(RunOne(second.get(), TimesTenAndKernel, sum.data(), 3), cudaSuccess);
  EXPECT_EQ(cudaEventRecord(joined.get(), second.get()), cudaSuccess);
  EXPECT_EQ(cudaStreamWaitEvent(first.get(), joined.get(), 0), cudaSuccess);
  EXPECT_EQ(RunOne(first.get(), TimesTenAndKernel, sum.data(), 4), cudaSuccess);
  const Graph graph(first.get());
  EXPECT_EQ(graph.num_nodes(), 4u);
  std::set<int> values;
  for (int i = 0; i < 100; ++i) {
    sum.Set({0});
    EXPECT_EQ(graph.Launch(first.get()), cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(first.get()), cudaSuccess);
    values.insert(sum.Get()[0]);
  }
  return values;
}

TEST_F(GraphTest, BranchesRunInAnyOrderThatEventsAllow) {
  EXPECT_THAT(ValuesOfBranches(false), ElementsAre(1234, 1324));
  EXPECT_THAT(ValuesOfBranches(true), ElementsAre(1234));
}

TEST_F(GraphTest, LaunchesOfOneGraphFollowOneAnotherOnAllStreams) {
  DeviceArray<int> sum(1);
  sum.Set({0});
  const Stream first, second;
  std::promise<void> open;
  std::shared_future<void> opened = open.get_future().share();
  {
    Begin(first.get());
    EXPECT_EQ(RunOne(first.get(), AddKernel, sum.data(), 1), cudaSuccess);
    const Graph graph(first.get());
    EXPECT_EQ(Enqueue(first.get(), "a gate", [opened] { opened.wait(); }), cudaSuccess);
    EXPECT_EQ(graph.Launch(first.get()), cudaSuccess);
    EXPECT_EQ(graph.Launch(second.get()), cudaSuccess);
  }
  EXPECT_EQ(cudaStreamQuery(second.get()), cudaErrorNotReady) << "behind the first, which waits";
  open.set_value();
  EXPECT_EQ(cudaStreamSynchronize(second.get()), cudaSuccess);
  EXPECT_THAT(sum.Get(), ElementsAre(2));
}

TEST_F(GraphTest, StreamsThatJoinedComeBack) {
  DeviceArray<int> sum(1);
  const Stream first, second;
  const Event forked;
  Begin(first.get());
  EXPECT_EQ(RunOne(first.get(), AddKernel, sum.data(), 1), cudaSuccess);
  EXPECT_EQ(cudaEventRecord(forked.get(), first.get()), cudaSuccess);
  EXPECT_EQ(cudaStreamWaitEvent(second.get(), forked.get(), 0), cudaSuccess);
  EXPECT_EQ(RunOne(second.get(), AddKernel, sum.data(), 1), cudaSuccess);
  EXPECT_EQ(EndOf(first.get()), cudaErrorStreamCaptureUnjoined);
  EXPECT_EQ(cudaStreamSynchronize(second.get()), cudaSuccess) << "both are free again";
}

TEST_F(GraphTest, WaitingForACaptureEndsIt) {
  const Stream stream;
  for (const auto call : {cudaStreamSynchronize, cudaStreamQuery}) {
    Begin(stream.get(), cudaStreamCaptureModeRelaxed);
    EXPECT_EQ(call(stream.get()), cudaErrorStreamCaptureUnsupported);
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    EXPECT_EQ(cudaStreamIsCapturing(stream.get(), &status), cudaSuccess);
    EXPECT_EQ(status, cudaStreamCaptureStatusInvalidated);
    EXPECT_EQ(Enqueue(stream.get(), "nothing", [] {}), cudaErrorStreamCaptureInvalidated);
    EXPECT_EQ(EndOf(stream.get()), cudaErrorStreamCaptureInvalidated);
    EXPECT_EQ(call(stream.get()), cudaSuccess);
  }
  Begin(stream.get());
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(EndOf(stream.get()), cudaErrorStreamCaptureInvalidated);
}

// Of memory taken by this thread and by another while a stream is captured.
std::vector<cudaError_t> ErrorsOfMalloc(cudaStreamCaptureMode mode) {
  std::vector<cudaError_t> errors;
  const Stream stream;
  for (const bool by_another : {false, true}) {
    EXPECT_EQ(cudaStreamBeginCapture(stream.get(), mode), cudaSuccess);
    int* data = nullptr;
    const auto take = [&] { errors.push_back(cudaMalloc(&data, sizeof(int))); };
    by_another ? std::async(std::launch::async, take).get() : take();
    cudaGraph_t graph = nullptr;
    if (cudaStreamEndCapture(stream.get(), &graph) == cudaSuccess) cudaGraphDestroy(graph);
    EXPECT_EQ(cudaFree(data), cudaSuccess);
  }
  return errors;
}

TEST_F(GraphTest, AModeSaysWhoseCallsACaptureForbids) {
  constexpr cudaError_t kRefused = cudaErrorStreamCaptureUnsupported;
  EXPECT_THAT(ErrorsOfMalloc(cudaStreamCaptureModeGlobal), ElementsAre(kRefused, kRefused));
  EXPECT_THAT(ErrorsOfMalloc(cudaStreamCaptureModeThreadLocal), ElementsAre(kRefused, cudaSuccess));
  EXPECT_THAT(ErrorsOfMalloc(cudaStreamCaptureModeRelaxed), ElementsAre(cudaSuccess, cudaSuccess));
}

TEST_F(GraphTest, EventsBelongToTheirCapture) {
  const Stream captured, free, other;
  const Event inside, outside;
  EXPECT_EQ(cudaEventRecord(outside.get(), free.get()), cudaSuccess);
  Begin(captured.get(), cudaStreamCaptureModeRelaxed);
  EXPECT_EQ(cudaStreamWaitEvent(captured.get(), outside.get(), 0), cudaErrorStreamCaptureIsolation);
  EXPECT_EQ(EndOf(captured.get()), cudaErrorStreamCaptureInvalidated);

  Begin(captured.get(), cudaStreamCaptureModeRelaxed);
  EXPECT_EQ(cudaEventRecord(inside.get(), captured.get()), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(inside.get()), cudaErrorCapturedEvent);
  EXPECT_EQ(EndOf(captured.get()), cudaErrorStreamCaptureInvalidated);
  EXPECT_EQ(cudaStreamWaitEvent(free.get(), inside.get(), 0), cudaErrorCapturedEvent) << "its capture is over";
  EXPECT_EQ(cudaEventRecord(inside.get(), free.get()), cudaSuccess);
  EXPECT_EQ(cudaEventSynchronize(inside.get()), cudaSuccess);

  Begin(captured.get(), cudaStreamCaptureModeRelaxed);
  Begin(other.get(), cudaStreamCaptureModeRelaxed);
  EXPECT_EQ(cudaEventRecord(inside.get(), captured.get()), cudaSuccess);
  EXPECT_EQ(cudaStreamWaitEvent(other.get(), inside.get(), 0), cudaErrorStreamCaptureMerge);
  EXPECT_EQ(EndOf(captured.get()), cudaErrorStreamCaptureInvalidated);
  EXPECT_EQ(EndOf(other.get()), cudaErrorStreamCaptureInvalidated);
}

TEST_F(GraphTest, ACaptureEndsWhereItBegan) {
  const Stream first, second;
  const Event forked;
  EXPECT_EQ(cudaStreamBeginCapture(nullptr, cudaStreamCaptureModeGlobal), cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(EndOf(first.get()), cudaErrorIllegalState);
  Begin(first.get());
  EXPECT_EQ(cudaStreamBeginCapture(first.get(), cudaStreamCaptureModeGlobal), cudaErrorIllegalState);
  EXPECT_EQ(std::async(std::launch::async, [&] { return EndOf(first.get()); }).get(),
            cudaErrorStreamCaptureWrongThread);
  EXPECT_EQ(EndOf(first.get()), cudaErrorStreamCaptureInvalidated);
  Begin(first.get());
  EXPECT_EQ(cudaEventRecord(forked.get(), first.get()), cudaSuccess);
  EXPECT_EQ(cudaStreamWaitEvent(second.get(), forked.get(), 0), cudaSuccess);
  EXPECT_EQ(EndOf(second.get()), cudaErrorStreamCaptureUnmatched);
  EXPECT_EQ(EndOf(first.get()), cudaErrorStreamCaptureInvalidated);
  {
    const Stream gone;
    Begin(gone.get());
  }
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess) << "a capture goes with its stream";
}

TEST_F(GraphTest, ADefectNamesTheKernelInTheGraph) {
  DeviceArray<int> data(1);
  const Stream stream;
  Begin(stream.get());
  EXPECT_EQ(RunOne(stream.get(), AddKernel, data.data(), 1), cudaSuccess);
  EXPECT_EQ(RunOne(stream.get(), OutOfBoundsKernel, data.data()), cudaSuccess);
  EXPECT_EQ(RunOne(stream.get(), AddKernel, data.data(), 1), cudaSuccess);
  const Graph graph(stream.get());
  EXPECT_EQ(graph.Launch(stream.get()), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream.get()), cudaErrorIllegalAddress);
  EXPECT_THAT(TakeDefects(), ElementsAre(HasSubstr("OutOfBoundsKernel")));
}

}  // namespace
}  // namespace oneflow::software_cuda
