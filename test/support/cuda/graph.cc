#include "test/support/cuda/graph.h"

#include <algorithm>
#include <condition_variable>
#include <random>
#include <utility>

#include "test/support/cuda/software_device.h"

struct CUgraph_st {
  int device;
  std::vector<oneflow::software_cuda::Node> nodes;
};

// Its launches run one after the other, on whatever streams they are.
struct CUgraphExec_st {
  struct Shared {
    int device;
    std::vector<oneflow::software_cuda::Node> nodes;
    std::mutex mutex;
    std::condition_variable changed;
    uint64_t num_launched = 0;     // guarded by mutex
    std::set<uint64_t> under_way;  // likewise: numbers of launches
  };
  std::shared_ptr<Shared> shared;
};

namespace oneflow::software_cuda {
namespace {

// All that must be before one of `last`, and those.
std::set<int> Ancestors(const std::vector<Node>& nodes, const std::set<int>& last) {
  std::set<int> all = last;
  for (int i = static_cast<int>(nodes.size()) - 1; i >= 0; --i) {  // edges lead to higher numbers
    if (all.contains(i)) all.insert(nodes[i].after.begin(), nodes[i].after.end());
  }
  return all;
}

cudaError_t Invalidate(Capture& capture, cudaError_t error) {
  capture.invalid = true;
  return error;
}

// Node by node, in an order drawn from those that the edges allow.
void RunNodes(CUstream_st& stream, const std::vector<Node>& nodes) {
  std::vector<int> left(nodes.size());
  std::vector<int> ready;
  std::vector<std::vector<int>> next(nodes.size());
  for (size_t i = 0; i < nodes.size(); ++i) {
    left[i] = static_cast<int>(nodes[i].after.size());
    if (left[i] == 0) ready.push_back(static_cast<int>(i));
    for (const int before : nodes[i].after) next[before].push_back(static_cast<int>(i));
  }
  while (!ready.empty()) {
    std::swap(ready[stream.random() % ready.size()], ready.back());
    const int node = ready.back();
    ready.pop_back();
    stream.Do(nodes[node].item);
    for (const int after : next[node]) {
      if (--left[after] == 0) ready.push_back(after);
    }
  }
}

}  // namespace

Captures& Captures::Get() {
  static Captures* const captures = new Captures;  // streams' threads may outlive statics
  return *captures;
}

std::shared_ptr<Capture> Captures::Find(CUstream_st* stream) {
  const auto it =
      std::find_if(captures_.begin(), captures_.end(), [&](const auto& x) { return x->streams.contains(stream); });
  return it == captures_.end() ? nullptr : *it;
}

cudaError_t Captures::Begin(CUstream_st* stream, cudaStreamCaptureMode mode) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (Find(stream) != nullptr) return cudaErrorIllegalState;
  captures_.push_back(std::make_shared<Capture>(
      Capture{.origin = stream, .mode = mode, .thread = std::this_thread::get_id(), .streams = {{stream, {}}}}));
  return cudaSuccess;
}

cudaError_t Captures::End(CUstream_st* stream, std::vector<Node>* nodes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const std::shared_ptr<Capture> capture = Find(stream);
  if (capture == nullptr) return cudaErrorIllegalState;
  if (capture->origin != stream) return Invalidate(*capture, cudaErrorStreamCaptureUnmatched);
  if (capture->mode != cudaStreamCaptureModeRelaxed && capture->thread != std::this_thread::get_id()) {
    return Invalidate(*capture, cudaErrorStreamCaptureWrongThread);
  }
  std::erase(captures_, capture);
  if (capture->invalid) return cudaErrorStreamCaptureInvalidated;
  const std::set<int> joined = Ancestors(capture->nodes, capture->streams.at(stream));
  for (const auto& [joiner, last] : capture->streams) {
    if (!std::includes(joined.begin(), joined.end(), last.begin(), last.end())) return cudaErrorStreamCaptureUnjoined;
  }
  *nodes = std::move(capture->nodes);
  return cudaSuccess;
}

cudaStreamCaptureStatus Captures::StatusOf(CUstream_st* stream) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const std::shared_ptr<Capture> capture = Find(stream);
  if (capture == nullptr) return cudaStreamCaptureStatusNone;
  return capture->invalid ? cudaStreamCaptureStatusInvalidated : cudaStreamCaptureStatusActive;
}

bool Captures::Take(CUstream_st* stream, const Item& item, cudaError_t* error) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const std::shared_ptr<Capture> capture = Find(stream);
  if (capture == nullptr) return false;
  *error = capture->invalid ? cudaErrorStreamCaptureInvalidated : cudaSuccess;
  if (capture->invalid) return true;
  std::set<int>& last = capture->streams.at(stream);
  capture->nodes.push_back({item, last});
  last = {static_cast<int>(capture->nodes.size()) - 1};
  return true;
}

bool Captures::Record(CUevent_st* event, CUstream_st* stream) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const std::shared_ptr<Capture> capture = Find(stream);
  events_.erase(event);
  if (capture == nullptr) return false;
  events_[event] = {capture, capture->streams.at(stream)};
  return true;
}

