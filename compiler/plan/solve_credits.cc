#include "compiler/plan/solve_credits.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <utility>

#include "absl/strings/str_format.h"
#include "oneflow_core/status.h"

namespace oneflow {
namespace {

// Periods that differ by less are equal: far above rounding, far below any measurement.
constexpr double kSame = 1e-9;
// More than any act waits for in the steps that matter.
constexpr int kSlotsWithoutEnd = 1 << 20;

std::string InMilliseconds(double seconds) { return absl::StrFormat("%.4g ms", seconds * 1e3); }

class CreditSolver {
 public:
  CreditSolver(const WaitGraph& graph, const ActTimes& times, const SlotBytes& bytes, const CreditGoal& goal)
      : graph_(graph), times_(times), bytes_(bytes), goal_(goal) {}

  absl::StatusOr<SolvedCredits> Solve() {
    solved_.before = BestPeriod(graph_, times_);
    const double least = Target();
    if (goal_.seconds > 0 && least > goal_.seconds * (1 + kSame)) {
      return absl::FailedPreconditionError(absl::StrCat("no slots make a step as short as ",
                                                        InMilliseconds(goal_.seconds),
                                                        ": with slots without end it is ", InMilliseconds(least)));
    }
    target_ = std::max(least, goal_.seconds);
    OF_RETURN_IF_ERROR(goal_.most_bytes > 0 ? SolveUnderCap() : SolveFreely());
    solved_.after = BestPeriod(graph_, times_);
    solved_.slots = Slots();
    return std::move(solved_);
  }

 private:
  absl::Status SolveFreely() {
    Climb();
    LowerAll(target_);
    return absl::OkStatus();
  }

  absl::Status SolveUnderCap() {
    LowerAll(std::numeric_limits<double>::infinity());
    if (const int64_t least = bytes_.Most(Slots()); least > goal_.most_bytes) {
      return absl::ResourceExhaustedError(absl::StrCat("the fewest slots that do not stop the plan take ", least,
                                                       " bytes on a device, the cap is ", goal_.most_bytes));
    }
    Period best = Climb();
    for (bool shorter = !Reaches(best, target_); shorter;) {
      LowerAll(best.seconds);
      const Period now = Climb();
      shorter = !Reaches(now, target_) && now.seconds < best.seconds * (1 - kSame);
      if (now.seconds < best.seconds) best = now;
    }
    LowerAll(std::max(best.seconds, target_));
    if (goal_.seconds == 0 || Reaches(best, target_)) return absl::OkStatus();
    return absl::FailedPreconditionError(absl::StrCat("slots of ", goal_.most_bytes, " bytes on a device make a step ",
                                                      InMilliseconds(best.seconds), " long, not ",
                                                      InMilliseconds(goal_.seconds)));
  }

  // Until the target is reached, or no register that would help has room.
  Period Climb() {
    Period period = BestPeriod(graph_, times_);
    while (!Reaches(period, target_)) {
      const int reg = Cheapest(period);
      if (reg < 0) break;
      if (std::find(solved_.raised.begin(), solved_.raised.end(), reg) == solved_.raised.end())
        solved_.raised.push_back(reg);
      ++graph_.registers[reg].slots;
      period = BestPeriod(graph_, times_);
    }
    return period;
  }

  bool CanChange(int reg) const { return bytes_.of_one[reg] >= 0 && graph_.registers[reg].initially_filled == 0; }

  double Target() const {
    WaitGraph without_end = graph_;
    for (size_t r = 0; r < bytes_.of_one.size(); ++r) {
      if (CanChange(static_cast<int>(r))) without_end.registers[r].slots = kSlotsWithoutEnd;
    }
    return BestPeriod(without_end, times_).seconds;
  }

  static bool Reaches(const Period& period, double target) { return period.seconds <= target * (1 + kSame); }

  std::vector<int> Slots() const {
    std::vector<int> slots;
    for (const WaitGraph::Register& reg : graph_.registers) slots.push_back(reg.slots);
    return slots;
  }

  bool HasRoom(int reg) const {
    if (goal_.most_bytes == 0) return true;
    std::vector<int> slots = Slots();
    ++slots[reg];
    return bytes_.Most(slots) <= goal_.most_bytes;
  }

  // A cycle that is longer than the target has a register that may grow: cycles without are part of the target. -1 if
  // none has room.
  int Cheapest(const Period& period) const {
    int cheapest = -1;
    for (const Wait& wait : period.cycle) {
      if (!wait.credit || !CanChange(wait.reg) || !HasRoom(wait.reg)) continue;
      const auto price = [&](int reg) { return std::pair(bytes_.of_one[reg], reg); };
      if (cheapest < 0 || price(wait.reg) < price(cheapest)) cheapest = wait.reg;
    }
    return cheapest;
  }

  // The dearest first.
  void LowerAll(double target) {
    std::vector<int> registers(bytes_.of_one.size());
    std::iota(registers.begin(), registers.end(), 0);
    std::stable_sort(registers.begin(), registers.end(),
                     [&](int a, int b) { return bytes_.of_one[a] > bytes_.of_one[b]; });
    for (const int reg : registers) Lower(reg, target);
  }

  // More slots never harm, so bisection finds the fewest that are enough.
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
  const SlotBytes& bytes_;
  const CreditGoal goal_;
  double target_ = 0;
  SolvedCredits solved_;
};

}  // namespace

int64_t SlotBytes::Most(const std::vector<int>& slots) const {
  std::map<int, int64_t> of_device;
  const std::vector<int> all = {0};
  for (size_t r = 0; r < of_one.size(); ++r) {
    for (const int device : devices.empty() ? all : devices[r])
      of_device[device] += std::max<int64_t>(0, of_one[r]) * slots[r];
  }
  int64_t most = 0;
  for (const auto& [device, bytes] : of_device) most = std::max(most, bytes);
  return most;
}

absl::StatusOr<SolvedCredits> SolveCredits(const WaitGraph& graph, const ActTimes& times, const SlotBytes& bytes,
                                           const CreditGoal& goal) {
  return CreditSolver(graph, times, bytes, goal).Solve();
}

}  // namespace oneflow
