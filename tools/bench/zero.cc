#include "tools/bench/zero.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"
#include "tools/bench/pytorch_case.h"
#include "tools/bench/run_job.h"
#include "tools/job/attributes.h"

namespace oneflow {
namespace {

constexpr int kZeroProcesses = 4;
// A warm-up of one step and five measured ones, unless the command line says otherwise.
constexpr int kZeroWarmup = 1, kZeroSteps = 5;
constexpr OwnGpt kZeroModels[] = {
    {"10M", "layers: 6 width: 320 heads: 5 context: 256 vocabulary: 8192 tied_embedding: true", 8, "3e-4"},
    {"124M", "layers: 12 width: 768 heads: 12 context: 256 vocabulary: 50304 tied_embedding: true", 4, "3e-4"}};
// Of one model. Losses are near and not equal: the norm that clips is summed in parts.
constexpr double kSameLoss = 1e-5;

struct ZeroWay {
  const char* name;
  const char* field;  // of the job
};
constexpr ZeroWay kWays[] = {
    {"copies", ""}, {"stage 1", "zero={stage:1}"}, {"stage 2", "zero={stage:2}"}, {"stage 3", "zero={stage:3}"}};

// Seconds of a step, the most memory of all processes, and what a step moves between ranks.
struct ZeroRun {
  double seconds = 0, peak_bytes = 0, moved_bytes = 0;
};
// By model and way.
using ZeroRound = std::map<std::pair<std::string, std::string>, ZeroRun>;

class ZeroCase : public BenchCase {
 public:
  explicit ZeroCase(const BenchContext& context) : context_(context) {
    context_of_jobs_.emplace(BenchContext(context));
    context_of_jobs_->warmup = context.asked_warmup.value_or(kZeroWarmup);
    context_of_jobs_->steps = context.asked_steps.value_or(kZeroSteps);
  }

  absl::StatusOr<std::string> RunRound() override {
    ZeroRound round;
    for (const OwnGpt& model : kZeroModels) {
      OF_RETURN_IF_ERROR(RunWays(model, round));
      if (!context_.pytorch.empty()) OF_RETURN_IF_ERROR(RunPeers(model, round));
    }
    rounds_.push_back(std::move(round));
    return absl::StrFormat("stage 3 %5.2f x copies", Against(rounds_.back(), "124M", "stage 3", "copies").seconds);
  }

  std::string Text() const override {
    std::string text = absl::StrCat("zero: GPTs on ", kZeroProcesses, " processes that see ",
                                    "other samples, state as copies and in parts\n");
    for (const OwnGpt& model : kZeroModels) {
      absl::StrAppend(&text, "  ", model.name,
                      "            step s (least..most)  of copies  peak GB  of copies  moved MB  of copies\n");
      for (const std::string& way : ways_) {
        const Summary step = SummaryOf(rounds_, [&](const ZeroRound& r) { return r.at({model.name, way}).seconds; });
        const ZeroRun& last = rounds_.back().at({model.name, way});
        const ZeroRun of = MedianAgainst(model.name, way, "copies");
        absl::StrAppendFormat(&text, "  %-14s %7.3f (%.3f..%.3f) %9.2f %9.2f %9.2f", way, step.median, step.least,
                              step.most, of.seconds, last.peak_bytes / 1e9, of.peak_bytes);
        if (last.moved_bytes > 0) absl::StrAppendFormat(&text, " %10.1f %9.2f", last.moved_bytes / 1e6, of.moved_bytes);
        text += "\n";
      }
      if (context_.pytorch.empty()) continue;
      const ZeroRun sharded = MedianAgainst(model.name, "FSDP2", "stage 3");
      absl::StrAppendFormat(&text, "  stage 3 beside FSDP2: %.2f x tokens/s, %.2f x peak memory\n", sharded.seconds,
                            1 / sharded.peak_bytes);
    }
    return text;
  }

  nlohmann::json Json() const override {
    nlohmann::json json = nlohmann::json::array();
    for (const ZeroRound& round : rounds_) {
      nlohmann::json& of = json.emplace_back();
      for (const auto& [what, run] : round) {
        of[what.first][what.second] = {
            {"step_seconds", run.seconds}, {"peak_bytes", run.peak_bytes}, {"moved_bytes", run.moved_bytes}};
      }
    }
    return json;
  }

