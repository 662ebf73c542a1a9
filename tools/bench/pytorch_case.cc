#include "tools/bench/pytorch_case.h"

#include "absl/strings/str_cat.h"
#include "actor/data/source.h"
#include "nlohmann/json.hpp"
#include "tools/daemon/log_tail.h"
#include "tools/process/child.h"
#include "tools/process/openmp.h"
#include "tools/process/write_file.h"

namespace oneflow {
namespace {

constexpr absl::Duration kLook = absl::Milliseconds(100);
constexpr absl::Duration kLimit = absl::Minutes(15);  // far beyond any measurement worth making

// The batches of steps 0..steps-1 as bytes: per step [batch, context] inputs, then as many labels.
absl::StatusOr<std::string> Batches(const pb::JobConfig& config, int steps) {
  const pb::Text& text = config.data().text();
  AttrMap attributes;
  attributes.Set("dataset", std::string("text"));
  attributes.Set("path", text.path());
  attributes.Set("split", std::string("train"));
  attributes.Set("validation_fraction", text.has_validation_fraction() ? text.validation_fraction() : 0.05);
  attributes.Set("context", int64_t{config.model().gpt().context()});
  attributes.Set("seed", static_cast<int64_t>(config.has_seed() ? config.seed() : 1));
  OF_ASSIGN_OR_RETURN(const std::unique_ptr<Source> source, OpenSource(attributes));
  const int64_t dims[] = {config.train().batch_size(), config.model().gpt().context()};
  const int64_t start[] = {0, 0};
  std::vector<int32_t> inputs(dims[0] * dims[1]), labels(inputs.size());
  const auto argument = [&](std::vector<int32_t>& values) {
    return TensorArg{.data = values.data(),
                     .dtype = DType::kInt32,
                     .rank = 2,
                     .count = static_cast<int64_t>(values.size()),
                     .dims = dims,
                     .logical_dims = dims,
                     .start = start};
  };
  const std::vector<TensorArg> outputs = {argument(inputs), argument(labels)};
  std::string bytes;
  for (int step = 0; step < steps; ++step) {
    OF_RETURN_IF_ERROR(source->Read(step, 0, 1, outputs));
    bytes.append(inputs.begin(), inputs.end());
    bytes.append(labels.begin(), labels.end());
  }
  return bytes;
}

nlohmann::json Optimizer(const pb::Optimizer& optimizer) {
  if (optimizer.has_sgd()) {
    const pb::Sgd& sgd = optimizer.sgd();
    return {{"kind", "sgd"},
            {"momentum", sgd.momentum()},
            {"nesterov", sgd.nesterov()},
            {"weight_decay", sgd.weight_decay()}};
  }
  const pb::AdamW& adamw = optimizer.adamw();
  return {{"kind", "adamw"},
          {"beta1", adamw.has_beta1() ? adamw.beta1() : 0.9},
          {"beta2", adamw.has_beta2() ? adamw.beta2() : 0.95},
          {"epsilon", adamw.has_epsilon() ? adamw.epsilon() : 1e-8},
          {"weight_decay", adamw.weight_decay()}};
}

nlohmann::json Request(const PyTorchCase& pytorch, const std::vector<double>& learning_rates,
                       const std::string& batches) {
  const pb::Gpt& gpt = pytorch.config.model().gpt();
  return {{"layers", gpt.layers()},
          {"heads", gpt.heads()},
          {"context", gpt.context()},
          {"batch", pytorch.config.train().batch_size()},
          {"dropout", gpt.dropout()},
          {"optimizer", Optimizer(pytorch.config.train().optimizer())},
          {"clip_norm", pytorch.config.train().optimizer().clip_norm()},
          {"learning_rates", learning_rates},
          {"weights", pytorch.weights},
          {"batches", batches},
          {"warmup", pytorch.warmup},
          {"steps", pytorch.steps},
          {"threads", pytorch.threads}};
}

}  // namespace

absl::StatusOr<int> RunPython(const std::string& python, const std::vector<std::string>& arguments,
                              const std::string& log, const std::atomic<bool>& stop) {
  ChildExit exit;
  ChildOptions options;
  options.executable = "/usr/bin/env";  // finds the interpreter in $PATH
  options.arguments = {"env", python};
  options.arguments.insert(options.arguments.end(), arguments.begin(), arguments.end());
  options.log_path = log;
  options.environment = OpenMpEnvironment();  // as our workers have it
  OF_ASSIGN_OR_RETURN(const std::unique_ptr<ChildProcess> child,
                      ChildProcess::Start(std::move(options), [&exit](ChildExit how) { exit = how; }));
  for (absl::Duration waited; !child->WaitForExit(kLook); waited += kLook) {
    if (stop) return absl::CancelledError("interrupted");
    if (waited > kLimit)
      return absl::DeadlineExceededError(absl::StrCat("no end within ", absl::FormatDuration(kLimit)));
  }
  if (exit.signal != 0) return absl::InternalError(absl::StrCat("killed by signal ", exit.signal));
  return exit.exit_code;
}

absl::StatusOr<PyTorchRound> RunPyTorch(const PyTorchCase& pytorch, const std::vector<double>& learning_rates,
                                        const std::atomic<bool>& stop) {
  const std::string request = pytorch.dir + "/pytorch.json", batches = pytorch.dir + "/pytorch.batches",
                    answer = pytorch.dir + "/pytorch.answer.json", log = pytorch.dir + "/pytorch.log";
  OF_ASSIGN_OR_RETURN(const std::string tokens, Batches(pytorch.config, pytorch.warmup + pytorch.steps));
  OF_RETURN_IF_ERROR(WriteFile("file", batches, tokens));
  OF_RETURN_IF_ERROR(WriteFile("file", request, Request(pytorch, learning_rates, batches).dump()));
  OF_ASSIGN_OR_RETURN_AT(const int code, RunPython(pytorch.python, {pytorch.script, request, answer}, log, stop),
                         "PyTorch");
  if (code == kNoPyTorch) return absl::UnavailableError(absl::StrCat("'", pytorch.python, "' has no PyTorch"));
  if (code != 0) {
    return absl::InternalError(absl::StrCat("PyTorch: '", pytorch.python, " ", pytorch.script, "' ended with code ",
                                            code, "; it wrote:\n", LastLines(ReadTail(log, 4 << 10), 10)));
  }
  std::ifstream stream(answer);
  const nlohmann::json told = nlohmann::json::parse(stream, nullptr, /*allow_exceptions=*/false);
  if (told.is_discarded()) return absl::InternalError(absl::StrCat("PyTorch: '", answer, "' is not JSON"));
  PyTorchRound result;
  result.title = told.value("title", "PyTorch");
  result.round.losses = told.value("losses", std::vector<double>());
  const std::vector<double> seconds = told.value("step_seconds", std::vector<double>());
  if (seconds.empty()) return absl::InternalError("PyTorch: it told no times");
  result.round.step_seconds = Median(seconds);
  result.round.counters.cpu_seconds = told.value("cpu_seconds", 0.0);
  return result;
}

}  // namespace oneflow
