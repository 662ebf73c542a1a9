#include "tools/bench/boxing_job.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "actor/checkpoint/safetensors.h"
#include "compiler/lower/compile.h"
#include "oneflow_core/functional.h"
#include "oneflow_core/queues.h"
#include "proto/plan.pb.h"

namespace oneflow {
namespace {

constexpr int64_t kBoxedRows = 32;  // of sums; ranks take eight each
constexpr char kWhole[] = "whole", kBare[] = "bare";
constexpr int64_t kRoundTripElements = 16;
constexpr double kSumsDiffer = 1e-6;  // relative to what addends are; four are added in any order

bool Adds(BoxingWay way) { return way == BoxingWay::kAllReduce || way == BoxingWay::kReduceScatter; }
bool Gathers(BoxingWay way) { return way == BoxingWay::kAllReduce || way == BoxingWay::kAllGather; }
// A rank has a row of what goes to all, so that what it gets of one lies together.
int64_t RowsOf(BoxingWay way) { return way == BoxingWay::kAllToAll ? kBoxingRanks : kBoxedRows; }

// Keeps `x` in a variable.
void KeepBoxed(GraphBuilder& b, const Tensor& x, const SbpHint& layout) {
  const Tensor kept = b.Variable("kept", x.type(), "zeros", layout);
  b.Op("assign", {kept, x});
}

// A tensor as it lies before it is boxed, on the axis "r".
Tensor ToBeBoxed(GraphBuilder& b, BoxingWay way, int64_t rows, int64_t columns) {
  if (!Adds(way)) return b.Variable("x", {DType::kFloat32, {rows, columns}}, "normal(1)", {{"r", Sbp::Split(0)}});
  const Tensor left = b.Variable("a", {DType::kFloat32, {rows, kBoxingRanks}}, "normal(1)", {{"r", Sbp::Split(1)}});
  const Tensor right = b.Variable("b", {DType::kFloat32, {kBoxingRanks, columns}}, "normal(1)", {{"r", Sbp::Split(0)}});
  return MatMul(left, right).To({{"r", Sbp::Partial()}});
}

absl::StatusOr<Graph> GraphOf(BoxingWay way, int64_t num_bytes, const OpRegistry& ops) {
  GraphBuilder b(ops, kWhole);
  const int64_t rows = RowsOf(way), columns = num_bytes / (rows * static_cast<int64_t>(sizeof(float)));
  const SbpHint first = {{"r", Sbp::Split(0)}};
  if (way == BoxingWay::kSend) {
    std::optional<GraphBuilder::PlacementScope> stage;
    stage.emplace(b, PlacementHint{{"pp", 0}});
    const Tensor x = ToBeBoxed(b, way, rows, columns);
    stage.emplace(b, PlacementHint{{"pp", 1}});
    KeepBoxed(b, x.To({{"pp", 1}}, first), first);
  } else {
    const Tensor x = ToBeBoxed(b, way, rows, columns);
    const Sbp to = Gathers(way) ? Sbp::Broadcast() : Sbp::Split(way == BoxingWay::kAllToAll ? 1 : 0);
    const Tensor boxed = x.To({{"r", to}});
    KeepBoxed(b, Gathers(way) ? BroadcastTo(boxed, {kBoxingRanks, rows, columns}).To(first) : boxed,
              Gathers(way) ? first : SbpHint{{"r", to}});
  }
  return b.Finish();
}

// The same plan without what computes.
pb::ClassPlan Bare(const pb::ClassPlan& whole) {
  pb::ClassPlan bare = whole;
  bare.set_name(kBare);
  for (pb::ClassActor& actor : *bare.mutable_actors()) {
    auto& instructions = *actor.mutable_instructions();
    instructions.erase(std::remove_if(instructions.begin(), instructions.end(),
                                      [](const pb::ClassInstruction& x) { return x.op() != "boxing"; }),
                       instructions.end());
  }
  return bare;
}

void AddRun(const char* plan, int64_t first_step, int64_t steps, pb::JobSpec& spec) {
  pb::RunPlan& run = *spec.add_phases()->mutable_run();
  run.set_plan(plan);
  run.set_first_step(first_step);
  run.set_steps(steps);
}

// Without phases.
absl::StatusOr<pb::JobSpec> SpecOf(const pb::PlanSet& plan, const CompileOptions& options, int cores) {
  pb::JobSpec spec;
  spec.set_name(options.job);
  OF_ASSIGN_OR_RETURN(*spec.mutable_plan(), SerializePlan(plan));
  spec.set_plan_hash(PlanHash(spec.plan()));
  spec.set_processes(options.num_ranks / options.ranks_per_process);
  spec.set_devices_per_process(options.ranks_per_process);
  spec.set_device("cpu");
  spec.set_cores_per_process(std::max(1, cores / spec.processes()));
  return spec;
}

// The tensors of a file, by name.
class Saved {
 public:
  static absl::StatusOr<Saved> Open(const std::string& file) {
    OF_ASSIGN_OR_RETURN(const SafetensorsReader reader, SafetensorsReader::Open(file));
    Saved saved;
    for (const auto& [name, entry] : reader.tensors()) {
      std::vector<float>& values = saved.values_[name];
      values.resize(static_cast<size_t>(entry.type.shape.count()));
      OF_RETURN_IF_ERROR(reader.Read(entry, 0, entry.type.num_bytes(), values.data()));
    }
    return saved;
  }
  const float* of(const char* name) const { return values_.at(name).data(); }
  int64_t count(const char* name) const { return static_cast<int64_t>(values_.at(name).size()); }

