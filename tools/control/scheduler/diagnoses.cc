#include "tools/control/scheduler/diagnoses.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "actor/diagnosis.h"

namespace oneflow {

void Diagnoses::Begin(int64_t request, int64_t job, std::vector<std::string> workers, absl::Time due,
                      std::optional<pb::ProcessWaits> stall) {
  Diagnosis& diagnosis = open_[request];
  diagnosis.job = job;
  diagnosis.stall = std::move(stall);
  diagnosis.due = due;
  for (size_t process = 0; process < workers.size(); ++process) {
    diagnosis.awaited[static_cast<int>(process)] = std::move(workers[process]);
  }
}

bool Diagnoses::IsStalled(int64_t job) const {
  return std::any_of(open_.begin(), open_.end(),
                     [job](const auto& entry) { return entry.second.job == job && entry.second.stall.has_value(); });
}

void Diagnoses::Add(int64_t request, int64_t job, const pb::ProcessWaits& waits) {
  const auto found = open_.find(request);
  if (found == open_.end() || found->second.job != job || found->second.awaited.erase(waits.process()) == 0) return;
  found->second.answers.push_back(waits);
}

// Who has not answered says so.
void Diagnoses::Miss(Diagnosis& diagnosis, const std::string& why) {
  for (auto& [process, who] : diagnosis.awaited) {
    pb::ProcessWaits& silent = diagnosis.answers.emplace_back();
    silent.set_process(process);
    silent.set_silent(absl::StrCat("(", who, ") ", why));
  }
  diagnosis.awaited.clear();
}

void Diagnoses::GiveUp(int64_t job, absl::string_view why) {
  for (auto& [request, diagnosis] : open_) {
    if (diagnosis.job == job) Miss(diagnosis, absl::StrCat("does not answer, and the job has ended: ", why));
  }
}

Diagnoses::Finished Diagnoses::Finish(int64_t request, const Diagnosis& diagnosis) {
  Finished finished{.request = request, .job = diagnosis.job};
  if (diagnosis.stall.has_value()) {
    finished.stalled = diagnosis.stall->process();
    for (const pb::ProcessWaits& answer : diagnosis.answers) {
      const auto moved = [](const pb::QueueWaits& queue) { return queue.acts() > 0; };
      finished.goes_on |=
          answer.process() == finished.stalled && std::any_of(answer.queues().begin(), answer.queues().end(), moved);
    }
  }
  finished.text = DiagnosisText(finished.goes_on ? Diagnose({*diagnosis.stall}) : Diagnose(diagnosis.answers));
  return finished;
}

void Diagnoses::Delay(absl::Duration pause) {
  for (auto& [request, diagnosis] : open_) diagnosis.due += pause;
}

std::vector<Diagnoses::Finished> Diagnoses::Take(absl::Time now) {
  std::vector<Finished> finished;
  for (auto it = open_.begin(); it != open_.end();) {
    Diagnosis& diagnosis = it->second;
    if (now >= diagnosis.due) Miss(diagnosis, "does not answer: it is frozen, or its host is");
    if (!diagnosis.awaited.empty()) {
      ++it;
      continue;
    }
    finished.push_back(Finish(it->first, diagnosis));
    it = open_.erase(it);
  }
  return finished;
}

}  // namespace oneflow
