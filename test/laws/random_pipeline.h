// Random training steps in pipelines, boxed as the passes leave them: stages on meshes of several axes, even and uneven
// splits, chunks anywhere, micro-batches, boxings within stages and between them, ragged values or dense ones, and a
// schedule or none.
#pragma once

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "compiler/schedule/named_schedule.h"
#include "test/compiler/plan/random_job.h"

namespace oneflow::testing {

class RandomPipelineMaker {
 public:
  RandomPipelineMaker(uint32_t seed, DeviceKind device) : random_(seed), device_(device), kit_("train") {}

  RandomJob Make() {
    stages_ = 1 + Pick(3);
    micro_batches_ = 1 + Pick(4);
    static constexpr int kInner[][2] = {{1, 1}, {1, 1}, {2, 1}, {3, 1}, {1, 2}, {2, 2}};
    const auto& inner = kInner[Pick(std::size(kInner))];
    dp_ = inner[0];
    tp_ = inner[1];
    ChooseSchedule();
    const int chunks = static_cast<int>(rank_of_chunk_.size());
    Value x = Read();
    for (int c = 0; c < chunks; ++c) x = Forward(c, x);
    Value dy = Node("scale", chunks - 1, x, Role::kInputGradient, {{"alpha", 2.0}});
    kit_.graph().losses = {dy.id};
    for (int c = chunks - 1; c >= 0; --c) dy = Backward(c, dy);
    RandomJob job{std::move(kit_.graph()), Options()};
    return job;
  }

 private:
  struct Value {
    ValueId id = -1;
    int stage = 0;
    std::string sbp;
    ValueId counts = -1;  // of a ragged one, as they lie with it
  };
  struct Chunk {
    std::vector<Value> kept;  // what forward made or read
    Value variable;
  };

  int Pick(size_t n) { return static_cast<int>(random_() % n); }
  Rate Fast() const { return micro_batches_ > 1 ? Rate::kMicroBatch : Rate::kStep; }

  void ChooseSchedule() {
    static constexpr const char* kNames[] = {"", "", "gpipe", "1f1b", "1f1b", "zb-h1", "interleaved", "zb-v", "greedy"};
    ScheduleRequest request{.name = kNames[Pick(std::size(kNames))]};
    request.num_ranks = stages_;
    request.num_micro_batches = micro_batches_;
    if (request.name == "greedy") {
      const int chunks = stages_ + Pick(3);
      for (int c = 0; c < chunks; ++c) {
        request.rank_of_chunk.push_back(c < stages_ ? c : Pick(stages_));
        request.costs.chunks.push_back({1. + Pick(4), 1. + Pick(4), 1. + Pick(4), 1});
      }
      request.split_backward = Pick(2) == 0;
    }
    const absl::StatusOr<Schedule> schedule = MakeSchedule(request);
    if (!request.name.empty() && schedule.ok()) schedule_ = *schedule;
    rank_of_chunk_ = schedule_.num_ranks() > 0 ? schedule_.rank_of_chunk : RoundRobin(stages_, 1);
  }

  std::string Place(int stage) const {
    std::string axes, ranks;
    if (dp_ > 1) absl::StrAppend(&axes, "dp=", dp_);
    if (tp_ > 1) absl::StrAppend(&axes, axes.empty() ? "" : ",", "tp=", tp_);
    for (int r = 0; r < dp_ * tp_; ++r) absl::StrAppend(&ranks, r > 0 ? "," : "", stage * dp_ * tp_ + r);
    return absl::StrCat("[", axes, "]{", ranks, "}");
  }
  // The same along every axis, or anything.
  std::string Layout(const std::vector<const char*>& kinds) {
    std::string text;
    for (const int size : {dp_, tp_}) {
      if (size > 1) absl::StrAppend(&text, text.empty() ? "" : ",", kinds[Pick(kinds.size())]);
    }
    return absl::StrCat("(", text, ")");
  }
  std::string AnyLayout() { return Layout({"B", "S(0)", "S(1)"}); }

  // The node that was added last is of a chunk.
  Value Added(ValueId value, int chunk, int stage, std::string sbp, ValueId counts = -1) {
    kit_.graph().node(kit_.graph().num_nodes() - 1).chunk = chunk;
    return {value, stage, std::move(sbp), counts};
  }
  // What a node reads of these: them, and the counts if any is ragged.
  static std::vector<ValueId> Inputs(std::initializer_list<Value> values) {
    std::vector<ValueId> inputs;
    ValueId counts = -1;
    for (const Value& value : values) {
      inputs.push_back(value.id);
      if (value.counts >= 0) counts = value.counts;
    }
    if (counts >= 0) inputs.push_back(counts);
    return inputs;
  }
  // How the counts of rows, which are dimension 1, lie beside them.
  static std::string CountsSbp(std::string sbp) {
    for (size_t at = sbp.find("S(1)"); at != std::string::npos; at = sbp.find("S(1)")) sbp.replace(at, 4, "B");
    return sbp;
  }
  std::string Name() { return absl::StrCat("n", kit_.graph().num_nodes()); }

