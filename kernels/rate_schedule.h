// The learning rate at a step, by the rows of oneflow_core/rate_schedule_table.h: the kernels of all devices and the
// tests' reference. It is computed in doubles. CUDA sources include this.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "kernels/host_device.h"
#include "oneflow_core/attr.h"
#include "oneflow_core/rate_schedule_table.h"

namespace oneflow {

#define OF_KIND(Name, ...) k##Name,
enum class RateKind : uint8_t { ONEFLOW_RATE_SCHEDULES(OF_KIND) };
enum class DecayForm : uint8_t { ONEFLOW_DECAY_FORMS(OF_KIND) };
#undef OF_KIND

// The attributes of lr_schedule, with what those mean that say nothing (proto/job.proto, Schedule).
struct RateSchedule {
  // REQUIRES: CheckRateSchedule() has found nothing.
  explicit RateSchedule(const AttrMap& attrs)
      : learning_rate(attrs.Double("learning_rate")),
        warmup_steps(attrs.Double("warmup_steps")),
        steps(attrs.Double("steps")),
        min_ratio(attrs.Double("min_ratio")),
        timescale_steps(attrs.Double("timescale_steps")),
        decay_steps(attrs.Double("decay_steps")),
        start_ratio(attrs.Double("start_ratio", 0.04)),
        cycle_steps(attrs.Double("cycle_steps")),
        cycle_growth(attrs.Double("cycle_growth", 1)) {
    const std::string name = attrs.String("kind"), form_name = attrs.String("decay_form");
#define OF_KIND(Name, text, ...) \
  if (name == text) kind = RateKind::k##Name;
    ONEFLOW_RATE_SCHEDULES(OF_KIND)
#undef OF_KIND
    if (kind == RateKind::kOneCycle) form = DecayForm::kCosine;
#define OF_FORM(Name, text, f) \
  if (form_name == text) form = DecayForm::k##Name;
    ONEFLOW_DECAY_FORMS(OF_FORM)
#undef OF_FORM
    if (timescale_steps == 0) timescale_steps = warmup_steps > 0 ? warmup_steps : 10000;
    if (decay_steps == 0) {
      const double share = attrs.Double("decay_share");
      decay_steps = std::min(std::round((share > 0 ? share : 0.1) * steps), std::max(0.0, steps - warmup_steps));
    }
    ReadPieces(attrs.Ints("boundaries"), attrs.String("factors"));
  }

  double learning_rate, warmup_steps, steps, min_ratio, timescale_steps, decay_steps, start_ratio, cycle_steps,
      cycle_growth;
  RateKind kind = RateKind::kConstant;
  DecayForm form = DecayForm::kLinear;
  int num_boundaries = 0;
  double boundaries[ONEFLOW_MOST_BOUNDARIES], factors[ONEFLOW_MOST_BOUNDARIES];

 private:
  // `texts`: numbers with commas between.
  void ReadPieces(const std::vector<int64_t>& steps_of, const std::string& texts) {
    const char* text = texts.c_str();
    for (const int64_t boundary : steps_of) {
      if (num_boundaries == ONEFLOW_MOST_BOUNDARIES) return;
      boundaries[num_boundaries] = static_cast<double>(boundary);
      char* end = nullptr;
      factors[num_boundaries++] = std::strtod(text, &end);
      text = *end == ',' ? end + 1 : end;
    }
  }
};

namespace rate_schedule {

OF_HOST_DEVICE inline double Form(DecayForm form, double q) {
  switch (form) {
#define OF_FORM(Name, text, f) \
  case DecayForm::k##Name:     \
    return f;
    ONEFLOW_DECAY_FORMS(OF_FORM)
#undef OF_FORM
  }
  return 0;
}

OF_HOST_DEVICE inline double Rise(const RateSchedule& s, double k) { return (k + 1) / s.warmup_steps; }
OF_HOST_DEVICE inline double Down(const RateSchedule& s, double f) { return s.min_ratio + (1 - s.min_ratio) * f; }

OF_HOST_DEVICE inline double Through(double k, double from, double n) {
  if (k < from) return 0;
  return k - from < n ? (k - from) / n : 1;
}

// 1 before the first boundary.
OF_HOST_DEVICE inline double FactorAt(const RateSchedule& s, double k) {
  double factor = 1;
  for (int i = 0; i < s.num_boundaries && k >= s.boundaries[i]; ++i) factor = s.factors[i];
  return factor;
}

// How far k, counted from the end of the warm-up, is through its cycle, which is `cycle_growth` times as long as the
// one before.
OF_HOST_DEVICE inline double ThroughCycle(const RateSchedule& s, double k) {
  double length = s.cycle_steps;
  if (s.cycle_growth == 1) return fmod(k, length) / length;
  while (k >= length) {
    k -= length;
    length *= s.cycle_growth;
  }
  return k / length;
}

}  // namespace rate_schedule

// The learning rate of step `k`, counted from 0.
OF_HOST_DEVICE inline double RateAt(const RateSchedule& s, double k) {
  using namespace rate_schedule;
  const bool rises = k < s.warmup_steps;
  switch (s.kind) {
#define OF_RATE(Name, text, reads, rise, after) \
  case RateKind::k##Name:                       \
    return s.learning_rate * (rises ? (rise) : (after));
    ONEFLOW_RATE_SCHEDULES(OF_RATE)
#undef OF_RATE
  }
  return 0;
}

}  // namespace oneflow
