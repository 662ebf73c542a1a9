// How a process that we started tells us that it is ready: a line of text on a pipe it inherits.
//
//   parent: ReadyPipe pipe ──passed_fd = pipe.write_fd()──► child: TellReady(3, "127.0.0.1:7000")
//           pipe.Await(...)  ◄──────────────────────────────────┘
//
// A child that dies closes the pipe, so the parent need not wait for the limit.
#pragma once

#include <memory>
#include <string>

#include "absl/time/time.h"
#include "oneflow_core/status.h"

namespace oneflow {

class ReadyPipe {
 public:
  static absl::StatusOr<std::unique_ptr<ReadyPipe>> Make();
  ~ReadyPipe();
  ReadyPipe(const ReadyPipe&) = delete;
  ReadyPipe& operator=(const ReadyPipe&) = delete;

  // To be passed to the child as ChildOptions::passed_fd.
  int write_fd() const { return write_fd_; }

  // The child's line. Call it once, after the child was started. Unavailable if the child ends without a line,
  // DeadlineExceeded after `timeout`.
  absl::StatusOr<std::string> Await(absl::Duration timeout);

 private:
  ReadyPipe(int read_fd, int write_fd) : read_fd_(read_fd), write_fd_(write_fd) {}
  const int read_fd_;
  int write_fd_;  // -1: closed
};

// Writes `line` and a newline to `fd` and closes it; nothing if `fd` is negative. Unavailable if nobody reads it.
absl::Status TellReady(int fd, const std::string& line);

}  // namespace oneflow