 private:
  absl::Status RunWays(const OwnGpt& model, ZeroRound& round) {
    std::optional<std::vector<double>> losses;
    for (const ZeroWay& way : kWays) {
      OF_RETURN_IF_ERROR(BeginPart(context_, absl::StrCat(model.name, ", ", way.name)));
      OF_ASSIGN_OR_RETURN(SourcedConfig config, OwnConfig(TextOf(model), "(zero)", kZeroProcesses, *context_of_jobs_));
      config.config.mutable_mesh()->set_dp(kZeroProcesses);
      config.config.mutable_cluster()->set_processes(kZeroProcesses);
      if (*way.field != '\0') OF_RETURN_IF_ERROR(ApplyOverride(way.field, config));
      OF_ASSIGN_OR_RETURN(const Round run, RunConfig(config, *context_of_jobs_));
      if (!losses.has_value()) losses = run.losses;
      for (size_t step = 0; step < run.losses.size(); ++step) {
        if (std::abs(run.losses[step] - (*losses)[step]) <= kSameLoss * (*losses)[step]) continue;
        return absl::InternalError(absl::StrCat("zero: ", model.name, ", ", way.name, ": the loss of step ", step + 1,
                                                " is ", run.losses[step], ", that of copies ", (*losses)[step]));
      }
      Take(way.name, {model.name, way.name}, {run.step_seconds, run.counters.peak_bytes, run.counters.bytes_moved},
           round);
    }
    return absl::OkStatus();
  }

  absl::Status RunPeers(const OwnGpt& model, ZeroRound& round) {
    OF_ASSIGN_OR_RETURN(const SourcedConfig config, ParseConfig(TextOf(model), "(zero)"));
    const AttrMap sizes = AttributesOfKind(config.config.model());
    for (const auto& [name, mode] : {std::pair("DDP", "ddp"), std::pair("FSDP2", "fsdp2")}) {
      OF_RETURN_IF_ERROR(BeginPart(context_, absl::StrCat(model.name, ", ", name)));
      nlohmann::json request = {{"mode", mode},
                                {"processes", kZeroProcesses},
                                {"batch", model.batch / kZeroProcesses},
                                {"warmup", context_of_jobs_->warmup},
                                {"steps", context_of_jobs_->steps}};
      for (const char* size : {"layers", "width", "heads", "context", "vocabulary"}) request[size] = sizes.Int(size);
      OF_ASSIGN_OR_RETURN(const std::optional<nlohmann::json> told, AskPyTorch(context_, "pytorch_fsdp", request));
      if (!told.has_value()) {
        return absl::UnavailableError(absl::StrCat("'", context_.pytorch, "' has no PyTorch"));
      }
      Take(name, {model.name, name}, {told->at("seconds"), told->value("peak_bytes", 0.0), 0}, round);
    }
    return absl::OkStatus();
  }

  void Take(const std::string& way, const std::pair<std::string, std::string>& what, const ZeroRun& run,
            ZeroRound& round) {
    if (std::find(ways_.begin(), ways_.end(), way) == ways_.end()) ways_.push_back(way);
    round[what] = run;
  }

  static ZeroRun Against(const ZeroRound& round, const std::string& model, const std::string& way,
                         const std::string& other) {
    const ZeroRun &a = round.at({model, way}), &b = round.at({model, other});
    return {a.seconds / b.seconds, a.peak_bytes / b.peak_bytes, b.moved_bytes > 0 ? a.moved_bytes / b.moved_bytes : 0};
  }
  // Medians of the ratios of rounds.
  ZeroRun MedianAgainst(const std::string& model, const std::string& way, const std::string& other) const {
    const auto median = [&](double ZeroRun::*of) {
      return SummaryOf(rounds_, [&](const ZeroRound& r) { return Against(r, model, way, other).*of; }).median;
    };
    return {median(&ZeroRun::seconds), median(&ZeroRun::peak_bytes), median(&ZeroRun::moved_bytes)};
  }

  const BenchContext& context_;
  std::optional<BenchContext> context_of_jobs_;  // with steps of its own
  std::vector<std::string> ways_;                // in the order in which they run
  std::vector<ZeroRound> rounds_;
};

}  // namespace

std::unique_ptr<BenchCase> MakeZeroCase(const BenchContext& context) { return std::make_unique<ZeroCase>(context); }

}  // namespace oneflow
