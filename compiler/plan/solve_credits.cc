#include "compiler/plan/solve_credits.h"

#include <algorithm>
#include <numeric>

namespace oneflow {
namespace {

// Periods that differ by less are the same: far above rounding, far below what anybody measures.
constexpr double kSame = 1e-9;
// More than any act waits for in the steps that matter.
constexpr int kSlotsWithoutEnd = 1 << 20;

class CreditSolver {
 public:
  CreditSolver(const WaitGraph& graph, const ActTimes& times, const std::vector<int64_t>& slot_bytes)
      : graph_(graph), times_(times), bytes_(slot_bytes) {}

  SolvedCredits Solve() {
    SolvedCredits solved;
    solved.before = BestPeriod(graph_, times_);
    const double target = Target();
    solved.after = solved.before;
    while (!Reaches(solved.after, target)) {
      const int reg = Cheapest(solved.after);
      if (std::find(solved.raised.begin(), solved.raised.end(), reg) == solved.raised.end()) {
        solved.raised.push_back(reg);
      }
      ++graph_.registers[reg].slots;
      solved.after = BestPeriod(graph_, times_);
    }
    for (int reg : DearestFirst()) Lower(reg, target);
    solved.after = BestPeriod(graph_, times_);
    for (const WaitGraph::Register& reg : graph_.registers) solved.slots.push_back(reg.slots);
    return solved;
  }

 private:
  // What starts filled is state, which has one place however many read it.
  bool CanChange(int reg) const { return bytes_[reg] >= 0 && graph_.registers[reg].initially_filled == 0; }

  double Target() const {
    WaitGraph without_end = graph_;
    for (size_t r = 0; r < bytes_.size(); ++r) {
      if (CanChange(static_cast<int>(r))) without_end.registers[r].slots = kSlotsWithoutEnd;
    }
    return BestPeriod(without_end, times_).seconds;
  }

  static bool Reaches(const Period& period, double target) { return period.seconds <= target * (1 + kSame); }

  // A circle that is longer than the target has a register that may grow: those without are in the target.
  int Cheapest(const Period& period) const {
    int cheapest = -1;
    for (const Wait& wait : period.cycle) {
      if (!wait.credit || !CanChange(wait.reg)) continue;
      if (cheapest < 0 || std::pair(bytes_[wait.reg], wait.reg) < std::pair(bytes_[cheapest], cheapest)) {
        cheapest = wait.reg;
      }
    }
    return cheapest;
  }

  std::vector<int> DearestFirst() const {
    std::vector<int> registers(bytes_.size());
    std::iota(registers.begin(), registers.end(), 0);
    std::stable_sort(registers.begin(), registers.end(), [&](int a, int b) { return bytes_[a] > bytes_[b]; });
    return registers;
  }

  // More slots never harm, so the fewest that do are found by halving.
  void Lower(int reg, double target) {
    if (!CanChange(reg)) return;
    int& slots = graph_.registers[reg].slots;
    int too_few = 0, enough = slots;
    while (enough - too_few > 1) {
      slots = too_few + (enough - too_few) / 2;
      (SimulateStep(graph_).ok() && Reaches(BestPeriod(graph_, times_), target) ? enough : too_few) = slots;
    }
    slots = enough;
  }

  WaitGraph graph_;
  const ActTimes& times_;
  const std::vector<int64_t>& bytes_;
};

}  // namespace

SolvedCredits SolveCredits(const WaitGraph& graph, const ActTimes& times, const std::vector<int64_t>& slot_bytes) {
  return CreditSolver(graph, times, slot_bytes).Solve();
}

}  // namespace oneflow
