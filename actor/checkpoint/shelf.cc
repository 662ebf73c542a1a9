#include "actor/checkpoint/shelf.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "actor/checkpoint/checkpoint_reader.h"
#include "actor/checkpoint/disk.h"
#include "actor/checkpoint/manifest.h"

namespace oneflow {

std::vector<int64_t> StepsToRemove(const std::vector<ShelvedCheckpoint>& checkpoints, const KeepRule& rule) {
  std::vector<int64_t> removed, good;
  if (rule.last <= 0) return removed;
  for (const ShelvedCheckpoint& checkpoint : checkpoints) {
    if (checkpoint.kind == ShelvedCheckpoint::Kind::kGood) good.push_back(checkpoint.step);
  }
  if (good.empty()) return removed;
  const size_t kept = std::min(good.size(), static_cast<size_t>(rule.last));
  const int64_t newest = good.back(), oldest = good.size() > kept ? good[good.size() - kept] : 0;
  for (const auto& [step, kind, best] : checkpoints) {
    const bool for_ever = (rule.every > 0 && step % rule.every == 0) || best;
    const bool old = step < oldest && !for_ever && kind != ShelvedCheckpoint::Kind::kPending;
    // A bad checkpoint behind the newest good one was skipped by a resume; it is removed, so that the next resume need
    // not skip it again.
    if (old || (kind == ShelvedCheckpoint::Kind::kBad && step > newest)) removed.push_back(step);
  }
  return removed;
}

void Shelf::WentOnFrom(int64_t step, bool confirmed) {
  absl::MutexLock lock(&mu_);
  from_ = step;
  if (confirmed) confirmed_ = std::max(confirmed_, step);
}

void Shelf::IsBest(int64_t step) {
  absl::MutexLock lock(&mu_);
  next_best_ = step;
}

void Shelf::Wrote(int64_t step) {
  absl::MutexLock lock(&mu_);
  written_.insert(step);
}

bool Shelf::Confirm(int64_t step) {
  absl::MutexLock lock(&mu_);
  const auto pending = written_.upper_bound(confirmed_);
  confirmed_ = std::max(confirmed_, step);
  return pending != written_.end() && *pending <= step;
}

ShelvedCheckpoint::Kind Shelf::KindOf(int64_t step) {
  if (written_.contains(step))
    return step <= confirmed_ ? ShelvedCheckpoint::Kind::kGood : ShelvedCheckpoint::Kind::kPending;
  if (step == from_) return ShelvedCheckpoint::Kind::kGood;  // it was loaded
  if (step > from_) return ShelvedCheckpoint::Kind::kBad;
  const auto [known, is_new] = whole_.try_emplace(step, false);
  if (is_new) known->second = CheckpointReader::Open(CheckpointFolder(path_, step)).ok();
  return known->second ? ShelvedCheckpoint::Kind::kGood : ShelvedCheckpoint::Kind::kBad;
}

std::vector<ShelvedCheckpoint> Shelf::Look(const std::vector<int64_t>& steps) {
  std::vector<ShelvedCheckpoint> checkpoints;
  for (const int64_t step : steps) {
    const ShelvedCheckpoint::Kind kind = KindOf(step);
    if (step == next_best_ && kind == ShelvedCheckpoint::Kind::kGood) best_ = std::exchange(next_best_, -1);
    checkpoints.push_back({step, kind});
  }
  for (ShelvedCheckpoint& checkpoint : checkpoints) {
    checkpoint.best = rule_.best && (checkpoint.step == best_ || checkpoint.step == next_best_);
  }
  return checkpoints;
}

absl::Status Shelf::Tidy() {
  OF_ASSIGN_OR_RETURN(const std::vector<int64_t> steps, ListCheckpoints(path_));
  std::vector<ShelvedCheckpoint> checkpoints;
  int64_t best = -1;
  {
    absl::MutexLock lock(&mu_);
    // Older checkpoints stay until something of this attempt is known to be good.
    if (written_.empty() || *written_.begin() > confirmed_) return absl::OkStatus();
    checkpoints = Look(steps);
    best = best_;
  }
  if (rule_.best) {
    OF_ASSIGN_OR_RETURN(const int64_t named, ReadBest(path_));
    if (named != best) OF_RETURN_IF_ERROR(WriteBest(path_, best));
  }
  for (const int64_t step : StepsToRemove(checkpoints, rule_)) {
    OF_RETURN_IF_ERROR(RemoveCheckpoint(CheckpointFolder(path_, step)));
    absl::MutexLock lock(&mu_);
    written_.erase(step);
  }
  return absl::OkStatus();
}

std::vector<std::string> Shelf::GiveUpPending() {
  absl::MutexLock lock(&mu_);
  std::vector<std::string> told;
  for (auto it = written_.upper_bound(confirmed_); it != written_.end(); it = written_.erase(it)) {
    const std::string folder = CheckpointFolder(path_, *it);
    if (RemoveCheckpoint(folder).ok()) told.push_back(absl::StrCat("removed ", folder));
  }
  if (from_ <= confirmed_) return told;
  const std::string folder = CheckpointFolder(path_, from_), broken = absl::StrCat(folder, ".broken");
  if (RemoveFolder(broken).ok() && Rename(folder, broken).ok()) {
    told.push_back(absl::StrCat("'", folder, "', from which no finite loss ever followed, is now '", broken, "'"));
  }
  return told;
}

}  // namespace oneflow
