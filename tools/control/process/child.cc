#include "tools/control/process/child.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
extern "C" {  // glibc 2.36 declares it for C only
#include <sys/pidfd.h>
}

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "actor/awake_clock.h"

namespace oneflow {
namespace {

// A descriptor that leaves 0..3 free for the child's use. Takes `fd`.
int MoveUp(int fd) {
  if (fd < 0) return fd;
  const int moved = fcntl(fd, F_DUPFD_CLOEXEC, 10);
  close(fd);
  return moved;
}

std::vector<char*> Pointers(std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (std::string& text : strings) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

// All that the child needs between fork and exec, where it may not allocate: another thread may have held the
// allocator's lock.
struct Prepared {
  const char* executable;
  char* const* argv;
  char* const* envp;
  int stdin_fd;
  int output_fd;  // -1: ours
  int passed_fd;  // -1: none
  int error_fd;   // takes errno if exec fails; closed by exec
  pid_t parent;
};

[[noreturn]] void BecomeChild(const Prepared& prepared) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  // The parent may have died before that took effect.
  if (getppid() != prepared.parent) _exit(127);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  for (const int ignored : {SIGPIPE, SIGINT, SIGTERM, SIGHUP}) signal(ignored, SIG_DFL);
  dup2(prepared.stdin_fd, STDIN_FILENO);
  if (prepared.output_fd >= 0) {
    dup2(prepared.output_fd, STDOUT_FILENO);
    dup2(prepared.output_fd, STDERR_FILENO);
  }
  int first_closed = 3, error_fd = prepared.error_fd;
  if (prepared.passed_fd >= 0) {
    if (error_fd == 3) error_fd = fcntl(error_fd, F_DUPFD_CLOEXEC, 4);
    // One that is in its place already would be closed with the rest.
    prepared.passed_fd == 3 ? fcntl(3, F_SETFD, 0) : dup2(prepared.passed_fd, 3);
    first_closed = 4;
  }
  close_range(first_closed, ~0U, CLOSE_RANGE_CLOEXEC);
  execve(prepared.executable, prepared.argv, prepared.envp);
  const int error = errno;
  if (write(error_fd, &error, sizeof(error)) < 0) _exit(126);
  _exit(127);
}

}  // namespace

absl::StatusOr<std::unique_ptr<ChildProcess>> ChildProcess::Start(ChildOptions options,
                                                                  std::function<void(ChildExit)> on_exit) {
  std::unique_ptr<ChildProcess> child(new ChildProcess);
  child->stop_event_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (child->stop_event_ < 0) return absl::ErrnoToStatus(errno, "cannot create an eventfd");
  child->thread_ = std::thread([child = child.get(), options = std::move(options), on_exit = std::move(on_exit)] {
    child->Live(options, on_exit);
  });
  absl::Status started = child->AwaitStart();
  if (!started.ok()) return started;
  return child;
}

absl::Status ChildProcess::AwaitStart() {
  absl::MutexLock lock(&mu_);
  mu_.Await(absl::Condition(&started_));
  return start_status_;
}

ChildProcess::~ChildProcess() {
  Stop(absl::ZeroDuration());
  if (thread_.joinable()) thread_.join();
  if (stop_event_ >= 0) close(stop_event_);
  if (pidfd_ >= 0) close(pidfd_);
}

void ChildProcess::Live(const ChildOptions& options, const std::function<void(ChildExit)>& on_exit) {
  absl::Status forked = Fork(options);
  {
    absl::MutexLock lock(&mu_);
    start_status_ = forked;
    started_ = true;
    if (!forked.ok()) exited_ = true;
  }
  if (!forked.ok()) return;
  const ChildExit exit = Await();
  if (on_exit) on_exit(exit);
  absl::MutexLock lock(&mu_);
  exited_ = true;
}

absl::Status ChildProcess::Fork(const ChildOptions& options) {
  const auto where = [&options] { return absl::StrCat("cannot start '", options.executable, "'"); };
  int error_pipe[2];
  if (pipe2(error_pipe, O_CLOEXEC) != 0) return absl::ErrnoToStatus(errno, where());
  error_pipe[1] = MoveUp(error_pipe[1]);
  const int null = MoveUp(open("/dev/null", O_RDONLY | O_CLOEXEC));
  int log = -1;
  absl::Cleanup close_ours = [&] {
    close(error_pipe[0]);
    if (error_pipe[1] >= 0) close(error_pipe[1]);
    if (null >= 0) close(null);
    if (log >= 0) close(log);
  };
  if (!options.log_path.empty()) {
    log = MoveUp(open(options.log_path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
    if (log < 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot open log '", options.log_path, "'"));
  }
  std::vector<std::string> arguments = options.arguments, environment = options.environment;
  for (char** variable = environ; *variable != nullptr; ++variable) environment.push_back(*variable);
  const std::vector<char*> argv = Pointers(arguments), envp = Pointers(environment);
  const Prepared prepared{options.executable.c_str(), argv.data(),   envp.data(), null, log,
                          options.passed_fd,          error_pipe[1], getpid()};

  // _Fork runs no fork handlers: those of libraries with threads of their own may wait for them.
  pid_ = _Fork();
  if (pid_ == 0) BecomeChild(prepared);
  if (pid_ < 0) return absl::ErrnoToStatus(errno, where());
  close(error_pipe[1]);
  error_pipe[1] = -1;
  int error = 0;
  ssize_t got;
  do {
    got = read(error_pipe[0], &error, sizeof(error));  // end of file: exec has closed the other end
  } while (got < 0 && errno == EINTR);
  if (got == sizeof(error)) {
    waitpid(pid_, nullptr, 0);
    return absl::ErrnoToStatus(error, where());
  }
  pidfd_ = pidfd_open(pid_, 0);
  if (pidfd_ < 0) {
    const int failed = errno;
    kill(-pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    return absl::ErrnoToStatus(failed, where());
  }
  return absl::OkStatus();
}

// Until the child is dead, passing on what Stop() asks for. The child is a zombie until it is reaped at the end, so
// that its number cannot have gone to another process.
ChildExit ChildProcess::Await() {
  bool terminated = false, killed = false;
  while (true) {
    absl::Duration left;
    {
      absl::MutexLock lock(&mu_);
      if (stopping_ && !terminated) {
        kill(-pid_, SIGTERM);
        kill(-pid_, SIGCONT);  // one that was suspended must wake up to hear it
        terminated = true;
      }
      left = killed ? absl::InfiniteDuration() : kill_at_ - absl::Now();
    }
    if (left <= absl::ZeroDuration()) {
      kill(-pid_, SIGKILL);
      killed = true;
      continue;
    }
    pollfd polled[2] = {{pidfd_, POLLIN, 0}, {stop_event_, POLLIN, 0}};
    const int timeout = left == absl::InfiniteDuration() ? -1 : static_cast<int>(absl::ToInt64Milliseconds(left)) + 1;
    const absl::Time before = absl::Now();
    const int ready = poll(polled, 2, timeout);
    const absl::Duration late = absl::Now() - before - absl::Milliseconds(timeout);
    if (timeout >= 0 && late > AwakeClock::kLongestGap) {  // we were stopped, and the child may have been
      absl::MutexLock lock(&mu_);
      kill_at_ += late;
    }
    if (ready < 0) continue;  // EINTR
    if (polled[0].revents != 0) break;
    uint64_t count;
    if (polled[1].revents != 0 && read(stop_event_, &count, sizeof(count)) < 0) continue;
  }
  kill(-pid_, SIGKILL);  // what it started and left behind
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFSIGNALED(status) ? ChildExit{.signal = WTERMSIG(status)} : ChildExit{.exit_code = WEXITSTATUS(status)};
}

void ChildProcess::Stop(absl::Duration grace) {
  absl::MutexLock lock(&mu_);
  stopping_ = true;
  kill_at_ = std::min(kill_at_, absl::Now() + grace);
  const uint64_t one = 1;
  if (stop_event_ >= 0 && write(stop_event_, &one, sizeof(one)) < 0) return;  // full: it is readable already
}

bool ChildProcess::WaitForExit(absl::Duration timeout) {
  absl::MutexLock lock(&mu_);
  return mu_.AwaitWithTimeout(absl::Condition(&exited_), timeout);
}

}  // namespace oneflow
