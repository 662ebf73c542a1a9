// The law of optimizers that are made of ops: they step as their authors' formulas say, and as they do where the weight
// and its state lie in parts on several ranks, because norms, means and products are of whole tensors.
//
// Two things hold a formula: values that were computed with PyTorch, timm and transformers in f64 for three gradients,
// and a second formula in doubles, written here, for fifty steps.
#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "absl/strings/str_join.h"
#include "actor/engine.h"
#include "oneflow_core/functional.h"
#include "oneflow_core/ops/ops.h"
#include "oneflow_core/optimizer_rules.h"
#include "test/laws/layouts_law.h"
#include "test/support/list_text.h"
#include "test/support/spelled_out.h"
#include "test/support/status_matchers.h"
#include "test/support/test_dir.h"
#include "test/support/weight_file.h"

namespace oneflow {
namespace {

using Values = std::vector<double>;

struct Matrix {
  int rows = 1, columns = 1;
  Values x;
  double& at(int row, int column) { return x[row * columns + column]; }
  double at(int row, int column) const { return x[row * columns + column]; }
};

double Norm(const Values& x) {
  double squares = 0;
  for (const double value : x) squares += value * value;
  return std::sqrt(squares);
}
double Rms(const Values& x) { return Norm(x) / std::sqrt(static_cast<double>(x.size())); }

Matrix Product(const Matrix& a, const Matrix& b) {
  Matrix c{a.rows, b.columns, Values(a.rows * b.columns, 0)};
  for (int i = 0; i < a.rows; ++i) {
    for (int j = 0; j < b.columns; ++j) {
      for (int k = 0; k < a.columns; ++k) c.at(i, j) += a.at(i, k) * b.at(k, j);
    }
  }
  return c;
}
Matrix Transposed(const Matrix& a) {
  Matrix t{a.columns, a.rows, Values(a.x.size())};
  for (int i = 0; i < a.rows; ++i) {
    for (int j = 0; j < a.columns; ++j) t.at(j, i) = a.at(i, j);
  }
  return t;
}

// What an optimizer keeps of a weight, by name; zeros at first.
using State = std::map<std::string, Values>;
Values& Of(State& state, const std::string& name, size_t size) {
  Values& values = state[name];
  values.resize(size, 0);
  return values;
}
// Step t, counted from 1, of a weight with this gradient.
using Step = std::function<void(Matrix& w, const Values& g, int t, State& state)>;

Step LambStep(double rate, double decay) {
  return [=](Matrix& w, const Values& g, int t, State& state) {
    Values &m = Of(state, "m", g.size()), &v = Of(state, "v", g.size()), u(g.size());
    for (size_t i = 0; i < g.size(); ++i) {
      m[i] = 0.9 * m[i] + 0.1 * g[i];
      v[i] = 0.999 * v[i] + 0.001 * g[i] * g[i];
      u[i] = m[i] / (1 - std::pow(0.9, t)) / (std::sqrt(v[i] / (1 - std::pow(0.999, t))) + 1e-6) + decay * w.x[i];
    }
    const double ratio = decay > 0 ? Norm(w.x) / Norm(u) : 1;
    for (size_t i = 0; i < g.size(); ++i) w.x[i] -= rate * ratio * u[i];
  };
}

Step LarsStep(double rate, double decay, double momentum, double trust, bool nesterov) {
  return [=](Matrix& w, const Values& g, int, State& state) {
    Values& u = Of(state, "u", g.size());
    const double of_w = Norm(w.x);
    const double ratio = decay > 0 ? trust * of_w / (Norm(g) + decay * of_w + 1e-8) : 1;
    for (size_t i = 0; i < g.size(); ++i) {
      const double gradient = (g[i] + decay * w.x[i]) * ratio;
      u[i] = momentum * u[i] + gradient;
      w.x[i] -= rate * (nesterov ? gradient + momentum * u[i] : u[i]);
    }
  };
}

Step AdafactorStep(double rate, double decay, bool fixed) {
  return [=](Matrix& w, const Values& g, int t, State& state) {
    const double beta = 1 - std::pow(t, -0.8);
    Values u(g.size());
    if (w.rows == 1) {
      Values& v = Of(state, "v", g.size());
      for (size_t i = 0; i < g.size(); ++i) {
        v[i] = beta * v[i] + (1 - beta) * (g[i] * g[i] + 1e-30);
        u[i] = g[i] / std::sqrt(v[i]);
      }
    } else {
      Values &r = Of(state, "r", w.rows), &c = Of(state, "c", w.columns);
      Values of_rows(w.rows, 0), of_columns(w.columns, 0);
      for (int i = 0; i < w.rows; ++i) {
        for (int j = 0; j < w.columns; ++j) {
          const double square = g[i * w.columns + j] * g[i * w.columns + j] + 1e-30;
          of_rows[i] += square / w.columns;
          of_columns[j] += square / w.rows;
        }
      }
      double mean = 0;
      for (int i = 0; i < w.rows; ++i) mean += (r[i] = beta * r[i] + (1 - beta) * of_rows[i]) / w.rows;
      for (int j = 0; j < w.columns; ++j) c[j] = beta * c[j] + (1 - beta) * of_columns[j];
      for (int i = 0; i < w.rows; ++i) {
        for (int j = 0; j < w.columns; ++j) u[i * w.columns + j] = g[i * w.columns + j] / std::sqrt(r[i] * c[j] / mean);
      }
    }
    const double clip = std::max(1.0, Rms(u));
    const double a = fixed ? rate : std::max(1e-3, Rms(w.x)) * std::min(rate, 1 / std::sqrt(t));
    for (size_t i = 0; i < g.size(); ++i) w.x[i] -= decay * a * w.x[i] + a * u[i] / clip;
  };
}

Step MuonStep(double rate, double decay, bool nesterov, bool match_rms) {
  return [=](Matrix& w, const Values& g, int, State& state) {
    Values& m = Of(state, "m", g.size());
    Matrix x{w.rows, w.columns, Values(g.size())};
    for (size_t i = 0; i < g.size(); ++i) {
      m[i] = 0.95 * m[i] + 0.05 * g[i];
      x.x[i] = nesterov ? 0.05 * g[i] + 0.95 * m[i] : m[i];
    }
    const double norm = std::max(Norm(x.x), 1e-7);
    for (double& value : x.x) value /= norm;
    x = Transposed(x);  // the authors' matrices have a row for each output
    const bool tall = x.rows > x.columns;
    if (tall) x = Transposed(x);
    for (int i = 0; i < 5; ++i) {
      const Matrix a = Product(x, Transposed(x)), square = Product(a, a);
      Matrix p = a;
      for (size_t k = 0; k < a.x.size(); ++k) p.x[k] = -4.7750 * a.x[k] + 2.0315 * square.x[k];
      const Matrix px = Product(p, x);
      for (size_t k = 0; k < x.x.size(); ++k) x.x[k] = 3.4445 * x.x[k] + px.x[k];
    }
    if (tall) x = Transposed(x);
    const double factor =
        match_rms ? 0.2 * std::sqrt(std::max(w.rows, w.columns)) : std::sqrt(std::max(1.0, 1.0 * x.rows / x.columns));
    x = Transposed(x);
    for (size_t i = 0; i < g.size(); ++i) w.x[i] = w.x[i] * (1 - rate * decay) - rate * factor * x.x[i];
  };
}

// Numbers that are exact in f32, of either sign.
Values Sequence(int count, int factor, int modulus, double unit) {
  Values values;
  for (int i = 0; i < count; ++i) values.push_back(((i + 3) * factor % modulus - modulus / 2) / unit);
  return values;
}

struct Layout {
  std::vector<Axis> mesh;
  SbpHint hint;
};

class OptimizersTest : public ::testing::Test {
 protected:
  // A matrix, or a vector of one row.
  static Shape ShapeOf(const Matrix& w) { return w.rows == 1 ? Shape({w.columns}) : Shape({w.rows, w.columns}); }
  static Tensor Weight(GraphBuilder& b, const Matrix& w, const SbpHint& hint) {
    return b.Variable("w", {DType::kFloat32, ShapeOf(w)}, testing::ListText(w.x), hint);
  }
  static Tensor Fixed(GraphBuilder& b, const std::string& name, const Matrix& like, const Values& values) {
    return b.Variable(name, {DType::kFloat32, ShapeOf(like)}, testing::ListText(values), {}, /*trainable=*/false);
  }

