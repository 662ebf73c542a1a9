// `oneflow compile` and `oneflow plan show`, `check`, `diff`, `credits` and `explain`.
#include <google/protobuf/stubs/logging.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <set>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "actor/trace/chrome_trace.h"
#include "compiler/boxed_graph.h"
#include "compiler/explain/explain.h"
#include "compiler/explain/html.h"
#include "compiler/job_graphs.h"
#include "compiler/lower/compile.h"
#include "compiler/lower/plan_check.h"
#include "compiler/lower/plan_diff.h"
#include "compiler/lower/plan_memory.h"
#include "compiler/lower/plan_text.h"
#include "compiler/lower/program.h"
#include "compiler/lower/program_text.h"
#include "compiler/pipeline.h"
#include "compiler/schedule/draw.h"
#include "compiler/schedule/named_schedule.h"
#include "compiler/schedule/play.h"
#include "oneflow_core/graph_text.h"
#include "oneflow_core/ops/ops.h"
#include "oneflow_core/zones.h"
#include "tools/cli/commands.h"
#include "tools/cli/report.h"
#include "tools/cli/usage.h"
#include "tools/control/process/write_file.h"
#include "tools/control/security/paths.h"
#include "tools/job/outputs.h"
#include "tools/job/plugins.h"
#include "tools/job/slots.h"
#include "tools/study/planner/credits.h"

