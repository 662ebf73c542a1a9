#include "tools/control/process/stop_signals.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <csignal>
#include <utility>

#include "glog/logging.h"

namespace oneflow {
namespace {

bool IsIgnored(int signal) {
  struct sigaction action = {};
  return sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace

StopSignals::StopSignals(std::function<void(int signal)> on_stop, SignalSender sender, std::function<void()> on_save) {
  for (const int told : {SIGPIPE, SIGXFSZ}) std::signal(told, SIG_IGN);
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1, SIGUSR2}) sigaddset(&signals, signal);
  if (!IsIgnored(SIGHUP)) sigaddset(&signals, SIGHUP);  // one that is blocked comes, ignored or not
  pthread_sigmask(SIG_BLOCK, &signals, &former_mask_);
  signal_fd_ = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
  end_event_ = eventfd(0, EFD_CLOEXEC);
  PCHECK(signal_fd_ >= 0 && end_event_ >= 0) << "cannot watch signals";
  thread_ = std::thread([this, sender, on_stop = std::move(on_stop), on_save = std::move(on_save)] {
    while (true) {
      pollfd polled[2] = {{end_event_, POLLIN, 0}, {signal_fd_, POLLIN, 0}};
      if (poll(polled, 2, -1) < 0) continue;  // EINTR
      if (polled[0].revents != 0) return;
      signalfd_siginfo info;
      if (read(signal_fd_, &info, sizeof(info)) != sizeof(info)) continue;
      const bool from_parent = info.ssi_pid == static_cast<uint32_t>(getppid());
      if (!from_parent && sender == SignalSender::kParent) continue;
      const int signal = static_cast<int>(info.ssi_signo);
      if (!AsksToSave(signal)) {
        on_stop(signal);
      } else if (on_save) {
        on_save();
      }
    }
  });
}

StopSignals::~StopSignals() {
  eventfd_write(end_event_, 1);
  thread_.join();
  close(signal_fd_);
  close(end_event_);
  pthread_sigmask(SIG_SETMASK, &former_mask_, nullptr);
}

}  // namespace oneflow
