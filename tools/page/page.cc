#include "tools/page/page.h"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "compiler/lower/plan_reader.h"
#include "nlohmann/json.hpp"
#include "tools/job/step_sizes.h"
#include "tools/page/document.h"
#include "tools/page/job_history.h"
#include "tools/page/plan_view.h"
#include "tools/page/trace_view.h"

namespace oneflow {
namespace {

using nlohmann::json;

constexpr int kPageThreads = 32;
constexpr int kMostJobs = 200;         // of a list
constexpr size_t kMostFollowed = 32;   // by one page; ours follows eight
constexpr size_t kMostHistories = 24;  // of less than five megabytes each, as a rule of half a one
constexpr int kEventsPerRead = 1024;
constexpr absl::Duration kReadFor = absl::Milliseconds(250);  // then what there is is shown, and the rest asked for
constexpr absl::Duration kLook = absl::Milliseconds(500);
constexpr int kLooksPerSign = 20;  // of life, by which a browser that has gone is noticed

// Of people's words whatever is no UTF-8 is replaced.
HttpReply JsonReply(const json& value) {
  HttpReply reply;
  reply.body = value.dump(-1, ' ', false, json::error_handler_t::replace);
  return reply;
}

HttpReply Document(const char* type, const char* body) {
  HttpReply reply;
  reply.type = absl::StrCat(type, "; charset=utf-8");
  reply.body = body;
  return reply;
}

absl::StatusOr<int64_t> Number(const std::string& text, absl::string_view what) {
  int64_t number = 0;
  if (absl::SimpleAtoi(text, &number) && number >= 0) return number;
  return absl::InvalidArgumentError(absl::StrCat(what, " is '", text, "'; it must be a number"));
}

absl::StatusOr<int64_t> Number(const HttpRequest& request, const std::string& name) {
  const auto found = request.query.find(name);
  return found == request.query.end() ? 0 : Number(found->second, name);
}

json StatusJson(const pb::JobStatus& status) {
  return {{"job", status.job()},
          {"name", status.name()},
          {"state", pb::JobState_Name(status.state())},
          {"message", status.message()},
          {"user", status.user()},
          {"priority", status.priority()},
          {"device", status.device()},
          {"processes", status.processes()},
          {"devices_per_process", status.devices_per_process()},
          {"attempt", status.attempt()},
          {"attempts", std::max(status.attempts(), 1)},
          {"submitted_us", status.submitted_us()},
          {"finished_us", status.finished_us()}};
}

// Where the job's trace is; empty if it has none.
std::string TraceOf(const pb::JobSpec& spec) {
  for (const pb::Phase& phase : spec.phases()) {
    if (phase.has_trace()) return phase.trace().path();
  }
  return "";
}

json DescriptionJson(const pb::DescribeReply& about) {
  json workers = json::array();
  for (const pb::WorkerPlace& worker : about.workers()) {
    workers.push_back({{"process", worker.process()},
                       {"daemon", worker.daemon()},
                       {"pid", worker.pid()},
                       {"parts", worker.phases_done()},
                       {"state", worker.state()}});
  }
  const pb::JobSpec& spec = about.spec();
  int64_t steps = 0;
  for (const pb::Phase& phase : spec.phases()) {
    steps += phase.train().steps() + (phase.run().plan() == "train" ? phase.run().steps() : 0);
  }
  nlohmann::json ramp = nlohmann::json::array();  // steps before the first number have the second number of samples
  const StepSizes sizes(spec);
  for (const StepStage& stage : sizes.stages()) ramp.push_back({stage.end, stage.size.samples});
  return {{"status", StatusJson(about.status())},
          {"kept", about.has_spec()},
          {"layout", spec.layout()},
          {"config", spec.config()},
          {"steps", steps},
          {"samples_per_step", spec.samples_per_step()},
          {"ramp", std::move(ramp)},
          {"sample_unit", spec.sample_unit()},
          {"checkpoints", spec.checkpoint().path()},
          {"tensorboard", spec.tensorboard()},
          {"trace", TraceOf(spec)},
          {"workers", std::move(workers)}};
}

json NodeJson(const pb::Node& node) {
  json links = json::array();
  for (const pb::NetworkLink& link : node.links()) {
    links.push_back({{"name", link.name()}, {"kind", link.kind()}, {"mbit", link.mbit_per_s()}});
  }
  return {{"name", node.name()},
          {"host", node.host()},
          {"cpu", node.cpu_devices()},
          {"cuda", node.cuda_devices()},
          {"used_cpu", node.used_cpu()},
          {"used_cuda", node.used_cuda()},
          {"drained", node.drained()},
          {"away", node.away()},
          {"cores", node.cores()},
          {"memory", node.memory_bytes()},
          {"used_memory", node.used_memory_bytes()},
          {"links", std::move(links)}};
}

// Histories of the jobs that were looked at last.
class Histories {
 public:
  explicit Histories(PageSource& source) : source_(source) {}

