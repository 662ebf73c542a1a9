#include "oneflow_core/sbp.h"

#include <tuple>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace oneflow {

std::string Sbp::ToString() const {
  switch (kind_) {
    case Kind::kBroadcast:
      return "B";
    case Kind::kSplit:
      return absl::StrCat("S(", dim_, ")");
    case Kind::kMean:
      return "P(mean)";
    case Kind::kPartial:
      break;
  }
  return reduction_ == Reduction::kSum ? "P" : reduction_ == Reduction::kMax ? "P(max)" : "P(min)";
}

absl::StatusOr<Sbp> Sbp::Parse(absl::string_view text) {
  if (text == "B") return Broadcast();
  if (text == "P" || text == "P(sum)") return Partial();
  if (text == "P(max)") return Partial(Reduction::kMax);
  if (text == "P(min)") return Partial(Reduction::kMin);
  if (text == "P(mean)") return Mean();
  absl::string_view number = text;
  int dim = 0;
  if (absl::ConsumePrefix(&number, "S(") && absl::ConsumeSuffix(&number, ")") && absl::SimpleAtoi(number, &dim) &&
      dim >= 0) {
    return Split(dim);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("'", text, "' is not an SBP: one of S(0), S(1), ..., B, P, P(max), P(min), P(mean)"));
}

bool Sbp::operator<(const Sbp& o) const {
  const auto key = [](const Sbp& s) {
    const int kind = s.is_broadcast() ? 0 : s.is_split() ? 1 : s.is_partial() ? 2 : 3;
    return std::make_tuple(kind, s.dim_, static_cast<int>(s.reduction_));
  };
  return key(*this) < key(o);
}

std::string ToString(const NdSbp& sbp) {
  return absl::StrCat("(", absl::StrJoin(sbp, ",", [](std::string* s, const Sbp& x) { s->append(x.ToString()); }), ")");
}

absl::StatusOr<NdSbp> ParseNdSbp(absl::string_view text) {
  const absl::string_view whole = text;
  if (!absl::ConsumePrefix(&text, "(") || !absl::ConsumeSuffix(&text, ")")) {
    return absl::InvalidArgumentError(absl::StrCat("'", whole, "' is not of the form (S(0),B)"));
  }
  NdSbp result;
  if (text.empty()) return result;
  for (absl::string_view part : absl::StrSplit(text, ',')) {
    OF_ASSIGN_OR_RETURN_AT(const Sbp sbp, Sbp::Parse(part), absl::StrCat("'", whole, "'"));
    result.push_back(sbp);
  }
  return result;
}

std::string ToString(const SbpHint& hint) {
  return absl::StrJoin(hint, ",", [](std::string* s, const AxisSbp& x) {
    absl::StrAppend(s, x.axis, ":", x.sbp.ToString());
    if (x.priority != 0) absl::StrAppend(s, "@", x.priority);
  });
}

absl::StatusOr<SbpHint> ParseSbpHint(absl::string_view text) {
  SbpHint hint;
  if (text.empty()) return hint;
  for (absl::string_view part : absl::StrSplit(text, ',')) {
    const std::pair<absl::string_view, absl::string_view> item = absl::StrSplit(part, absl::MaxSplits(':', 1));
    if (item.first.empty()) {
      return absl::InvalidArgumentError(absl::StrCat("SBP hint '", text, "': '", part, "' is not of the form dp:S(0)"));
    }
    const std::pair<absl::string_view, absl::string_view> wish = absl::StrSplit(item.second, absl::MaxSplits('@', 1));
    OF_ASSIGN_OR_RETURN_AT(const Sbp sbp, Sbp::Parse(wish.first), absl::StrCat("SBP hint '", text, "'"));
    int priority = 0;
    if (wish.first.size() < item.second.size() && (!absl::SimpleAtoi(wish.second, &priority) || priority < 0)) {
      return absl::InvalidArgumentError(
          absl::StrCat("SBP hint '", text, "': priority '", wish.second, "' is not a number from 0"));
    }
    for (const AxisSbp& other : hint) {
      if (other.axis == item.first) {
        return absl::InvalidArgumentError(absl::StrCat("SBP hint '", text, "' names axis '", item.first, "' twice"));
      }
    }
    hint.push_back({std::string(item.first), sbp, priority});
  }
  return hint;
}

}  // namespace oneflow
