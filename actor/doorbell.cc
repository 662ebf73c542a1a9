#include "actor/doorbell.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace oneflow {

void Doorbell::SleepWhileAsleep(Word& word) { syscall(SYS_futex, &word, FUTEX_WAIT, kAsleep, nullptr, nullptr, 0); }

void Doorbell::WakeSleeper(Word& word) { syscall(SYS_futex, &word, FUTEX_WAKE, 1, nullptr, nullptr, 0); }

}  // namespace oneflow
