// `oneflow bench`, `bench device` and `bench kernels`: what this machine and this engine can do.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "tools/bench/bench.h"
#include "tools/cli/commands.h"
#include "tools/cli/report.h"
#include "tools/study/calibration/device.h"
#include "tools/study/calibration/kernels.h"

namespace oneflow {
namespace {

absl::Status BenchOn(const SchedulerArguments& scheduler, BenchArguments bench) {
  if (!scheduler.address.empty()) {
    const std::vector<std::string> cases = absl::StrSplit(bench.cases, ',');
    if (std::find(cases.begin(), cases.end(), "links") == cases.end())
      return absl::InvalidArgumentError("--scheduler is for the case `links`, which --cases does not name");
    OF_ASSIGN_OR_RETURN(bench.scheduler, AddressOf(scheduler));
  }
  return BenchCommand(bench);
}

RunFunction DeclareBench(CLI::App& app, ParsedArguments& arguments) {
  BenchArguments& bench = arguments.New<BenchArguments>();
  SchedulerArguments& scheduler = arguments.New<SchedulerArguments>();
  app.add_option("job", bench.config, "job config with a gpt; default: the quickstart's model on a generated text");
  app.add_option("--set", bench.sets, "override a field of the config; may be repeated")->allow_extra_args(false);
  app.add_option("--rounds", bench.rounds, "how often everything is measured, in turn")->capture_default_str();
  app.add_option("--steps", bench.steps, "measured steps of a round; default: 20, less where one takes seconds");
  app.add_option("--warmup", bench.warmup, "steps before them; default: 5, or less");
  app.add_option("--cores", bench.cores, "cores for each layout and for PyTorch; 0: all of this machine")
      ->capture_default_str();
  app.add_option("--cases", bench.cases, "what to measure, separated by commas")->capture_default_str();
  CLI::Option* const python =
      app.add_option("--pytorch", bench.pytorch, "Python interpreter with PyTorch to compare with");
  app.add_option("--pytorch-script", bench.pytorch_script, "the models in PyTorch")
      ->capture_default_str()
      ->needs(python);
  app.add_option("--pytorch-modes", bench.pytorch_modes,
                 "of a case's modes of PyTorch, such as eager,compile; default: all")
      ->needs(python);
  app.add_option("--json", bench.json, "write all figures to this file");
  app.add_option("--plots", bench.plots, "write pictures of what cases measured into this folder, as SVG");
  AddScheduler(app, scheduler, "measure `links` between the hosts of this cluster");
  return [&] { return Report(BenchOn(scheduler, bench)); };
}

// The options of `bench` are of its cases.
void ExcludeThoseOfTheCases(CLI::App& app) {
  for (CLI::Option* option : app.get_parent()->get_options()) {
    if (option->get_name() != "--help") app.excludes(option);
  }
}

RunFunction DeclareBenchDevice(CLI::App& app, ParsedArguments& arguments) {
  BenchDeviceArguments& bench = arguments.New<BenchDeviceArguments>();
  app.add_option("--device", bench.device, "cpu or cuda")->capture_default_str();
  app.add_option("--kind", bench.kind, "name of the row; default: the device");
  app.add_option("--cores", bench.cores, "cores that a cpu device has")
      ->capture_default_str()
      ->check(CLI::Range(1, kMostCores));
  app.add_option("--output", bench.output, "file to write; default: standard output");
  ExcludeThoseOfTheCases(app);
  return [&bench] { return Report(BenchDeviceCommand(bench)); };
}

RunFunction DeclareBenchKernels(CLI::App& app, ParsedArguments& arguments) {
  BenchKernelsArguments& bench = arguments.New<BenchKernelsArguments>();
  app.add_option("job", bench.config, "job config")->required();
  app.add_option("--set", bench.sets, "override a field of the config")->allow_extra_args(false);
  app.add_option("--plan", bench.plan, "measure this plan; default: the first");
  app.add_option("--output", bench.output, "file to write; default: standard output");
  app.add_option("--steps", bench.steps, "of which the median counts")
      ->capture_default_str()
      ->check(CLI::Range(1, 10'000));
  ExcludeThoseOfTheCases(app);
  return [&bench] { return Report(BenchKernelsCommand(bench)); };
}

}  // namespace

std::vector<Command> BenchCommands() {
  return {{"bench",
           "measure the engine on a gpt, beside PyTorch if a Python with it is named",
           DeclareBench,
           {
               {"device", "measure this machine's device, as a row for cluster.device_table", DeclareBenchDevice},
               {"kernels", "measure the instructions of a job's plan on this machine, for `plan simulate --kernels`",
                DeclareBenchKernels},
           }}};
}

}  // namespace oneflow