 private:
  std::map<std::string, std::vector<float>> values_;  // all are f32
};

}  // namespace

const char* NameOf(BoxingWay way) {
  constexpr const char* kNames[] = {"all-reduce", "all-gather", "reduce-scatter", "all-to-all", "send"};
  return kNames[static_cast<int>(way)];
}

absl::StatusOr<pb::JobSpec> MakeBoxingJob(BoxingWay way, int64_t num_bytes, int steps, int cores,
                                          const std::string& file, const OpRegistry& ops, BoxingPlace place) {
  CompileOptions options;
  options.job = absl::StrCat("boxing-", NameOf(way));
  const int stages = way == BoxingWay::kSend ? 2 : 1;
  std::vector<Axis> axes = {{"r", kBoxingRanks / stages}};
  if (stages > 1) axes.insert(axes.begin(), {"pp", stages});
  OF_ASSIGN_OR_RETURN(options.mesh, Mesh::Create(axes));
  options.num_ranks = kBoxingRanks;
  const int processes = place == BoxingPlace::kFourHostsOfOne ? kBoxingRanks : kBoxingProcesses;
  options.ranks_per_process = kBoxingRanks / processes;
  if (place != BoxingPlace::kOneHost) options.hosts = {{.count = processes, .devices = options.ranks_per_process}};
  OF_ASSIGN_OR_RETURN(Graph graph, GraphOf(way, num_bytes, ops));
  Program program;
  program.push_back(std::move(graph));
  OF_ASSIGN_OR_RETURN(pb::PlanSet plan, Compile(program, options, ops));
  *plan.add_plans() = Bare(plan.plans(0));
  OF_ASSIGN_OR_RETURN(pb::JobSpec spec, SpecOf(plan, options, cores));
  AddRun(kWhole, 0, 1, spec);
  if (!file.empty()) spec.add_phases()->mutable_save()->set_path(file);
  AddRun(kBare, 0, steps, spec);
  AddRun(kBare, steps, steps, spec);
  return spec;
}

absl::StatusOr<pb::JobSpec> MakeRoundTripJob(int steps, int cores, const OpRegistry& ops) {
  CompileOptions options;
  options.job = "round-trip";
  OF_ASSIGN_OR_RETURN(options.mesh, Mesh::Create({{"pp", 2}}));
  options.num_ranks = 2;
  options.ranks_per_process = 1;
  options.hosts = {{.count = 2, .devices = 1}};
  GraphBuilder b(ops, kWhole);
  std::optional<GraphBuilder::PlacementScope> stage;
  stage.emplace(b, PlacementHint{{"pp", 0}});
  const Tensor x = b.Variable("x", {DType::kFloat32, {kRoundTripElements}}, "ones");
  stage.emplace(b, PlacementHint{{"pp", 1}});
  const Tensor changed = Relu(x.To({{"pp", 1}}, {}));
  stage.emplace(b, PlacementHint{{"pp", 0}});
  b.Op("assign", {x, changed.To({{"pp", 0}}, {})});
  OF_ASSIGN_OR_RETURN(Graph graph, b.Finish());
  Program program;
  program.push_back(std::move(graph));
  OF_ASSIGN_OR_RETURN(pb::PlanSet plan, Compile(program, options, ops));
  // A thread on either side, which hands over to nobody else.
  for (pb::ClassActor& actor : *plan.mutable_plans(0)->mutable_actors()) actor.set_queue(MainQueue());
  OF_ASSIGN_OR_RETURN(pb::JobSpec spec, SpecOf(plan, options, cores));
  AddRun(kWhole, 0, steps, spec);
  AddRun(kWhole, steps, steps, spec);
  return spec;
}

absl::StatusOr<double> BoxingStepSeconds(const std::vector<pb::JobEvent>& events, const pb::JobSpec& spec) {
  const int measured = spec.phases_size() - 1;
  std::map<int, double> run_seconds;  // by process: in the measured phase, of all its ranks
  for (const pb::JobEvent& event : events) {
    if (!event.has_stats()) continue;
    const pb::PhaseStats& stats = event.stats();
    if (stats.part() == measured - 1) run_seconds[stats.process()] -= stats.stats().run_seconds();
    if (stats.part() == measured) run_seconds[stats.process()] += stats.stats().run_seconds();
  }
  double slowest = 0;
  for (const auto& [process, seconds] : run_seconds) slowest = std::max(slowest, seconds);
  if (slowest <= 0) return absl::InternalError("the job told no times");
  return slowest / spec.devices_per_process() / static_cast<double>(spec.phases(measured).run().steps());
}

absl::Status CheckBoxed(BoxingWay way, const std::string& file) {
  OF_ASSIGN_OR_RETURN(const Saved saved, Saved::Open(file));
  const float* const kept = saved.of("kept");
  const int64_t count = saved.count("kept"), of_each = Gathers(way) ? count / kBoxingRanks : count;
  const int64_t columns = Adds(way) ? saved.count("b") / kBoxingRanks : 1;
  const float* const left = Adds(way) ? saved.of("a") : nullptr;
  const float* const right = Adds(way) ? saved.of("b") : nullptr;
  const float* const x = Adds(way) ? nullptr : saved.of("x");
  for (int64_t i = 0; i < count; ++i) {
    const int64_t at = i % of_each;
    double expected = 0, size = 0;
    for (int r = 0; Adds(way) && r < kBoxingRanks; ++r) {
      const double addend = double{left[at / columns * kBoxingRanks + r]} * right[r * columns + at % columns];
      expected += addend, size += std::abs(addend);
    }
    if (!Adds(way)) expected = x[at];
    if (std::abs(kept[i] - expected) <= kSumsDiffer * size) continue;
    return absl::InternalError(
        absl::StrCat(NameOf(way), ": element ", i, " of what arrived is ", kept[i], "; ", expected, " was sent"));
  }
  return absl::OkStatus();
}

}  // namespace oneflow