  // A graph that gives w the gradient `g`.
  Graph Gradient(const std::string& name, const Matrix& w, const Values& g, const SbpHint& hint) {
    GraphBuilder b(ops_, name);
    b.SetLoss(ReduceSum(Mul(Weight(b, w, hint), Fixed(b, name + "/g", w, g))));
    return *b.Finish();
  }
  // One that gives it the gradient scale (w - target).
  Graph Bowl(const Matrix& w, const Values& scale, const Values& target, const SbpHint& hint) {
    GraphBuilder b(ops_, "train");
    const Tensor apart = Sub(Weight(b, w, hint), Fixed(b, "target", w, target));
    b.SetLoss(ReduceSum(Scale(Mul(Square(apart), Fixed(b, "scale", w, scale)), 0.5)));
    return *b.Finish();
  }

  absl::StatusOr<CompileOptions> Options(const std::vector<Axis>& mesh, double rate, const std::string& rule,
                                         AttrMap attributes, double decay) {
    CompileOptions options;
    options.job = "law";
    OF_ASSIGN_OR_RETURN(options.mesh, Mesh::Create(mesh));
    options.ranks_per_process = options.mesh.size();
    options.schedule.learning_rate = rate;
    ParameterGroup group;
    group.match = "w";
    group.rule = rule;
    group.is_own_rule = true;
    group.attributes = std::move(attributes);
    group.weight_decay = decay;
    group.decays_vectors = true;
    options.optimizer.groups = {group};
    return options;
  }

