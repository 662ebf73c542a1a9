// FETCH: hands a value to the host as doubles, by way of a host copy where the host cannot address the device's memory.
#include <string>
#include <vector>

#include "actor/element.h"
#include "actor/instruction/attributes.h"
#include "actor/instruction/kinds.h"

namespace oneflow {
namespace {

class Fetch final : public BoundInstruction {
 public:
  explicit Fetch(Unbound unbound)
      : BoundInstruction(std::move(unbound.operands)),
        context_(unbound.context),
        plan_(unbound.plan.name()),
        name_(ToAttrMap(unbound.instruction.attributes()).String("name")) {
    if (!context_.device.host_accessible()) staging_.resize(NumBytes(operands_.inputs()[0]));
  }

  absl::Status Run(const CurrentAct& act) override {
    const TensorArg& value = operands_.inputs()[0];
    const void* data = value.data;
    if (!context_.device.host_accessible()) {
      OF_RETURN_IF_ERROR(Checked(context_.device.CopyToHost(staging_.data(), data, staging_.size())));
      data = staging_.data();
    }
    if (!context_.on_fetch) return absl::OkStatus();
    Fetched fetched{.plan = plan_, .name = name_, .step = act.step};
    fetched.values.reserve(value.count);
    for (int64_t i = 0; i < value.count; ++i) fetched.values.push_back(LoadElement(value.dtype, data, i));
    context_.on_fetch(std::move(fetched));
    return absl::OkStatus();
  }

 private:
  const RankContext context_;
  const std::string plan_;
  const std::string name_;
  std::vector<char> staging_;
};

}  // namespace

BoundOrError BindFetch(Unbound unbound) { return std::make_unique<Fetch>(std::move(unbound)); }

}  // namespace oneflow
