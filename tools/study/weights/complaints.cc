#include "tools/study/weights/complaints.h"

#include "absl/strings/str_cat.h"

namespace oneflow {

void WeightComplaints::Missing(const std::string& what, const std::string& needed) {
  missing_.push_back(absl::StrCat(what, ": missing, ", needed));
}

void WeightComplaints::Surplus(const std::string& name, const StoredType& type) {
  surplus_.push_back(absl::StrCat(name, ": surplus, ", type.ToString()));
}

void WeightComplaints::Misshapen(const std::string& name, const std::string& has, const std::string& needed) {
  misshapen_.push_back(absl::StrCat(name, ": is ", has, ", needed is ", needed));
}

absl::Status WeightComplaints::AsError(const std::string& where) const {
  if (missing_.empty() && surplus_.empty() && misshapen_.empty()) return absl::OkStatus();
  std::string text = absl::StrCat(where, ": ", missing_.size(), " tensors are missing, ", surplus_.size(), " surplus, ",
                                  misshapen_.size(), " of another shape or type");
  for (const auto* const lines : {&missing_, &surplus_, &misshapen_}) {
    for (const std::string& line : *lines) absl::StrAppend(&text, "\n  ", line);
  }
  return absl::InvalidArgumentError(text);
}

}  // namespace oneflow
