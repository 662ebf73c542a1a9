// A builder with an input of the type that a test wants.
#pragma once

#include "oneflow_core/builder.h"
#include "oneflow_core/ops/ops.h"
#include "test/oneflow_core/graph_queries.h"
#include "test/support/status_matchers.h"

namespace oneflow::testing {

class ModuleTest : public ::testing::Test {
 protected:
  Tensor Input(const TensorType& type) { return builder_.Variable("x", type, "zeros", {}, /*trainable=*/false); }

  const OpRegistry ops_ = StandardOps();
  GraphBuilder builder_{ops_, "module"};
};

}  // namespace oneflow::testing
