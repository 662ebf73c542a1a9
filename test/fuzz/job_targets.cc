#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/schedule/csv.h"
#include "glog/logging.h"
#include "google/protobuf/text_format.h"
#include "oneflow_core/graph_text.h"
#include "oneflow_core/models/config.h"
#include "oneflow_core/ops/ops.h"
#include "test/fuzz/small_jobs.h"
#include "test/fuzz/target.h"
#include "test/support/paths.h"
#include "tools/job/config.h"
#include "tools/job/job.h"
#include "tools/job/validate.h"

namespace oneflow::testing {
namespace {

// A job that takes longer to compile is only built: there are many inputs to try.
constexpr int64_t kMostDevices = 8;
constexpr int kMostNodes = 1000;
constexpr int kFewNodes = 120;                      // of more, one in eight
constexpr int64_t kMostMemoryOfALayer = 160 << 10;  // in all the graphs of a job

std::string ReadText(const std::filesystem::path& path) {
  std::ifstream file(path);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

void RunConfigText(absl::string_view input) {
  absl::StatusOr<SourcedConfig> config = ParseConfig(input, "fuzzed.pbtxt");
  if (!config.ok()) return;
  const absl::Status valid = ValidateConfig(*config);
  CHECK(valid.ok() || !valid.message().empty());
  // What was read is written as it was, and an override of it is refused or taken.
  std::string text;
  CHECK(google::protobuf::TextFormat::PrintToString(config->config, &text));
  CHECK(ParseConfig(text, "written.pbtxt").ok()) << text;
  ApplyOverride(input.substr(0, 64), *config).IgnoreError();
}

void RunConfig(absl::string_view input) {
  static const OpRegistry& ops = *new OpRegistry(StandardOps());
  pb::JobConfig message;
  if (!message.ParseFromString(std::string(input))) return;
  std::string text;
  google::protobuf::TextFormat::PrintToString(message, &text);
  absl::StatusOr<SourcedConfig> config = ParseConfig(text, "fuzzed.pbtxt");
  if (!config.ok()) return;
  absl::StatusOr<Job> job = MakeJob(*std::move(config), JobKind::kTrain, ops);
  if (!job.ok()) {
    CHECK(!job.status().message().empty());
    return;
  }
  int nodes = 0;
  for (const Graph& graph : job->program) nodes += graph.num_nodes();
  const bool often = nodes <= kFewNodes;
  if (!often && input.size() % 8 != 0) return;
  if (nodes > kMostNodes || job->spec.processes() * job->spec.devices_per_process() > kMostDevices) return;
  CompleteSpec(*job, ops).IgnoreError();
}

void RunGraph(absl::string_view input) {
  static const OpRegistry& ops = *new OpRegistry(StandardOps());
  const absl::StatusOr<Graph> graph = GraphFromText(input, ops);
  if (!graph.ok()) return;
  const std::string text = GraphToText(*graph);
  const absl::StatusOr<Graph> again = GraphFromText(text, ops);
  CHECK(again.ok()) << again.status() << "\n" << text;
  CHECK(GraphToText(*again) == text) << text;
}

}  // namespace

void AddJobTargets(std::vector<FuzzTarget>& targets) {
  FuzzTarget text{.name = "config_text", .run = RunConfigText};
  for (const auto& entry : std::filesystem::directory_iterator(std::string(SourceDir()) + "/tools/examples")) {
    if (entry.path().extension() == ".pbtxt") text.seeds.push_back(ReadText(entry.path()));
  }
  FuzzTarget config{.name = "config",
                    .message = std::make_shared<pb::JobConfig>(),
                    .run = RunConfig,
                    .most_memory = kUsualMostMemory + kMaxLayers * kMostMemoryOfALayer};
  FuzzTarget graph{.name = "graph", .run = RunGraph};
  for (const SmallJob& job : SmallJobs()) {
    config.seeds.push_back(job.config.SerializeAsString());
    for (const Graph& of : job.program) graph.seeds.push_back(GraphToText(of));
  }
  FuzzTarget schedule{.name = "schedule",
                      .run = [](absl::string_view input) { ScheduleFromCsv(input, "fuzzed").status().IgnoreError(); }};
  schedule.seeds = {"0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n", "0F0,1F0,1I0,0I0,1W0,0W0\n"};
  for (FuzzTarget* target : {&text, &config, &graph, &schedule}) targets.push_back(std::move(*target));
}

}  // namespace oneflow::testing