  // w after `steps` steps of each of the graphs, in turn.
  absl::StatusOr<Values> Run(Program program, const CompileOptions& options, int steps) {
    std::vector<std::string> names;
    for (const Graph& graph : program) names.push_back(graph.name());
    OF_ASSIGN_OR_RETURN(pb::Program spelled, testing::CompileSpelledOut(program, options, ops_));
    EngineOptions engine_options;
    engine_options.on_fetch = [](const Fetched&) {};
    OF_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine, Engine::Create(std::move(spelled), engine_options));
    for (size_t i = 0; i < names.size(); ++i) OF_RETURN_IF_ERROR(engine->Run(names[i], i * steps, steps));
    OF_RETURN_IF_ERROR(engine->SaveWeights(dir_.File("weights"), ""));
    OF_ASSIGN_OR_RETURN(const testing::WeightFile file, testing::ReadWeightFile(dir_.File("weights")));
    const testing::WeightFile::Entry& entry = file.tensors.at("w");
    const float* const values = entry.as<float>();
    return Values(values, values + entry.type.shape.count());
  }

  static void ExpectNear(const Values& got, const Values& want, double tolerance) {
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < want.size(); ++i) {
      EXPECT_NEAR(got[i], want[i], tolerance * std::max(1.0, std::abs(want[i]))) << "element " << i;
    }
  }

  const OpRegistry ops_ = StandardOps();
  const TestDir dir_;
};

