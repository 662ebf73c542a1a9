#include "tools/bench/contest.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "kernels/cpu/variant.h"

namespace oneflow {
namespace {

constexpr double kShownPart = 0.005;  // of a step: ops that take less share a line

using Figure = std::function<double(const Round&)>;

double StepSeconds(const Round& round) { return round.step_seconds; }
double CpuOfStep(const Round& round) { return round.counters.cpu_seconds; }
double PeakMemory(const Round& round) { return round.counters.peak_bytes; }

Summary OverRounds(const Contender& one, const Figure& figure) {
  std::vector<double> values;
  for (const Round& round : one.rounds) values.push_back(figure(round));
  return Summarize(values);
}

// Round by round.
Summary RatioOf(const Contender& one, const Contender& other, const Figure& figure) {
  std::vector<double> values;
  for (size_t i = 0; i < std::min(one.rounds.size(), other.rounds.size()); ++i) {
    values.push_back(figure(one.rounds[i]) / figure(other.rounds[i]));
  }
  return Summarize(values);
}

std::string LossAt(const Contender& one, size_t step) {
  const std::vector<double>& losses = one.rounds.front().losses;
  return losses.size() < step ? "-" : absl::StrFormat("%.6f", losses[step - 1]);
}

std::string ContenderRow(const Contest& contest, const Contender& one) {
  if (one.rounds.empty()) return absl::StrCat("  ", one.title, ": ", one.cannot, "\n");
  const Summary step = OverRounds(one, StepSeconds);
  return absl::StrFormat("  %-44s %9.4f %18s %9.4f %10.0f %8.2f %11s %11s\n", one.title, step.median,
                         absl::StrFormat("(%.4f..%.4f)", step.least, step.most), OverRounds(one, CpuOfStep).median,
                         contest.per_step / step.median, 1e-9 * OverRounds(one, PeakMemory).most, LossAt(one, 1),
                         LossAt(one, contest.warmup + contest.steps));
}

std::string ContenderTable(const Contest& contest) {
  std::string text = absl::StrFormat("  %-44s %9s %18s %9s %10s %8s %11s %11s\n", "", "step s", "(least..most)",
                                     "cpu s", absl::StrCat(contest.unit, "/s"), "peak GB", "loss 1",
                                     absl::StrCat("loss ", contest.warmup + contest.steps));
  absl::StrAppend(&text, ContenderRow(contest, contest.engine));
  for (const Contender& one : contest.layouts) absl::StrAppend(&text, ContenderRow(contest, one));
  for (const Contender& one : contest.peers) absl::StrAppend(&text, ContenderRow(contest, one));
  return text;
}

std::string RatioText(const Summary& ratio) {
  return absl::StrFormat("%.2f x (%.2f..%.2f)", ratio.median, ratio.least, ratio.most);
}

std::string AgainstPeer(const Contest& contest, const Contender& peer) {
  const LossGap gap = LargestGap(contest.engine.rounds.front().losses, peer.rounds.front().losses);
  std::string text = absl::StrCat(
      "  against ", peer.title, ", the fastest: speed ", RatioText(RatioOf(peer, contest.engine, StepSeconds)),
      ", cpu time ", RatioText(RatioOf(contest.engine, peer, CpuOfStep)), ", peak memory ",
      absl::StrFormat("%.2f x", OverRounds(contest.engine, PeakMemory).most / OverRounds(peer, PeakMemory).most), "\n");
  if (gap.step == 0) return absl::StrCat(text, "  losses: none to compare\n");
  absl::StrAppendFormat(&text, "  losses: %.1e apart at most (relative, in step %d)\n", gap.relative, gap.step);
  return text;
}

// Beside the plan, which has registers and variables: a process holds its code, the graph, messages.
std::string MemoryText(const Contest& contest) {
  if (contest.on_cuda) return "";
  const double peak = OverRounds(contest.engine, PeakMemory).most;
  const double planned = contest.engine.rounds.back().counters.register_bytes;
  return absl::StrFormat("  engine's peak memory %.1f MB, of which the plan has %.1f MB: %.3f x\n", 1e-6 * peak,
                         1e-6 * planned, peak / planned);
}

std::string LayoutsText(const Contest& contest) {
  std::string text;
  for (const Contender& one : contest.layouts) {
    if (one.rounds.empty()) continue;
    absl::StrAppend(&text, "  ", one.title, ": ", RatioText(RatioOf(contest.engine, one, StepSeconds)),
                    " of one device's speed\n");
  }
  return text;
}

std::string Times(double seconds, double floor) {
  return floor > 0 ? absl::StrFormat("%8.2f x", seconds / floor) : absl::StrFormat("%10s", "-");
}

std::string FloorRow(const std::string& name, double calls, double seconds, double floor, double step) {
  return absl::StrFormat("    %-34s %7.0f %10.3f %10.3f %s %9.1f%%\n", name, calls, 1e3 * seconds, 1e3 * floor,
                         Times(seconds, floor), 100 * seconds / step);
}

std::string FloorTable(const Contest& contest) {
  std::string text = absl::StrFormat(
      "  a step by kernel, beside its floor: products at %.0f GF/s in f32 and %.0f in bf16, memory at %.1f GB/s\n",
      1e-9 * contest.rates.f32_flops, 1e-9 * contest.rates.bf16_flops, 1e-9 * contest.rates.memory_bytes_per_s);
  absl::StrAppendFormat(&text, "    %-34s %7s %10s %10s %10s %10s\n", "", "calls", "ms", "floor ms", "over floor",
                        "of the step");
  // A GPU is idle between kernels that are timed one by one: the step is that of the rounds.
  const double step = contest.on_cuda ? OverRounds(contest.engine, StepSeconds).median : contest.profiled_run_seconds;
  OpRow others, all;
  for (const OpRow& row : contest.ops) {
    for (OpRow* const sum : {row.seconds < kShownPart * step ? &others : nullptr, &all}) {
      if (sum == nullptr) continue;
      sum->calls += row.calls;
      sum->seconds += row.seconds;
      sum->floor_seconds += row.floor_seconds;
    }
    if (row.seconds >= kShownPart * step)
      absl::StrAppend(&text, FloorRow(row.op, row.calls, row.seconds, row.floor_seconds, step));
  }
  absl::StrAppend(&text, FloorRow("others", others.calls, others.seconds, others.floor_seconds, step));
  absl::StrAppend(&text, FloorRow("all", all.calls, all.seconds, all.floor_seconds, step));
  absl::StrAppendFormat(&text, "    outside of kernels %.3f ms\n",
                        1e3 * (step - (contest.on_cuda ? all.seconds : contest.profiled_kernel_seconds)));
  return text;
}

nlohmann::json ContenderJson(const Contender& one) {
  nlohmann::json json = {{"name", one.name}, {"title", one.title}};
  if (!one.cannot.empty()) json["cannot"] = one.cannot;
  if (!one.rounds.empty()) json["losses"] = one.rounds.front().losses;
  for (const Round& round : one.rounds) {
    json["rounds"].push_back({{"step_seconds", round.step_seconds},
                              {"cpu_seconds", round.counters.cpu_seconds},
                              {"peak_bytes", round.counters.peak_bytes},
                              {"register_bytes", round.counters.register_bytes}});
  }
  return json;
}

}  // namespace

const Contender* FastestPeer(const Contest& contest) {
  const Contender* fastest = nullptr;
  const auto step = [](const Contender& one) { return OverRounds(one, StepSeconds).least; };
  for (const Contender& one : contest.peers) {
    if (!one.rounds.empty() && (fastest == nullptr || step(one) < step(*fastest))) fastest = &one;
  }
  return fastest;
}

LossGap LargestGap(const std::vector<double>& losses, const std::vector<double>& others) {
  LossGap gap;
  for (size_t i = 0; i < std::min(losses.size(), others.size()); ++i) {
    const double apart = std::abs(losses[i] - others[i]) / std::abs(others[i]);
    // Of a loss that is not a number the distance is none either, and greater than any.
    if (gap.step == 0 || apart > gap.relative || (std::isnan(apart) && !std::isnan(gap.relative)))
      gap = {apart, static_cast<int>(i) + 1};
  }
  return gap;
}

std::string ContestText(const Contest& contest) {
  std::string text = absl::StrFormat("%s; %.0f %s per step; %d cores, kernels of %s; rounds of %d steps after %d\n",
                                     contest.title, contest.per_step, contest.unit, contest.cores,
                                     contest.on_cuda ? "cuda" : TheCpuVariant().name, contest.steps, contest.warmup);
  absl::StrAppend(&text, ContenderTable(contest));
  if (const Contender* const peer = FastestPeer(contest); peer != nullptr)
    absl::StrAppend(&text, AgainstPeer(contest, *peer));
  absl::StrAppend(&text, MemoryText(contest), LayoutsText(contest));
  if (!contest.ops.empty()) absl::StrAppend(&text, FloorTable(contest));
  return text;
}

nlohmann::json ContestJson(const Contest& contest) {
  nlohmann::json json = {{"title", contest.title},
                         {"unit", contest.unit},
                         {"per_step", contest.per_step},
                         {"cores", contest.cores},
                         {"device", contest.on_cuda ? "cuda" : "cpu"},
                         {"warmup", contest.warmup},
                         {"steps", contest.steps},
                         {"engine", ContenderJson(contest.engine)},
                         {"f32_flops", contest.rates.f32_flops},
                         {"bf16_flops", contest.rates.bf16_flops},
                         {"memory_bytes_per_s", contest.rates.memory_bytes_per_s}};
  for (const Contender& one : contest.layouts) json["layouts"].push_back(ContenderJson(one));
  for (const Contender& one : contest.peers) json["peers"].push_back(ContenderJson(one));
  if (const Contender* const peer = FastestPeer(contest); peer != nullptr) {
    json["fastest_peer"] = peer->name;
    json["speed_over_peer"] = RatioOf(*peer, contest.engine, StepSeconds).median;
    json["cpu_over_peer"] = RatioOf(contest.engine, *peer, CpuOfStep).median;
    json["loss_gap"] = LargestGap(contest.engine.rounds.front().losses, peer->rounds.front().losses).relative;
  }
  for (const OpRow& row : contest.ops) {
    json["ops"].push_back(
        {{"op", row.op}, {"calls", row.calls}, {"seconds", row.seconds}, {"floor_seconds", row.floor_seconds}});
  }
  return json;
}

}  // namespace oneflow