namespace oneflow {
namespace {

struct LoadedJob {
  OpRegistry ops;
  Job job;
};

absl::StatusOr<LoadedJob> LoadJob(const JobArguments& arguments, JobKind kind = JobKind::kTrain) {
  LoadedJob loaded;
  OF_ASSIGN_OR_RETURN(SourcedConfig config, arguments.Load());
  if (kind == JobKind::kSealed) {
    loaded.ops = StandardOps();  // MakeJob refuses plugins
  } else {
    OF_ASSIGN_OR_RETURN(loaded.ops, OpsOf(config));
  }
  OF_ASSIGN_OR_RETURN(loaded.job, MakeJob(std::move(config), kind, loaded.ops));
  return loaded;
}

// Memory and time enough for a plan of thousands of ranks.
constexpr rlim_t kSealedBytes = rlim_t{8} << 30, kSealedSeconds = 120;

// A config that somebody else wrote makes this process open nothing, and take no more than it may.
absl::Status SealOff(const std::string& config_file) {
  const rlimit memory{kSealedBytes, kSealedBytes}, time{kSealedSeconds, kSealedSeconds};
  if (setrlimit(RLIMIT_AS, &memory) != 0 || setrlimit(RLIMIT_CPU, &time) != 0) {
    return absl::ErrnoToStatus(errno, "cannot limit this process");
  }
  const std::string folder = std::filesystem::absolute(config_file).parent_path();
  OF_ASSIGN_OR_RETURN(const AllowedPaths allowed, AllowedPaths::Beneath({folder}));
  const absl::Status confined = allowed.ConfineThread(folder);
  return absl::IsUnimplemented(confined) ? absl::OkStatus() : confined;  // what a sealed job names is not opened anyway
}

// A plan file, whoever wrote it.
absl::StatusOr<pb::PlanSet> ParsePlan(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) return absl::NotFoundError(absl::StrCat("plan file '", path, "': cannot open: ", std::strerror(errno)));
  const google::protobuf::LogSilencer silent;  // one error is enough
  pb::PlanSet plan;
  if (!plan.ParseFromIstream(&stream)) {
    return absl::InvalidArgumentError(absl::StrCat("plan file '", path, "': is not a serialised plan set"));
  }
  return plan;
}

// The same, proved.
absl::StatusOr<pb::PlanSet> ReadPlan(const std::string& path) {
  OF_ASSIGN_OR_RETURN(pb::PlanSet plan, ParsePlan(path));
  OF_RETURN_IF_ERROR_AT(CheckPlanSet(plan).status(), absl::StrCat("plan file '", path, "'"));
  return plan;
}

bool IsConfig(const JobArguments& arguments) { return absl::EndsWith(arguments.config, ".pbtxt"); }

// A plan file, or the plan of a job config.
absl::StatusOr<pb::PlanSet> ReadOrCompile(const JobArguments& arguments) {
  if (!IsConfig(arguments)) {
    if (arguments.sets.empty()) return ReadPlan(arguments.config);
    return absl::InvalidArgumentError(absl::StrCat("--set ", arguments.sets[0], ": '", arguments.config,
                                                   "' is a plan file, which has no fields to set, and no *.pbtxt"));
  }
  OF_ASSIGN_OR_RETURN(LoadedJob loaded, LoadJob(arguments));
  auto& [ops, job] = loaded;
  OF_ASSIGN_OR_RETURN(pb::PlanSet plan, CompileJob(job, ops));
  PrintWarnings(job);
  return plan;
}

// Writes and says so; `what` names the file in errors. `read` is what the command has read, which it does not replace.
absl::Status WriteAndSay(absl::string_view what, const std::string& path, const std::string& contents,
                         const std::vector<NamedPath>& read) {
  OF_RETURN_IF_ERROR(CheckApart({{std::string(what), path}}, read));
  OF_RETURN_IF_ERROR(WriteFile(what, path, contents));
  std::cout << "wrote " << path << "\n";
  return absl::OkStatus();
}

absl::Status DumpPasses(const Job& job, const OpRegistry& ops, const std::string& dump_after) {
  bool found = false;
  std::vector<std::string> passes;  // of the first graph
  VariableDists variables;
  OF_RETURN_IF_ERROR(ForEachGraph(job.program, job.options, ops, variables, [&](const Graph& graph) {
    const auto observer = [&](absl::string_view pass, const Graph& after) {
      if (&graph == &job.program.front()) passes.emplace_back(pass);
      if (dump_after != "all" && pass != dump_after) return;
      found = true;
      std::cout << "# after " << pass << "\n" << GraphToText(after) << "\n";
    };
    return RunPasses(graph, job.options, ops, variables, observer).status();
  }));
  if (!found) {
    return absl::InvalidArgumentError(absl::StrCat("--dump-after: there is no pass '", dump_after, "'; there are ",
                                                   absl::StrJoin(passes, ", "), ", all"));
  }
  return absl::OkStatus();
}

absl::Status CompileAndSay(const JobArguments& arguments, const std::string& output, const std::string& dump_after) {
  OF_ASSIGN_OR_RETURN(LoadedJob loaded, LoadJob(arguments));
  auto& [ops, job] = loaded;
  if (!dump_after.empty()) OF_RETURN_IF_ERROR(DumpPasses(job, ops, dump_after));
  OF_ASSIGN_OR_RETURN(const pb::PlanSet plan, CompileJob(job, ops));
  PrintWarnings(job);
  for (const pb::ClassPlan& one : plan.plans()) {
    OF_ASSIGN_OR_RETURN(const int64_t moved, PlannedBytesMoved(plan, one));
    std::cout << "plan " << one.name() << ": " << one.actors_size() << " actors, " << one.registers_size()
              << " registers, " << moved << " bytes moved per step\n";
  }
  for (const pb::RankClass& of : plan.classes()) {
    std::cout << of.ranks_size() << " rank" << (of.ranks_size() == 1 ? "" : "s") << " from rank " << of.ranks(0) << ": "
              << BytesOfZones(of) << " bytes each\n";
  }
  std::cout << "sha256 " << job.spec.plan_hash() << "\n";
  if (output.empty()) return absl::OkStatus();
  return WriteAndSay("plan file", output, job.spec.plan(), InputsOf(job.config));
}

// Of one process its program, unless `process` is negative; or only what memory is for.
absl::Status ShowPlan(const JobArguments& arguments, int process, bool memory) {
  OF_ASSIGN_OR_RETURN(const pb::PlanSet plan, ReadOrCompile(arguments));
  if (memory) {
    std::cout << PlanMemoryText(plan);
    return absl::OkStatus();
  }
  if (process >= 0) {
    OF_ASSIGN_OR_RETURN(const pb::Program program, ProgramOf(plan, process, PlanHash(plan.SerializeAsString())));
    std::cout << ProgramText(program);
    return absl::OkStatus();
  }
  OF_ASSIGN_OR_RETURN(const std::string text, PlanText(plan));
  std::cout << text;
  return absl::OkStatus();
}

// `sets` are of both configs and come before their own; InvalidArgument if there is none.
absl::Status DiffPlans(const JobArguments& first, const JobArguments& second, const std::vector<std::string>& sets) {
  JobArguments a = first, b = second;
  for (JobArguments* const one : {&a, &b}) {
    const bool has_fields = IsConfig(*one) || !(IsConfig(a) || IsConfig(b));  // of neither it is an error
    if (has_fields) one->sets.insert(one->sets.begin(), sets.begin(), sets.end());
  }
  OF_ASSIGN_OR_RETURN(const pb::PlanSet plan, ReadOrCompile(a));
  OF_ASSIGN_OR_RETURN(const pb::PlanSet other, ReadOrCompile(b));
  OF_ASSIGN_OR_RETURN(const std::string text, PlanDiff(plan, other));
  std::cout << text;
  return absl::OkStatus();
}

struct CreditsArguments {
  JobArguments file_or_job;
  std::string costs;     // trace of a run of it
  double period_ms = 0;  // of a step, to be reached; 0: the shortest
  double memory_mb = 0;  // the most that slots may take on a device; 0: whatever they take
  std::string save;      // file for a job's field `slots`; empty: none
};

absl::Status AnswerAboutCredits(const CreditsArguments& arguments) {
  const std::string& costs = arguments.costs;
  if (arguments.period_ms < 0 || arguments.memory_mb < 0 || arguments.memory_mb > 1e12) {
    return absl::InvalidArgumentError(absl::StrCat("--period-ms ", arguments.period_ms, ", --memory-mb ",
                                                   arguments.memory_mb, ": not a period and a memory"));
  }
  const CreditGoal goal{arguments.period_ms * 1e-3, static_cast<int64_t>(arguments.memory_mb * 1e6)};
  SlotsByName slots;
  OF_ASSIGN_OR_RETURN(const pb::PlanSet set, ReadOrCompile(arguments.file_or_job));
  OF_ASSIGN_OR_RETURN(const Trace trace, ReadChromeTrace(costs));
  std::set<int> traced;
  for (const TracedAct& act : trace.acts) traced.insert(act.plan);
  if (traced.empty()) return absl::FailedPreconditionError(absl::StrCat("trace '", costs, "': it has no acts"));
  for (const int p : traced) {
    const std::string& name = trace.head.program().plans(p).name();
    const auto plan = std::find_if(set.plans().begin(), set.plans().end(),
                                   [&](const pb::ClassPlan& one) { return one.name() == name; });
    if (plan == set.plans().end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("trace '", costs, "': '", arguments.file_or_job.config, "' has no plan '", name, "'"));
    }
    OF_ASSIGN_OR_RETURN_AT(const ActTimes times, MeasuredTimes(set, *plan, trace), absl::StrCat("trace '", costs, "'"));
    OF_ASSIGN_OR_RETURN(CreditsAnswer answer, AnswerCredits(set, *plan, times, goal));
    std::cout << answer.text;
    slots[name] = std::move(answer.slots);
  }
  if (arguments.save.empty()) return absl::OkStatus();
  return WriteAndSay("--save", arguments.save, SlotsText(slots),
                     {{"the plan or job", arguments.file_or_job.config}, {"--costs", costs}});
}

