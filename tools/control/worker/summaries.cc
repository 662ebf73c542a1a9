#include "tools/control/worker/summaries.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "actor/checkpoint/disk.h"
#include "compiler/code_choices.h"
#include "google/protobuf/text_format.h"
#include "oneflow_core/variable_role.h"
#include "proto/job.pb.h"
#include "tools/control/worker/agreement.h"
#include "tools/job/visible_text.h"

namespace oneflow {
namespace {

constexpr char kTrainPlan[] = "train";
constexpr char kEvaluatePlan[] = "evaluate";
constexpr char kGeneratePlan[] = "generate";
constexpr char kGradient[] = ".grad";  // ends the name of a variable that keeps one

// What text of a job's config continues.
std::string PromptOf(const pb::JobSpec& spec) {
  pb::JobConfig config;
  google::protobuf::TextFormat::Parser parser;
  parser.AllowUnknownField(true);  // of a newer version
  return parser.ParseFromString(spec.config(), &config) ? config.generate().prompt() : "";
}

absl::Status OddBytes(size_t process, const std::string& note) {
  return absl::InternalError(absl::StrCat("process ", process, " says ", note.size(), " odd bytes"));
}

double SecondsOf(int64_t us) { return static_cast<double>(us) * 1e-6; }

}  // namespace

absl::Status Summaries::Begin(Engine& engine, int64_t steps_done, uint64_t attempt) {
  steps_done_ = steps_done;
  return Annotate(Agree(engine, process_ == 0 ? MakeFile(attempt) : absl::OkStatus()), "tensorboard");
}

absl::Status Summaries::MakeFile(uint64_t attempt) {
  OF_RETURN_IF_ERROR(MakeFolder(spec_.tensorboard()));
  OF_ASSIGN_OR_RETURN(owner_, FolderOwner::Take(spec_.tensorboard(), {spec_.name(), spec_.run(), attempt}));
  OF_ASSIGN_OR_RETURN(file_, EventFile::Create(spec_.tensorboard(), steps_done_ + 1));
  return absl::OkStatus();
}

void Summaries::Observe(const pb::TimedValue& value) {
  absl::MutexLock lock(&mu_);
  *observed_.add_values() = value;
}

void Summaries::ObserveSpeed(int64_t last_step, int64_t steps, double seconds) {
  if (process_ != 0 || spec_.samples_per_step() == 0 || seconds <= 0) return;
  absl::MutexLock lock(&mu_);
  pb::TimedValue& speed = *observed_.add_values();
  speed.mutable_value()->set_plan(kTrainPlan);
  speed.mutable_value()->set_name(absl::StrCat(spec_.sample_unit(), "_per_s"));
  speed.mutable_value()->set_step(last_step);
  speed.mutable_value()->add_values(static_cast<double>(sizes_.Of(last_step + 1 - steps, last_step + 1).samples) /
                                    seconds);
}

// In order of step, whoever had them.
absl::StatusOr<std::vector<pb::TimedValue>> Summaries::Gather(Engine& engine) {
  pb::WorkerFetched mine;
  {
    absl::MutexLock lock(&mu_);
    mine.Swap(&observed_);
  }
  OF_ASSIGN_OR_RETURN(const std::vector<std::string> notes, engine.Exchange(mine.SerializeAsString()));
  std::vector<pb::TimedValue> values;
  for (size_t process = 0; process_ == 0 && process < notes.size(); ++process) {
    pb::WorkerFetched theirs;
    if (!theirs.ParseFromString(notes[process])) return OddBytes(process, notes[process]);
    for (pb::TimedValue& value : *theirs.mutable_values()) values.push_back(std::move(value));
  }
  std::stable_sort(values.begin(), values.end(), [](const pb::TimedValue& a, const pb::TimedValue& b) {
    return a.value().step() < b.value().step();
  });
  return values;
}

absl::Status Summaries::Share(Engine& engine) {
  OF_ASSIGN_OR_RETURN(const std::vector<pb::TimedValue> values, Gather(engine));
  if (file_ == nullptr) return absl::OkStatus();
  for (const pb::TimedValue& value : values) Take(value);
  AddMeans();
  AddText();
  Flush();
  return absl::OkStatus();
}

absl::Status Summaries::ShareHistograms(Engine& engine) {
  std::map<std::string, ValueCounts> mine, all;  // by variable
  OF_RETURN_IF_ERROR(engine.ReadOwned([&mine](const pb::Variable& variable, const char* data, int64_t count) {
    if (!IsLearned(static_cast<VariableRole>(variable.role())) && !absl::EndsWith(variable.name(), kGradient)) return;
    mine[variable.name()].Add(static_cast<DType>(variable.dtype()), data, count);
  }));
  pb::VariablesCounted note;
  for (const auto& [name, counts] : mine) {
    *note.add_variables() = counts.ToProto();
    note.mutable_variables(note.variables_size() - 1)->set_name(name);
  }
  OF_ASSIGN_OR_RETURN(const std::vector<std::string> notes, engine.Exchange(note.SerializeAsString()));
  if (file_ == nullptr) return absl::OkStatus();
  for (size_t process = 0; process < notes.size(); ++process) {
    if (!note.ParseFromString(notes[process])) return OddBytes(process, notes[process]);
    for (const pb::VariableCounted& counted : note.variables()) all[counted.name()].Add(counted);
  }
  for (const auto& [name, counts] : all) AddHistogram(name, counts);
  Flush();
  return absl::OkStatus();
}

// A disk that refuses is told, and asked no more.
void Summaries::Flush() {
  const absl::Status written = file_->Flush();
  if (written.ok()) return;
  file_.reset();
  pb::Notice notice;
  notice.set_text(absl::StrCat("tensorboard: ", written.message(), ": nothing more is written, training goes on"));
  if (on_notice_) on_notice_(notice);
}

void Summaries::Take(const pb::TimedValue& timed) {
  const pb::FetchedValue& value = timed.value();
  if (timed.time_us() > 0) time_ = SecondsOf(timed.time_us());
  if (value.plan() == kGeneratePlan) {
    for (const double token : value.values()) text_ += static_cast<char>(static_cast<int>(token));
  } else if (value.plan() == kChoicePlan) {
    AddScalar(absl::StrCat("codes/", value.name()), value.values(0));
  } else if (value.plan() != kTrainPlan) {
    sums_[value.plan()][value.name()].Add(value);
  } else if (value.values_size() == 1) {
    steps_done_ = value.step() + 1;
    AddScalar(absl::StrCat(kTrainPlan, "/", value.name()), value.values(0));
  }
}

// Of an evaluation: it is all here, since nothing else ran meanwhile.
void Summaries::AddMeans() {
  for (const auto& [plan, names] : std::exchange(sums_, {})) {
    for (const auto& [name, total] : names) {
      AddScalar(absl::StrCat(plan == kEvaluatePlan ? "validation" : plan, "/", name), total.mean());
    }
  }
}

// TensorBoard takes text for Markdown; indented it is shown as it is.
void Summaries::AddText() {
  if (text_.empty()) return;
  const std::string text = VisibleText(PromptOf(spec_) + std::exchange(text_, ""));
  pb::tensorboard::Event event = NewEvent();
  pb::tensorboard::Summary::Value& value = *event.mutable_summary()->add_value();
  value.set_tag("generated");
  value.mutable_metadata()->mutable_plugin_data()->set_plugin_name("text");
  value.mutable_metadata()->set_data_class(pb::tensorboard::SummaryMetadata::TENSOR);
  value.mutable_tensor()->set_dtype(pb::tensorboard::TensorProto::STRING);
  value.mutable_tensor()->mutable_tensor_shape()->add_dim()->set_size(1);
  value.mutable_tensor()->add_string_val(absl::StrCat("    ", absl::StrReplaceAll(text, {{"\n", "\n    "}})));
  file_->Add(event);
}

void Summaries::AddScalar(const std::string& tag, double scalar) {
  pb::tensorboard::Event event = NewEvent();
  pb::tensorboard::Summary::Value& value = *event.mutable_summary()->add_value();
  value.set_tag(tag);
  value.set_simple_value(static_cast<float>(scalar));
  file_->Add(event);
}

// Under "weights/" and "gradients/", by which TensorBoard groups them.
void Summaries::AddHistogram(const std::string& name, const ValueCounts& counts) {
  const absl::string_view variable = absl::StripSuffix(name, kGradient);
  pb::tensorboard::Event event = NewEvent();
  pb::tensorboard::Summary::Value& value = *event.mutable_summary()->add_value();
  value.set_tag(absl::StrCat(variable.size() < name.size() ? "gradients/" : "weights/", variable));
  *value.mutable_histo() = counts.ToHistogram();
  file_->Add(event);
}

pb::tensorboard::Event Summaries::NewEvent() const {
  pb::tensorboard::Event event;
  event.set_wall_time(time_);
  event.set_step(steps_done_);
  return event;
}

}  // namespace oneflow
