// SIGINT and SIGTERM as a call on an ordinary thread, where anything may be done.
#pragma once

#include <signal.h>

#include <functional>
#include <thread>

namespace oneflow {

// Whose signals count. A batch system sends them to all processes of a job at once; who is stopped in order by its
// parent then listens to that alone.
enum class SignalSender { kAnyone, kParent };

// While it lives, the two signals end nothing: each arrival calls `on_signal` on a thread of this object. Make it
// before any other thread: threads inherit the mask of the one that starts them, and a signal takes any thread that
// lets it.
class StopSignals {
 public:
  explicit StopSignals(std::function<void(int signal)> on_signal, SignalSender sender = SignalSender::kAnyone);
  ~StopSignals();  // waits for a running call
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

 private:
  sigset_t former_mask_;
  int signal_fd_ = -1;
  int end_event_ = -1;
  std::thread thread_;
};

}  // namespace oneflow
