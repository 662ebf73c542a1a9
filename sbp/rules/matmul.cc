// Products whose operands may be transposed: the text is chosen by the attributes.
#include "sbp/rules/rules.h"

namespace oneflow::rules {
namespace {

Result MatMul(const RuleContext& context) {
  return FromText(
      context.attrs.Bool("transpose_b") ? "...k,nk->...n; linear 0; linear 1" : "...k,kn->...n; linear 0; linear 1",
      context);
}

Result MatMulWgrad(const RuleContext& context) {
  return FromText(
      context.attrs.Bool("transpose") ? "...k,...n->nk; linear 0; linear 1" : "...k,...n->kn; linear 0; linear 1",
      context);
}

Result BatchMatMul(const RuleContext& context) {
  return FromText(absl::StrCat(context.attrs.Bool("transpose_a") ? "...km" : "...mk", ",",
                               context.attrs.Bool("transpose_b") ? "...nk" : "...kn", "->...mn; linear 0; linear 1"),
                  context);
}

}  // namespace

RuleList Products() {
  static constexpr OpRule kRules[] = {
      {"matmul", MatMul},
      {"matmul_wgrad", MatMulWgrad},
      {"batch_matmul", BatchMatMul},
  };
  return kRules;
}

}  // namespace oneflow::rules
