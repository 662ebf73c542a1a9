#include "tools/control/scheduler/failure.h"

#include <csignal>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace oneflow {

std::string SignalName(int signal) {
  const char* name = sigabbrev_np(signal);
  return name == nullptr ? absl::StrCat("signal ", signal) : absl::StrCat("SIG", name);
}

std::string DescribeWorker(int process, int pid, absl::string_view daemon) {
  const std::string number = pid == 0 ? "" : absl::StrCat(" (pid ", pid, ")");
  return absl::StrCat("worker ", process, number, " on daemon '", daemon, "'");
}

std::string DescribeExit(const pb::WorkerExit& exited, absl::string_view daemon) {
  std::string text = DescribeWorker(exited.process(), exited.pid(), daemon);
  if (exited.signal() != 0) {
    absl::StrAppend(&text, " was killed by signal ", exited.signal(), " (", SignalName(exited.signal()), ")");
  } else {
    absl::StrAppend(&text, " exited with code ", exited.exit_code(), " before it had finished");
  }
  const bool from_outside = exited.signal() == SIGKILL || exited.signal() == SIGTERM || exited.signal() == SIGINT;
  if (!from_outside && !exited.last_output().empty()) {
    absl::StrAppend(&text, "; its last output:\n", exited.last_output());
  }
  return text;
}

Suspicion SuspicionOf(absl::StatusCode code) {
  if (code == absl::StatusCode::kAborted || code == absl::StatusCode::kCancelled) return Suspicion::kEcho;
  if (code == absl::StatusCode::kUnavailable) return Suspicion::kSymptom;
  return Suspicion::kCause;
}

bool IsCurable(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kUnimplemented:
    case absl::StatusCode::kUnauthenticated:
      return false;
    default:
      return true;
  }
}

}  // namespace oneflow
