// The schedules of the learning rate against their closed forms, written here once more from what
// proto/job.proto says of them. PyTorch's schedulers are compared in test/parity.
#include "kernels/rate_schedule.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>
#include <vector>

#include "gmock/gmock.h"
#include "oneflow_core/rate_schedules.h"

namespace oneflow {
namespace {

constexpr double kBase = 0.003;
constexpr int kSteps = 50;

struct Case {
  AttrMap attrs;
  std::function<double(double)> factor;  // of step k
};

AttrMap Attrs(const std::string& kind, int64_t warmup, AttrMap more) {
  more.Set("kind", kind);
  more.Set("warmup_steps", warmup);
  more.Set("learning_rate", kBase);
  return more;
}

double HalfCosine(double p) { return (1 + std::cos(M_PI * p)) / 2; }

// `after` the warm-up.
std::function<double(double)> WarmUp(double w, std::function<double(double)> after) {
  return [=](double k) { return k < w ? (k + 1) / w : after(k); };
}

std::vector<Case> Cases() {
  const int64_t whole = 40;
  const auto p = [](double k, double w) { return std::min(1.0, (k - w) / (40 - w)); };
  return {
      {Attrs("constant", 0, {}), [](double) { return 1; }},
      {Attrs("constant", 4, {}), WarmUp(4, [](double) { return 1; })},
      {Attrs("linear", 0, {{"steps", whole}}), [=](double k) { return 1 - p(k, 0); }},
      {Attrs("linear", 5, {{"steps", whole}, {"min_ratio", 0.1}}),
       WarmUp(5, [=](double k) { return 0.1 + 0.9 * (1 - p(k, 5)); })},
      {Attrs("cosine", 5, {{"steps", whole}, {"min_ratio", 0.1}}),
       WarmUp(5, [=](double k) { return 0.1 + 0.9 * HalfCosine(p(k, 5)); })},
      // sqrt(w / k) where nothing else is said, and 10000 steps without a warm-up.
      {Attrs("inverse_sqrt", 8, {}), WarmUp(8, [](double k) { return std::sqrt(8 / k); })},
      {Attrs("inverse_sqrt", 0, {}), [](double k) { return 1 / std::sqrt((k + 10000) / 10000); }},
      {Attrs("inverse_sqrt", 3, {{"timescale_steps", int64_t{5}}, {"min_ratio", 0.4}}),
       WarmUp(3, [](double k) { return std::max(0.4, 1 / std::sqrt((k - 3 + 5) / 5)); })},
      // A tenth of the steps where nothing else is said.
      {Attrs("wsd", 5, {{"steps", whole}}),
       WarmUp(5, [](double k) { return k < 36   ? 1
                                       : k < 40 ? 1 - (k - 36) / 4
                                                : 0; })},
      {Attrs("wsd", 0, {{"steps", whole}, {"decay_share", 0.25}, {"decay_form", std::string("cosine")}}),
       [](double k) { return k < 30 ? 1 : HalfCosine(std::min(1.0, (k - 30) / 10)); }},
      {Attrs("wsd", 0, {{"steps", whole}, {"decay_steps", int64_t{20}}, {"decay_form", std::string("exponential")}}),
       [](double k) { return k < 20 ? 1 : 2 * std::pow(0.5, std::min(1.0, (k - 20) / 20)) - 1; }},
      {Attrs("wsd", 2,
             {{"steps", whole},
              {"decay_steps", int64_t{38}},
              {"min_ratio", 0.25},
              {"decay_form", std::string("minus_sqrt")}}),
       WarmUp(2, [](double k) { return 0.25 + 0.75 * (1 - std::sqrt(std::min(1.0, (k - 2) / 38))); })},
      // From start_ratio at step 0 to 1 at step w - 1, to min_ratio at step T - 1.
      {Attrs("one_cycle", 12, {{"steps", whole}, {"min_ratio", 4e-6}}),
       [](double k) {
         if (k <= 11) return 1 + (0.04 - 1) * HalfCosine(k / 11);
         return 4e-6 + (1 - 4e-6) * HalfCosine(std::min(1.0, (k - 11) / 28));
       }},
      {Attrs("one_cycle", 1, {{"steps", whole}, {"decay_form", std::string("linear")}}),
       [](double k) { return 1 - std::min(1.0, k / 39); }},
      {Attrs("one_cycle", 12, {{"steps", whole}, {"start_ratio", 0.5}, {"decay_form", std::string("linear")}}),
       [](double k) { return k <= 11 ? 0.5 + 0.5 * k / 11 : 1 - std::min(1.0, (k - 11) / 28); }},
      {Attrs("piecewise", 4,
             {{"boundaries", std::vector<int64_t>{10, 11, 30}}, {"factors", std::string("0.5,2,0.015625")}}),
       WarmUp(4, [](double k) { return k < 10   ? 1
                                       : k < 11 ? 0.5
                                       : k < 30 ? 2
                                                : 0.015625; })},
      {Attrs("restarts", 3, {{"cycle_steps", int64_t{7}}, {"min_ratio", 0.2}}),
       WarmUp(3, [](double k) { return 0.2 + 0.8 * HalfCosine(std::fmod(k - 3, 7) / 7); })},
      // Cycles of 2, 6, 18 and 54 steps.
      {Attrs("restarts", 0, {{"cycle_steps", int64_t{2}}, {"cycle_growth", int64_t{3}}}),
       [](double k) {
         return k < 2    ? HalfCosine(k / 2)
                : k < 8  ? HalfCosine((k - 2) / 6)
                : k < 26 ? HalfCosine((k - 8) / 18)
                         : HalfCosine((k - 26) / 54);
       }},
  };
}

TEST(RateScheduleTest, EachIsItsClosedForm) {
  std::set<std::string> kinds, forms;
  for (const Case& c : Cases()) {
    SCOPED_TRACE(c.attrs.String("kind") + " after " + std::to_string(c.attrs.Int("warmup_steps")));
    ASSERT_FALSE(CheckRateSchedule(c.attrs).has_value()) << CheckRateSchedule(c.attrs)->what;
    const RateSchedule schedule(c.attrs);
    for (int k = 0; k < kSteps; ++k) {
      EXPECT_NEAR(RateAt(schedule, k) / kBase, c.factor(k), 1e-12) << "step " << k;
    }
    kinds.insert(c.attrs.String("kind"));
    forms.insert(c.attrs.String("decay_form"));
  }
  for (const RateScheduleKind& kind : RateScheduleKinds()) EXPECT_EQ(kinds.count(kind.name), 1u) << kind.name;
  for (const std::string& form : DecayForms()) EXPECT_EQ(forms.count(form), 1u) << form;
}

// Warm-up of two steps, six in all, as Hugging Face's factors one step later (theirs begins at 0).
TEST(RateScheduleTest, CosineHasThePublishedFactors) {
  const RateSchedule schedule(Attrs("cosine", 2, {{"steps", int64_t{6}}}));
  const double factors[] = {0.5, 1, 1, 0.853553, 0.5, 0.146447, 0, 0};
  for (int k = 0; k < 8; ++k) EXPECT_NEAR(RateAt(schedule, k) / kBase, factors[k], 1e-6) << k;
}

TEST(RateScheduleTest, OneCycleHasPyTorchsFactors) {
  const RateSchedule schedule(Attrs("one_cycle", 3, {{"steps", int64_t{10}}, {"min_ratio", 4e-6}}));
  const double factors[] = {0.04, 0.52, 1, 0.950485, 0.811746};
  for (int k = 0; k < 5; ++k) EXPECT_NEAR(RateAt(schedule, k) / kBase, factors[k], 1e-6) << k;
  EXPECT_NEAR(RateAt(schedule, 9) / kBase, 4e-6, 1e-9);
  EXPECT_NEAR(RateAt(schedule, 1000) / kBase, 4e-6, 1e-9);
}

}  // namespace
}  // namespace oneflow
