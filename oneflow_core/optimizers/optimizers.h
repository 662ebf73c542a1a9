// The rules of optimizers that are made of ops: a file each, with its row of the table (oneflow_core/optimizer_rules.h)
// and its formula.
#pragma once

#include "oneflow_core/optimizer_rules.h"

namespace oneflow {

OptimizerRule LambRule();
OptimizerRule LarsRule();
OptimizerRule AdafactorRule();
OptimizerRule MuonRule();
OptimizerRule OptimisticRule();
OptimizerRule ExtragradientRule();
OptimizerRule MashaRule();
OptimizerRule MashaBatchesRule();  // masha.cc too

}  // namespace oneflow
