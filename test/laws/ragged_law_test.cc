// Ragged values compute what dense ones with zeros behind their rows compute, wherever groups, rows and columns lie;
// and what travels are the filled rows, also between processes, and where ranks send.
#include "test/laws/ragged_law.h"

#include <set>

#include "oneflow_core/models/data.h"
#include "sbp/slices.h"
#include "test/support/names.h"

namespace oneflow {
namespace {

constexpr int64_t kRaggedSteps = 3;

class RaggedLawTest : public testing::RaggedLaw {
 protected:
  // Experts that share weights but for a scale, after the tokens have come to them; and what they send back.
  Tensor Experts(GraphBuilder& b, Tensor x, const SbpHint& there) {
    const auto weight = [&](const char* name, Shape shape) {
      return b.Variable(name, {DType::kFloat32, std::move(shape)}, "normal(0.3)");
    };
    Tensor h = LayerNorm(x.To(there), weight("gamma", {kWidth}), weight("beta", {kWidth}));
    h = BiasAdd(MatMul(h, weight("up", {kWidth, kHidden})), weight("bias", {kHidden}));
    h = Dropout(Gelu(Mul(h, weight("scale", {kExperts, 1, 1}))), 0.2);
    return Add(MatMul(h, weight("down", {kHidden, kWidth})), x);
  }

  // 1 where a token is, 0 behind.
  Tensor IsToken(GraphBuilder& b, Tensor counts) {
    const Tensor ones = Constant(b, {DType::kFloat32, {kSources, kExperts, kTokens, 1}}, 1);
    return PadRows(KeepRows(ones, counts));
  }

  // `ragged`: the experts see the tokens that there are, and what lies behind is no number. Else they see all rows,
  // and what they make of those that are none is made zero at the end.
  absl::StatusOr<Graph> TrainGraph(bool ragged, const SbpHint& here, const SbpHint& there) {
    GraphBuilder b(ops_, "train");
    const TensorType type{DType::kFloat32, {kSources, kExperts, kTokens, kWidth}};
    const Tensor counts = Counts(b);
    Tensor x = b.Variable("x", type, "normal(1)", here);
    if (ragged) x = KeepRows(Add(x, Log(IsToken(b, counts))), counts);
    Tensor y = Experts(b, x, there);
    if (!ragged) y = Mul(y, IsToken(b, counts));
    const Tensor loss = ReduceSum(Square(y));
    b.SetLoss(loss);
    Fetch(loss, "loss");
    return b.Finish();
  }