  // Reads on for a moment, and says what there is. "more": how many events are there beyond.
  absl::StatusOr<json> Json(int64_t job, const json& known) {
    const std::shared_ptr<Entry> entry = Find(job);
    absl::MutexLock lock(&entry->mu);
    const absl::Time until = absl::Now() + kReadFor;
    do {
      OF_ASSIGN_OR_RETURN(const std::vector<pb::JobEvent> events,
                          source_.Events(job, entry->history.num_events(), kEventsPerRead));
      if (events.empty()) break;
      for (const pb::JobEvent& event : events) entry->history.Add(event);
    } while (absl::Now() < until);
    json told = entry->history.Json(known);
    told["more"] = std::max<int64_t>(source_.NumEvents(job) - entry->history.num_events(), 0);
    return told;
  }

 private:
  struct Entry {
    absl::Mutex mu;
    JobHistory history ABSL_GUARDED_BY(mu);
    int64_t looked = 0;  // guarded by the other mutex
  };

  std::shared_ptr<Entry> Find(int64_t job) {
    absl::MutexLock lock(&mu_);
    std::shared_ptr<Entry>& entry = entries_[job];
    if (entry == nullptr) entry = std::make_shared<Entry>();
    entry->looked = ++looks_;
    const std::shared_ptr<Entry> found = entry;
    if (entries_.size() <= kMostHistories) return found;
    entries_.erase(std::min_element(entries_.begin(), entries_.end(),
                                    [](const auto& a, const auto& b) { return a.second->looked < b.second->looked; }));
    return found;
  }

  PageSource& source_;
  absl::Mutex mu_;
  std::map<int64_t, std::shared_ptr<Entry>> entries_ ABSL_GUARDED_BY(mu_);
  int64_t looks_ ABSL_GUARDED_BY(mu_) = 0;
};

class Page {
 public:
  Page(PageSource& source, const std::string& executable, AllowedPaths allowed)
      : source_(source), histories_(source), explainer_(executable), traces_(std::move(allowed)) {}

  absl::StatusOr<HttpReply> Jobs(const HttpRequest& request) {
    OF_ASSIGN_OR_RETURN(const int64_t before, Number(request, "before"));
    json jobs = json::array(), counts = json::object();
    for (const pb::JobStatus& status : source_.Jobs(before, kMostJobs)) jobs.push_back(StatusJson(status));
    const auto by_state = source_.JobCounts();
    for (size_t state = 0; state < by_state.size(); ++state) {
      counts[pb::JobState_Name(static_cast<pb::JobState>(state))] = by_state[state];
    }
    return JsonReply({{"jobs", std::move(jobs)}, {"counts", std::move(counts)}});
  }

  absl::StatusOr<HttpReply> Nodes(const HttpRequest&) {
    json nodes = json::array();
    for (const pb::Node& node : source_.Nodes()) nodes.push_back(NodeJson(node));
    return JsonReply({{"nodes", std::move(nodes)}});
  }

  absl::StatusOr<HttpReply> Job(const HttpRequest& request) {
    OF_ASSIGN_OR_RETURN(const int64_t job, Number(request.parts[0], "job"));
    OF_ASSIGN_OR_RETURN(const pb::DescribeReply about, source_.Describe(job, /*with_plan=*/false));
    return JsonReply(DescriptionJson(about));
  }

  absl::StatusOr<HttpReply> History(const HttpRequest& request) {
    OF_ASSIGN_OR_RETURN(const int64_t job, Number(request.parts[0], "job"));
    if (source_.NumEvents(job) == 0) return absl::NotFoundError(absl::StrCat("there is no job ", job));
    const auto found = request.query.find("known");
    json known =
        found == request.query.end() ? json() : json::parse(found->second, nullptr, /*allow_exceptions=*/false);
    if (!known.is_object()) known = json::object();
    OF_ASSIGN_OR_RETURN(const json history, histories_.Json(job, known));
    return JsonReply(history);
  }

  absl::StatusOr<HttpReply> Plan(const HttpRequest& request) {
    OF_ASSIGN_OR_RETURN(const int64_t job, Number(request.parts[0], "job"));
    OF_ASSIGN_OR_RETURN(const pb::JobSpec spec, SpecOf(job, /*with_plan=*/true));
    pb::PlanSet plan;
    if (!plan.ParseFromString(spec.plan())) {
      return absl::FailedPreconditionError(absl::StrCat("the plan of job ", job, " cannot be read"));
    }
    OF_ASSIGN_OR_RETURN(const PlanReader reader, PlanReader::Open(plan));
    OF_RETURN_IF_ERROR(CheckPlanIndices(plan, reader));
    OF_ASSIGN_OR_RETURN(const json about, PlanJson(plan));
    return JsonReply(about);
  }

