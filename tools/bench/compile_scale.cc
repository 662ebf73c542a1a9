#include "tools/bench/compile_scale.h"

#include <algorithm>
#include <random>

#include "compiler/boxed_graph.h"
#include "compiler/lower/compile.h"
#include "compiler/lower/program.h"
#include "compiler/schedule/named_schedule.h"
#include "oneflow_core/functional.h"
#include "oneflow_core/models/gpt.h"
#include "oneflow_core/nn/embedding.h"
#include "oneflow_core/nn/linear.h"
#include "oneflow_core/nn/norm.h"
#include "proto/plan.pb.h"
#include "tools/bench/expense.h"
#include "tools/control/process/peak_bytes.h"
#include "tools/job/kernel_scratch.h"
#include "tools/job/packed_program.h"

namespace oneflow {
namespace {

constexpr int64_t kVocabulary = 51'200, kContext = 2'048;
constexpr ScaleCase kCases[] = {
    {"gpt3-dp1", "GPT-3, pp12 x dp1 x tp8", 12, 1, 8, 48, 96, 12'288, 96, 0, ""},
    {"gpt3-dp4", "GPT-3, pp12 x dp4 x tp8", 12, 4, 8, 48, 96, 12'288, 96, 0, ""},
    {"gpt3-dp32", "GPT-3, pp12 x dp32 x tp8", 12, 32, 8, 48, 96, 12'288, 96, 0, ""},
    {"gpt3-ramp", "the same, a ramp of 8 sizes", 12, 32, 8, 48, 96, 12'288, 96, 0, "", 1, 8},
    {"gpt3-half", "half of GPT-3, pp12 x dp1 x tp8", 12, 1, 8, 48, 48, 12'288, 96, 0, ""},
    {"gpt1t", "GPT-1T, pp64 x dp6 x tp8", 64, 6, 8, 128, 128, 25'600, 160, 0, ""},
    {"gpt1t-interleaved", "GPT-1T, interleaved 1F1B", 64, 6, 8, 128, 128, 25'600, 160, 0, "interleaved"},
    {"gpt1t-zb-h1", "GPT-1T, ZB-H1", 64, 6, 8, 128, 128, 25'600, 160, 0, "zb-h1"},
    {"gpt3-zero3", "GPT-3, dp32, ZeRO-3", 12, 32, 8, 48, 96, 12'288, 96, 0, "", 1, 1, 3},
    {"gpt1t-zero1", "GPT-1T, dp6, ZeRO-1", 64, 6, 8, 128, 128, 25'600, 160, 0, "", 1, 1, 1},
    {"gpt1t-zero3", "GPT-1T, dp6, ZeRO-3", 64, 6, 8, 128, 128, 25'600, 160, 0, "", 1, 1, 3},
    {"gpt1t-100k", "GPT-1T, pp64 x dp196 x tp8", 64, 196, 8, 128, 128, 25'600, 160, 0, "", 1, 1, 1},
    {"random", "random graph, dp128 x tp8", 1, 128, 8, 1, 0, 0, 0, 23'000, ""},
};

// Layers between any two tensors of a few streams that all reach the loss.
class RandomGraph {
 public:
  RandomGraph(const OpRegistry& ops, int64_t batch, uint32_t seed)
      : builder_(ops, "train"), batch_(batch), random_(seed) {}

  absl::StatusOr<Graph> Make(int num_ops) {
    const Tensor tokens =
        ReadTextBatch(builder_, {.path = "text"}, DataSplit::kTrain, batch_, kTokens, kWidths[0]).inputs;
    const Tensor x = nn::Embedding(tokens, "table", {.rows = kWidths[0], .width = kWidths[0], .init = kInit});
    std::vector<Tensor> streams(kStreams, x);
    while (builder_.status().ok() && builder_.graph().num_nodes() < num_ops) Step(streams);
    std::vector<Tensor> means;
    for (const Tensor& stream : streams) means.push_back(ReduceMean(Square(stream)));
    Tensor loss = means[0];
    for (size_t i = 1; i < means.size(); ++i) loss = Add(loss, means[i]);
    builder_.SetLoss(loss);
    Fetch(loss, "loss");
    return builder_.Finish();
  }

 private:
  static constexpr int kStreams = 6;
  static constexpr int64_t kTokens = 64;
  static constexpr int64_t kWidths[] = {256, 512, 1024};
  static constexpr const char* kInit = "normal(0.02)";

  int Draw(int n) { return static_cast<int>(random_() % static_cast<uint32_t>(n)); }

  void Step(std::vector<Tensor>& streams) {
    Tensor& x = streams[Draw(kStreams)];
    const std::string name = absl::StrCat("n", builder_.graph().num_nodes());
    switch (Draw(6)) {
      case 0:
      case 1:
        x = nn::Linear(x, name, {.width = kWidths[Draw(3)], .bias = Draw(2) == 0, .init = kInit});
        break;
      case 2:
        x = nn::LayerNorm(x, name);
        break;
      case 3:
        x = Draw(2) == 0 ? Relu(x) : Gelu(x);
        break;
      default: {
        const Tensor& other = streams[Draw(kStreams)];
        x = other.shape() == x.shape() ? Add(x, other) : Tanh(x);
      }
    }
  }

  GraphBuilder builder_;
  const int64_t batch_;
  std::mt19937 random_;
};

// Of the graph of so many parts of the micro-batches.
std::string NameOfSize(const ScaleCase& it, int size) {
  return size == it.sizes ? "train" : absl::StrCat("train/", size);
}

// Of one process per class of ranks, the most bytes that a worker is sent.
absl::StatusOr<int64_t> LargestProgram(const pb::PlanSet& plan, int ranks_per_process) {
  int64_t largest = 0;
  for (const pb::RankClass& ranks : plan.classes()) {
    OF_ASSIGN_OR_RETURN(const pb::Program program, ProgramOf(plan, ranks.ranks(0) / ranks_per_process, ""));
    largest = std::max<int64_t>(largest, PackProgram(program).ByteSizeLong());
  }
  return largest;
}

}  // namespace

absl::StatusOr<Graph> ScaleGraph(const ScaleCase& it, const OpRegistry& ops) {
  if (it.layers == 0) return RandomGraph(ops, 4 * it.dp, it.seed).Make(it.ops);
  const GptConfig config{
      .vocabulary = kVocabulary, .layers = it.layers, .width = it.width, .heads = it.heads, .context = kContext};
  OF_ASSIGN_OR_RETURN(std::vector<Graph> program,
                      GptProgram(config, {.path = "text"}, {.train = it.dp}, std::nullopt, ops));
  return std::move(program[0]);
}

absl::StatusOr<CompileOptions> ScaleOptions(const ScaleCase& it) {
  CompileOptions options;
  options.job = it.name;
  options.micro_batches = it.micro_batches;
  options.ranks_per_process = it.tp;
  options.device = DeviceKind::kCuda;
  options.kernel_scratch = ScratchOfKernels(options.device, 1);
  options.optimizer.clip_norm = 1;
  if (it.zero_stage > 0) options.zero = ZeroOptions{.stage = it.zero_stage, .axis = "dp"};
  std::vector<Axis> axes;  // as a job's mesh has them
  for (const Axis& axis : {Axis{"pp", it.pp}, Axis{"dp", it.dp}, Axis{"tp", it.tp}}) {
    if (axis.size > 1) axes.push_back(axis);
  }
  OF_ASSIGN_OR_RETURN(options.mesh, Mesh::Create(std::move(axes)));
  for (int size = 1; size <= it.sizes; ++size) {
    StepOptions step{.micro_batches = it.micro_batches / it.sizes * size};
    ScheduleRequest request{.name = it.schedule};
    request.num_ranks = it.pp;
    request.num_micro_batches = step.micro_batches;
    if (!request.name.empty()) {
      OF_ASSIGN_OR_RETURN(step.pipeline, MakeSchedule(request));
    }
    options.own_steps[NameOfSize(it, size)] = std::move(step);
  }
  return options;
}

absl::Span<const ScaleCase> ScaleCases() { return kCases; }

absl::StatusOr<ScaleFigures> MeasureScale(const ScaleCase& it, const OpRegistry& ops) {
  ScaleFigures figures{.name = it.name, .title = it.title, .ranks = it.pp * it.dp * it.tp};
  ResetPeak();
  Stopwatch watch;
  OF_ASSIGN_OR_RETURN(Graph graph, ScaleGraph(it, ops));
  OF_ASSIGN_OR_RETURN(const CompileOptions options, ScaleOptions(it));
  figures.graph_seconds = watch.Lap();
  VariableDists variables;
  const auto after_pass = [&](absl::string_view pass, const Graph&) {
    (pass == "select-sbp" ? figures.selection_seconds : figures.passes_seconds) += watch.Lap();
  };
  std::vector<BoxedGraph> boxed;
  for (int size = it.sizes; size >= 1; --size) {
    Graph of_size = graph;
    of_size.set_name(NameOfSize(it, size));
    const int micro_batches = options.StepOf(of_size).micro_batches;
    OF_ASSIGN_OR_RETURN(of_size, RunPasses(std::move(of_size), options, ops, variables, after_pass));
    figures.passes_seconds += watch.Lap();
    figures.nodes += of_size.num_nodes();
    boxed.push_back({std::move(of_size), micro_batches});
  }
  OF_ASSIGN_OR_RETURN(const pb::PlanSet plan, CompileBoxed(boxed, options, ops));
  OF_ASSIGN_OR_RETURN(const std::string bytes, SerializePlan(plan));
  figures.plan_seconds = watch.Lap();
  figures.peak_bytes = PeakBytes();
  figures.plan_bytes = static_cast<int64_t>(bytes.size());
  OF_ASSIGN_OR_RETURN(figures.largest_program_bytes, LargestProgram(plan, options.ranks_per_process));
  return figures;
}

}  // namespace oneflow