// As if all chunks cost the same: printed, and as SVG in a file if that has a name.
absl::Status ShowSchedule(const JobArguments& arguments, const std::string& svg) {
  constexpr int kTerminalWidth = 118;
  if (!IsConfig(arguments)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--schedule: '", arguments.config, "' is no job config *.pbtxt, which says the schedule"));
  }
  OF_ASSIGN_OR_RETURN(const LoadedJob loaded, LoadJob(arguments));
  const Job& job = loaded.job;
  Schedule schedule = job.options.pipeline;
  if (schedule.num_ranks() == 0) {  // what follows from credits
    OF_ASSIGN_OR_RETURN(schedule, MakeSchedule({.name = "1f1b",
                                                .num_ranks = job.options.mesh.AxisSize(job.options.mesh.StageAxis()),
                                                .num_micro_batches = job.options.micro_batches}));
  }
  const Timeline timeline = Play(schedule, EqualCosts(schedule.num_chunks(), {}));
  std::cout << DrawText(schedule, timeline, kTerminalWidth)
            << absl::StrFormat("bubble %.1f%% if all chunks cost the same, and values travel in no time\n",
                               100 * timeline.Bubble());
  if (svg.empty()) return absl::OkStatus();
  return WriteAndSay("--schedule-svg", svg, DrawSvg(schedule, timeline), InputsOf(job.config));
}