  struct Setting {
    int processes = 1;
    bool together = false;  // for so many, but in one
    bool sends = false;
    DType compute = DType::kFloat32;
    bool far = false;  // each process is on a host of its own
  };
  absl::StatusOr<Outcome> Train(bool ragged, std::vector<Axis> mesh, const SbpHint& here, const SbpHint& there,
                                const Setting& setting) {
    OF_ASSIGN_OR_RETURN(Graph graph, TrainGraph(ragged, here, there));
    OF_ASSIGN_OR_RETURN(CompileOptions options, Options(std::move(mesh)));
    options.ranks_per_process = options.mesh.size() / setting.processes;
    options.device = setting.sends ? DeviceKind::kCuda : DeviceKind::kCpu;
    if (setting.far) options.hosts = {{.count = setting.processes, .devices = options.ranks_per_process}};
    options.precision.compute = setting.compute;
    options.precision.initial_scale = 64;  // losses are sums: with 65536 the first steps would all be skipped
    return Run(std::move(graph), options, kRaggedSteps, setting.together);
  }
  absl::StatusOr<Outcome> Train(bool ragged, std::vector<Axis> mesh, const SbpHint& here, const SbpHint& there) {
    return Train(ragged, std::move(mesh), here, there, {});
  }
};

TEST_F(RaggedLawTest, TrainsAsDenseValuesWithZerosDoHoweverTheyLie) {
  SCOPED_TRACE(absl::StrCat("seed ", kSeed));
  ASSERT_OK_AND_ASSIGN(const Outcome dense, Train(false, {}, {}, {}));
  ASSERT_LT(dense.losses.back(), dense.losses.front());
  const auto on = [](int dim) { return SbpHint{{"a", Sbp::Split(dim)}}; };
  {
    SCOPED_TRACE("on one device");
    ASSERT_OK_AND_ASSIGN(const Outcome outcome, Train(true, {}, {}, {}));
    ExpectSame(outcome, dense);
  }
  for (int here = 0; here < 4; ++here) {
    for (int there = 0; there < 4; ++there) {
      SCOPED_TRACE(absl::StrCat("S(", here, ") to S(", there, ")"));
      ASSERT_OK_AND_ASSIGN(const Outcome two, Train(true, {{"a", 2}}, on(here), on(there)));
      ExpectSame(two, dense);
      ASSERT_OK_AND_ASSIGN(const Outcome three, Train(true, {{"a", 3}}, on(here), on(there)));
      ExpectSame(three, dense);
    }
  }
  const std::vector<std::pair<SbpHint, SbpHint>> layouts = {
      {{{"a", Sbp::Split(0)}, {"b", Sbp::Split(1)}}, {{"a", Sbp::Split(1)}, {"b", Sbp::Split(0)}}},
      {{{"a", Sbp::Split(0)}, {"b", Sbp::Split(3)}}, {{"a", Sbp::Split(2)}, {"b", Sbp::Split(1)}}},
      {{{"a", Sbp::Split(2)}, {"b", Sbp::Split(2)}}, {{"a", Sbp::Broadcast()}, {"b", Sbp::Split(0)}}},
  };
  for (const auto& [here, there] : layouts) {
    SCOPED_TRACE(absl::StrCat(ToString(here), " to ", ToString(there)));
    ASSERT_OK_AND_ASSIGN(const Outcome outcome, Train(true, {{"a", 2}, {"b", 2}}, here, there));
    ExpectSame(outcome, dense);
  }
}

// Processes of a host read one another's memory, those of other hosts what is sent to them, rows and counts alike, and
// nothing else is new to them.
TEST_F(RaggedLawTest, ProcessesTrainAsOneAndMoveAsMuch) {
  const auto on = [](Sbp sbp) { return SbpHint{{"a", sbp}}; };
  ASSERT_OK_AND_ASSIGN(const Outcome one, Train(true, {}, {}, {}));
  const auto expect_alike = [&](const std::vector<Axis>& mesh, const SbpHint& here, const SbpHint& there) {
    for (const bool far : {false, true}) {
      SCOPED_TRACE(absl::StrCat(ToString(here), " to ", ToString(there), far ? ", on two hosts" : ""));
      Setting setting{.processes = 2, .together = true, .far = far};
      ASSERT_OK_AND_ASSIGN(const Outcome together, Train(true, mesh, here, there, setting));
      setting.together = false;
      ASSERT_OK_AND_ASSIGN(const Outcome apart, Train(true, mesh, here, there, setting));
      EXPECT_EQ(apart.losses, together.losses);
      EXPECT_EQ(apart.weights, together.weights);
      EXPECT_EQ(apart.bytes_moved, together.bytes_moved);
      ExpectSame(apart, one);
    }
  };
  const std::vector<Sbp> ways = {Sbp::Split(0), Sbp::Split(1), Sbp::Split(2), Sbp::Split(3), Sbp::Broadcast()};
  for (const Sbp here : ways) {
    for (const Sbp there : ways) expect_alike({{"a", 2}}, on(here), on(there));
  }
  expect_alike({{"a", 4}}, on(Sbp::Split(0)), on(Sbp::Split(1)));
  expect_alike({{"a", 2}, {"b", 2}}, {{"a", Sbp::Split(0)}, {"b", Sbp::Split(3)}},
               {{"a", Sbp::Split(2)}, {"b", Sbp::Split(1)}});
}

// A batch is cut into micro-batches, whose rows are as many as their labels say: a register holds rows of several at
// once, and each is read by its own counts, wherever they lie.
TEST_F(RaggedLawTest, MicroBatchesHaveCountsOfTheirOwn) {
  const auto train = [&](int processes, bool far, const Sbp& there) {
    GraphBuilder b(ops_, "train");
    const PrototypeData data{.classes = 6, .samples = 64, .height = 5, .width = 4, .noise = 0.3};
    const Batch batch = ReadPrototypeBatch(b, data, DataSplit::kTrain, 16);
    const Tensor x = Reshape(batch.inputs, {16, 5, 4});
    const Tensor is_row = PadRows(KeepRows(Constant(b, {DType::kFloat32, {16, 5, 1}}, 1), batch.labels));
    const Tensor rows = KeepRows(Add(x, Log(is_row)), batch.labels);  // behind them is no number
    const auto weight = [&](const char* name, Shape shape) {
      return b.Variable(name, {DType::kFloat32, std::move(shape)}, "normal(0.3)");
    };
    const Tensor h = Gelu(MatMul(rows, weight("in", {4, 6}))).To({{"a", there}});
    const Tensor loss = ReduceSum(Square(MatMul(h, weight("out", {6, 3}))));
    b.SetLoss(loss);
    Fetch(loss, "loss");
    Fetch(rows, "rows");
    Graph graph = b.Finish().value();
    CompileOptions options = Options({{"a", 2}}).value();
    options.ranks_per_process = 2 / processes;
    if (far) options.hosts = {{.count = processes, .devices = options.ranks_per_process}};
    options.micro_batches = 4;
    return Run(std::move(graph), options, 5);
  };
  for (const Sbp there : {Sbp::Split(0), Sbp::Split(1), Sbp::Split(2), Sbp::Broadcast()}) {
    SCOPED_TRACE(there.ToString());
    ASSERT_OK_AND_ASSIGN(const Outcome one, train(1, false, there));
    ASSERT_TRUE(std::isfinite(one.losses.back()));
    ASSERT_OK_AND_ASSIGN(const Outcome near, train(2, false, there));
    ASSERT_OK_AND_ASSIGN(const Outcome far, train(2, true, there));
    EXPECT_EQ(near.weights, one.weights);
    EXPECT_EQ(far.weights, one.weights);
    EXPECT_EQ(far.bytes_moved, near.bytes_moved);
    ASSERT_EQ(one.fetched.at("rows").size(), 16 * 5 * 4);  // their mean over the micro-batches
    for (const double value : one.fetched.at("rows")) EXPECT_TRUE(std::isfinite(value));
    EXPECT_EQ(far.fetched, one.fetched);
  }
}

// Each end of a transfer knows by itself what is sent.
TEST_F(RaggedLawTest, RanksThatSendTrainAsThoseThatReadDo) {
  const auto expect_alike = [&](const std::vector<Axis>& mesh, const SbpHint& here, const SbpHint& there) {
    SCOPED_TRACE(absl::StrCat(ToString(here), " to ", ToString(there), " on ", mesh[0].size));
    ASSERT_OK_AND_ASSIGN(const Outcome reading, Train(true, mesh, here, there));
    ASSERT_OK_AND_ASSIGN(const Outcome sending, Train(true, mesh, here, there, {.sends = true}));
    ExpectSame(sending, reading);
  };
  const std::vector<Sbp> ways = {Sbp::Split(0), Sbp::Split(1), Sbp::Split(2), Sbp::Split(3), Sbp::Broadcast()};
  for (const Sbp here : ways) {
    for (const Sbp there : ways) {
      for (const int ranks : {2, 3}) expect_alike({{"a", ranks}}, {{"a", here}}, {{"a", there}});
    }
  }
  expect_alike({{"a", 2}, {"b", 2}}, {{"a", Sbp::Split(0)}, {"b", Sbp::Split(1)}},
               {{"a", Sbp::Split(1)}, {"b", Sbp::Split(0)}});
  expect_alike({{"a", 2}, {"b", 2}}, {{"a", Sbp::Split(0)}, {"b", Sbp::Split(3)}},
               {{"a", Sbp::Split(2)}, {"b", Sbp::Split(1)}});
}

// A product of 16-bit floats is prepared for a few numbers of rows.
TEST_F(RaggedLawTest, TrainsIn16BitsAsDenseValuesDo) {
  for (const DType compute : {DType::kBFloat16, DType::kFloat16}) {
    SCOPED_TRACE(Name(compute));
    ASSERT_OK_AND_ASSIGN(const Outcome dense, Train(false, {}, {}, {}, {.compute = compute}));
    ASSERT_LT(dense.losses.back(), dense.losses.front());
    ASSERT_OK_AND_ASSIGN(const Outcome one, Train(true, {}, {}, {}, {.compute = compute}));
    ExpectSame(one, dense, 2e-3);
    for (const bool sends : {false, true}) {
      for (const int there : {1, 2, 3}) {
        SCOPED_TRACE(absl::StrCat("S(0) to S(", there, ")", sends ? ", sent" : ""));
        ASSERT_OK_AND_ASSIGN(const Outcome two,
                             Train(true, {{"a", 2}}, {{"a", Sbp::Split(0)}}, {{"a", Sbp::Split(there)}},
                                   {.sends = sends, .compute = compute}));
        ExpectSame(two, dense, 2e-2);
      }
    }
  }
}

// The ranks that have an element, by the definition of splits.
std::set<int> Holders(const Sbp& sbp, const std::vector<int64_t>& at, const std::vector<int64_t>& dims, int ranks) {
  std::set<int> holders;
  for (int r = 0; r < ranks; ++r) {
    if (!sbp.is_split()) holders.insert(r);
    if (!sbp.is_split()) continue;
    const auto [start, extent] = BalancedPart(dims[sbp.dim()], ranks, r);
    if (at[sbp.dim()] >= start && at[sbp.dim()] < start + extent) holders.insert(r);
  }
  return holders;
}

// Of rows that are filled, the bytes that come to ranks which do not have them, or have one addend of several.
int64_t BytesOfFilledRows(const std::vector<int64_t>& counts, const Sbp& from, const Sbp& to, int ranks) {
  int64_t elements = 0;
  for (int64_t group = 0; group < kSources * kExperts; ++group) {
    for (int64_t row = 0; row < counts[group]; ++row) {
      for (int64_t column = 0; column < kWidth; ++column) {
        const std::vector<int64_t> at = {group / kExperts, group % kExperts, row, column};
        const std::vector<int64_t> dims = {kSources, kExperts, kTokens, kWidth};
        const std::set<int> givers = Holders(from, at, dims, ranks);
        for (const int taker : Holders(to, at, dims, ranks)) {
          elements += from.is_partial() ? ranks - 1 : givers.contains(taker) ? 0 : 1;
        }
      }
    }
  }
  return elements * 4;
}

TEST_F(RaggedLawTest, FilledRowsTravelAndNoOthers) {
  only_numbers_ = true;
  const std::vector<int64_t> none(kSources * kExperts, 0), all(kSources * kExperts, kTokens);
  struct World {
    int ranks = 2, processes = 1;
    bool sends = false, far = false;
  };
  const auto run = [&](const std::vector<int64_t>& counts, const Sbp& from, const Sbp& to, const World& world) {
    GraphBuilder b(ops_, "forward");
    const SbpHint lies{{"a", from.is_partial() ? Sbp::Split(0) : from}};
    const SbpHint counts_lie{{"a", from.is_split() && from.dim() < 2 ? from : Sbp::Broadcast()}};
    const Tensor x = b.Variable("x", {DType::kFloat32, {kSources, kExperts, kTokens, kWidth}}, "normal(1)", lies);
    const Tensor of =
        b.Variable("counts", {DType::kInt32, {kSources, kExperts}}, testing::ListText(counts), counts_lie, false);
    const Tensor is_row = PadRows(KeepRows(Constant(b, x.type(), 1), of));
    const Tensor rows = KeepRows(Add(x, Log(is_row)), of);  // behind them is no number
    Fetch(ReduceSum(Square(rows.To({{"a", from}}).To({{"a", to}}))), "sum");
    Graph graph = b.Finish().value();
    CompileOptions options = Options({{"a", world.ranks}}).value();
    options.ranks_per_process = world.ranks / world.processes;
    options.device = world.sends ? DeviceKind::kCuda : DeviceKind::kCpu;
    if (world.far) options.hosts = {{.count = world.processes, .devices = options.ranks_per_process}};
    return Run(std::move(graph), options, 1);
  };
  const std::vector<Sbp> froms = {Sbp::Split(0), Sbp::Split(1), Sbp::Split(2), Sbp::Split(3), Sbp::Partial()};
  const std::vector<Sbp> tos = {Sbp::Split(0), Sbp::Split(1), Sbp::Split(2), Sbp::Split(3), Sbp::Broadcast()};
  for (const Sbp& from : froms) {
    for (const Sbp& to : tos) {
      if (from.is_partial() && to.is_broadcast()) continue;  // goes by parts: twice
      for (const World& world : {World{2}, World{3}, World{2, 2}, World{4, 2}, World{2, 1, true}, World{3, 1, true},
                                 World{2, 2, false, true}, World{3, 3, false, true}}) {
        const auto cuts_too_often = [&](const Sbp& sbp) { return sbp == Sbp::Split(0) && world.ranks > kSources; };
        if (cuts_too_often(from) || cuts_too_often(to)) continue;  // ops do not
        SCOPED_TRACE(absl::StrCat(from.ToString(), " to ", to.ToString(), " on ", world.ranks, " ranks of ",
                                  world.processes, world.sends ? ", sent" : "", world.far ? ", far" : ""));
        ASSERT_OK_AND_ASSIGN(const Outcome nothing, run(none, from, to, world));
        for (const std::vector<int64_t>& counts : {std::vector<int64_t>{9, 8, 3, 0, 5, 1, 7, 9}, all}) {
          ASSERT_OK_AND_ASSIGN(const Outcome rows, run(counts, from, to, world));
          const int64_t bytes = BytesOfFilledRows(counts, from, to, world.ranks);
          EXPECT_EQ(rows.bytes_moved - nothing.bytes_moved, bytes);
          EXPECT_EQ(rows.bytes_sent - nothing.bytes_sent, world.far ? bytes : 0);
          ASSERT_OK_AND_ASSIGN(const Outcome alone, run(counts, Sbp::Broadcast(), Sbp::Broadcast(), {1}));
          EXPECT_NEAR(rows.fetched.at("sum")[0] / alone.fetched.at("sum")[0], 1, 1e-5);
        }
      }
    }
  }
}

// Its gradient too: each filled row has its share of what arrives, and others have none.
TEST_F(RaggedLawTest, AMeanIsOfTheRowsThatAreFilledHoweverTheyLie) {
  const std::vector<std::vector<int64_t>> kAxes = {{}, {2}, {0, 2}, {1, 2}, {2, 3}, {0, 2, 3}};
  const auto train = [&](bool ragged, int ranks, const SbpHint& lies) -> absl::StatusOr<Outcome> {
    GraphBuilder b(ops_, "train");
    const Tensor counts = Counts(b), is_token = IsToken(b, counts);
    Tensor x = b.Variable("x", {DType::kFloat32, {kSources, kExperts, kTokens, kWidth}}, "normal(1)", lies);
    x = ragged ? KeepRows(Add(x, Log(is_token)), counts) : Mul(x, is_token);
    const Tensor one = Constant(b, {DType::kFloat32, {}}, 1), none = Constant(b, x.type(), 0);
    Tensor loss;
    for (const std::vector<int64_t>& axes : kAxes) {
      Tensor mean = ReduceMean(Square(x), axes, /*keepdims=*/true);
      if (!ragged) {
        const Tensor elements = ReduceSum(Add(none, is_token), axes, /*keepdims=*/true);
        mean = Div(ReduceSum(Square(x), axes, /*keepdims=*/true), Maximum(elements, one));
      }
      Fetch(mean, absl::StrCat("mean over ", absl::StrJoin(axes, ",")));
      const Tensor sum = ReduceSum(Square(mean));
      loss = loss.valid() ? Add(loss, sum) : sum;
    }
    b.SetLoss(loss);
    Fetch(loss, "loss");
    OF_ASSIGN_OR_RETURN(Graph graph, b.Finish());
    OF_ASSIGN_OR_RETURN(const CompileOptions options, Options({{"a", ranks}}));
    return Run(std::move(graph), options, kRaggedSteps);
  };
  ASSERT_OK_AND_ASSIGN(const Outcome want, train(false, 1, {}));
  ASSERT_LT(want.losses.back(), want.losses.front());
  for (const Sbp lies : {Sbp::Split(0), Sbp::Split(1), Sbp::Split(2), Sbp::Split(3), Sbp::Broadcast()}) {
    for (const int ranks : {1, 2, 3}) {
      if (lies == Sbp::Split(0) && ranks > kSources) continue;
      SCOPED_TRACE(absl::StrCat(lies.ToString(), " on ", ranks));
      ASSERT_OK_AND_ASSIGN(const Outcome got, train(true, ranks, {{"a", lies}}));
      ExpectSame(got, want);
      for (const auto& [name, values] : want.fetched) {
        ASSERT_EQ(got.fetched.at(name).size(), values.size()) << name;
        for (size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(got.fetched.at(name)[i], values[i], 1e-5) << name;
      }
    }
  }
}

// Sums of rows and of groups, whichever and wherever they lie, and what is handed to the host.
TEST_F(RaggedLawTest, SumsReadWhatIsFilledHoweverTheyLie) {
  const std::vector<std::vector<int64_t>> kAxes = {{0}, {1}, {2}, {3}, {0, 2}, {1, 2}, {0, 3}, {1, 2, 3}};
  const std::vector<std::vector<int64_t>> kShapes = {{kExperts, 1, 1},
                                                     {kTokens, 1},
                                                     {1, kExperts, kTokens, 1},
                                                     {kSources, 1, 1, kWidth},
                                                     {kSources, kExperts, kTokens, kWidth}};
  const auto sums = [&](bool ragged, int ranks, const SbpHint& lies) -> absl::StatusOr<Outcome> {
    GraphBuilder b(ops_, "forward");
    const Tensor counts = Counts(b);
    Tensor x = b.Variable("x", {DType::kFloat32, {kSources, kExperts, kTokens, kWidth}}, "normal(1)", lies);
    const Tensor is_token = IsToken(b, counts);
    x = ragged ? KeepRows(Add(x, Log(is_token)), counts) : Mul(x, is_token);
    int number = 0;
    const auto fetch = [&](Tensor sum) { Fetch(sum, absl::StrCat("sum", number++)); };
    for (const std::vector<int64_t>& axes : kAxes) fetch(ReduceSum(x, axes));
    for (const std::vector<int64_t>& shape : kShapes) {
      const AttrMap attrs = {{"axes", std::vector<int64_t>{0, 2}}, {"axis", int64_t{1}}, {"shape", shape}};
      for (const auto& [name, op] : ops_.all()) {
        if (op.ragged == RaggedUse::kSums) fetch(b.Op1(name, {x}, attrs));
      }
    }
    fetch(x);
    OF_ASSIGN_OR_RETURN(Graph graph, b.Finish());
    OF_ASSIGN_OR_RETURN(const CompileOptions options, Options({{"a", ranks}}));
    return Run(std::move(graph), options, 1);
  };
  for (const Sbp lies : {Sbp::Split(0), Sbp::Split(1), Sbp::Split(2), Sbp::Split(3), Sbp::Broadcast()}) {
    for (const int ranks : {1, 2, 3}) {
      if (lies == Sbp::Split(0) && ranks > kSources) continue;
      SCOPED_TRACE(absl::StrCat(lies.ToString(), " on ", ranks));
      ASSERT_OK_AND_ASSIGN(const Outcome want, sums(false, 1, {}));
      ASSERT_OK_AND_ASSIGN(const Outcome got, sums(true, ranks, {{"a", lies}}));
      ASSERT_EQ(got.fetched.size(), want.fetched.size());
      ASSERT_GT(got.fetched.size(), kAxes.size() + 4 * kShapes.size());
      for (const auto& [name, values] : want.fetched) {
        ASSERT_EQ(got.fetched.at(name).size(), values.size()) << name;
        for (size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(got.fetched.at(name)[i], values[i], 1e-4) << name;
      }
    }
  }
}

TEST_F(RaggedLawTest, ACountThatIsNoNumberOfRowsFailsTheStepAndNamesTheNode) {
  for (const int64_t count : {int64_t{-1}, kTokens + 1}) {
    GraphBuilder b(ops_, "forward");
    const Tensor x = b.Variable("x", {DType::kFloat32, {kTokens, kWidth}}, "normal(1)");
    const Tensor counts =
        b.Variable("count", {DType::kInt32, {}}, testing::ListText(std::vector<int64_t>{count}), {}, false);
    Fetch(ReduceSum(KeepRows(x, counts)), "sum");
    ASSERT_OK_AND_ASSIGN(Graph graph, b.Finish());
    ASSERT_OK_AND_ASSIGN(const CompileOptions options, Options({}));
    EXPECT_THAT(Run(std::move(graph), options, 1).status(),
                StatusIs(absl::StatusCode::kInternal, HasSubstr("'keep_rows'")));
  }
}

}  // namespace
}  // namespace oneflow
