#include "tools/bench/pytorch_case.h"

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "actor/data/source.h"
#include "nlohmann/json.hpp"
#include "tools/control/process/child.h"
#include "tools/control/process/log_tail.h"
#include "tools/control/process/openmp.h"
#include "tools/control/process/write_file.h"
#include "tools/job/attributes.h"
#include "tools/job/field_rules.h"

namespace oneflow {
namespace {

constexpr absl::Duration kLook = absl::Milliseconds(100);
constexpr absl::Duration kLimit = absl::Minutes(15);  // far beyond any measurement worth making

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

nlohmann::json Request(const PyTorchCase& pytorch, const std::vector<double>& learning_rates) {
  const pb::Train& train = pytorch.config.train();
  nlohmann::json request = pytorch.model;
  request.update({{"mode", pytorch.mode},
                  {"device", pytorch.config.cluster().device() == "cuda" ? "cuda" : "cpu"},
                  {"precision", pytorch.config.precision().compute() == pb::Precision::BF16 ? "bf16" : "f32"},
                  {"optimizer", Optimizer(train.optimizer())},
                  {"clip_norm", train.optimizer().clip_norm()},
                  {"learning_rates", learning_rates},
                  {"weights", pytorch.weights},
                  {"batches", pytorch.batches},
                  {"warmup", pytorch.warmup},
                  {"steps", pytorch.steps},
                  {"threads", pytorch.threads}});
  return request;
}

// Unimplemented if the script would train something else than the config says.
absl::Status CheckKnown(const pb::JobConfig& config) {
  if (config.precision().compute() == pb::Precision::F16) {
    return absl::UnimplementedError("the bench's PyTorch computes in f32 and bf16, not in f16");
  }
  const pb::Optimizer& optimizer = config.train().optimizer();
  if (optimizer.kind_case() != pb::Optimizer::KIND_NOT_SET && !optimizer.has_adamw() && !optimizer.has_sgd()) {
    return absl::UnimplementedError("the bench's PyTorch trains by adamw and sgd, not by other optimizers");
  }
  if (optimizer.groups_size() > 0) return absl::UnimplementedError("the bench's PyTorch has no groups of parameters");
  const AttrMap model = AttributesOfKind(config.model());
  for (const char* field : {"head_width", "window"}) {
    if (model.Int(field) == 0) continue;
    return absl::UnimplementedError(
        absl::StrCat("the bench's PyTorch has no ", field, ", which is ", model.Int(field)));
  }
  const bool has_more = model.Bool("qkv_bias") || model.Bool("qk_norm") ||
                        model.String("rope_scaling", "none") != "none" || model.String("activation", "gelu") != "gelu";
  if (!has_more) return absl::OkStatus();
  return absl::UnimplementedError("the bench's PyTorch has no qkv_bias, qk_norm, rope_scaling and gelu_tanh");
}

}  // namespace

nlohmann::json PyTorchTextModel(const pb::JobConfig& config) {
  const AttrMap model = AttributesOfKind(config.model());
  nlohmann::json request = {{"model", KindNameOf(config.model())}, {"batch", config.train().batch_size()}};
  for (const char* field : {"layers", "heads", "kv_heads", "context"}) {
    if (model.Has(field)) request[field] = model.Int(field);
  }
  for (const char* field : {"dropout", "rope_theta", "epsilon"}) {
    if (model.Has(field)) request[field] = model.Double(field);
  }
  return request;
}

absl::StatusOr<std::string> TextBatches(const pb::JobConfig& config, int steps) {
  const pb::Text text = WithDefaults(config.data().text());
  AttrMap attributes;
  attributes.Set("dataset", std::string("text"));
  attributes.Set("path", text.path());
  attributes.Set("split", std::string("train"));
  attributes.Set("validation_fraction", text.validation_fraction());
  const int64_t context = AttributesOfKind(config.model()).Int("context");
  attributes.Set("context", context);
  attributes.Set("seed", static_cast<int64_t>(WithDefaults(config).seed()));
  OF_ASSIGN_OR_RETURN(const std::unique_ptr<Source> source, OpenSource(attributes));
  const int64_t dims[] = {config.train().batch_size(), context};
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

absl::StatusOr<int> RunPython(const std::string& python, const std::vector<std::string>& arguments,
                              const std::string& log, const std::atomic<bool>& stop, const std::string& cache) {
  ChildExit exit;
  ChildOptions options;
  options.executable = "/usr/bin/env";  // finds the interpreter in $PATH
  options.arguments = {"env", python};
  options.arguments.insert(options.arguments.end(), arguments.begin(), arguments.end());
  options.log_path = log;
  options.environment = OpenMpEnvironment();  // as our workers have it
  if (!cache.empty()) options.environment.push_back(absl::StrCat("TORCHINDUCTOR_CACHE_DIR=", cache, "/inductor"));
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

absl::StatusOr<std::optional<nlohmann::json>> AskPyTorch(const BenchContext& context, const std::string& stem,
                                                         const nlohmann::json& request) {
  const std::string script = std::filesystem::path(context.pytorch_script).parent_path() / (stem + ".py");
  if (!std::filesystem::exists(script))
    return absl::NotFoundError(absl::StrCat("'", script, "', beside --pytorch-script: there is no such file"));
  const std::string asked = absl::StrCat(context.dir, "/", stem, ".json"),
                    answer = absl::StrCat(context.dir, "/", stem, ".answer.json"),
                    log = absl::StrCat(context.dir, "/", stem, ".log");
  OF_RETURN_IF_ERROR(WriteFile("file", asked, request.dump()));
  OF_ASSIGN_OR_RETURN_AT(const int code, RunPython(context.pytorch, {script, asked, answer}, log, context.stop),
                         "PyTorch");
  if (code == kNoPyTorch) return std::nullopt;
  std::ifstream stream(answer);
  nlohmann::json told = nlohmann::json::parse(stream, nullptr, /*allow_exceptions=*/false);
  if (code != 0 || !told.is_object() || !told.contains("seconds")) {
    return absl::InternalError(absl::StrCat("PyTorch: '", script, "' ended with code ", code, "; it wrote:\n",
                                            LastLines(ReadTail(log, 4 << 10), 10)));
  }
  return told;
}

absl::StatusOr<PyTorchRound> ReadPyTorchAnswer(const std::string& answer, int code) {
  std::ifstream stream(answer);
  const nlohmann::json told = nlohmann::json::parse(stream, nullptr, /*allow_exceptions=*/false);
  if (!told.is_object()) return absl::InternalError(absl::StrCat("PyTorch: '", answer, "' is not a JSON object"));
  if (code == kCannot) return absl::UnimplementedError(told.value("reason", "it cannot, and does not say why"));
  PyTorchRound result;
  result.title = told.value("title", "PyTorch");
  result.round.losses = told.value("losses", std::vector<double>());
  const std::vector<double> seconds = told.value("step_seconds", std::vector<double>());
  if (seconds.empty()) return absl::InternalError("PyTorch: it told no times");
  result.round.step_seconds = Median(seconds);
  result.round.counters.cpu_seconds = told.value("cpu_seconds", 0.0);
  result.round.counters.peak_bytes = told.value("peak_bytes", 0.0);
  return result;
}

absl::StatusOr<PyTorchRound> RunPyTorch(const PyTorchCase& pytorch, const std::vector<double>& learning_rates,
                                        const std::atomic<bool>& stop) {
  if (!std::filesystem::exists(pytorch.script))
    return absl::NotFoundError(absl::StrCat("--pytorch-script ", pytorch.script, ": there is no such file"));
  OF_RETURN_IF_ERROR(CheckKnown(pytorch.config));
  const std::string request = pytorch.dir + "/pytorch.json", answer = pytorch.dir + "/pytorch.answer.json",
                    log = pytorch.dir + "/pytorch.log";
  OF_RETURN_IF_ERROR(WriteFile("file", request, Request(pytorch, learning_rates).dump()));
  OF_ASSIGN_OR_RETURN_AT(
      const int code, RunPython(pytorch.python, {pytorch.script, request, answer}, log, stop, pytorch.dir), "PyTorch");
  if (code == kNoPyTorch) return absl::UnavailableError(absl::StrCat("'", pytorch.python, "' has no PyTorch"));
  if (code != 0 && code != kCannot) {
    return absl::InternalError(absl::StrCat("PyTorch: '", pytorch.python, " ", pytorch.script, "' ended with code ",
                                            code, "; it wrote:\n", LastLines(ReadTail(log, 4 << 10), 10)));
  }
  return ReadPyTorchAnswer(answer, code);
}

}  // namespace oneflow