absl::Status CheckPlanFile(const std::string& file) {
  OF_ASSIGN_OR_RETURN(const pb::PlanSet plan, ParsePlan(file));
  OF_ASSIGN_OR_RETURN_AT(const std::vector<PlanProof> proofs, CheckPlanSet(plan),
                         absl::StrCat("plan file '", file, "'"));
  std::cout << ProofText(plan, proofs);
  return absl::OkStatus();
}

struct ExplainArguments {
  JobArguments job;
  std::string tensor;   // empty: the whole job
  std::string html;     // file for a page of the whole job; empty: none
  bool sealed = false;  // open nothing but what lies beside the config
};

absl::Status ExplainPlan(const ExplainArguments& arguments) {
  if (arguments.sealed) OF_RETURN_IF_ERROR(SealOff(arguments.job.config));
  OF_ASSIGN_OR_RETURN(const LoadedJob loaded,
                      LoadJob(arguments.job, arguments.sealed ? JobKind::kSealed : JobKind::kTrain));
  OF_ASSIGN_OR_RETURN(const JobFacts facts, GatherFacts(loaded.job.program, loaded.job.options, loaded.ops));
  if (!arguments.tensor.empty()) {
    OF_ASSIGN_OR_RETURN(const std::string text, ExplainTensor(facts, arguments.tensor));
    std::cout << text;
  } else if (arguments.html.empty()) {
    std::cout << ExplainJob(facts);
  }
  if (arguments.html.empty()) return absl::OkStatus();
  return WriteAndSay("page", arguments.html, ExplainAsHtml(facts), InputsOf(loaded.job.config));
}

RunFunction DeclareCompile(CLI::App& app, ParsedArguments& arguments) {
  JobArguments& compile = arguments.New<JobArguments>();
  std::string& output = arguments.New<std::string>();
  std::string& dump_after = arguments.New<std::string>();
  AddJob(app, compile);
  app.add_option("-o,--output", output, "write the plan set to this file");
  app.add_option("--dump-after", dump_after, "print the graphs after this pass, or after 'all'");
  return [&] { return Report(CompileAndSay(compile, output, dump_after)); };
}

struct ShowPlanArguments {
  JobArguments job;  // or a plan file
  int process = -1;
  bool memory = false, schedule = false;
  std::string schedule_svg;
};

