// What tests know of the ops that train.
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/optimizer_updates.h"
#include "kernels/rate_schedule.h"
#include "oneflow_core/attr_text.h"
#include "oneflow_core/optimizer_rules.h"
#include "oneflow_core/rate_schedules.h"
#include "test/support/ops/kit.h"

namespace oneflow::testing::OptimizerOps {
namespace {

Tensors ClipScale(RefCall& c) {
  const double norm = std::sqrt(c.in[0].values[0]), max_norm = c.attrs.Double("max_norm");
  RefTensor scale = Zeros({}), result = Zeros({});
  scale.values[0] = max_norm > 0 ? std::min(1.0, max_norm / (norm + 1e-6)) : 1;
  result.values[0] = norm;
  return {scale, result};
}

Tensors Unscale(RefCall& c) {
  const double squares = c.in[0].values[0], loss_scale = c.in[1].values[0];
  RefTensor unscaled = Zeros({}), scale = Zeros({}), skipped = Zeros({});
  unscaled.values[0] = squares / loss_scale / loss_scale;
  scale.values[0] = std::isfinite(squares) ? 1 / loss_scale : kNan;
  skipped.values[0] = std::isfinite(squares) ? 0 : 1;
  return {unscaled, scale, skipped};
}

Tensors LossScaleUpdate(RefCall& c) {
  double &loss_scale = c.in[0].values[0], &good_steps = c.in[1].values[0];
  const bool is_skipped = std::isnan(c.in[2].values[0]);
  good_steps = is_skipped ? 0 : good_steps + 1;
  if (is_skipped) {
    loss_scale = std::max<double>(loss_scale * c.attrs.Double("backoff"), std::numeric_limits<float>::min());
  } else if (good_steps == static_cast<double>(c.attrs.Int("interval"))) {
    const double more = loss_scale * c.attrs.Double("growth");
    if (more <= std::numeric_limits<float>::max()) loss_scale = more;
    good_steps = 0;
  }
  return {};
}

// By the rows of rate_schedule_table.h: test/kernels/rate_schedule_test.cc holds their formulas, and so does PyTorch.
Tensors LrSchedule(RefCall& c) {
  RefTensor lr = Zeros({});
  lr.values[0] = RateAt(RateSchedule(c.attrs), c.in[0].values[0]);
  return {lr};
}

Tensors AdamwUpdate(RefCall& c) {
  const AttrMap& a = c.attrs;
  const double b1 = a.Double("beta1"), b2 = a.Double("beta2"), lr = c.in[4].values[0], t = c.in[6].values[0] + 1;
  if (std::isnan(c.in[5].values[0])) return {};  // skipped
  for (int64_t i = 0; i < c.in[0].count(); ++i) {
    double &w = c.in[0].values[i], &m = c.in[1].values[i], &v = c.in[2].values[i];
    const double g = c.in[3].values[i] * c.in[5].values[0];
    w -= lr * a.Double("weight_decay") * w;
    m = b1 * m + (1 - b1) * g;
    v = b2 * v + (1 - b2) * g * g;
    const double m_hat = m / (1 - std::pow(b1, t)), v_hat = v / (1 - std::pow(b2, t));
    w -= lr * m_hat / (std::sqrt(v_hat) + a.Double("epsilon"));
  }
  return {};
}

struct Functions {
  static double Sign(double x) { return x > 0 ? 1 : x < 0 ? -1 : 0; }
};

// By a rule of kernels/optimizer_updates.h, in doubles: PyTorch is what holds the formula itself.
template <typename Rule>
Tensors UpdateBy(RefCall& c) {
  constexpr int kStates = Rule::kStates;
  const double lr = c.in[kStates + 2].values[0], scale = c.in[kStates + 3].values[0];
  if (std::isnan(scale)) return {};  // skipped
  for (int64_t i = 0; i < c.in[0].count(); ++i) {
    double states[kStates];
    for (int state = 0; state < kStates; ++state) states[state] = c.in[1 + state].values[i];
    Rule(c.attrs).template Update<Functions>(lr, scale, c.in[0].values[i], states, c.in[kStates + 1].values[i]);
    for (int state = 0; state < kStates; ++state) c.in[1 + state].values[i] = states[state];
  }
  return {};
}

Tensors EmaUpdate(RefCall& c) {
  const double decay = c.attrs.Double("decay");
  for (int64_t i = 0; i < c.in[0].count(); ++i) {
    c.in[0].values[i] = decay * c.in[0].values[i] + (1 - decay) * c.in[1].values[i];
  }
  return {};
}

Tensors AverageUpdate(RefCall& c) {
  if (std::isnan(c.in[3].values[0])) return {};  // skipped
  const double decay = c.in[2].values[0] == 0 ? 0 : c.attrs.Double("decay");
  for (int64_t i = 0; i < c.in[0].count(); ++i) {
    c.in[0].values[i] = decay * c.in[0].values[i] + (1 - decay) * c.in[1].values[i];
  }
  return {};
}

Tensors GuardedAssign(RefCall& c) {
  if (!std::isnan(c.in[2].values[0])) c.in[0].values = c.in[1].values;
  return {};
}

Tensors TrustRatio(RefCall& c) {
  const double a = std::sqrt(c.in[0].values[0]), b = std::sqrt(c.in[1].values[0]);
  const double below = b + c.attrs.Double("decay") * a + c.attrs.Double("epsilon");
  RefTensor ratio = Zeros({});
  ratio.values[0] = a > 0 && b > 0 ? c.attrs.Double("coefficient", 1) * a / below : 1;
  return {ratio};
}

Tensors BiasCorrection(RefCall& c) {
  RefTensor rest = Zeros({});
  rest.values[0] = 1 - std::pow(c.attrs.Double("beta"), c.in[0].values[0] + 1);
  return {rest};
}

Tensors StepPower(RefCall& c) {
  RefTensor power = Zeros({});
  power.values[0] = std::pow(c.in[0].values[0] + 1, c.attrs.Double("exponent"));
  return {power};
}

constexpr const char kTypes[] = R"(
clip_scale(f32[]) {max_norm=1.0} = f32[] f32[]
clip_scale(f32[]) = f32[] f32[]
clip_scale(f32[1]) ! s is f32[1] but must have 0 dimensions
clip_scale(f32[]) {max_norm=-1.0} ! attribute 'max_norm' is -1 but must be at least 0
unscale(f32[] f32[]) = f32[] f32[] f32[]
unscale(f32[] f32[1]) ! loss_scale is f32[1] but must have 0 dimensions
loss_scale_update(f32[] i64[] f32[]) {growth=2.0 backoff=0.5 interval=2000} =
loss_scale_update(f32[] i64[] f32[]) {growth=2.0 backoff=1.0 interval=2000} ! attribute 'backoff' is 1 but must be in
    [0, 1)
loss_scale_update(f32[] i64[] f32[]) {growth=2.0 backoff=0.5 interval=0} ! attribute 'interval' is 0 but must be at
    least 1
loss_scale_update(f32[] f32[] f32[]) {growth=2.0 backoff=0.5 interval=2000} ! good_steps is f32[] but must be i64
lr_schedule(i64[]) {learning_rate=0.001 warmup_steps=10 steps=100 min_ratio=0.1 kind=cosine} = f32[]
lr_schedule(i64[]) {learning_rate=1 kind=constant} = f32[]
lr_schedule(i32[]) {learning_rate=0.001 kind=constant} ! step is i32[] but must be i64
lr_schedule(i64[]) {learning_rate=0.001 kind=step} ! attribute 'kind': is 'step' but must be 'constant', 'cosine',
    'linear', 'inverse_sqrt', 'wsd', 'one_cycle', 'piecewise' or 'restarts'
lr_schedule(i64[]) {learning_rate=0.001 kind=linear warmup_steps=-1} ! attribute 'warmup_steps': is -1 but must be at
    least 0
lr_schedule(i64[]) {learning_rate=0.001 kind=linear min_ratio=1.5} ! attribute 'min_ratio': is 1.5 but must be in [0,
    1]
lr_schedule(i64[]) {learning_rate=0.001 kind=constant steps=9} ! attribute 'steps': schedule 'constant' does not read
    it, but 'cosine', 'linear', 'wsd' and 'one_cycle' do
lr_schedule(i64[]) {learning_rate=0.001 kind=wsd steps=90 warmup_steps=50 decay_steps=50} ! attribute 'decay_steps':
    the decay takes 50 steps, but of 90 steps 50 are the warm-up
lr_schedule(i64[]) {learning_rate=0.001 kind=wsd steps=90 decay_form=steep} ! attribute 'decay_form': is 'steep' but
    must be 'linear', 'cosine', 'exponential' or 'minus_sqrt'
lr_schedule(i64[]) {learning_rate=0.001 kind=one_cycle steps=90} ! attribute 'warmup_steps': is missing: the rate of
    'one_cycle' rises for so many steps (usually 0.3 of all)
lr_schedule(i64[]) {learning_rate=0.001 kind=one_cycle steps=90 warmup_steps=90} ! attribute 'warmup_steps': is 90 but
    must be less than the cycle's steps, which are 90
lr_schedule(i64[]) {learning_rate=0.001 kind=piecewise} ! attribute 'boundaries': is missing: the steps at which the
    rate changes
lr_schedule(i64[]) {learning_rate=0.001 kind=piecewise boundaries=[3,2] factors=0.1,0.2} ! attribute 'boundaries': 2
    does not follow on 3
lr_schedule(i64[]) {learning_rate=0.001 kind=piecewise warmup_steps=5 boundaries=[3] factors='0.1'} ! attribute
    'boundaries': 3 is within the warm-up, which ends at step 5
lr_schedule(i64[]) {learning_rate=0.001 kind=piecewise boundaries=[3,4] factors='0.1'} ! attribute 'factors': has 1,
    but there are 2 boundaries; each has one
lr_schedule(i64[]) {learning_rate=0.001 kind=piecewise boundaries=[3] factors=much} ! attribute 'factors': 'much' is
    no finite number >= 0
lr_schedule(i64[]) {learning_rate=0.001 kind=restarts} ! attribute 'cycle_steps': is missing: the steps of the first
    cycle
adamw_update(f32[2] f32[2] f32[2] f32[2] f32[] f32[] i64[]) {beta1=0.9 beta2=0.95 epsilon=1e-8 weight_decay=0.1} =
adamw_update(f32[2] f32[2] f32[2] f32[3] f32[] f32[] i64[]) {beta1=0.9 beta2=0.95 epsilon=1e-8} ! g is f32[3] but w
    needs f32[2]
adamw_update(f32[2] f32[1] f32[2] f32[2] f32[] f32[] i64[]) {beta1=0.9 beta2=0.95 epsilon=1e-8} ! m is f32[1] but w
    needs f32[2]
adamw_update(f32[2] f32[2] f32[2] f32[2] f32[] f32[] i64[]) {beta1=0.9 beta2=1.0 epsilon=1e-8} ! attribute 'beta2' is 1
    but must be in [0, 1)
adamw_update(bf16[2] f32[2] f32[2] f32[2] f32[] f32[] i64[]) {beta1=0.9 beta2=0.95 epsilon=1e-8} ! w is bf16[2] but must
    be f32
ema_update(f32[2] f32[2]) {decay=0.9} =
ema_update(f32[2] f32[3]) {decay=0.9} ! v is f32[2], x is f32[3]; they must be the same
ema_update(f32[2] f32[2]) {decay=1.0} ! attribute 'decay' is 1 but must be in [0, 1)
average_update(f32[2] f32[2] i64[] f32[]) {decay=0.9} =
average_update(f32[2] f32[3] i64[] f32[]) {decay=0.9} ! v is f32[2], x is f32[3]; they must be the same
average_update(f32[2] f32[2] i64[] f32[]) {decay=1.0} ! attribute 'decay' is 1 but must be in [0, 1)
guarded_assign(f32[2] f32[2] f32[]) =
guarded_assign(f32[2] f32[3] f32[]) ! v is f32[2], x is f32[3]; they must be the same
guarded_assign(bf16[2] bf16[2] f32[]) ! v is bf16[2] but must be f32
guarded_assign(f32[2] f32[2] f32[1]) ! scale is f32[1] but must have 0 dimensions
trust_ratio(f32[] f32[]) = f32[]
trust_ratio(f32[] f32[2]) ! b is f32[2] but must have 0 dimensions
trust_ratio(f32[] f32[]) {decay=-1.0} ! attribute 'decay' is -1 but must be at least 0
bias_correction(i64[]) {beta=0.9} = f32[]
bias_correction(i64[]) {beta=1.0} ! attribute 'beta' is 1 but must be in [0, 1)
bias_correction(i32[]) {beta=0.9} ! step is i32[] but must be i64
step_power(i64[]) {exponent=-0.5} = f32[]
step_power(i64[]) ! attribute 'exponent' is missing
sgd_update(f32[2] f32[2] f32[2] f32[] f32[]) {momentum=0.9 weight_decay=0.1 nesterov=true} =
sgd_update(f32[2] f32[2] f32[2] f32[] f32[]) =
sgd_update(f32[2] f32[3] f32[2] f32[] f32[]) ! u is f32[3] but w needs f32[2]
sgd_update(f32[2] f32[2] f32[2] f32[] f32[2]) ! scale is f32[2] but must have 0 dimensions
)";

constexpr const char kSignatures[] = R"(
adamw_update(f32[8,4], f32[8,4], f32[8,4], f32[8,4], f32[], f32[], i64[]) {beta1=0.9, beta2=0.95, epsilon=1e-8} |
    S(0),S(0),S(0),S(0),B,B,B-> S(1),S(1),S(1),S(1),B,B,B-> | - | - | model_update_ops.cpp | -
sgd_update(f32[8,4], f32[8,4], f32[8,4], f32[], f32[]) | S(0),S(0),S(0),B,B-> S(1),S(1),S(1),B,B-> | - | - |
    model_update_ops.cpp | -
)";

