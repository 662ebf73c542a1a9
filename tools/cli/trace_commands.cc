// `oneflow trace summary` and `oneflow trace compare`: what a trace says.
#include <iostream>

#include "absl/strings/str_cat.h"
#include "actor/trace/chrome_trace.h"
#include "tools/cli/commands.h"
#include "tools/cli/report.h"
#include "tools/cli/usage.h"
#include "tools/study/trace/compare.h"
#include "tools/study/trace/summary.h"

namespace oneflow {
namespace {

struct TraceArguments {
  std::string file, other;
  std::string plan;  // name; empty: the plan that acts for longest
  int rank = -1;     // summary: only this rank's queues, in detail; negative: all
  int rows = 8;      // of every table
};

struct ReadTrace {
  Trace trace;
  TraceSummary summary;
};

absl::StatusOr<ReadTrace> ReadAndSummarize(const std::string& file, const std::string& plan) {
  ReadTrace read;
  OF_ASSIGN_OR_RETURN(read.trace, ReadChromeTrace(file));
  OF_ASSIGN_OR_RETURN_AT(read.summary, Summarize(read.trace, plan), absl::StrCat("trace '", file, "'"));
  return read;
}

absl::Status PrintSummary(const TraceArguments& arguments) {
  OF_ASSIGN_OR_RETURN(const ReadTrace read, ReadAndSummarize(arguments.file, arguments.plan));
  const int ranks = read.trace.head.program().ranks_size();
  if (arguments.rank >= ranks) {
    return absl::InvalidArgumentError(
        absl::StrCat("--rank ", arguments.rank, ": trace '", arguments.file, "' has ", ranks, " ranks"));
  }
  std::cout << SummaryText(read.trace, read.summary, {.rows = arguments.rows, .rank = arguments.rank});
  return absl::OkStatus();
}

absl::Status PrintComparison(const TraceArguments& arguments) {
  OF_ASSIGN_OR_RETURN(const ReadTrace a, ReadAndSummarize(arguments.file, arguments.plan));
  OF_ASSIGN_OR_RETURN(const ReadTrace b, ReadAndSummarize(arguments.other, arguments.plan));
  OF_ASSIGN_OR_RETURN_AT(const TraceComparison comparison, CompareTraces(a.trace, a.summary, b.trace, b.summary),
                         absl::StrCat("'", arguments.file, "' and '", arguments.other, "'"));
  std::cout << ComparisonText(a.trace, comparison, arguments.rows);
  return absl::OkStatus();
}

RunFunction DeclareSummary(CLI::App& app, ParsedArguments& arguments) {
  TraceArguments& summary = arguments.New<TraceArguments>();
  app.add_option("file", summary.file, "trace")->required();
  app.add_option("--plan", summary.plan, "look at this plan; default: the one that acts for longest");
  app.add_option("--rank", summary.rank, "only this rank's queues, in detail")->check(WholeFrom(0));
  app.add_option("--rows", summary.rows, "of every table")->capture_default_str()->check(WholeFrom(1));
  return [&summary] { return Report(PrintSummary(summary)); };
}

RunFunction DeclareCompare(CLI::App& app, ParsedArguments& arguments) {
  TraceArguments& compare = arguments.New<TraceArguments>();
  app.add_option("file", compare.file, "trace")->required();
  app.add_option("other", compare.other, "trace to compare with it")->required();
  app.add_option("--plan", compare.plan, "look at this plan; default: the one that acts for longest");
  app.add_option("--rows", compare.rows, "of every table")->capture_default_str()->check(WholeFrom(1));
  return [&compare] { return Report(PrintComparison(compare)); };
}

}  // namespace

std::vector<Command> TraceCommands() {
  return {Group("trace", "look at traces that `run --trace FILE` wrote",
                {
                    {"summary", "say how long a step takes, what bounds it, and what every queue does", DeclareSummary},
                    {"compare", "compare two traces of one plan", DeclareCompare},
                })};
}

}  // namespace oneflow
