// The figures of a bench as tables for people and as JSON for programs.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tools/bench/bench_case.h"
#include "tools/bench/compilation.h"
#include "tools/bench/compile_scale.h"
#include "tools/bench/measurement.h"
#include "tools/bench/op_table.h"

namespace oneflow {

struct CaseResult {
  std::string name;    // "dp2-tp2"
  std::string title;   // "dp2 x tp2, 2 processes x 2 devices"
  bool engine = true;  // otherwise PyTorch: no acts, no ops
  std::vector<Round> rounds;
  std::vector<OpRow> ops;                                        // of one more round, profiled
  double profiled_run_seconds = 0, profiled_kernel_seconds = 0;  // of that round, per step
};

struct CompilationResult {
  std::string name;   // "compile"
  std::string title;  // "job 'gpt-dp2-tp2', config to plan"
  CompilationWork work;
  std::vector<CompilationRound> rounds;
};

struct ScaleResult {
  std::vector<ScaleFigures> rounds;
};

struct BenchResult {
  std::string model;  // "GPT of 4 layers, width 128 ..."
  double tokens_per_step = 0;
  int cores = 0;
  int warmup = 0, steps = 0;
  double load_average = 0;                      // at the beginning
  std::vector<CaseResult> cases;                // may be empty if there are compilations
  std::vector<CompilationResult> compilations;  // may be empty
  std::vector<ScaleResult> scales;              // may be empty; all of as many rounds, taken in turn
  // Cases of their own, by name; borrowed.
  std::vector<std::pair<std::string, const BenchCase*>> others;
};

std::string ReportText(const BenchResult& result);
std::string ReportJson(const BenchResult& result);

}  // namespace oneflow
