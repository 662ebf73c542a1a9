// The schedules of the learning rate: a row each. All else about a schedule follows from its row:
//
//   the value of `kind` that a job and the op lr_schedule take, the fields that go with it   rate_schedules.h
//   kernels of all device kinds, the tests' reference                                        kernels/rate_schedule.h
//
// A new schedule needs its row, its name in proto/job.proto (`Schedule.kind`) and in the line of lr_schedule in
// oneflow_core/ops/README.md, and its closed form in test/kernels/rate_schedule_test.cc.
//
// A formula gives the rate as a share of the highest one, at step `k`, counted from 0. It is compiled for processors
// and for CUDA. It may use the fields of the schedule `s` (kernels/rate_schedule.h), doubles, and what that header
// defines:
//
//   Rise(s, k)           the warm-up: (k + 1) / warmup_steps, so that the first step has a rate
//   Through(k, from, n)  how far k is through the n steps from `from` on: 0 at `from`, 1 at `from` + n and behind it
//   Down(s, f)           min_ratio + (1 - min_ratio) f
//   Form(s.form, q)      how a decay falls from 1 at q = 0 to 0 at q = 1, by the table of forms below
//
// Macros only: CUDA sources include this.
#pragma once

// F(Name, "kind", "the fields that it reads beside learning_rate and warmup_steps", rise, after): `rise` holds for
// k < warmup_steps, `after` from there on.
#define ONEFLOW_RATE_SCHEDULES(F)                                                            \
  F(Constant, "constant", "", Rise(s, k), 1.0)                                               \
  F(Cosine, "cosine", "steps min_ratio", Rise(s, k),                                         \
    Down(s, Form(DecayForm::kCosine, Through(k, s.warmup_steps, s.steps - s.warmup_steps)))) \
  F(Linear, "linear", "steps min_ratio", Rise(s, k),                                         \
    Down(s, Form(DecayForm::kLinear, Through(k, s.warmup_steps, s.steps - s.warmup_steps)))) \
  F(InverseSqrt, "inverse_sqrt", "timescale_steps min_ratio", Rise(s, k),                    \
    fmax(s.min_ratio, sqrt(s.timescale_steps / (k - s.warmup_steps + s.timescale_steps))))   \
  F(Wsd, "wsd", "steps min_ratio decay_steps decay_share decay_form", Rise(s, k),            \
    Down(s, Form(s.form, Through(k, s.steps - s.decay_steps, s.decay_steps))))               \
  F(OneCycle, "one_cycle", "steps min_ratio start_ratio decay_form",                         \
    1 - (1 - s.start_ratio) * Form(s.form, Through(k, 0, s.warmup_steps - 1)),               \
    Down(s, Form(s.form, Through(k, s.warmup_steps - 1, s.steps - s.warmup_steps))))         \
  F(Piecewise, "piecewise", "boundaries factors", Rise(s, k), FactorAt(s, k))                \
  F(Restarts, "restarts", "cycle_steps cycle_growth min_ratio", Rise(s, k),                  \
    Down(s, Form(DecayForm::kCosine, ThroughCycle(s, k - s.warmup_steps))))

// F(Name, "decay_form", f(q))
#define ONEFLOW_DECAY_FORMS(F)                                     \
  F(Linear, "linear", 1 - q)                                       \
  F(Cosine, "cosine", 0.5 * (1 + cos(3.14159265358979323846 * q))) \
  F(Exponential, "exponential", 2 * exp2(-q) - 1)                  \
  F(MinusSqrt, "minus_sqrt", 1 - sqrt(q))

// The most boundaries of a piecewise schedule: a kernel has them among its arguments.
#define ONEFLOW_MOST_BOUNDARIES 32
