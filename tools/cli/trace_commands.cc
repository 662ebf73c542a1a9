// `oneflow trace summary` and `oneflow trace compare`: what a trace says.
#include <iostream>

#include "absl/strings/str_cat.h"
#include "actor/trace/chrome_trace.h"
#include "tools/cli/commands.h"
#include "tools/study/trace/compare.h"
#include "tools/study/trace/summary.h"

namespace oneflow {
namespace {

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

}  // namespace

absl::Status TraceSummaryCommand(const TraceArguments& arguments) {
  OF_ASSIGN_OR_RETURN(const ReadTrace read, ReadAndSummarize(arguments.file, arguments.plan));
  const int ranks = read.trace.head.program().ranks_size();
  if (arguments.rank >= ranks) {
    return absl::InvalidArgumentError(
        absl::StrCat("--rank ", arguments.rank, ": trace '", arguments.file, "' has ", ranks, " ranks"));
  }
  std::cout << SummaryText(read.trace, read.summary, {.rows = arguments.rows, .rank = arguments.rank});
  return absl::OkStatus();
}

absl::Status TraceCompareCommand(const TraceArguments& arguments) {
  OF_ASSIGN_OR_RETURN(const ReadTrace a, ReadAndSummarize(arguments.file, arguments.plan));
  OF_ASSIGN_OR_RETURN(const ReadTrace b, ReadAndSummarize(arguments.other, arguments.plan));
  OF_ASSIGN_OR_RETURN_AT(const TraceComparison comparison, CompareTraces(a.trace, a.summary, b.trace, b.summary),
                         absl::StrCat("'", arguments.file, "' and '", arguments.other, "'"));
  std::cout << ComparisonText(a.trace, comparison, arguments.rows);
  return absl::OkStatus();
}

}  // namespace oneflow
