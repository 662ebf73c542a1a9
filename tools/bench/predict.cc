#include "tools/bench/predict.h"

#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"
#include "tools/bench/predict_report.h"
#include "tools/bench/predicted_run.h"

namespace oneflow {
namespace {

constexpr double kGib = 1 << 30;

struct PredictParts {
  bool memory = false, steps = false, orders = false;
};

class PredictCase : public BenchCase {
 public:
  PredictCase(const BenchContext& context, PredictParts parts) : context_(context), parts_(parts) {}

  absl::StatusOr<std::string> RunRound() override {
    if (!sets_.empty() || !orders_.empty()) return "as before";  // it is a function of the plans
    if (parts_.memory) OF_RETURN_IF_ERROR(AddMemory());
    if (parts_.steps) {
      OF_RETURN_IF_ERROR(AddSteps("Selene", 0.04, SeleneRuns()));
      OF_RETURN_IF_ERROR(AddSteps("Megatron-LM, table 1", 0.10, TableOneRuns()));
    }
    if (parts_.orders) {
      for (const PublishedOrder& order : PublishedOrders()) OF_RETURN_IF_ERROR(AddOrder(order));
    }
    int holds = 0;
    for (const PredictedSet& set : sets_) holds += set.holds();
    for (const PredictedOrder& order : orders_) holds += order.holds();
    return absl::StrFormat("%d of %d hold", holds, sets_.size() + orders_.size());
  }

  std::string Text() const override {
    std::string text =
        "predict: published runs, compiled and played on the data sheets' rates; nothing is fitted. Elementwise "
        "chains\n"
        "are one kernel, views are free, sums of gradients are products' since 2022 "
        "(tools/study/sim/kernel_groups.h)\n";
    for (const PredictedSet& set : sets_) absl::StrAppend(&text, SetText(set));
    if (!saved_.empty()) {
      absl::StrAppend(&text, "  of these, our own fusions would not keep:");
      for (const auto& [run, share] : saved_) absl::StrAppendFormat(&text, "\n    %-44s %5.1f%%", run, 100 * share);
      absl::StrAppend(&text, "\n");
    }
    for (const PredictedOrder& order : orders_) absl::StrAppend(&text, OrderText(order));
    return text;
  }

  nlohmann::json Json() const override {
    nlohmann::json json = nlohmann::json::array();
    for (const PredictedSet& set : sets_) {
      nlohmann::json& item =
          json.emplace_back(nlohmann::json{{"set", set.title}, {"unit", set.unit}, {"bar", set.bar}});
      for (const PredictedFigure& x : set.figures) {
        item["figures"].push_back(
            {{"name", x.name}, {"predicted", x.predicted}, {"published", x.published}, {"error", x.error}});
      }
    }
    for (const auto& [run, share] : saved_) json.push_back({{"fusions", run}, {"share_not_kept", share}});
    for (const PredictedOrder& order : orders_) {
      json.push_back({{"order", order.name},
                      {"claim", order.what},
                      {"holds", order.holds()},
                      {"runs", order.runs},
                      {"teraflops", order.teraflops}});
    }
    return json;
  }

 private:
  // Each takes seconds: whoever waits sees what comes of it. A run that cannot be predicted is a row that says why.
  absl::StatusOr<Prediction> Try(absl::string_view set, const PublishedRun& run, bool memory) {
    if (context_.stop) return absl::CancelledError("interrupted");
    absl::StatusOr<Prediction> prediction = memory ? PredictMemory(run, context_.sample_text, context_.ops)
                                                   : Predict(run, context_.sample_text, context_.ops);
    std::cerr << absl::StrFormat("predict: %s, %s: ", set, run.name);
    if (!prediction.ok()) {
      std::cerr << prediction.status().message() << std::endl;
    } else if (memory) {
      std::cerr << absl::StrFormat("%.2f GiB and %.2f of masks",
                                   static_cast<double>(prediction->activation_bytes) / kGib,
                                   static_cast<double>(prediction->mask_bytes) / kGib)
                << absl::StrFormat(", published %.2f (%.1f s)", run.gib, prediction->wall_seconds) << std::endl;
    } else {
      std::cerr << absl::StrFormat("%.3f s", prediction->step_seconds)
                << (run.seconds > 0 ? absl::StrFormat(", published %.2f", run.seconds) : "")
                << absl::StrFormat(" (%.1f s)", prediction->wall_seconds) << std::endl;
    }
    return prediction;
  }

  absl::Status AddMemory() {
    PredictedSet set{"activations on the fullest device, with masks", "GiB", 0.03, {}};
    for (const PublishedRun& run : ActivationRuns()) {
      const absl::StatusOr<Prediction> it = Try("activations", run, /*memory=*/true);
      if (absl::IsCancelled(it.status())) return it.status();
      set.figures.push_back({run.name, 0, run.gib, std::string(it.status().message())});
      if (!it.ok()) continue;
      const auto kept = static_cast<double>(it->activation_bytes + it->mask_bytes);
      set.figures.back().predicted = kept / kGib;
      saved_.emplace_back(run.name, 1 - static_cast<double>(it->fused_bytes) / kept);
    }
    sets_.push_back(std::move(set));
    return absl::OkStatus();
  }

  absl::Status AddSteps(const std::string& title, double bar, const std::vector<PublishedRun>& runs) {
    PredictedSet set{absl::StrCat(title, ", a step"), "s", bar, {}};
    for (const PublishedRun& run : runs) {
      const absl::StatusOr<Prediction> it = Try(title, run, /*memory=*/false);
      if (absl::IsCancelled(it.status())) return it.status();
      set.figures.push_back(
          {run.name, it.ok() ? it->step_seconds : 0, run.seconds, std::string(it.status().message())});
    }
    sets_.push_back(std::move(set));
    return absl::OkStatus();
  }

  absl::Status AddOrder(const PublishedOrder& order) {
    PredictedOrder predicted{order.name, order.what, order.claim, {}, {}};
    for (const PublishedRun& run : order.runs) {
      const absl::StatusOr<Prediction> it = Try(order.name, run, /*memory=*/false);
      if (absl::IsCancelled(it.status())) return it.status();
      predicted.runs.push_back(run.name);
      predicted.teraflops.push_back(it.ok() ? 1e-12 * run.flops() / it->step_seconds : -1);
    }
    orders_.push_back(std::move(predicted));
    return absl::OkStatus();
  }

  const BenchContext& context_;
  const PredictParts parts_;
  std::vector<PredictedSet> sets_;
  std::vector<std::pair<std::string, double>> saved_;  // by run: the part of activations that fusions do away with
  std::vector<PredictedOrder> orders_;
};

}  // namespace

std::unique_ptr<BenchCase> MakePredictCase(const BenchContext& context) {
  return std::make_unique<PredictCase>(context, PredictParts{.memory = true, .steps = true, .orders = true});
}
std::unique_ptr<BenchCase> MakePredictMemoryCase(const BenchContext& context) {
  return std::make_unique<PredictCase>(context, PredictParts{.memory = true});
}
std::unique_ptr<BenchCase> MakePredictStepsCase(const BenchContext& context) {
  return std::make_unique<PredictCase>(context, PredictParts{.steps = true});
}
std::unique_ptr<BenchCase> MakePredictOrdersCase(const BenchContext& context) {
  return std::make_unique<PredictCase>(context, PredictParts{.orders = true});
}

}  // namespace oneflow