// The rules that are one op.
std::vector<OptimizerRule> UpdateOps() {
  std::vector<OptimizerRule> rules;
  for (const OptimizerRule& rule : OptimizerRules()) {
    if (rule.build == nullptr) rules.push_back(rule);
  }
  return rules;
}

// Every rule takes its defaults, and refuses a state of another shape and an attribute at its bound.
std::string RuleTypes() {
  std::string text;
  for (const OptimizerRule& rule : UpdateOps()) {
    const auto line = [&](absl::string_view first_state, const AttrMap& attrs, absl::string_view result) {
      std::vector<std::string> operands = {"f32[2]", std::string(first_state)};
      for (size_t i = 1; i <= rule.states.size(); ++i) operands.push_back("f32[2]");
      operands.insert(operands.end(), {"f32[]", "f32[]"});
      if (rule.reads_step) operands.push_back("i64[]");
      absl::StrAppend(&text, rule.name, "_update(", absl::StrJoin(operands, " "), ") ", AttrsToText(attrs), " ", result,
                      "\n");
    };
    AttrMap defaults;
    for (const OptimizerAttribute& attribute : rule.attributes) {
      defaults.Set(attribute.name, attribute.is_flag ? Attr(attribute.value != 0) : Attr(attribute.value));
    }
    line("f32[2]", defaults, "=");
    line("f32[3]", defaults, absl::StrCat("! ", rule.states[0].operand, " is f32[3] but w needs f32[2]"));
    for (const OptimizerAttribute& attribute : rule.attributes) {
      if (attribute.below == 0) continue;
      line("f32[2]", {{attribute.name, attribute.below}},
           absl::StrCat("! attribute '", attribute.name, "' is ", attribute.below, " but must be in [0, ",
                        attribute.below, ")"));
    }
  }
  return text;
}

