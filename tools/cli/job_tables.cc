#include "tools/cli/job_tables.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "google/protobuf/util/json_util.h"

namespace oneflow {
namespace {

using Row = std::vector<std::string>;

std::string Visible(absl::string_view text) {
  std::string visible;
  for (const char c : text) visible += absl::ascii_iscntrl(c) ? '?' : c;
  return visible;
}

// Of a table: the last output of a dead worker may be twenty lines.
std::string FirstLine(const pb::JobStatus& job) {
  const absl::string_view message = job.message();
  const size_t end = message.find('\n');
  if (end == message.npos) return Visible(message);
  return absl::StrCat(Visible(message.substr(0, end)), " (more: oneflow jobs describe ", job.job(), ")");
}

std::string TimeText(int64_t us) {
  return absl::FormatTime("%Y-%m-%d %H:%M:%S", absl::FromUnixMicros(us), absl::LocalTimeZone());
}

const char* ColourOf(absl::string_view state) {
  if (state == "FINISHED") return "\x1b[32m";
  if (state == "FAILED") return "\x1b[31m";
  if (state == "RUNNING" || state == "STARTING") return "\x1b[36m";
  return state == "QUEUED" ? "\x1b[33m" : "\x1b[2m";
}

// Columns as wide as their widest cell, but the last, which is not filled up; column `coloured` has states.
std::string Table(const std::vector<Row>& rows, int coloured = -1) {
  std::vector<size_t> widths(rows[0].size(), 0);
  for (const Row& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const Row& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) {
      const bool last = i + 1 == row.size();
      std::string cell = i == 0 ? absl::StrFormat("%*s", widths[i], row[i]) : row[i];
      if (!last && i > 0) cell.resize(widths[i], ' ');
      const bool colour = static_cast<int>(i) == coloured && &row != &rows[0];
      if (colour) cell = absl::StrCat(ColourOf(row[i]), cell, "\x1b[0m");
      absl::StrAppend(&text, i == 0 ? "" : "  ", cell);
    }
    absl::StripTrailingAsciiWhitespace(&text);
    text += '\n';
  }
  return text;
}

Row JobRow(const pb::JobStatus& job) {
  return {absl::StrCat(job.job()),
          Visible(job.name()),
          pb::JobState_Name(job.state()),
          absl::StrCat(job.processes(), " x ", job.devices_per_process()),
          absl::StrCat(job.attempt(), "/", std::max(job.attempts(), 1)),
          TimeText(job.submitted_us()),
          FirstLine(job)};
}

// "eth0 25G, mlx5_0 200G infiniband".
std::string LinksText(const pb::Node& node) {
  std::vector<std::string> links;
  for (const pb::NetworkLink& link : node.links()) {
    std::string& text = links.emplace_back(Visible(link.name()));
    if (link.mbit_per_s() > 0) absl::StrAppend(&text, " ", link.mbit_per_s() * 1e-3, "G");
    if (link.kind() != "ethernet") absl::StrAppend(&text, " ", Visible(link.kind()));
  }
  return absl::StrJoin(links, ", ");
}

Row NodeRow(const pb::Node& node) {
  const auto devices = [](int used, int all) { return absl::StrCat(used, "/", all); };
  const std::string state = node.away() ? "away" : "up";
  return {Visible(node.name()),
          Visible(node.host()),
          node.drained() ? state + ", drained" : state,
          devices(node.used_cpu(), node.cpu_devices()),
          devices(node.used_cuda(), node.cuda_devices()),
          absl::StrCat(node.cores()),
          node.memory_bytes() > 0
              ? absl::StrFormat("%.1f/%.1f", node.used_memory_bytes() * 1e-9, node.memory_bytes() * 1e-9)
              : "",
          LinksText(node),
          absl::StrJoin(node.jobs(), " ")};
}

// Numbers of codes: ranks, bits or elements.
std::string CodesTable(const pb::DescribeReply& job) {
  std::vector<Row> rows = {{"matrix", absl::StrCat("code since step ", job.codes(0).step() + 1)}};
  for (const pb::FetchedValue& code : job.codes()) {
    rows.push_back({Visible(code.name()), code.values_size() == 1 ? absl::StrCat(code.values(0)) : ""});
  }
  return Table(rows);
}

}  // namespace

std::string JobsTable(const std::vector<pb::JobStatus>& jobs, bool colour) {
  std::vector<Row> rows = {{"job", "name", "state", "size", "attempt", "submitted", "message"}};
  for (const pb::JobStatus& job : jobs) rows.push_back(JobRow(job));
  return Table(rows, colour ? 2 : -1);
}

std::string JobsJson(const std::vector<pb::JobStatus>& jobs) {
  google::protobuf::util::JsonPrintOptions options;
  options.always_print_primitive_fields = true;
  options.preserve_proto_field_names = true;
  std::string text;
  for (const pb::JobStatus& job : jobs) {
    const auto printed = google::protobuf::util::MessageToJsonString(job, &text, options);
    static_cast<void>(printed);  // a message of ours has a JSON form
    text += '\n';
  }
  return text;
}

std::string JobText(const pb::DescribeReply& job, const std::string& ended) {
  const pb::JobStatus& status = job.status();
  std::string text =
      absl::StrCat("job ", status.job(), " '", Visible(status.name()), "': ", pb::JobState_Name(status.state()),
                   ", attempt ", status.attempt(), " of ", std::max(status.attempts(), 1), "\n");
  if (!status.message().empty()) {
    absl::StrAppend(&text, status.state() == pb::QUEUED ? "waits: " : "", status.message(), "\n");
  }
  if (!ended.empty()) absl::StrAppend(&text, Visible(ended), "\n");
  absl::StrAppend(&text, "size: ", status.processes(), " processes of ", status.devices_per_process(), " ",
                  status.device(), " devices\nsubmitted: ", TimeText(status.submitted_us()), " by '",
                  Visible(status.user()), "', priority ", status.priority(), "\n");
  if (status.finished_us() > 0) absl::StrAppend(&text, "ended: ", TimeText(status.finished_us()), "\n");
  if (job.has_spec() && !job.spec().layout().empty()) absl::StrAppend(&text, "layout: ", job.spec().layout(), "\n");
  if (job.has_spec() && job.spec().has_checkpoint()) {
    absl::StrAppend(&text, "checkpoints: ", job.spec().checkpoint().path(), "\n");
  }
  std::vector<Row> rows = {{"worker", "daemon", "pid", "parts done", "state"}};
  for (const pb::WorkerPlace& worker : job.workers()) {
    rows.push_back({absl::StrCat(worker.process()), Visible(worker.daemon()), absl::StrCat(worker.pid()),
                    absl::StrCat(worker.phases_done()), worker.state()});
  }
  if (rows.size() > 1) absl::StrAppend(&text, "\n", Table(rows));
  if (job.codes_size() > 0) absl::StrAppend(&text, "\n", CodesTable(job));
  if (!job.has_spec()) return absl::StrCat(text, "\nits config is no longer kept\n");
  return absl::StrCat(text, "\n", job.spec().config());
}

std::string NodesTable(const std::vector<pb::Node>& nodes) {
  std::vector<Row> rows = {{"node", "host", "state", "cpu used", "cuda used", "cores", "GB taken", "links", "jobs"}};
  for (const pb::Node& node : nodes) rows.push_back(NodeRow(node));
  return Table(rows);
}

}  // namespace oneflow
