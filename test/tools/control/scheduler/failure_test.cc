#include "tools/control/scheduler/failure.h"

#include <csignal>

#include "gmock/gmock.h"

namespace oneflow {
namespace {

TEST(FailureTest, AnExitSaysWhichWorkerWhereAndHow) {
  pb::WorkerExit exited;
  exited.set_process(1);
  exited.set_pid(123);
  exited.set_signal(SIGKILL);
  exited.set_last_output("step 7\n");
  EXPECT_EQ(DescribeExit(exited, "d1"), "worker 1 (pid 123) on daemon 'd1' was killed by signal 9 (SIGKILL)");
  exited.set_signal(SIGSEGV);
  EXPECT_EQ(DescribeExit(exited, "d1"),
            "worker 1 (pid 123) on daemon 'd1' was killed by signal 11 (SIGSEGV); its last output:\nstep 7\n");
  exited.set_signal(0);
  exited.set_exit_code(3);
  exited.clear_last_output();
  EXPECT_EQ(DescribeExit(exited, "d1"), "worker 1 (pid 123) on daemon 'd1' exited with code 3 before it had finished");
}

TEST(FailureTest, ComplaintsAboutOthersAreNoCauses) {
  EXPECT_EQ(SuspicionOf(absl::StatusCode::kAborted), Suspicion::kEcho);
  EXPECT_EQ(SuspicionOf(absl::StatusCode::kUnavailable), Suspicion::kSymptom);
  EXPECT_EQ(SuspicionOf(absl::StatusCode::kInvalidArgument), Suspicion::kCause);
  EXPECT_EQ(SuspicionOf(absl::StatusCode::kInternal), Suspicion::kCause);
}

TEST(FailureTest, WhatIsWrongWithTheJobIsNotCurable) {
  for (const absl::StatusCode code :
       {absl::StatusCode::kUnavailable, absl::StatusCode::kAborted, absl::StatusCode::kInternal,
        absl::StatusCode::kDeadlineExceeded, absl::StatusCode::kResourceExhausted, absl::StatusCode::kUnknown}) {
    EXPECT_TRUE(IsCurable(code)) << code;
  }
  for (const absl::StatusCode code :
       {absl::StatusCode::kInvalidArgument, absl::StatusCode::kNotFound, absl::StatusCode::kFailedPrecondition,
        absl::StatusCode::kUnimplemented, absl::StatusCode::kPermissionDenied}) {
    EXPECT_FALSE(IsCurable(code)) << code;
  }
}

}  // namespace
}  // namespace oneflow