// A step that is skipped, one of many that are not, and the last before the scale grows.
void AddLossScales(OpCases& cases) {
  const AttrMap attrs = {{"growth", 2.0}, {"backoff", 0.5}, {"interval", int64_t{3}}};
  for (const double scale : {0.25, kNan}) {
    for (const int64_t good_steps : {0, 1, 2}) {
      for (const double loss_scale : {0.5, 65536.0, 0x1.8p127}) {
        cases.push_back({"loss_scale_update",
                         "scale",
                         attrs,
                         {Scalar(loss_scale), Scalar(static_cast<double>(good_steps), DType::kInt64), Scalar(scale)},
                         0});
      }
    }
  }
  for (const double squares : {0.0, 1e30, kInfinity, kNan}) {
    cases.push_back({"unscale", "squares", {}, {Scalar(squares), Scalar(65536)}});
  }
}

// Steps before, at and behind every place where a schedule turns.
void AddSchedules(OpCases& cases) {
  const int64_t warmup = 10, steps = 100;
  std::vector<AttrMap> schedules = {
      {{"kind", std::string("constant")}},
      {{"kind", std::string("cosine")}, {"steps", steps}, {"min_ratio", 0.1}},
      {{"kind", std::string("linear")}, {"steps", steps}, {"min_ratio", 0.1}},
      {{"kind", std::string("inverse_sqrt")}, {"min_ratio", 0.2}},
      {{"kind", std::string("inverse_sqrt")}, {"timescale_steps", int64_t{7}}},
      {{"kind", std::string("one_cycle")}, {"steps", steps}, {"min_ratio", 0.1}},
      {{"kind", std::string("one_cycle")}, {"steps", steps}, {"decay_form", std::string("linear")}},
      {{"kind", std::string("piecewise")},
       {"boundaries", std::vector<int64_t>{10, 55}},
       {"factors", std::string("0.5,0.125")}},
      {{"kind", std::string("restarts")}, {"cycle_steps", int64_t{15}}, {"min_ratio", 0.1}},
      {{"kind", std::string("restarts")}, {"cycle_steps", int64_t{15}}, {"cycle_growth", int64_t{2}}}};
  for (const std::string& form : DecayForms()) {
    schedules.push_back({{"kind", std::string("wsd")},
                         {"steps", steps},
                         {"min_ratio", 0.1},
                         {"decay_steps", int64_t{46}},
                         {"decay_form", form}});
  }
  schedules.push_back({{"kind", std::string("wsd")}, {"steps", steps}, {"decay_share", 0.5}});
  for (AttrMap& attrs : schedules) {
    attrs.Set("learning_rate", 0.003);
    attrs.Set("warmup_steps", warmup);
    for (const int64_t step : {0, 9, 10, 24, 25, 54, 55, 99, 100, 1000}) {
      cases.push_back({"lr_schedule", "step", attrs, {Scalar(static_cast<double>(step), DType::kInt64)}, 1e-6});
    }
    if (attrs.String("kind") == "one_cycle") continue;
    attrs.Set("warmup_steps", int64_t{0});
    cases.push_back({"lr_schedule", "no warm-up", attrs, {Scalar(2, DType::kInt64)}, 1e-6});
  }
}

