#include "compiler/select/core_search.h"

#include <algorithm>

#include "compiler/select/beam.h"
#include "compiler/select/dual_ascent.h"

namespace oneflow {
namespace {

constexpr double kRounding = 1e-9;      // part of the total; below this two totals are the same
constexpr int kSweepsBetween = 4;       // looks at whether the bound still rises and dropping pays
constexpr double kLeastRise = 0.01;     // of the gap, in so many sweeps; less is at rest
constexpr double kLeastDropped = 0.25;  // of all options

class CoreSearch {
 public:
  CoreSearch(const CostGraph& graph, Factors& factors, Elimination& elimination, const SearchLimits& limits,
             const LocalSearch& start)
      : graph_(graph),
        factors_(factors),
        elimination_(elimination),
        limits_(limits),
        polish_(graph),
        options_(start.options()),
        seconds_(start.Seconds()) {}

  CoreResult Run(LocalSearch& start) {
    const int core_units = static_cast<int>(elimination_.core().size());
    Ascend();
    if (!exact_) Beam(start);
    return {options_, exact_, exact_ ? seconds_ : std::min(bound_, seconds_), core_units};
  }

 private:
  double WorthDropping() const { return seconds_ * (1 + kRounding); }

  void Consider(const LocalSearch& local) {
    if (local.Seconds() >= seconds_) return;
    options_ = local.options();
    seconds_ = local.Seconds();
  }

  void Consider(std::vector<int> core_options, bool improve) {
    elimination_.Complete(core_options);
    polish_.Assume(core_options);
    if (improve) polish_.Descend();
    Consider(polish_);
  }

  void Ascend() {
    double steps = static_cast<double>(limits_.ascent_steps);
    Messages messages;
    while (steps > 0) {
      const std::vector<int> core = elimination_.core();
      DualAscent ascent(factors_, core, 2 * seconds_, messages);
      const bool drop = Raise(ascent, core, steps);
      if (exact_ || !drop) return;
      messages = ascent.messages();
      exact_ = !Drop(ascent, core);
      if (exact_ || !elimination_.Resume()) continue;
      Consider(std::vector<int>(graph_.num_units(), 0), false);
      exact_ = true;
    }
  }

  // Sweeps until the result is exact, the bound is at rest, the steps are spent, or (true) many options can be dropped.
  bool Raise(DualAscent& ascent, const std::vector<int>& core, double& steps) {
    while (steps > 0) {
      const double before = ascent.bound();
      for (int sweep = 0; sweep < kSweepsBetween; ++sweep) ascent.Sweep();
      steps -= kSweepsBetween * ascent.work();
      Consider(ascent.Round(), true);
      bound_ = std::max(bound_, ascent.bound());
      exact_ = bound_ >= seconds_ * (1 - kRounding);
      if (exact_) return false;
      if (PartDropped(ascent, core) >= kLeastDropped) return true;
      if (ascent.bound() - before < kLeastRise * (seconds_ - ascent.bound())) return PartDropped(ascent, core) > 0;
    }
    return false;
  }

  double PartDropped(const DualAscent& ascent, const std::vector<int>& core) const {
    double all = 0, dropped = 0;
    for (int unit : core) {
      const size_t size = factors_.domain(unit).size();
      all += static_cast<double>(size);
      for (size_t i = 0; i < size; ++i) dropped += ascent.Least(unit, i) > WorthDropping() ? 1 : 0;
    }
    return dropped / all;
  }

  // False if a unit has no option left: no choice is better than the known one.
  bool Drop(const DualAscent& ascent, const std::vector<int>& core) {
    factors_.Improve(seconds_);
    std::vector<std::vector<int>> left;  // first all, then the change: domains are those of the ascent
    for (int unit : core) {
      left.emplace_back();
      for (size_t i = 0; i < factors_.domain(unit).size(); ++i) {
        if (ascent.Least(unit, i) <= WorthDropping()) left.back().push_back(static_cast<int>(i));
      }
      if (left.back().empty()) return false;
    }
    for (size_t i = 0; i < core.size(); ++i) {
      if (left[i].size() < factors_.domain(core[i]).size()) factors_.Keep(core[i], left[i]);
    }
    return true;
  }

  void Beam(LocalSearch& start) {
    start.MoveRegions();
    Consider(start);
    polish_.Assume(options_);
    polish_.MoveRegions();
    Consider(polish_);
    BeamResult beam = SearchBeam(factors_, elimination_.core(), seconds_, limits_);
    if (beam.found) Consider(std::move(beam.options), false);
    if (beam.found && !beam.exact) {
      polish_.MoveRegions();
      Consider(polish_);
    }
    exact_ = beam.exact;
    bound_ = std::max(bound_, beam.lower_bound);
  }

  const CostGraph& graph_;
  Factors& factors_;
  Elimination& elimination_;
  const SearchLimits& limits_;
  LocalSearch polish_;
  std::vector<int> options_;  // by unit: the best that is known, of `seconds_`
  double seconds_;
  double bound_ = 0;  // of all choices
  bool exact_ = false;
};

}  // namespace

CoreResult SearchCore(const CostGraph& graph, Factors& factors, Elimination& elimination, const SearchLimits& limits,
                      LocalSearch& start) {
  return CoreSearch(graph, factors, elimination, limits, start).Run(start);
}

}  // namespace oneflow
