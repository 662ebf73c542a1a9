// Which checkpoints of a job's folder are known to be good, and which of them are kept.
//
//   step  10   20   30        35         40
//         good good resumed   damaged    pending: written, and nothing finite has followed from it yet
//
// A good checkpoint is not replaced by a doubtful one. A checkpoint replaces an older one only when it is confirmed: a
// loss computed from it, or a look at its numbers, was finite. The last one is never removed. A checkpoint that is
// damaged, or lies behind the step from which the job was resumed, does not count as kept; it is removed when the first
// checkpoint of this attempt is confirmed.
//
// The best checkpoint, of the lowest validation loss, is kept until a better one is confirmed.
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

// The rule for keeping checkpoints.
struct KeepRule {
  int last = 0;       // the number of last good ones; 0: all
  int64_t every = 0;  // and those of steps that this divides; 0: none
  bool best = false;  // and the best, which a file of the folder names
};

struct ShelvedCheckpoint {
  enum class Kind { kGood, kPending, kBad };
  int64_t step = 0;
  Kind kind = Kind::kGood;
  bool best = false;  // or will be the best when it is known to be good
};
// Which of `checkpoints`, in ascending order of their steps, must be removed.
std::vector<int64_t> StepsToRemove(const std::vector<ShelvedCheckpoint>& checkpoints, const KeepRule& rule);

// Thread-safe. Of process 0.
class Shelf {
 public:
  Shelf(std::string path, KeepRule rule) : path_(std::move(path)), rule_(rule) {}

  // The job is resumed from this step; `confirmed`: its checkpoint is known to be good.
  void WentOnFrom(int64_t step, bool confirmed);
  // An evaluation of the weights after this step found the lowest loss so far, in this attempt or before it.
  void IsBest(int64_t step);
  // This attempt has written a checkpoint of this step.
  void Wrote(int64_t step);
  // Something finite followed from all checkpoints up to this step. Returns whether this confirms one of this attempt.
  bool Confirm(int64_t step);

  // Removes checkpoints that need not be kept, and names the best. Errors of the disk.
  absl::Status Tidy();

  // A loss of NaN followed from unconfirmed checkpoints. Those of this attempt are removed; the one that it was resumed
  // from, if it was never confirmed either, is renamed to end in ".broken". Returns a sentence for the user about each.
  std::vector<std::string> GiveUpPending();

 private:
  // What the folder has, with what is the best of it.
  std::vector<ShelvedCheckpoint> Look(const std::vector<int64_t>& steps) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  ShelvedCheckpoint::Kind KindOf(int64_t step) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const std::string path_;
  const KeepRule rule_;
  absl::Mutex mu_;
  int64_t from_ ABSL_GUARDED_BY(mu_) = -1;
  int64_t confirmed_ ABSL_GUARDED_BY(mu_) = -1;  // up to this step
  int64_t best_ ABSL_GUARDED_BY(mu_) = -1;
  int64_t next_best_ ABSL_GUARDED_BY(mu_) = -1;         // when it is confirmed
  std::set<int64_t> written_ ABSL_GUARDED_BY(mu_);      // by this attempt
  std::map<int64_t, bool> whole_ ABSL_GUARDED_BY(mu_);  // of older ones: whether all files are there
};

}  // namespace oneflow
