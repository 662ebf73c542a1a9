#include "tools/control/process/ready_pipe.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "actor/awake_clock.h"

namespace oneflow {

absl::StatusOr<std::unique_ptr<ReadyPipe>> ReadyPipe::Make() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return absl::ErrnoToStatus(errno, "cannot make a pipe");
  return std::unique_ptr<ReadyPipe>(new ReadyPipe(ends[0], ends[1]));
}

ReadyPipe::~ReadyPipe() {
  close(read_fd_);
  if (write_fd_ >= 0) close(write_fd_);
}

absl::StatusOr<std::string> ReadyPipe::Await(absl::Duration timeout) {
  close(write_fd_);  // so that the child's is the last
  write_fd_ = -1;
  AwakeClock clock;
  std::string line;
  while (true) {
    const absl::Duration left = timeout - clock.Look();
    if (left <= absl::ZeroDuration()) {
      return absl::DeadlineExceededError(absl::StrCat("it was not ready within ", absl::FormatDuration(timeout)));
    }
    pollfd polled{read_fd_, POLLIN, 0};
    if (poll(&polled, 1, static_cast<int>(absl::ToInt64Milliseconds(std::min(left, AwakeClock::kLook))) + 1) <= 0)
      continue;
    char text[256];
    const ssize_t got = read(read_fd_, text, sizeof(text));
    if (got == 0) return absl::UnavailableError("it ended before it was ready");
    if (got > 0) line.append(text, got);
    if (const size_t end = line.find('\n'); end != std::string::npos) return line.substr(0, end);
  }
}

absl::Status TellReady(int fd, const std::string& line) {
  if (fd < 0) return absl::OkStatus();
  const std::string text = line + "\n";
  const ssize_t written = write(fd, text.data(), text.size());  // atomic: shorter than PIPE_BUF
  const int error = errno;
  close(fd);
  if (written == static_cast<ssize_t>(text.size())) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("cannot tell descriptor ", fd, " that we are ready: ", strerror(error)));
}

}  // namespace oneflow
