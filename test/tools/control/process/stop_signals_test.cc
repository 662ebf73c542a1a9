#include "tools/control/process/stop_signals.h"

#include <sched.h>
#include <unistd.h>

#include <csignal>

#include "absl/synchronization/notification.h"
#include "gtest/gtest.h"
#include "test/support/names.h"

namespace oneflow {
namespace {

// Each runs in a process of its own, where no other thread can be hit. Its exit code is 0 if what it says is so.
[[noreturn]] void Answer(bool is_so) { _exit(is_so ? 0 : 1); }

[[noreturn]] void ToldApart(int signal) {
  absl::Notification told;
  int stopped = 0, saves = 0;
  {
    const StopSignals signals([&](int which) { stopped = which, told.Notify(); }, SignalSender::kAnyone,
                              [&] { ++saves, told.Notify(); });
    kill(getpid(), signal);
    told.WaitForNotification();
  }
  Answer(AsksToSave(signal) ? stopped == 0 && saves == 1 : stopped == signal && saves == 0);
}

// The first signal that asks for the end, of one that was sent `first` and then SIGTERM, and cannot save.
[[noreturn]] void EndsWith(int first, int expected) {
  absl::Notification told;
  int stopped = 0;
  {
    const StopSignals signals([&](int which) {
      if (stopped == 0) stopped = which, told.Notify();
    });
    kill(getpid(), first);
    kill(getpid(), SIGTERM);
    told.WaitForNotification();
  }
  Answer(stopped == expected);
}

[[noreturn]] void HearsItsParentAlone() {
  bool heard = false;
  {
    const StopSignals signals([&](int) { heard = true; }, SignalSender::kParent);
    kill(getpid(), SIGTERM);
    kill(getpid(), SIGUSR1);
    for (sigset_t pending;
         sigpending(&pending) == 0 && (sigismember(&pending, SIGTERM) + sigismember(&pending, SIGUSR1)) > 0;) {
      sched_yield();  // until both have been taken
    }
  }
  Answer(!heard);
}

TEST(StopSignalsTest, EndsAndSavesAreToldApart) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2}) {
    EXPECT_EXIT(ToldApart(signal), ExitedWithCode(0), "") << signal;
  }
}

TEST(StopSignalsTest, WhoCannotSaveGoesOn) {
  for (const int signal : {SIGUSR1, SIGUSR2}) EXPECT_EXIT(EndsWith(signal, SIGTERM), ExitedWithCode(0), "") << signal;
}

TEST(StopSignalsTest, AHangUpThatIsIgnoredAsUnderNohupStaysSo) {
  const auto former = std::signal(SIGHUP, SIG_IGN);
  EXPECT_EXIT(EndsWith(SIGHUP, SIGTERM), ExitedWithCode(0), "");
  std::signal(SIGHUP, former);
}

TEST(StopSignalsTest, OneThatHasAParentHearsNobodyElse) { EXPECT_EXIT(HearsItsParentAlone(), ExitedWithCode(0), ""); }

}  // namespace
}  // namespace oneflow
