// Which checkpoints of a job's folder are known to be good, and which of them stay.
//
//   step  10   20   30        35         40
//         good good went on   damaged    pending: written, and nothing finite has followed from it yet
//
// What is good is not given up for what may be bad: a checkpoint takes the place of an older one only when it is
// confirmed, that is, when a loss computed from it, or a look at its numbers, was finite. What was written last is
// never removed. What is damaged, or lies behind the step that the job went on from, does not count as kept; it goes
// when the first checkpoint of this attempt is confirmed.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "oneflow_core/status.h"

namespace oneflow {

// Which checkpoints stay.
struct KeepRule {
  int last = 0;       // so many of the last good ones; 0: all
  int64_t every = 0;  // and those of steps that this divides; 0: none
};

struct ShelvedCheckpoint {
  enum class Kind { kGood, kPending, kBad };
  int64_t step = 0;
  Kind kind = Kind::kGood;
};
// Which of `checkpoints`, in ascending order of their steps, must go.
std::vector<int64_t> StepsToRemove(const std::vector<ShelvedCheckpoint>& checkpoints, const KeepRule& rule);

// Thread-safe. Of process 0.
class Shelf {
 public:
  Shelf(std::string path, KeepRule rule) : path_(std::move(path)), rule_(rule) {}

  // The job goes on from this step; `confirmed`: its checkpoint is known to be good.
  void WentOnFrom(int64_t step, bool confirmed);
  // This attempt has written a checkpoint of this step, or of later ones none any more.
  void Wrote(int64_t step);
  // Something finite followed from all checkpoints up to this step. Whether one of this attempt is good only now.
  bool Confirm(int64_t step);

  // Removes what need not be kept. Errors of the disk.
  absl::Status Tidy();

  // A loss that is no number followed from what is not confirmed. What this attempt wrote is removed; the checkpoint
  // that it went on from, if it was never confirmed either, is renamed to end in ".broken". What happened, a sentence
  // for the user each.
  std::vector<std::string> GiveUpPending();

 private:
  ShelvedCheckpoint::Kind KindOf(int64_t step) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const std::string path_;
  const KeepRule rule_;
  absl::Mutex mu_;
  int64_t from_ ABSL_GUARDED_BY(mu_) = -1;
  int64_t confirmed_ ABSL_GUARDED_BY(mu_) = -1;         // up to this step
  std::set<int64_t> written_ ABSL_GUARDED_BY(mu_);      // by this attempt
  std::map<int64_t, bool> whole_ ABSL_GUARDED_BY(mu_);  // of older ones: whether all files are there
};

}  // namespace oneflow
