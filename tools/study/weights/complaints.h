// All that is wrong with a set of weights at once: tensors that are missing, surplus or of another shape.
#pragma once

#include <string>
#include <vector>

#include "actor/checkpoint/stored_type.h"
#include "oneflow_core/status.h"

namespace oneflow {

class WeightComplaints {
 public:
  // `what` is missing, of which this would be needed.
  void Missing(const std::string& what, const std::string& needed);
  void Surplus(const std::string& name, const StoredType& type);
  void Misshapen(const std::string& name, const std::string& has, const std::string& needed);

  // InvalidArgument with a line for each, the missing ones first, behind their numbers; OK if there is none.
  absl::Status AsError(const std::string& where) const;

 private:
  std::vector<std::string> missing_, surplus_, misshapen_;
};

}  // namespace oneflow