  absl::StatusOr<HttpReply> Explain(const HttpRequest& request) {
    OF_ASSIGN_OR_RETURN(const int64_t job, Number(request.parts[0], "job"));
    OF_ASSIGN_OR_RETURN(const pb::JobSpec spec, SpecOf(job, /*with_plan=*/false));
    OF_ASSIGN_OR_RETURN(std::string page, explainer_.Explain(job, spec));
    HttpReply reply;
    reply.type = "text/html; charset=utf-8";
    reply.body = std::move(page);
    // A document of its own, which has its program in it and may reach nothing.
    reply.policy = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; sandbox allow-scripts";
    return reply;
  }

  absl::StatusOr<HttpReply> TracedSteps(const HttpRequest& request) {
    OF_ASSIGN_OR_RETURN(const int64_t job, Number(request.parts[0], "job"));
    OF_ASSIGN_OR_RETURN(const pb::JobSpec spec, SpecOf(job, /*with_plan=*/false));
    const std::string path = TraceOf(spec);
    if (path.empty()) return absl::NotFoundError(absl::StrCat("job ", job, " is not traced (run --trace FILE)"));
    OF_ASSIGN_OR_RETURN(const std::shared_ptr<const Trace> trace, traces_.Read(path));
    if (!request.query.contains("step")) return JsonReply(StepsJson(*trace));
    OF_ASSIGN_OR_RETURN(const int64_t run, Number(request, "run"));
    OF_ASSIGN_OR_RETURN(const int64_t plan, Number(request, "plan"));
    OF_ASSIGN_OR_RETURN(const int64_t step, Number(request, "step"));
    OF_ASSIGN_OR_RETURN(const json acts, ActsJson(*trace, static_cast<int32_t>(run), static_cast<int32_t>(plan), step));
    return JsonReply(acts);
  }

  // Says what has changed, and leaves it to the page to ask for what of it it shows.
  absl::StatusOr<HttpReply> Live(const HttpRequest& request) {
    std::vector<int64_t> jobs;
    const auto found = request.query.find("jobs");
    const std::string list = found == request.query.end() ? "" : found->second;
    for (const absl::string_view text : absl::StrSplit(list, ',', absl::SkipEmpty())) {
      OF_ASSIGN_OR_RETURN(jobs.emplace_back(), Number(std::string(text), "jobs"));
    }
    if (jobs.size() > kMostFollowed) jobs.resize(kMostFollowed);
    HttpReply reply;
    reply.type = "text/event-stream";
    reply.next = [this, jobs = std::move(jobs), last = std::string(), looks = 0]() mutable {
      if (!last.empty()) absl::SleepFor(kLook);
      json now = {{"list", source_.JobsVersion()}, {"jobs", json::object()}};
      for (const int64_t job : jobs) now["jobs"][absl::StrCat(job)] = source_.NumEvents(job);
      std::string text = now.dump();
      if (text == last) return std::optional<std::string>(++looks % kLooksPerSign == 0 ? ":\n\n" : "");
      last = std::move(text);
      return std::optional<std::string>(absl::StrCat("data: ", last, "\n\n"));
    };
    return reply;
  }

 private:
  absl::StatusOr<pb::JobSpec> SpecOf(int64_t job, bool with_plan) {
    OF_ASSIGN_OR_RETURN(pb::DescribeReply about, source_.Describe(job, with_plan));
    if (about.has_spec()) return std::move(*about.mutable_spec());
    return absl::FailedPreconditionError(absl::StrCat("the plan and config of job ", job, " are no longer kept"));
  }

  PageSource& source_;
  Histories histories_;
  PlanExplainer explainer_;
  TraceReader traces_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<HttpServer>> ServePage(const std::string& place, HttpAccess access, PageSource& source,
                                                      const std::string& executable, AllowedPaths allowed) {
  const auto page = std::make_shared<Page>(source, executable, std::move(allowed));
  const auto ask = [&page](absl::StatusOr<HttpReply> (Page::*answer)(const HttpRequest&)) {
    return [page = page, answer](const HttpRequest& request) { return (page.get()->*answer)(request); };
  };
  const auto show = [](const char* type, const char* body) {
    return [type, body](const HttpRequest&) { return Document(type, body); };
  };
  std::vector<HttpRoute> routes = {{"/", show("text/html", kPage)},
                                   {"/page.css", show("text/css", kPageStyle)},
                                   {"/page.js", show("text/javascript", kPageProgram)},
                                   {"/job.js", show("text/javascript", kPageJobProgram)},
                                   {"/api/live", ask(&Page::Live)},
                                   {"/api/jobs", ask(&Page::Jobs)},
                                   {"/api/nodes", ask(&Page::Nodes)},
                                   {"/api/jobs/(\\d{1,18})", ask(&Page::Job)},
                                   {"/api/jobs/(\\d{1,18})/history", ask(&Page::History)},
                                   {"/api/jobs/(\\d{1,18})/plan", ask(&Page::Plan)},
                                   {"/api/jobs/(\\d{1,18})/explain", ask(&Page::Explain)},
                                   {"/api/jobs/(\\d{1,18})/trace", ask(&Page::TracedSteps)}};
  return HttpServer::Start("--page", place, std::move(routes), {.threads = kPageThreads}, std::move(access));
}

}  // namespace oneflow
