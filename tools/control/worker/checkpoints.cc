#include "tools/control/worker/checkpoints.h"

#include <algorithm>
#include <filesystem>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "actor/checkpoint/checkpoint_reader.h"
#include "actor/checkpoint/disk.h"
#include "actor/checkpoint/manifest.h"
#include "tools/control/process/random_number.h"
#include "tools/control/worker/agreement.h"
#include "tools/control/worker/config_difference.h"

namespace oneflow {
namespace {

// Whether losses and weights that are no numbers fail the job.
bool WantsNumbers(const pb::JobSpec& spec) {
  return std::any_of(spec.phases().begin(), spec.phases().end(),
                     [](const pb::Phase& phase) { return phase.train().stop().not_finite(); });
}

// What only process 0 knows, in all processes.
template <typename Number>
absl::StatusOr<Number> AsFirstSays(Engine& engine, Number mine) {
  OF_ASSIGN_OR_RETURN(const std::vector<std::string> notes, engine.Exchange(absl::StrCat(mine)));
  Number said = 0;
  if (absl::SimpleAtoi(notes[0], &said)) return said;
  return absl::InternalError(absl::StrCat("process 0 says '", notes[0], "', which is no number"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Checkpoints>> Checkpoints::Open(Engine& engine, const pb::JobSpec& spec,
                                                               const WorkerContext& context) {
  std::unique_ptr<Checkpoints> checkpoints(new Checkpoints(engine, spec, context));
  OF_RETURN_IF_ERROR_AT(checkpoints->Prepare(), "checkpoint.path");
  return checkpoints;
}

absl::Status Checkpoints::Prepare() {
  const bool first = context_.process == 0;
  // Of this attempt and no other that ever wrote here.
  OF_ASSIGN_OR_RETURN(const uint64_t attempt, AsFirstSays<uint64_t>(engine_, first ? RandomNumber() : 0));
  OF_RETURN_IF_ERROR(Agree(engine_, first ? MakeFolder(spec_.checkpoint().path()) : absl::OkStatus()));
  OF_RETURN_IF_ERROR(LookAt(attempt));
  OF_RETURN_IF_ERROR(Agree(engine_, first ? TakeFolder() : absl::OkStatus()));
  OF_RETURN_IF_ERROR(Agree(engine_, first ? RemoveUnfinished(spec_.checkpoint().path(), attempt) : absl::OkStatus()));
  OF_ASSIGN_OR_RETURN(OwnedState state, engine_.Owned());
  CheckpointWriter::Options options{
      .path = spec_.checkpoint().path(),
      .process = context_.process,
      .num_processes = context_.num_processes,
      .attempt = attempt,
      .finite = WantsNumbers(spec_),
      .on_done = [this](int64_t step, const absl::Status& status) { OnWritten(step, status); }};
  if (first) {
    options.may_commit = [this](int64_t step) {
      OF_RETURN_IF_ERROR(owner_->Check());
      shelf_->Wrote(step);
      return absl::OkStatus();
    };
    options.tidy = [this] {
      WriteAmendment();
      return shelf_->Tidy();
    };
  }
  absl::StatusOr<std::unique_ptr<CheckpointWriter>> writer =
      CheckpointWriter::Create(std::move(options), std::move(state));
  if (writer.ok()) writer_ = *std::move(writer);
  return Agree(engine_, writer.status());
}

// By process 0, which alone gives files their names.
absl::Status Checkpoints::TakeFolder() {
  const std::string& path = spec_.checkpoint().path();
  OF_ASSIGN_OR_RETURN(owner_, FolderOwner::Take(path, {spec_.name(), spec_.run(), context_.attempt}));
  if (!owner_->remark().empty()) Notice(owner_->remark());
  shelf_ = std::make_unique<Shelf>(path, KeepRule{.last = spec_.checkpoint().keep(),
                                                  .every = spec_.checkpoint().keep_every(),
                                                  .best = spec_.checkpoint().best()});
  return CheckThatItMayBegin();
}

// A job that begins anew does not write among what another one left.
absl::Status Checkpoints::CheckThatItMayBegin() const {
  const std::string& path = spec_.checkpoint().path();
  OF_ASSIGN_OR_RETURN(const std::vector<int64_t> steps, ListCheckpoints(path));
  if (steps.empty() || spec_.resume() || !context_.first_attempt) return absl::OkStatus();
  const std::string last = absl::StrCat("'", path, "' has checkpoints, the last of step ", steps.back());
  if (spec_.resume_from().empty()) {
    return absl::FailedPreconditionError(absl::StrCat(last, ": go on from it with --resume, or name another folder"));
  }
  OF_ASSIGN_OR_RETURN(const pb::CheckpointManifest from, ReadManifest(spec_.resume_from()));
  if (steps.back() <= from.step()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(last, ", which comes after step ", from.step(),
                                                    ", from which to go on: remove it, or name another folder"));
}

// Whether all processes see the same folder: the first one puts a file there.
absl::Status Checkpoints::LookAt(uint64_t attempt) {
  const std::string token = absl::StrCat(spec_.checkpoint().path(), "/.seen-", absl::Hex(attempt));
  OF_RETURN_IF_ERROR(Agree(engine_, context_.process == 0 ? WriteWholeFile(token, "") : absl::OkStatus()));
  std::error_code ignored;
  const bool seen = std::filesystem::exists(token, ignored);
  const absl::Status all =
      Agree(engine_, seen ? absl::OkStatus()
                          : absl::FailedPreconditionError(absl::StrCat(
                                "'", spec_.checkpoint().path(), "' is not the folder that process 0 sees there")));
  if (context_.process == 0) std::filesystem::remove(token, ignored);
  return all;
}

absl::StatusOr<Checkpoints::Begin> Checkpoints::Resume() {
  std::vector<int64_t> steps;
  absl::Status listed;
  if (context_.process == 0) {
    absl::StatusOr<std::vector<int64_t>> found = ListCheckpoints(spec_.checkpoint().path());
    listed = found.status();
    if (found.ok()) steps = *std::move(found);
  }
  OF_RETURN_IF_ERROR(Agree(engine_, listed));
  if (!spec_.resume_from().empty() && (context_.first_attempt || steps.empty())) return ResumeFrom();
  absl::Status damage;
  while (true) {
    OF_ASSIGN_OR_RETURN(const int64_t step, AsFirstSays<int64_t>(engine_, steps.empty() ? -1 : steps.back()));
    if (step < 0) break;
    if (!steps.empty()) steps.pop_back();
    absl::StatusOr<pb::CheckpointManifest> manifest = Load(CheckpointFolder(spec_.checkpoint().path(), step));
    const absl::Status loaded = Agree(engine_, manifest.status());
    if (loaded.ok()) {
      last_step_ = step;
      return GoOnFrom(*manifest);
    }
    if (!absl::IsDataLoss(loaded) && !absl::IsNotFound(loaded)) return loaded;
    if (damage.ok()) damage = loaded;
    Notice(absl::StrCat("the checkpoint of step ", step, " is damaged: ", loaded.message()));
  }
  if (!damage.ok()) return absl::DataLossError(absl::StrCat("no checkpoint is good; the last: ", damage.message()));
  Notice(absl::StrCat("'", spec_.checkpoint().path(), "' has no checkpoint: begins with the first step"));
  return Begin();
}

// That which the job names, and no other.
absl::StatusOr<Checkpoints::Begin> Checkpoints::ResumeFrom() {
  const absl::StatusOr<pb::CheckpointManifest> manifest = Load(spec_.resume_from());
  OF_RETURN_IF_ERROR(Agree(engine_, manifest.status()));
  const std::string here = CheckpointFolder(spec_.checkpoint().path(), manifest->step());
  std::error_code ignored;
  if (std::filesystem::equivalent(spec_.resume_from(), here, ignored)) last_step_ = manifest->step();
  return GoOnFrom(*manifest);
}

absl::StatusOr<pb::CheckpointManifest> Checkpoints::Load(const std::string& folder) {
  OF_ASSIGN_OR_RETURN(const CheckpointReader reader, CheckpointReader::Open(folder));
  OF_RETURN_IF_ERROR(engine_.LoadState(reader));
  return reader.manifest();
}

// It is loaded: from here training goes on.
Checkpoints::Begin Checkpoints::GoOnFrom(const pb::CheckpointManifest& manifest) {
  Begin begin{.step = manifest.step(), .training = manifest.training()};
  if (!manifest.has_training()) {  // of a version that did not say: as if all had been steps of this job's size
    begin.training.set_samples(manifest.step() * manifest.samples_per_step());
    begin.training.set_rows(manifest.step() * spec_.rows_per_step());
    begin.training.set_evaluated_step(manifest.step());
    begin.training.set_confirmed(true);
  }
  const bool is_elsewhere = last_step_ != manifest.step();  // where nothing is to be changed
  if (shelf_ != nullptr) {
    shelf_->WentOnFrom(manifest.step(), begin.training.confirmed() || is_elsewhere || !WantsNumbers(spec_));
    if (begin.training.best_step() > 0) shelf_->IsBest(begin.training.best_step());
  }
  TellDifferences(manifest, begin.training);
  begin.training.clear_ended();
  begin.training.clear_confirmed();
  return begin;
}

void Checkpoints::TellDifferences(const pb::CheckpointManifest& manifest, const pb::TrainingState& training) {
  std::string text = absl::StrCat("goes on from step ", manifest.step(), ", saved by ", manifest.layout());
  if (manifest.seed() != spec_.seed()) {
    absl::StrAppend(&text, "; its seed was ", manifest.seed(), ", now it is ", spec_.seed(),
                    ": data come in another order");
  }
  if (manifest.samples_per_step() != spec_.samples_per_step()) {
    absl::StrAppend(&text, "; a step had ", manifest.samples_per_step(), " ", spec_.sample_unit(), ", now it has ",
                    spec_.samples_per_step(), ": data go on behind the ", training.samples(), " that were read");
  }
  Notice(text);
  if (const std::string differs = ConfigDifference(manifest.config(), spec_.config()); !differs.empty()) {
    Notice(absl::StrCat("it does otherwise than the job that saved step ", manifest.step(), ": ", differs));
  }
  if (!spec_.weights().empty() && manifest.step() > 0) {
    Notice(absl::StrCat("weights '", spec_.weights(), "' are not loaded: the checkpoint has its own"));
  }
}

absl::Status Checkpoints::Save(int64_t step, const pb::TrainingState& training) {
  OF_RETURN_IF_ERROR(Settle());
  pb::CheckpointManifest head;
  head.set_job(spec_.name());
  head.set_step(step);
  head.set_seed(spec_.seed());
  head.set_samples_per_step(spec_.samples_per_step());
  head.set_layout(spec_.layout());
  head.set_config(spec_.config());
  *head.mutable_training() = training;
  last_step_ = step;
  return Annotate(writer_->Start(std::move(head), [this](char* to) { return engine_.CopyState(to); }),
                  "copying the job's state");
}

void Checkpoints::Amend(int64_t step, const pb::TrainingState& training) {
  if (context_.process != 0) return;
  if (training.best_step() == step) shelf_->IsBest(step);
  {
    absl::MutexLock lock(&mu_);
    amendment_ = {step, training};
  }
  writer_->Tidy();
}

// On the writer's thread, which has written the checkpoint by then, or has given it up.
void Checkpoints::WriteAmendment() {
  std::optional<std::pair<int64_t, pb::TrainingState>> amendment;
  {
    absl::MutexLock lock(&mu_);
    amendment = std::exchange(amendment_, std::nullopt);
  }
  if (!amendment) return;
  const std::string folder = CheckpointFolder(spec_.checkpoint().path(), amendment->first);
  absl::StatusOr<pb::CheckpointManifest> manifest = ReadManifest(folder);
  absl::Status amended = manifest.status();
  if (manifest.ok()) {
    *manifest->mutable_training() = amendment->second;
    amended = AmendManifest(folder, *manifest);
  }
  if (!amended.ok() && !absl::IsNotFound(amended)) {  // that it could not be written was told
    Notice(absl::StrCat("cannot note in '", folder, "' what followed: ", amended.message()));
  }
}

void Checkpoints::Confirm(int64_t step) {
  if (shelf_ == nullptr) return;
  if (shelf_->Confirm(step)) writer_->Tidy();
}

void Checkpoints::GiveUpPending() {
  if (shelf_ == nullptr) return;
  writer_->GiveUp(last_step_, absl::FailedPreconditionError("what followed is no number"));
  writer_->Wait();
  for (const std::string& text : shelf_->GiveUpPending()) Notice(text);
}

void Checkpoints::OnWritten(int64_t step, const absl::Status& status) {
  {
    absl::MutexLock lock(&mu_);
    failure_ = status;
    if (!status.ok()) failed_step_ = step;
  }
  if (absl::IsFailedPrecondition(status)) return;  // which ends the job, with that as its error
  const std::string folder = CheckpointFolder(spec_.checkpoint().path(), step);
  pb::Notice notice;
  if (status.ok()) {
    notice.set_text(absl::StrCat("wrote ", folder));
    notice.set_saved_step(step);
  } else {
    notice.set_text(absl::StrCat("process ", context_.process, " could not write '", folder,
                                 "', training goes on: ", status.message()));
  }
  if (context_.on_notice) context_.on_notice(notice);
}

// Process 0 knows of its own failure; what ends the job all must know.
void Checkpoints::Tell(pb::LoopNote& note) {
  absl::MutexLock lock(&mu_);
  if (failed_step_ == 0 || (context_.process == 0 && !absl::IsFailedPrecondition(failure_))) return;
  note.set_checkpoint_step(std::exchange(failed_step_, 0));
  *note.mutable_checkpoint_failed() = ToProto(failure_);
}

absl::Status Checkpoints::Hear(const pb::LoopNote& note) {
  if (note.checkpoint_step() == 0) return absl::OkStatus();
  const absl::Status failed = FromProto(note.checkpoint_failed());
  if (context_.process == 0) writer_->GiveUp(note.checkpoint_step(), failed);
  if (!absl::IsFailedPrecondition(failed)) return absl::OkStatus();
  return Annotate(failed, absl::StrCat("the checkpoint of step ", note.checkpoint_step()));
}

// Nothing is being written any more, in any process. Process 0 must not wait for pieces that will not come.
absl::Status Checkpoints::Settle() {
  if (context_.process != 0) writer_->Wait();
  pb::LoopNote mine;
  Tell(mine);
  OF_ASSIGN_OR_RETURN(const std::vector<std::string> notes, engine_.Exchange(mine.SerializeAsString()));
  absl::Status first;
  for (const std::string& text : notes) {
    pb::LoopNote note;
    if (note.ParseFromString(text)) first.Update(Hear(note));
  }
  writer_->Wait();
  return first;
}

absl::Status Checkpoints::Finish() {
  OF_RETURN_IF_ERROR(Settle());
  absl::Status mine_failed;
  {
    absl::MutexLock lock(&mu_);
    mine_failed = failure_;
  }
  if (context_.process == 0 && mine_failed.ok()) mine_failed = shelf_->Tidy();
  return Annotate(Agree(engine_, mine_failed), "the last checkpoint");
}

void Checkpoints::Notice(const std::string& text) {
  if (context_.process != 0 || !context_.on_notice) return;
  pb::Notice notice;
  notice.set_text(text);
  context_.on_notice(notice);
}

}  // namespace oneflow