RunFunction DeclareShowPlan(CLI::App& app, ParsedArguments& arguments) {
  ShowPlanArguments& show = arguments.New<ShowPlanArguments>();
  app.add_option("file", show.job.config, "plan file, or job config *.pbtxt")->required();
  app.add_option("--set", show.job.sets, "override a field of the config")->allow_extra_args(false);
  app.add_option("--process", show.process, "print the program of this process instead")->check(WholeFrom(0));
  app.add_flag("--memory", show.memory, "print what memory is for instead: weights, optimizer, activations, ...")
      ->excludes("--process");
  app.add_flag("--schedule", show.schedule, "draw the pipeline's schedule instead")
      ->excludes("--process")
      ->excludes("--memory");
  app.add_option("--schedule-svg", show.schedule_svg, "the same, and write it to this file as SVG")
      ->excludes("--process")
      ->excludes("--memory");
  return [&show] {
    if (show.schedule || !show.schedule_svg.empty()) return Report(ShowSchedule(show.job, show.schedule_svg));
    return Report(ShowPlan(show.job, show.process, show.memory));
  };
}

RunFunction DeclareCheck(CLI::App& app, ParsedArguments& arguments) {
  std::string& file = arguments.New<std::string>();
  app.add_option("file", file, "plan file")->required();
  return [&file] { return Report(CheckPlanFile(file)); };
}

RunFunction DeclareDiffPlans(CLI::App& app, ParsedArguments& arguments) {
  JobArguments& before = arguments.New<JobArguments>();
  JobArguments& after = arguments.New<JobArguments>();
  std::vector<std::string>& of_both = arguments.New<std::vector<std::string>>();
  app.add_option("file", before.config, "plan file, or job config *.pbtxt")->required();
  app.add_option("other", after.config, "what to compare with it")->required();
  app.add_option("--set", of_both, "override a field of both configs, or of that beside a plan file")
      ->allow_extra_args(false);
  app.add_option("--set-other", after.sets, "override a field of the second config alone")->allow_extra_args(false);
  return [&] { return Report(DiffPlans(before, after, of_both)); };
}

RunFunction DeclareCredits(CLI::App& app, ParsedArguments& arguments) {
  CreditsArguments& credits = arguments.New<CreditsArguments>();
  app.add_option("file", credits.file_or_job.config, "plan file, or job config *.pbtxt")->required();
  app.add_option("--set", credits.file_or_job.sets, "override a field of the config")->allow_extra_args(false);
  app.add_option("--costs", credits.costs, "trace of a run of it, which says what acts take")->required();
  app.add_option("--period-ms", credits.period_ms, "as few slots as reach this period; default: the shortest")
      ->check(NumberIn(0, 1e9));
  app.add_option("--memory-mb", credits.memory_mb, "the most that slots may take on a device, in 10^6 bytes")
      ->check(NumberIn(0, 1e12));
  app.add_option("--save", credits.save, "write the slots to this file, which a job's field `slots` takes");
  return [&credits] { return Report(AnswerAboutCredits(credits)); };
}

RunFunction DeclareExplain(CLI::App& app, ParsedArguments& arguments) {
  ExplainArguments& explain = arguments.New<ExplainArguments>();
  AddJob(app, explain.job);
  app.add_option("tensor", explain.tensor, "only this tensor: its name, or the beginning of several");
  app.add_option("--html", explain.html, "write a page of the whole job to this file");
  app.add_flag("--sealed", explain.sealed,
               "open no file that the job names, and be kept from it: for configs of others, or of another machine");
  return [&explain] { return Report(ExplainPlan(explain)); };
}

}  // namespace

std::vector<Command> PlanCommands() {
  return {
      {"compile", "compile a job and check its plans, without running it", DeclareCompile},
      Group("plan", "look at plans",
            {
                {"show", "print a plan: classes of ranks, memory, registers, actors", DeclareShowPlan},
                {"check", "prove a plan file, whoever wrote it: format, memory, rates, no deadlock", DeclareCheck},
                {"diff", "say what changed from one plan to another", DeclareDiffPlans},
                {"credits", "say what bounds a step, and the fewest slots of registers that make it shortest",
                 DeclareCredits},
                {"explain", "say why tensors lie as they do, what that costs and what moves", DeclareExplain},
                {"simulate", "say how long a step would take, what bounds it and what would change that",
                 DeclareSimulate},
            }),
  };
}

}  // namespace oneflow