// A step by the rule with a weight decay, and otherwise by its defaults.
OpCase UpdateCase(Random& r, const OptimizerRule& rule, const std::string& what, const Dims& dims, double scale) {
  AttrMap attrs = {{"weight_decay", 0.1}};
  for (const OptimizerAttribute& attribute : rule.attributes) {
    attrs.Set(attribute.name, attribute.is_flag ? Attr(attribute.value != 0) : Attr(attribute.value));
  }
  std::vector<RefTensor> operands = {r.Uniform(dims)};
  for (size_t i = 0; i < rule.states.size(); ++i) operands.push_back(r.Uniform(dims, 0.1, 1));
  operands.insert(operands.end(), {r.Uniform(dims), Scalar(0.01), Scalar(scale)});
  if (rule.reads_step) operands.push_back(Scalar(6, DType::kInt64));
  return {rule.name + "_update", what, attrs, operands, std::isnan(scale) ? 0 : 1e-5};
}

void AddExamples(Random& r, OpCases& cases) {
  cases.push_back({"clip_scale", "small", {{"max_norm", 1.5}}, {Scalar(9)}});
  cases.push_back({"unscale", "small", {}, {Scalar(9e6), Scalar(1024)}});
  cases.push_back({"loss_scale_update",
                   "small",
                   {{"growth", 2.0}, {"backoff", 0.5}, {"interval", int64_t{2000}}},
                   {Scalar(1024), Scalar(7, DType::kInt64), Scalar(0.5)},
                   0});
  cases.push_back({"lr_schedule",
                   "small",
                   {{"learning_rate", 0.1}, {"kind", std::string("constant")}},
                   {Scalar(5, DType::kInt64)}});
  cases.push_back({"adamw_update",
                   "small",
                   {{"beta1", 0.9}, {"beta2", 0.95}, {"epsilon", 1e-8}, {"weight_decay", 0.1}},
                   {r.Uniform({7, 5}), r.Uniform({7, 5}), r.Uniform({7, 5}, 0.1, 1), r.Uniform({7, 5}), Scalar(0.01),
                    Scalar(0.5), Scalar(6, DType::kInt64)},
                   1e-5});
  cases.push_back({"sgd_update",
                   "small",
                   {{"momentum", 0.9}, {"weight_decay", 0.01}, {"nesterov", true}},
                   {r.Uniform({7, 5}), r.Uniform({7, 5}), r.Uniform({7, 5}), Scalar(0.1), Scalar(0.5)}});
  cases.push_back({"ema_update", "small", {{"decay", 0.75}}, {r.Uniform({7, 5}), r.Uniform({7, 5})}});
  cases.push_back({"average_update",
                   "small",
                   {{"decay", 0.75}},
                   {r.Uniform({7, 5}), r.Uniform({7, 5}), Scalar(3, DType::kInt64), Scalar(0.5)}});
  cases.push_back({"guarded_assign", "small", {}, {r.Uniform({7, 5}), r.Uniform({7, 5}), Scalar(0.5)}, 0});
  cases.push_back({"trust_ratio", "small", {}, {Scalar(9), Scalar(4)}});
  cases.push_back({"bias_correction", "small", {{"beta", 0.9}}, {Scalar(5, DType::kInt64)}});
  cases.push_back({"step_power", "small", {{"exponent", -0.8}}, {Scalar(5, DType::kInt64)}});
  for (const OptimizerRule& rule : UpdateOps()) cases.push_back(UpdateCase(r, rule, "a weight", {7, 5}, 0.5));
}