bool Captures::Wait(CUstream_st* stream, CUevent_st* event, cudaError_t* error) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const std::shared_ptr<Capture> own = Find(stream);
  const auto recorded = events_.find(event);
  if (own == nullptr && recorded == events_.end()) return false;
  *error = cudaSuccess;
  if (recorded == events_.end()) {  // what is outside of a graph is not waited for in it
    *error = Invalidate(*own, cudaErrorStreamCaptureIsolation);
    return true;
  }
  const auto& [in, after] = recorded->second;
  const bool goes_on = std::find(captures_.begin(), captures_.end(), in) != captures_.end();
  if (!goes_on || in->origin->device != stream->device) {
    *error = goes_on ? cudaErrorNotSupported : cudaErrorCapturedEvent;
  } else if (own != nullptr && own != in) {
    Invalidate(*own, cudaErrorStreamCaptureMerge);
    *error = Invalidate(*in, cudaErrorStreamCaptureMerge);
  } else {
    in->streams[stream].insert(after.begin(), after.end());
  }
  return true;
}

cudaError_t Captures::Ask(CUevent_st* event) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto recorded = events_.find(event);
  if (recorded == events_.end()) return cudaSuccess;
  return Invalidate(*recorded->second.in, cudaErrorCapturedEvent);
}

void Captures::Forget(CUevent_st* event) {
  const std::lock_guard<std::mutex> lock(mutex_);
  events_.erase(event);
}

void Captures::Forget(CUstream_st* stream) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const std::shared_ptr<Capture> capture = Find(stream);
  if (capture == nullptr) return;
  capture->invalid = true;
  capture->streams.erase(stream);
  if (capture->origin == stream) std::erase(captures_, capture);
}

cudaError_t Captures::Await(CUstream_st* stream) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const std::shared_ptr<Capture> capture = Find(stream);
  return capture == nullptr ? cudaSuccess : Invalidate(*capture, cudaErrorStreamCaptureUnsupported);
}

cudaError_t Captures::Unsafe() {
  const std::lock_guard<std::mutex> lock(mutex_);
  cudaError_t error = cudaSuccess;
  for (const std::shared_ptr<Capture>& capture : captures_) {
    const bool is_own = capture->thread == std::this_thread::get_id();
    if (capture->mode == cudaStreamCaptureModeRelaxed) continue;
    if (capture->mode == cudaStreamCaptureModeThreadLocal && !is_own) continue;
    error = Invalidate(*capture, cudaErrorStreamCaptureUnsupported);
  }
  return error;
}

}  // namespace oneflow::software_cuda

namespace cuda = oneflow::software_cuda;

extern "C" {

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  CUstream_st* const on = cuda::Resolve(stream);
  if (on == nullptr) return cuda::Answer(cudaErrorInvalidResourceHandle);
  if (stream == nullptr) return cuda::Answer(cudaErrorStreamCaptureUnsupported);
  return cuda::Answer(cuda::Captures::Get().Begin(on, mode), on->device);
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  *graph = nullptr;
  CUstream_st* const on = cuda::Resolve(stream);
  if (on == nullptr) return cuda::Answer(cudaErrorInvalidResourceHandle);
  std::vector<cuda::Node> nodes;
  const cudaError_t error = cuda::Captures::Get().End(on, &nodes);
  if (error == cudaSuccess) *graph = new CUgraph_st{on->device, std::move(nodes)};
  return cuda::Answer(error, on->device);
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  CUstream_st* const on = cuda::Resolve(stream);
  if (on == nullptr) return cuda::Answer(cudaErrorInvalidResourceHandle);
  *status = cuda::Captures::Get().StatusOf(on);
  return cuda::Answer(cudaSuccess, on->device);
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
  if (graph == nullptr || nodes != nullptr) return cuda::Answer(cudaErrorInvalidValue);  // there are no handles
  *count = graph->nodes.size();
  return cuda::Answer(cudaSuccess);
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cuda::Answer(graph == nullptr ? cudaErrorInvalidValue : cudaSuccess);
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long flags) {
  if (graph == nullptr || flags != 0) return cuda::Answer(cudaErrorInvalidValue);
  auto shared = std::make_shared<CUgraphExec_st::Shared>();
  shared->device = graph->device;
  shared->nodes = graph->nodes;
  *executable = new CUgraphExec_st{std::move(shared)};
  return cuda::Answer(cudaSuccess);
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  delete executable;  // what was launched runs to its end
  return cuda::Answer(executable == nullptr ? cudaErrorInvalidValue : cudaSuccess);
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  CUstream_st* const on = cuda::Resolve(stream);
  if (executable == nullptr || on == nullptr) return cuda::Answer(cudaErrorInvalidResourceHandle);
  const std::shared_ptr<CUgraphExec_st::Shared> graph = executable->shared;
  if (on->device != graph->device) return cuda::Answer(cudaErrorInvalidValue);
  // A graph as part of another is not there.
  if (cuda::Captures::Get().Await(on) != cudaSuccess) return cuda::Answer(cudaErrorStreamCaptureUnsupported);
  cuda::System::Get().CountLaunch({.graphs = 1});
  uint64_t number = 0;
  {
    const std::lock_guard<std::mutex> lock(graph->mutex);
    graph->under_way.insert(number = graph->num_launched++);
  }
  // Whoever comes next is let go also where the device has failed and forgets work without running it.
  const auto turn = std::shared_ptr<void>(nullptr, [graph, number](void*) {
    const std::lock_guard<std::mutex> lock(graph->mutex);
    graph->under_way.erase(number);
    graph->changed.notify_all();
  });
  return cuda::Enqueue(stream, "cudaGraphLaunch", [graph, number, turn] {
    {
      std::unique_lock<std::mutex> lock(graph->mutex);
      graph->changed.wait(lock, [&] { return *graph->under_way.begin() == number; });
    }
    cuda::running.replay = number;
    cuda::RunNodes(*cuda::running.stream, graph->nodes);
    cuda::running.replay = 0;
  });
}

}  // extern "C"
