#include "tools/page/plan_view.h"

#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "compiler/lower/plan_text.h"
#include "google/protobuf/text_format.h"
#include "oneflow_core/zones.h"
#include "proto/job.pb.h"
#include "tools/control/process/child.h"
#include "tools/control/process/log_tail.h"
#include "tools/control/process/temp_dir.h"
#include "tools/control/process/write_file.h"
#include "tools/job/visible_text.h"

namespace oneflow {
namespace {

constexpr absl::Duration kExplain = absl::Seconds(30);
constexpr size_t kMostMade = 4;
constexpr size_t kMostPlanText = 4 << 20;  // of a plan, which grows with its layers

nlohmann::json MemoryJson(const pb::ClassMemory& memory) {
  nlohmann::json uses = nlohmann::json::array();
  for (const pb::MemoryUse& use : memory.at_peak()) uses.push_back({{"what", use.what()}, {"bytes", use.bytes()}});
  return uses;
}

// A config that stands for the job wherever its model was declared.
absl::StatusOr<pb::JobConfig> ConfigOf(const pb::JobSpec& spec, const std::string& folder) {
  pb::JobConfig config;
  if (!google::protobuf::TextFormat::ParseFromString(spec.config(), &config)) {
    return absl::FailedPreconditionError("its config is of another version of this program");
  }
  if (!config.model().has_graph()) return config;
  for (int i = 0; i < spec.graphs_size(); ++i) {
    OF_RETURN_IF_ERROR(WriteFile("graph", absl::StrCat(folder, "/", i, ".graph"), spec.graphs(i)));
  }
  config.mutable_model()->set_graph(folder);
  return config;
}

}  // namespace

absl::StatusOr<nlohmann::json> PlanJson(const pb::PlanSet& plan) {
  nlohmann::json classes = nlohmann::json::array();
  for (int c = 0; c < plan.classes_size(); ++c) {
    const pb::RankClass& of = plan.classes(c);
    nlohmann::json plans = nlohmann::json::array();
    for (const pb::ClassPlan& one : plan.plans()) {
      plans.push_back({{"name", one.name()}, {"uses", MemoryJson(one.memory(c))}});
    }
    classes.push_back(
        {{"ranks", of.ranks_size()}, {"first", of.ranks(0)}, {"bytes", BytesOfZones(of)}, {"plans", std::move(plans)}});
  }
  OF_ASSIGN_OR_RETURN(std::string text, PlanText(plan));
  if (text.size() > kMostPlanText)
    text = absl::StrCat(text.substr(0, kMostPlanText), "\n... (", text.size(), " bytes)\n");
  return nlohmann::json{{"classes", std::move(classes)}, {"text", std::move(text)}};
}

absl::StatusOr<std::string> PlanExplainer::Explain(int64_t job, const pb::JobSpec& spec) {
  if (!mu_.TryLock()) return absl::ResourceExhaustedError("another plan is being explained: ask again");
  const std::unique_ptr<absl::Mutex, void (*)(absl::Mutex*)> unlock(&mu_, [](absl::Mutex* mu) { mu->Unlock(); });
  for (const auto& [made, page] : made_) {
    if (made == job) return page;
  }
  OF_ASSIGN_OR_RETURN_AT(std::string page, Make(spec), absl::StrCat("job ", job, " cannot be explained here"));
  made_.emplace_back(job, page);
  if (made_.size() > kMostMade) made_.pop_front();
  return page;
}

absl::StatusOr<std::string> PlanExplainer::Make(const pb::JobSpec& spec) const {
  OF_ASSIGN_OR_RETURN(const std::unique_ptr<TempDir> dir, TempDir::Make("oneflow-explain"));
  const std::string job = dir->path() + "/job.pbtxt", html = dir->path() + "/plan.html", log = dir->path() + "/log";
  OF_ASSIGN_OR_RETURN(const pb::JobConfig config, ConfigOf(spec, dir->path()));
  OF_RETURN_IF_ERROR(WriteFile("job config", job, config.DebugString()));
  ChildOptions options;
  options.executable = executable_;
  options.arguments = {"oneflow", "plan", "explain", job, "--sealed", "--html", html};
  options.log_path = log;
  OF_ASSIGN_OR_RETURN(const std::unique_ptr<ChildProcess> child, ChildProcess::Start(std::move(options)));
  if (!child->WaitForExit(kExplain)) {
    return absl::FailedPreconditionError(absl::StrCat("it took longer than ", absl::FormatDuration(kExplain)));
  }
  std::ifstream stream(html, std::ios::binary);
  if (!stream) return absl::FailedPreconditionError(VisibleText(LastLines(ReadTail(log, 4 << 10), 4)));
  std::ostringstream page;
  page << stream.rdbuf();
  return page.str();
}

}  // namespace oneflow
