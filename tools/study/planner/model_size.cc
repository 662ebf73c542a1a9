#include "tools/study/planner/model_size.h"

#include <algorithm>
#include <cctype>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "compiler/boxed_graph.h"
#include "compiler/lower/plan_memory.h"
#include "compiler/node_view.h"
#include "oneflow_core/models/model.h"

namespace oneflow {
namespace {

// Data that a model of these kinds can be built for without a file, the best first: files are read when it is trained.
constexpr const char* kData[][2] = {{"text", "data={text {path: 'text'}}"},
                                    {"images", "data={images {train_images: 'images' train_labels: 'labels'}}"},
                                    {"prototypes", "data={prototypes {classes: 1000}}"},
                                    {"clicks", "data={clicks {}}"},
                                    {"game", "data={game {}}"},
                                    {"texts", "data={texts {path: 'texts' text: 'text' label: 'label'}}"}};

bool IsGiven(const std::vector<std::string>& settings, absl::string_view field) {
  return std::any_of(settings.begin(), settings.end(), [&](const std::string& setting) {
    return absl::StartsWith(setting, absl::StrCat(field, "=")) || absl::StartsWith(setting, absl::StrCat(field, "."));
  });
}

bool IsFieldOfJob(absl::string_view setting) {
  const std::vector<std::string> parts = absl::StrSplit(setting, absl::ByAnyChar(".=[{"));
  return pb::JobConfig::descriptor()->FindFieldByName(parts[0]) != nullptr;
}

// "h12/attn/q/weight" is of "h*", "head/weight" of "head".
std::string PartOf(const std::string& variable) {
  std::string part = variable.substr(0, variable.find('/'));
  const size_t digits =
      std::find_if(part.begin(), part.end(), [](unsigned char c) { return std::isdigit(c) != 0; }) - part.begin();
  return digits == part.size() ? part : part.substr(0, digits) + "*";
}

void AddParts(const Graph& graph, const OpRegistry& ops, ModelSize& size) {
  std::map<std::string, size_t> places;
  std::map<std::string, std::set<std::string>> members;
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    const Node& node = graph.node(id);
    if (!ops.Is(node.op, OpKind::kVariable) || !node.attrs.Bool("trainable")) continue;
    const std::string name = PartOf(node.name);
    const auto [place, is_new] = places.emplace(name, size.parts.size());
    if (is_new) size.parts.push_back({name});
    ModelPart& part = size.parts[place->second];
    const int64_t parameters = graph.value(node.outputs[0]).type.shape.count();
    part.parameters += parameters;
    size.parameters += parameters;
    members[name].insert(node.name.substr(0, node.name.find('/')));
    part.count = static_cast<int64_t>(members[name].size());
  }
}

double FlopsOf(const Graph& graph, const OpRegistry& ops) {
  double flops = 0;
  for (NodeId id = 0; id < graph.num_nodes(); ++id) flops += NodeView(graph, id, ops).work().flops;
  return flops;
}

// "1,234,567".
std::string Grouped(int64_t number) {
  std::string digits = absl::StrCat(number);
  for (int64_t at = static_cast<int64_t>(digits.size()) - 3; at > 0; at -= 3) digits.insert(at, ",");
  return digits;
}

// With three digits: "12.4 G".
std::string Short(double number) {
  const char* const units[] = {"", " k", " M", " G", " T", " P", " E"};
  size_t unit = 0;
  while (number >= 1000 && unit + 1 < std::size(units)) {
    number /= 1000;
    ++unit;
  }
  return absl::StrFormat("%.3g%s", number, units[unit]);
}

}  // namespace

absl::StatusOr<SourcedConfig> ConfigOfModel(const std::string& name, const std::vector<std::string>& settings) {
  const ModelDef* const model = FindModel(name);
  if (model == nullptr) {
    std::vector<std::string> names;
    for (const ModelDef& each : Models()) names.push_back(each.name);
    return absl::NotFoundError(absl::StrCat("there is no model '", name, "'; there are ", absl::StrJoin(names, ", ")));
  }
  OF_ASSIGN_OR_RETURN(SourcedConfig config, ParseConfig("", "models show"));
  std::vector<std::string> all = {absl::StrCat("model={", name, " {}}"), "train.steps=1",
                                  absl::StrCat("train.batch_size=", model->least_batch),
                                  "train.schedule.learning_rate=1e-3"};
  for (const auto& [kind, data] : kData) {
    const bool reads = std::find(model->reads.begin(), model->reads.end(), kind) != model->reads.end();
    // What is said of its fields alone comes on top.
    if (!reads || (IsGiven(settings, "data") && !IsGiven(settings, absl::StrCat("data.", kind)))) continue;
    all.push_back(data);
    break;
  }
  for (const std::string& setting : settings) {
    all.push_back(IsFieldOfJob(setting) ? setting : absl::StrCat("model.", name, ".", setting));
  }
  for (const std::string& setting : all) OF_RETURN_IF_ERROR(ApplyOverride(setting, config));
  return config;
}

absl::StatusOr<ModelSize> SizeOfModel(Job& job, const OpRegistry& ops) {
  ModelSize size;
  const Graph& train = job.program[0];
  AddParts(train, ops, size);
  const double micro_batches = job.options.micro_batches;
  size.samples = job.config.config.train().batch_size();
  size.forward_flops = FlopsOf(train, ops) * micro_batches;
  VariableDists variables;
  OF_ASSIGN_OR_RETURN(const Graph compiled, RunPasses(train, job.options, ops, variables));
  for (NodeId id = 0; id < compiled.num_nodes(); ++id) {
    const bool by_step = compiled.node(id).rate == Rate::kStep;
    size.step_flops += NodeView(compiled, id, ops).work().flops * (by_step ? 1 : micro_batches);
  }
  OF_ASSIGN_OR_RETURN(const pb::PlanSet plan, CompileJob(job, ops));
  size.memory = MemoryAtPeak(plan, 0);
  return size;
}

std::string ModelSizeText(const std::string& name, const ModelSize& size) {
  std::string out = absl::StrCat(name, ": ", Grouped(size.parameters), " parameters\n");
  size_t width = 0;
  for (const ModelPart& part : size.parts) width = std::max(width, part.name.size());
  for (const ModelPart& part : size.parts) {
    const std::string each =
        part.count > 1 ? absl::StrCat("  ", part.count, " x ", Grouped(part.parameters / part.count)) : "";
    absl::StrAppendFormat(&out, "  %-*s  %15s%s\n", static_cast<int>(width), part.name, Grouped(part.parameters), each);
  }
  const auto samples = static_cast<double>(size.samples);
  absl::StrAppend(&out, "forward ", Short(size.forward_flops / samples), "FLOP for a sample, a training step of ",
                  size.samples, size.samples == 1 ? " sample " : " samples ", Short(size.step_flops), "FLOP\n");
  int64_t all = 0;
  for (const auto& [what, bytes] : size.memory) all += bytes;
  absl::StrAppend(&out, "memory of training on one device: ", Short(static_cast<double>(all)), "B\n");
  for (const auto& [what, bytes] : size.memory) {
    if (bytes > 0) absl::StrAppendFormat(&out, "  %-12s %10sB\n", what, Short(static_cast<double>(bytes)));
  }
  return out;
}

}  // namespace oneflow