  Value Node(const std::string& op, int chunk, const Value& x, Role role, AttrMap attrs = {}) {
    kit_.Are(role, Fast());
    return Added(kit_.Node1(op, Name(), Inputs({x}), Place(x.stage) + x.sbp, std::move(attrs)), chunk, x.stage, x.sbp,
                 op == "pad_rows" ? -1 : x.counts);
  }
  Value Node2(const std::string& op, int chunk, const Value& x, const Value& y, Role role) {
    kit_.Are(role, Fast());
    return Added(kit_.Node1(op, Name(), Inputs({x, y}), Place(x.stage) + x.sbp), chunk, x.stage, x.sbp, x.counts);
  }
  Value Box(int chunk, const Value& x, int stage, const std::string& sbp, Role role, Rate rate) {
    if (x.stage == stage && x.sbp == sbp) return x;
    kit_.Are(role, rate);
    ValueId counts = x.counts;
    if (counts >= 0 && (x.stage != stage || CountsSbp(x.sbp) != CountsSbp(sbp))) {
      counts = Added(kit_.Box(Name(), counts, Place(stage) + CountsSbp(sbp)), chunk, stage, sbp).id;
    }
    std::vector<ValueId> inputs = Inputs({x});
    if (counts >= 0 && device_ == DeviceKind::kCuda) inputs.push_back(counts);  // ranks send, and know both ends
    return Added(kit_.Node1("boxing", Name(), inputs, Place(stage) + sbp), chunk, stage, sbp, counts);
  }

  Value Read() {
    const int stage = rank_of_chunk_[0];
    const std::string sbp = Layout({"S(0)"}), at = Place(stage) + sbp;
    kit_.Are(Role::kForward, Fast());
    const std::vector<ValueId> data = kit_.Node("read_data", "read", {}, {at, at},
                                                {{"dataset", std::string("images")},
                                                 {"batch", int64_t{5}},
                                                 {"channels", int64_t{1}},
                                                 {"height", int64_t{1}},
                                                 {"width", int64_t{3}}});
    Added(data[0], 0, stage, sbp);
    const Value x =
        Added(kit_.Node1("reshape", "flat", {data[0]}, at, {{"shape", std::vector<int64_t>{5, 3}}}), 0, stage, sbp);
    if (Pick(3) > 0) return x;
    return Added(kit_.Node1("keep_rows", "keep", {x.id, data[1]}, at), 0, stage, sbp, data[1]);
  }

  Value Forward(int c, Value x) {
    Chunk& chunk = chunks_.emplace_back();
    x = Box(c, x, rank_of_chunk_[c], Pick(3) == 0 ? AnyLayout() : x.sbp, Role::kForward, Fast());
    chunk.kept.push_back(x);
    for (int i = Pick(3); i >= 0; --i) {
      if (Pick(4) == 0) x = Box(c, x, x.stage, AnyLayout(), Role::kForward, Fast());
      x = Node(Pick(2) == 0 ? "relu" : "exp", c, x, Role::kForward);
      chunk.kept.push_back(x);
    }
    chunk.variable = {kit_.Variable(absl::StrCat("v", c), {5, 3}, Place(x.stage) + x.sbp), x.stage, x.sbp};
    kit_.graph().node(kit_.graph().num_nodes() - 1).chunk = c;
    return Node2("add", c, x, chunk.variable, Role::kForward);
  }

  Value Backward(int c, Value dy) {
    const Chunk& chunk = chunks_[c];
    for (int i = Pick(2); i >= 0; --i) {
      const Value& kept = chunk.kept[Pick(chunk.kept.size())];
      dy = Box(c, dy, kept.stage, kept.sbp, Role::kInputGradient, Fast());
      dy = Node2("relu_grad", c, dy, kept, Role::kInputGradient);
    }
    if (Pick(5) > 0) Update(c, dy);
    return dy;
  }

  // From a gradient of the variable to what overwrites it.
  void Update(int c, const Value& dy) {
    Value dw = Node("exp", c, dy, Role::kWeightGradient);
    const Value& kept = chunks_[c].kept.front();
    if (Pick(2) == 0) dw = Node2("relu_grad", c, dw, kept.sbp == dw.sbp ? kept : dw, Role::kWeightGradient);
    if (dw.counts >= 0) dw = Node("pad_rows", c, dw, Role::kWeightGradient);
    if (micro_batches_ > 1) dw = Node("accumulate", c, dw, Role::kReduction);
    const Value& variable = chunks_[c].variable;
    dw = Box(c, dw, dw.stage, variable.sbp, Role::kReduction, Rate::kStep);
    kit_.Are(Role::kUpdate, Rate::kStep);
    kit_.Node("assign", Name(), {variable.id, dw.id}, {});
    kit_.graph().node(kit_.graph().num_nodes() - 1).chunk = c;
  }

  CompileOptions Options() {
    CompileOptions options;
    options.job = "random";
    options.device = device_;
    std::vector<Axis> axes;
    if (stages_ > 1) axes.push_back({"pp", stages_});
    if (dp_ > 1) axes.push_back({"dp", dp_});
    if (tp_ > 1) axes.push_back({"tp", tp_});
    options.mesh = *Mesh::Create(axes);
    options.ranks_per_process = Pick(2) == 0 ? 1 : options.mesh.size();
    options.micro_batches = micro_batches_;
    options.pipeline = schedule_;
    return options;
  }

  std::mt19937 random_;
  const DeviceKind device_;
  GraphKit kit_;
  int stages_ = 1, dp_ = 1, tp_ = 1, micro_batches_ = 1;
  Schedule schedule_;
  std::vector<int> rank_of_chunk_;
  std::vector<Chunk> chunks_;
};

inline RandomJob MakeRandomPipeline(uint32_t seed, DeviceKind device) {
  return RandomPipelineMaker(seed, device).Make();
}

}  // namespace oneflow::testing