// At first the weight with which the first step begins, then decay average + (1 - decay) weight; a graph that is not
// trained reads it, wherever it lies.
TEST_F(OptimizersTest, AveragesAreOfTheWeightsWithWhichStepsBegin) {
  const Matrix start{7, 4, Sequence(28, 37, 41, 16)};
  const Values target = Sequence(28, 23, 31, 8), scale(28, 0.5);
  for (const Layout& layout : std::vector<Layout>{
           {{}, {}}, {{{"dp", 2}}, {{"dp", Sbp::Split(0)}}}, {{{"dp", 2}, {"tp", 2}}, {{"tp", Sbp::Split(1)}}}}) {
    SCOPED_TRACE(ToString(layout.hint));
    GraphBuilder b(ops_, "evaluate");
    Fetch(ReduceSum(Square(Weight(b, start, layout.hint))), "squares");
    Program program = {Bowl(start, scale, target, layout.hint)};
    program.push_back(*b.Finish());
    ASSERT_OK_AND_ASSIGN(CompileOptions options, Options(layout.mesh, 0.125, "sgd", {}, 0));
    options.average = {.decay = 0.75, .evaluate = true};
    ASSERT_OK_AND_ASSIGN(pb::Program spelled, testing::CompileSpelledOut(program, options, ops_));
    EngineOptions engine_options;
    double squares = 0;
    engine_options.on_fetch = [&](const Fetched& fetched) {
      if (fetched.name == "squares") squares = fetched.values[0];
    };
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Engine> engine, Engine::Create(std::move(spelled), engine_options));
    const auto read = [&](absl::string_view suffix) -> absl::StatusOr<Values> {
      OF_RETURN_IF_ERROR(engine->SaveWeights(dir_.File("weights"), suffix));
      OF_ASSIGN_OR_RETURN(const testing::WeightFile file, testing::ReadWeightFile(dir_.File("weights")));
      const float* const values = file.tensors.at("w").as<float>();
      return Values(values, values + 28);
    };
    Values average = start.x;
    for (int step = 0; step < 5; ++step) {
      ASSERT_OK_AND_ASSIGN(const Values before, step == 0 ? absl::StatusOr<Values>(start.x) : read(""));
      for (int i = 0; i < 28 && step > 0; ++i) average[i] = 0.75 * average[i] + 0.25 * before[i];
      ASSERT_OK(engine->Run("train", step, 1));
      ASSERT_OK_AND_ASSIGN(const Values got, read("/average"));
      ExpectNear(got, average, 1e-6);
      ASSERT_OK(engine->Run("evaluate", step, 1));
      EXPECT_NEAR(squares, Norm(average) * Norm(average), 1e-4 * squares);
    }
    ASSERT_OK_AND_ASSIGN(const Values last, read(""));
    EXPECT_GT(std::abs(Norm(last) - Norm(average)), 0.01) << "the average says nothing that the weights do not";
  }
}

struct Published {
  const char* rule;
  AttrMap attributes;
  double rate, decay;
  bool is_matrix;
  std::vector<Values> after;  // each step
  double tolerance = 2e-6;
};

// w = (1, -2, 0.5); matrices have a second row (0.25, 0, -1). A matrix of PyTorch is the transpose of ours.
std::vector<Published> PublishedSteps() {
  return {
      {"lamb",
       {},
       0.1,
       0.01,
       false,
       {{0.867933, -1.866625, 0.368586}, {0.681454, -1.812051, 0.291245}, {0.702506, -1.901695, 0.118478}}},
      {"lars",
       {},
       1,
       0.1,
       false,
       {{0.99924, -1.998481, 0.498671}, {0.997108, -1.996631, 0.497717}, {0.995948, -1.994968, 0.49629}}},
      {"lion",
       {},
       0.01,
       0.1,
       false,
       {{0.989, -1.988, 0.4895}, {0.978011, -1.996012, 0.499011}, {0.987033, -2.004016, 0.488511}}},
      {"adafactor",
       {},
       0.01,
       0,
       true,
       {{0.996369, -1.985029, 0.485797, 0.236819, 0, -0.995704},
        {0.986781, -1.991071, 0.492889, 0.244342, -0.014224, -1.001269},
        {0.99982, -2.002477, 0.48657, 0.240017, -0.008549, -1.013846}}},
      // Whose products were rounded to bf16.
      {"muon",
       {},
       0.1,
       0.1,
       true,
       {{0.96576, -1.920784, 0.404834, 0.146514, -0.002684, -0.960392},
        {0.864722, -1.904205, 0.386397, 0.150369, -0.107799, -0.969599},
        {0.917364, -1.94066, 0.320281, 0.078454, -0.11819, -1.031066}},
       2e-3},
  };
}

TEST_F(OptimizersTest, StepAsPublished) {
  const std::vector<Values> gradients = {{0.1, -0.2, 0.3}, {0.2, 0.1, -0.1}, {-0.3, 0.2, 0.1}},
                            second_rows = {{0.4, 0, -0.1}, {-0.2, 0.3, 0.1}, {0.1, -0.1, 0.2}};
  const auto with = [](Values row, const Values& second) {
    row.insert(row.end(), second.begin(), second.end());
    return Transposed({2, 3, row});
  };
  for (const Published& published : PublishedSteps()) {
    SCOPED_TRACE(published.rule);
    const Matrix w = published.is_matrix ? with({1, -2, 0.5}, {0.25, 0, -1}) : Matrix{1, 3, {1, -2, 0.5}};
    ASSERT_OK_AND_ASSIGN(const CompileOptions options,
                         Options({}, published.rate, published.rule, published.attributes, published.decay));
    Program program;
    for (int step = 0; step < 3; ++step) {
      SCOPED_TRACE(step + 1);
      const Values g = published.is_matrix ? with(gradients[step], second_rows[step]).x : gradients[step];
      program.push_back(Gradient(absl::StrCat("step", step), w, g, {}));
      ASSERT_OK_AND_ASSIGN(Values got, Run(program, options, 1));
      if (published.is_matrix) got = Transposed({3, 2, got}).x;
      ExpectNear(got, published.after[step], published.tolerance);
    }
  }
}

