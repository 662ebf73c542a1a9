// Signals that end or save a job as a call on an ordinary thread, where anything may be done.
//
//   SIGINT, SIGTERM, SIGHUP    the end: Ctrl-C, a batch system's, a terminal that was closed
//   SIGUSR1, SIGUSR2           save and go on, as batch systems send it ahead of the end
//
// Under `nohup` SIGHUP stays ignored. SIGPIPE and SIGXFSZ never end anything: who writes to a reader that has gone, or
// more than a file may hold, is told by the write.
#pragma once

#include <signal.h>

#include <functional>
#include <thread>

namespace oneflow {

// Whose signals count. A batch system sends them to all processes of a job at once; who is stopped in order by its
// parent then listens to that alone.
enum class SignalSender { kAnyone, kParent };

// Whether it asks to save and to go on, not to end.
inline bool AsksToSave(int signal) { return signal == SIGUSR1 || signal == SIGUSR2; }

// While it lives, these signals end nothing: each arrival of one that asks for the end calls `on_stop`, and each that
// asks to save `on_save`, if there is one, on a thread of this object. Make it before any other thread: threads inherit
// the mask of the one that starts them, and a signal takes any thread that lets it.
class StopSignals {
 public:
  explicit StopSignals(std::function<void(int signal)> on_stop, SignalSender sender = SignalSender::kAnyone,
                       std::function<void()> on_save = nullptr);
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