void AddEdges(Random& r, OpCases& cases) {
  for (const double max_norm : {0.0, 1.0, 100.0}) {
    cases.push_back({"clip_scale", "norm", {{"max_norm", max_norm}}, {r.Uniform({}, 4, 50)}});
  }
  AddSchedules(cases);
  for (const int64_t n : {0, 1, 37, 40000}) {
    for (const int64_t step : {0, 7}) {
      for (const double scale : {0.5, kNan}) {
        cases.push_back(
            {"average_update",
             "size",
             {{"decay", 0.9}},
             {r.Uniform({n}), r.Uniform({n}), Scalar(static_cast<double>(step), DType::kInt64), Scalar(scale)},
             1e-6});
      }
    }
    cases.push_back({"guarded_assign", "size", {}, {r.Uniform({n}), r.Uniform({n}), Scalar(0.5)}, 0});
    cases.push_back({"guarded_assign", "skipped", {}, {r.Uniform({n}), r.Uniform({n}), Scalar(kNan)}, 0});
  }
  const AttrMap constants = {{"coefficient", 0.001}, {"decay", 0.1}, {"epsilon", 1e-8}};
  for (const double a : {0.0, 1e-12, 9.0}) {
    for (const double b : {0.0, 1e12}) cases.push_back({"trust_ratio", "norms", constants, {Scalar(a), Scalar(b)}});
  }
  for (const int64_t step : {0, 1, 100, 1000000}) {
    const RefTensor now = Scalar(static_cast<double>(step), DType::kInt64);
    for (const double beta : {0.0, 0.9, 0.999, 0.999999}) {
      cases.push_back({"bias_correction", "step", {{"beta", beta}}, {now}, 1e-6});
    }
    for (const double exponent : {0.0, -0.8, -0.5, 2.0}) {
      cases.push_back({"step_power", "step", {{"exponent", exponent}}, {now}, 1e-6});
    }
  }
  AddLossScales(cases);
  cases.push_back({"loss_scale_update",
                   "no less than the smallest normal number",
                   {{"growth", 2.0}, {"backoff", 0.5}, {"interval", int64_t{2000}}},
                   {Scalar(std::numeric_limits<float>::min()), Scalar(0, DType::kInt64), Scalar(kNan)},
                   0});
  for (const int64_t n : {3, 37, 4100}) {
    cases.push_back({"adamw_update",
                     "skipped",
                     {{"beta1", 0.9}, {"beta2", 0.95}, {"epsilon", 1e-8}, {"weight_decay", 0.1}},
                     {r.Uniform({n}), r.Uniform({n}), r.Uniform({n}, 0.1, 1), With(r.Uniform({n}), {kInfinity, kNan}),
                      Scalar(0.01), Scalar(kNan), Scalar(6, DType::kInt64)},
                     0});
    cases.push_back({"sgd_update",
                     "skipped",
                     {{"momentum", 0.9}, {"weight_decay", 0.01}, {"nesterov", true}},
                     {r.Uniform({n}), r.Uniform({n}), With(r.Uniform({n}), {kInfinity}), Scalar(0.1), Scalar(kNan)},
                     0});
  }
  for (const int64_t n : {0, 1, 37, 40000}) {
    cases.push_back({"adamw_update",
                     "size",
                     {{"beta1", 0.9}, {"beta2", 0.95}, {"epsilon", 1e-8}, {"weight_decay", 0.1}},
                     {r.Uniform({n}), r.Uniform({n}), r.Uniform({n}, 0.1, 1), r.Uniform({n}), Scalar(0.01), Scalar(0.5),
                      Scalar(6, DType::kInt64)},
                     5e-6});
    for (const bool nesterov : {false, true}) {
      cases.push_back({"sgd_update",
                       "size",
                       {{"momentum", 0.9}, {"weight_decay", 0.01}, {"nesterov", nesterov}},
                       {r.Uniform({n}), r.Uniform({n}), r.Uniform({n}), Scalar(0.1), Scalar(0.5)},
                       2e-6});
    }
    cases.push_back({"ema_update", "size", {{"decay", 0.9}}, {r.Uniform({n}), r.Uniform({n})}, 1e-6});
    for (const OptimizerRule& rule : UpdateOps()) {
      cases.push_back(UpdateCase(r, rule, "defaults", {n}, 0.5));
      cases.push_back(UpdateCase(r, rule, "skipped", {n}, kNan));
    }
  }
}

}  // namespace