struct Formula {
  const char* rule;
  AttrMap attributes;
  double rate, decay;
  Step step;
};

std::vector<Formula> Formulas() {
  const auto number = [](double x) { return Attr(x); };
  return {
      {"lamb", {}, 0.02, 0.1, LambStep(0.02, 0.1)},
      {"lamb", {}, 0.02, 0, LambStep(0.02, 0)},
      {"lars", {{"trust", number(0.05)}}, 0.5, 0.1, LarsStep(0.5, 0.1, 0.9, 0.05, false)},
      {"lars", {{"trust", number(0.05)}, {"nesterov", true}}, 0.5, 0.1, LarsStep(0.5, 0.1, 0.9, 0.05, true)},
      {"lars", {{"momentum", number(0.5)}}, 0.05, 0, LarsStep(0.05, 0, 0.5, 0.001, false)},
      {"adafactor", {}, 0.01, 0.1, AdafactorStep(0.01, 0.1, false)},
      {"adafactor", {{"fixed_rate", true}}, 0.02, 0, AdafactorStep(0.02, 0, true)},
      {"muon", {}, 0.01, 0.1, MuonStep(0.01, 0.1, true, false)},
      {"muon", {{"nesterov", false}, {"match_rms", true}}, 0.01, 0, MuonStep(0.01, 0, false, true)},
  };
}

// Sizes that three ranks do not divide.
TEST_F(OptimizersTest, FollowTheirFormulasWhereverTheStateLies) {
  const Sbp rows = Sbp::Split(0), columns = Sbp::Split(1);
  const std::vector<Layout> layouts = {{{}, {}},
                                       {{{"dp", 2}}, {{"dp", rows}}},
                                       {{{"tp", 2}}, {{"tp", columns}}},
                                       {{{"tp", 3}}, {{"tp", columns}}},
                                       {{{"dp", 2}, {"tp", 2}}, {{"dp", rows}, {"tp", columns}}}};
  for (const Formula& formula : Formulas()) {
    for (const auto& [height, width] : std::vector<std::pair<int, int>>{{7, 4}, {4, 7}, {1, 7}}) {
      if (height == 1 && std::string(formula.rule) == "muon") continue;  // of matrices
      const int count = height * width;
      const Matrix start{height, width, Sequence(count, 37, 41, 16)};
      Values target = start.x;  // further away than fifty steps: at it, steps by signs would turn on a last bit
      for (int i = 0; i < count; ++i) target[i] += (i % 2 == 0 ? 1 : -1) * (2 + i * 0.0625);
      Values scale = Sequence(count, 29, 23, 8);
      for (double& s : scale) s = std::abs(s) + 0.25;
      Matrix want = start;
      State state;
      for (int t = 1; t <= 50; ++t) {
        Values g;
        for (int i = 0; i < count; ++i) g.push_back(scale[i] * (want.x[i] - target[i]));
        formula.step(want, g, t, state);
      }
      for (const Layout& layout : layouts) {
        if (height == 1 && ToString(layout.hint).find("S(1)") != std::string::npos) continue;
        SCOPED_TRACE(absl::StrCat(formula.rule, " decay ", formula.decay, ", ", height, " x ", width, " ",
                                  ToString(layout.hint), " on ", layout.mesh.size(), " axes"));
        ASSERT_OK_AND_ASSIGN(const CompileOptions options,
                             Options(layout.mesh, formula.rate, formula.rule, formula.attributes, formula.decay));
        ASSERT_OK_AND_ASSIGN(const Values got, Run({Bowl(start, scale, target, layout.hint)}, options, 50));
        ExpectNear(got, want.x, 1e-5);
      }
    }
  }
}

