#include "tools/bench/report.h"

#include <algorithm>
#include <functional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "kernels/cpu/variant.h"
#include "nlohmann/json.hpp"

namespace oneflow {
namespace {

constexpr double kShownShare = 0.002;  // ops that take less of a step are not worth a line

Summary TokensPerSecond(const BenchResult& result, const CaseResult& one) {
  return SummaryOf(one.rounds, [&](const Round& round) { return result.tokens_per_step / round.step_seconds; });
}

Summary CpuSeconds(const CaseResult& one) {
  return SummaryOf(one.rounds, [](const Round& round) { return round.counters.cpu_seconds; });
}

const CaseResult* PyTorchOf(const BenchResult& result) {
  for (const CaseResult& one : result.cases) {
    if (!one.engine) return &one;
  }
  return nullptr;
}

// The loss of a step counted from 1; "-" if there was none.
std::string Loss(const CaseResult& one, size_t step) {
  const std::vector<double>& losses = one.rounds.front().losses;
  return losses.size() < step ? "-" : absl::StrFormat("%.6f", losses[step - 1]);
}

std::string SpeedTable(const BenchResult& result) {
  const CaseResult* const pytorch = PyTorchOf(result);
  std::string text = absl::StrFormat("%-36s %9s %17s %10s %9s %9s %10s %10s\n", "", "tokens/s", "(least..most)",
                                     "cpu s/step", "speed/PT", "cpu/PT", "loss 1", "loss 20");
  for (const CaseResult& one : result.cases) {
    const Summary speed = TokensPerSecond(result, one), cpu = CpuSeconds(one);
    std::string speed_ratio = "-", cpu_ratio = "-";
    if (pytorch != nullptr) {
      speed_ratio = absl::StrFormat("%.2f", speed.median / TokensPerSecond(result, *pytorch).median);
      cpu_ratio = absl::StrFormat("%.2f", cpu.median / CpuSeconds(*pytorch).median);
    }
    absl::StrAppendFormat(&text, "%-36s %9.0f %17s %10.4f %9s %9s %10s %10s\n", one.title, speed.median,
                          absl::StrFormat("(%.0f..%.0f)", speed.least, speed.most), cpu.median, speed_ratio, cpu_ratio,
                          Loss(one, 1), Loss(one, 20));
  }
  return text;
}

// Of the engine's cases: how a rank's time divides.
std::string RuntimeTable(const BenchResult& result) {
  std::string text = absl::StrFormat("%-36s %10s %12s %14s %9s %9s %13s %10s\n", "", "acts/step", "us/act",
                                     "us/act beyond", "kernels", "asleep", "MB moved/step", "MB held");
  absl::StrAppendFormat(&text, "%-36s %10s %12s %14s %9s %9s\n", "", "", "in kernels", "kernels", "", "");
  for (const CaseResult& one : result.cases) {
    if (!one.engine) continue;
    const auto median = [&](const std::function<double(const Counters&)>& value) {
      return SummaryOf(one.rounds, [&](const Round& round) { return value(round.counters); }).median;
    };
    absl::StrAppendFormat(
        &text, "%-36s %10.0f %12.1f %14.2f %8.1f%% %8.1f%% %13.2f %10.1f\n", one.title,
        median([](const Counters& c) { return c.acts; }),
        median([](const Counters& c) { return 1e6 * c.kernel_seconds / c.acts; }),
        median([](const Counters& c) { return 1e6 * (c.run_seconds - c.kernel_seconds - c.idle_seconds) / c.acts; }),
        median([](const Counters& c) { return 100 * c.kernel_seconds / c.run_seconds; }),
        median([](const Counters& c) { return 100 * c.idle_seconds / c.run_seconds; }),
        median([](const Counters& c) { return 1e-6 * c.bytes_moved; }),
        median([](const Counters& c) { return 1e-6 * c.register_bytes; }));
  }
  return text;
}

std::string SpeedOf(const OpRow& row) {
  if (row.flops_per_s > 0) return absl::StrFormat("%8.1f GF/s", 1e-9 * row.flops_per_s);
  return absl::StrFormat("%8.1f GB/s", 1e-9 * row.bytes_per_s);
}

std::string OpsOf(const CaseResult& one) {
  std::string text =
      absl::StrFormat("%-36s %10s %10s %8s\n", absl::StrCat(one.title, ", by op"), "calls/step", "ms/step", "share");
  double rest = 0;
  for (const OpRow& row : one.ops) {
    if (row.share < kShownShare) {
      rest += row.seconds;
      continue;
    }
    absl::StrAppendFormat(&text, "  %-34s %10.0f %10.3f %7.1f%% %s\n", row.op, row.calls, 1e3 * row.seconds,
                          100 * row.share, SpeedOf(row));
  }
  const double run = one.profiled_run_seconds;
  absl::StrAppendFormat(&text, "  %-34s %10s %10.3f %7.1f%%\n", "other ops", "", 1e3 * rest, 100 * rest / run);
  const double outside = run - one.profiled_kernel_seconds;
  absl::StrAppendFormat(&text, "  %-34s %10s %10.3f %7.1f%%\n", "outside kernels", "", 1e3 * outside,
                        100 * outside / run);
  return text;
}

std::string WorkText(const CompilationWork& work) {
  if (work.ranks > 0) {
    return absl::StrFormat("%d nodes written; %d actors on %d ranks, %.2f MB of plan", work.nodes, work.actors,
                           work.ranks, 1e-6 * work.plan_bytes);
  }
  const std::string bound = work.exact ? "exact" : absl::StrFormat("at least %.3f ms", 1e3 * work.lower_bound);
  return absl::StrFormat("%d nodes, %d prices; step predicted at %.3f ms, %s", work.nodes, work.prices,
                         1e3 * work.predicted_seconds, bound);
}

std::string CompilationTable(const BenchResult& result) {
  std::string text = absl::StrFormat("%-44s %9s %17s %9s\n",
                                     absl::StrFormat("compilation (load average %.1f before)", result.load_average),
                                     "cpu s", "(least..most)", "wall s");
  for (const CompilationResult& one : result.compilations) {
    std::vector<double> cpu, wall;
    for (const CompilationRound& round : one.rounds) {
      cpu.push_back(round.cpu_seconds);
      wall.push_back(round.wall_seconds);
    }
    const Summary seconds = Summarize(cpu);
    absl::StrAppendFormat(&text, "%-44s %9.3f %17s %9.3f   %s\n", one.title, seconds.median,
                          absl::StrFormat("(%.3f..%.3f)", seconds.least, seconds.most), Median(wall),
                          WorkText(one.work));
  }
  return text;
}

std::string CasesText(const BenchResult& result) {
  std::string text = absl::StrFormat(
      "%s; %.0f tokens per step; %d cores, kernels of %s, load average %.1f before\n%d rounds of %d steps after %d, "
      "interleaved; "
      "medians over "
      "rounds; times of several ranks are added up\n\n",
      result.model, result.tokens_per_step, result.cores, TheCpuVariant().name, result.load_average,
      static_cast<int>(result.cases.front().rounds.size()), result.steps, result.warmup);
  absl::StrAppend(&text, SpeedTable(result), "\n", RuntimeTable(result));
  for (const CaseResult& one : result.cases) {
    if (!one.ops.empty()) absl::StrAppend(&text, "\n", OpsOf(one));
  }
  return text;
}

// The round of median length.
const ScaleFigures& MedianRound(const ScaleResult& one) {
  std::vector<const ScaleFigures*> rounds;
  for (const ScaleFigures& round : one.rounds) rounds.push_back(&round);
  const auto middle = rounds.begin() + static_cast<ptrdiff_t>(rounds.size() / 2);
  std::nth_element(rounds.begin(), middle, rounds.end(),
                   [](const ScaleFigures* a, const ScaleFigures* b) { return a->seconds() < b->seconds(); });
  return **middle;
}

// How the time of one case compares with that of another, round by round: cases of a round follow one another, so that
// what slows the machine down slows both.
struct ScaleRatio {
  std::string name;
  Summary summary;
};

constexpr struct {
  const char* name;
  const char* of;
  const char* over;
} kScaleRatios[] = {{"32 times the ranks", "gpt3-dp32", "gpt3-dp1"},
                    {"twice the layers", "gpt3-dp1", "gpt3-half"},
                    {"8 sizes of steps", "gpt3-ramp", "gpt3-dp32"}};

std::vector<ScaleRatio> ScaleRatios(const std::vector<ScaleResult>& scales) {
  const auto find = [&](absl::string_view name) {
    const auto named = [&](const ScaleResult& one) { return one.rounds.front().name == name; };
    return std::find_if(scales.begin(), scales.end(), named);
  };
  std::vector<ScaleRatio> ratios;
  for (const auto& [name, of_name, over_name] : kScaleRatios) {
    const auto of = find(of_name), over = find(over_name);
    if (of == scales.end() || over == scales.end()) continue;
    std::vector<double> values;
    for (size_t i = 0; i < of->rounds.size(); ++i) {
      values.push_back(of->rounds[i].seconds() / over->rounds[i].seconds());
    }
    ratios.push_back({absl::StrCat(name, " (", of_name, " / ", over_name, ")"), Summarize(values)});
  }
  return ratios;
}

std::string ScaleTable(const std::vector<ScaleResult>& scales) {
  std::string text = absl::StrFormat("%-34s %6s %8s %9s %9s %9s %9s %8s %9s %11s\n", "compile-scale", "ranks", "nodes",
                                     "total s", "passes s", "select s", "plan s", "RSS GB", "plan MB", "worker MB");
  for (const ScaleResult& one : scales) {
    const ScaleFigures& it = MedianRound(one);
    absl::StrAppendFormat(&text, "%-34s %6d %8d %9.2f %9.2f %9.2f %9.2f %8.2f %9.2f %11.3f\n", it.title, it.ranks,
                          it.nodes, it.seconds(), it.passes_seconds, it.selection_seconds, it.plan_seconds,
                          1e-9 * static_cast<double>(it.peak_bytes), 1e-6 * static_cast<double>(it.plan_bytes),
                          1e-6 * static_cast<double>(it.largest_program_bytes));
  }
  for (const ScaleRatio& ratio : ScaleRatios(scales)) {
    absl::StrAppendFormat(&text, "%-50s %7.2f times the seconds (%.2f..%.2f)\n", ratio.name, ratio.summary.median,
                          ratio.summary.least, ratio.summary.most);
  }
  return text;
}

nlohmann::json JsonOf(const ScaleFigures& it) {
  return {{"name", it.name},
          {"title", it.title},
          {"ranks", it.ranks},
          {"nodes", it.nodes},
          {"seconds", it.seconds()},
          {"graph_seconds", it.graph_seconds},
          {"passes_seconds", it.passes_seconds},
          {"selection_seconds", it.selection_seconds},
          {"plan_seconds", it.plan_seconds},
          {"peak_bytes", it.peak_bytes},
          {"plan_bytes", it.plan_bytes},
          {"largest_program_bytes", it.largest_program_bytes}};
}

nlohmann::json JsonOf(const CompilationResult& one) {
  const CompilationWork& work = one.work;
  nlohmann::json json = {{"name", one.name}, {"title", one.title}, {"nodes", work.nodes}};
  if (work.ranks > 0) {
    json.update({{"ranks", work.ranks}, {"actors", work.actors}, {"plan_bytes", work.plan_bytes}});
  } else {
    json.update({{"prices", work.prices},
                 {"exact", work.exact},
                 {"predicted_seconds", work.predicted_seconds},
                 {"lower_bound", work.lower_bound}});
  }
  for (const CompilationRound& round : one.rounds) {
    json["rounds"].push_back({{"cpu_seconds", round.cpu_seconds}, {"wall_seconds", round.wall_seconds}});
  }
  return json;
}

}  // namespace

std::string ReportText(const BenchResult& result) {
  std::string text = result.cases.empty() ? "" : CasesText(result);
  if (!result.compilations.empty()) absl::StrAppend(&text, text.empty() ? "" : "\n", CompilationTable(result));
  if (!result.scales.empty()) absl::StrAppend(&text, text.empty() ? "" : "\n", ScaleTable(result.scales));
  for (const auto& [name, other] : result.others) absl::StrAppend(&text, text.empty() ? "" : "\n", other->Text());
  return text;
}

std::string ReportJson(const BenchResult& result) {
  nlohmann::json json = {{"model", result.model},
                         {"tokens_per_step", result.tokens_per_step},
                         {"cores", result.cores},
                         {"kernels", TheCpuVariant().name},
                         {"warmup", result.warmup},
                         {"steps", result.steps},
                         {"load_average", result.load_average},
                         {"cases", nlohmann::json::array()}};
  for (const CaseResult& one : result.cases) {
    nlohmann::json item = {{"name", one.name}, {"title", one.title}, {"losses", one.rounds.front().losses}};
    for (const Round& round : one.rounds) {
      nlohmann::json figures = {{"step_seconds", round.step_seconds},
                                {"tokens_per_s", result.tokens_per_step / round.step_seconds},
                                {"cpu_seconds", round.counters.cpu_seconds}};
      if (one.engine) {
        figures.update({{"run_seconds", round.counters.run_seconds},
                        {"kernel_seconds", round.counters.kernel_seconds},
                        {"idle_seconds", round.counters.idle_seconds},
                        {"communication_seconds", round.counters.communication_seconds},
                        {"acts", round.counters.acts},
                        {"bytes_moved", round.counters.bytes_moved},
                        {"register_bytes", round.counters.register_bytes}});
      }
      item["rounds"].push_back(std::move(figures));
    }
    for (const OpRow& row : one.ops) {
      item["ops"].push_back({{"op", row.op},
                             {"calls", row.calls},
                             {"seconds", row.seconds},
                             {"share", row.share},
                             {"flops_per_s", row.flops_per_s},
                             {"bytes_per_s", row.bytes_per_s}});
    }
    json["cases"].push_back(std::move(item));
  }
  for (const CompilationResult& one : result.compilations) json["compilations"].push_back(JsonOf(one));
  for (const ScaleResult& one : result.scales) json["compile_scale"].push_back(JsonOf(MedianRound(one)));
  for (const auto& [name, other] : result.others) json[name] = other->Json();
  for (const ScaleRatio& ratio : ScaleRatios(result.scales)) {
    json["compile_scale_ratios"].push_back({{"name", ratio.name},
                                            {"median", ratio.summary.median},
                                            {"least", ratio.summary.least},
                                            {"most", ratio.summary.most}});
  }
  return json.dump(2);
}

}  // namespace oneflow
