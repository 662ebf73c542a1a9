// loss_log(loss, best): adds a line "step,loss,best" to a file after every step. Without a rule, it is called once, on
// one rank. The lowest loss so far is state: a variable, so that a job that stops and goes on knows it.
#include <algorithm>
#include <fstream>
#include <memory>

#include "oneflow_core/ops/check.h"
#include "plugin.h"

namespace waves {
namespace {

using namespace oneflow;

// `best` holds whether there was a loss yet, and the lowest.
absl::StatusOr<std::vector<TensorType>> InferLossLog(const InferContext& c) {
  OF_RETURN_IF_ERROR(ops::CheckOperands(c, {{"loss", ops::kFloat32}, {"best", ops::kFloat32}}));
  OF_RETURN_IF_ERROR(ops::CheckType("best", c.inputs[1], {DType::kFloat32, {2}}, "loss_log"));
  OF_RETURN_IF_ERROR(ops::StringAttr(c.attrs, "path").status());
  return std::vector<TensorType>();
}

class LossLog : public HostFunction {
 public:
  explicit LossLog(const std::string& path) : path_(path), file_(path, std::ios::app) {}

  absl::Status Call(const HostCall& call) override {
    const float loss = *call.in[0].as<const float>();
    float* const best = call.in[1].as<float>();
    best[1] = best[0] == 0 ? loss : std::min(best[1], loss);
    best[0] = 1;
    file_ << call.step << "," << loss << "," << best[1] << std::endl;
    if (!file_) return absl::UnavailableError(absl::StrCat("cannot write '", path_, "'"));
    return absl::OkStatus();
  }

 private:
  const std::string path_;
  std::ofstream file_;
};

absl::StatusOr<std::unique_ptr<HostFunction>> Open(const AttrMap& attributes) {
  return std::make_unique<LossLog>(attributes.String("path"));
}

}  // namespace

void AddLossLog(Plugin& plugin) {
  plugin.Add(OpDef{.name = "loss_log",
                   .kind = OpKind::kCall,
                   .infer = InferLossLog,
                   .mutates = {1},
                   .averages = {0},
                   .has_effect = true});
  plugin.Add(HostFunctionKind{"loss_log", Open});
}

}  // namespace waves