OpFacts Facts() {
  static const auto* const types = new std::string(absl::StrCat(kTypes, RuleTypes()));
  OpFacts facts = {.types = types->c_str(), .signatures = kSignatures, .examples = AddExamples, .edges = AddEdges};
  facts.reference = {{"clip_scale", ClipScale},
                     {"unscale", Unscale},
                     {"loss_scale_update", LossScaleUpdate},
                     {"lr_schedule", LrSchedule},
                     {"adamw_update", AdamwUpdate},
                     {"ema_update", EmaUpdate},
                     {"average_update", AverageUpdate},
                     {"guarded_assign", GuardedAssign},
                     {"trust_ratio", TrustRatio},
                     {"bias_correction", BiasCorrection},
                     {"step_power", StepPower}};
#define OF_REFERENCE(Rule, op) facts.reference.emplace_back(op, UpdateBy<Rule>);
  OF_UPDATE_RULES(OF_REFERENCE)
#undef OF_REFERENCE
  // The rate enters twice.
  facts.wrong_signatures = {{"sgd_update", {2}, {"S(0),S(0),S(0),P,B->"}}};
  facts.without_gradient = {{"clip_scale", "trains"},     {"unscale", "trains"},     {"loss_scale_update", "trains"},
                            {"lr_schedule", "trains"},    {"ema_update", "trains"},  {"average_update", "trains"},
                            {"guarded_assign", "trains"}, {"trust_ratio", "trains"}, {"bias_correction", "trains"},
                            {"step_power", "trains"}};
  for (const OptimizerRule& rule : UpdateOps()) facts.without_gradient.emplace_back(rule.name + "_update", "trains");
  return facts;
}

}  // namespace oneflow::testing::OptimizerOps