// In a whole model, whose layouts are chosen.
class OptimizersOfModelsTest : public testing::LayoutsLaw {
 protected:
  std::string GptWith(const std::string& optimizer, double rate) const {
    return absl::StrCat(
        "model { gpt { vocabulary: 128 layers: 2 width: 24 heads: 4 context: 12 } } data { text { path: '", text_,
        "' } } train { batch_size: 8 optimizer { ", optimizer, " clip_norm: 1 } schedule { learning_rate: ", rate,
        " } }");
  }
  const std::vector<std::vector<std::string>> layouts_ = {
      {"mesh={dp:4}"},
      {"mesh={tp:3}"},
      {"mesh={dp:2 tp:2}"},
      {"mesh={pp:2 dp:2}", "train.micro_batches=4"},
      {"mesh={dp:4}", "cluster.variable_bytes_per_device=120000"}};  // in parts, with their state
};

TEST_F(OptimizersOfModelsTest, EachTrainsAlikeUnderEveryLayout) {
  const std::map<std::string, double> rates = {{"lion", 3e-4}, {"lars", 5}, {"sgd", 0.1}, {"muon", 0.01}};
  for (const OptimizerRule& rule : OptimizerRules()) {
    SCOPED_TRACE(rule.name);
    const auto rate = rates.find(rule.name);
    last_bar_ = rule.name == "lion" || rule.name == "muon" ? 1e-3 : 1e-4;  // which make large steps of small numbers
    ExpectSameUnder(GptWith(rule.name + " { weight_decay: 0.1 }", rate == rates.end() ? 3e-3 : rate->second), layouts_);
  }
}

TEST_F(OptimizersOfModelsTest, GroupsTrainAlikeUnderEveryLayout) {
  ExpectSameUnder(GptWith("adamw { weight_decay: 0.1 } groups { match: 'h0/*' frozen: true } "
                          "groups { match: '*ln?/weight' sgd { momentum: 0.5 } rate: 2 } "
                          "groups { match: '*/weight' lamb { weight_decay: 0.01 } } "
                          "groups { match: '*' weight_decay: 0.05 rate: 0.5 }",
                          3e-3),
                  layouts_);
}

// Adapters of all layers, with a new head beside them. Gradients of the first factors begin with 0 and are small for
// some steps: with a smaller epsilon AdamW makes whole steps of what they round to.
TEST_F(OptimizersOfModelsTest, AdaptersTrainAlikeUnderEveryLayout) {
  const std::string config =
      GptWith("adamw { weight_decay: 0.1 epsilon: 1e-4 } groups { match: '*/lora_b' rate: 16 }", 3e-3);
  const std::string lora = "lora { match: 'h*/weight' rank: 3 alpha: 6 dropout: 0.25 also: 'head/*' }";
  ExpectSameUnder(config.substr(0, config.rfind('}')) + lora + " }", layouts_);
}

// Steps that overflow in f16 change nothing.
TEST_F(OptimizersOfModelsTest, AllSkipTheStepsWhoseGradientsOverflow) {
  first_bar_ = 2e-5, last_bar_ = 4e-3;
  for (const char* rule : {"lamb", "adafactor"}) {
    SCOPED_TRACE(rule);
    const std::string config = absl::StrCat(GptWith(absl::StrCat(rule, " {}"), 3e-3),
                                            " precision { compute: F16 initial_scale: 268435456 growth_interval: 3 }");
    ASSERT_OK_AND_ASSIGN(const testing::Outcome whole, Run(config, {}));
    EXPECT_EQ(whole.fetched.at("skipped").front(), 1);
    for (const double loss : whole.losses) EXPECT_TRUE(std::isfinite(loss));
    ExpectSameUnder(config, {{"mesh={dp:2 tp:2}"}});
  }
}

TEST_F(OptimizersOfModelsTest, AGroupWithoutVariablesNamesItsPlace) {
  EXPECT_THAT(Run(GptWith("groups { match: '*' } groups { match: 'nothing*' frozen: true }", 1), {}).status(),
              testing::StatusIs(absl::StatusCode::kInvalidArgument,
                                ::testing::AllOf(::testing::HasSubstr("law:1: train.optimizer.groups[1].match: "),
                                                 ::testing::HasSubstr("'nothing*' matches no trainable variable"))));
}

}  // namespace
}  // namespace oneflow
