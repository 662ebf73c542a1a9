// The host function of choose_codes (oneflow_core/ops/codec.cc).
#include <vector>

#include "absl/strings/str_cat.h"
#include "actor/host_function.h"
#include "oneflow_core/code_choice.h"

namespace oneflow {
namespace {

class CodeChoice : public HostFunction {
 public:
  explicit CodeChoice(const AttrMap& attributes)
      : alpha_(attributes.Double("alpha")), counts_(attributes.Ints("counts")) {
    const std::vector<int64_t> usual = attributes.Ints("usual"), bytes = attributes.Ints("bytes");
    size_t next = 0;
    for (const int64_t size : attributes.Ints("sizes")) {
      CodedTensor& tensor = tensors_.emplace_back();
      tensor.usual = static_cast<int>(usual[tensors_.size() - 1]);
      for (int64_t i = 0; i < size; ++i) tensor.candidates.push_back({0, static_cast<double>(bytes[next++])});
    }
  }

  absl::Status Call(const HostCall& call) override {
    const float* error = call.in[0].as<const float>();
    for (CodedTensor& tensor : tensors_) {
      for (CodeCandidate& candidate : tensor.candidates) candidate.error = *error++;
    }
    if (call.in.size() > 1) OF_RETURN_IF_ERROR(TakeUsual(call.in[1].as<const int32_t>()));
    const std::vector<int> choice = ChooseCodes(tensors_, alpha_);
    size_t first = 0;
    for (size_t t = 0; t < tensors_.size(); ++t) {
      call.out[0].as<int32_t>()[t] = static_cast<int32_t>(counts_[first + choice[t]]);
      first += tensors_[t].candidates.size();
    }
    return absl::OkStatus();
  }

 private:
  absl::Status TakeUsual(const int32_t* usual) {
    for (size_t t = 0; t < tensors_.size(); ++t) {
      const auto size = static_cast<int32_t>(tensors_[t].candidates.size());
      if (usual[t] < 0 || usual[t] >= size) {
        return absl::InvalidArgumentError(absl::StrCat("choose_codes: the usual candidate of tensor ", t, " is ",
                                                       usual[t], " but must be in [0, ", size, ")"));
      }
      tensors_[t].usual = usual[t];
    }
    return absl::OkStatus();
  }

  const double alpha_;
  const std::vector<int64_t> counts_;
  std::vector<CodedTensor> tensors_;
};

absl::StatusOr<std::unique_ptr<HostFunction>> OpenChoice(const AttrMap& attributes) {
  return std::make_unique<CodeChoice>(attributes);
}

}  // namespace

HostFunctionKind ChooseCodesCall() { return {"choose_codes", OpenChoice}; }

}  // namespace oneflow
