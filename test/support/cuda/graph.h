// Capture of streams into graphs, as cudaStreamBeginCapture documents it.
//
//   origin   ──k1──record(e)────────k3──wait(f)──k4──► EndCapture      nodes: k1, k2, k3, k4
//   another      wait(e)──k2──record(f)──┘                            k2, k3 after k1; k4 after both
//
// A captured graph runs node by node, in any order that its edges allow.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "test/support/cuda/system.h"

namespace oneflow::software_cuda {

struct Node {
  Item item;
  std::set<int> after;  // numbers of nodes
};

// What becomes a graph: begins with cudaStreamBeginCapture and ends with cudaStreamEndCapture.
struct Capture {
  CUstream_st* origin;
  cudaStreamCaptureMode mode;
  std::thread::id thread;
  bool invalid = false;
  std::vector<Node> nodes;
  std::map<CUstream_st*, std::set<int>> streams;  // what the next node of each comes after
};

// All of the process. Any thread.
class Captures {
 public:
  static Captures& Get();

  cudaError_t Begin(CUstream_st* stream, cudaStreamCaptureMode mode);
  // The nodes, and the stream and those that joined it run again. Without nodes if there is an error.
  cudaError_t End(CUstream_st* stream, std::vector<Node>* nodes);
  cudaStreamCaptureStatus StatusOf(CUstream_st* stream);

  // Whether the stream is captured, so that the item is a node now; `error` if it cannot be.
  bool Take(CUstream_st* stream, const Item& item, cudaError_t* error);
  bool Record(CUevent_st* event, CUstream_st* stream);  // likewise
  bool Wait(CUstream_st* stream, CUevent_st* event, cudaError_t* error);
  // cudaErrorCapturedEvent if the event's last record was captured.
  cudaError_t Ask(CUevent_st* event);
  void Forget(CUevent_st* event);    // it is destroyed
  void Forget(CUstream_st* stream);  // likewise, and with it its capture
  // A call that waits for the stream, which a capture does not allow and does not survive.
  cudaError_t Await(CUstream_st* stream);
  // A call that no capture of another thread, or of this one, would allow in its mode.
  cudaError_t Unsafe();

 private:
  struct Recorded {
    std::shared_ptr<Capture> in;
    std::set<int> after;
  };

  std::shared_ptr<Capture> Find(CUstream_st* stream);  // or null

  std::mutex mutex_;  // guards all that follows
  std::vector<std::shared_ptr<Capture>> captures_;
  std::map<CUevent_st*, Recorded> events_;
};

}  // namespace oneflow::software_cuda
