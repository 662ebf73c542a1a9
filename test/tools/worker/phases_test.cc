#include "tools/worker/phases.h"

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "test/support/status_matchers.h"

namespace oneflow {
namespace {

using ::oneflow::testing::StatusIs;
using ::testing::ElementsAre;

// Notes what it is asked to do.
class RecordingEngine : public Engine {
 public:
  absl::Status Run(absl::string_view plan, int64_t first_step, int64_t steps) override {
    calls.push_back(absl::StrCat("run ", plan, " ", first_step, "+", steps));
    return plan == "broken" ? absl::InternalError("it broke") : absl::OkStatus();
  }
  void Abort(absl::Status) override {}
  absl::Status LoadWeights(const std::string& path) override {
    calls.push_back("load " + path);
    return absl::OkStatus();
  }
  absl::Status SaveWeights(const std::string& path, absl::string_view suffix) override {
    calls.push_back(absl::StrCat("save ", path, " '", suffix, "'"));
    return absl::OkStatus();
  }
  absl::Status SaveTrace(const std::string& path) override {
    calls.push_back("trace " + path);
    return absl::OkStatus();
  }
  std::string WaitReport() override { return ""; }
  EngineStats stats() const override { return {}; }

  std::vector<std::string> calls;
};

pb::JobSpec Spec(const std::string& second_plan) {
  pb::JobSpec spec;
  spec.set_weights("/w");
  spec.add_phases()->mutable_run()->set_plan("train");
  spec.mutable_phases(0)->mutable_run()->set_steps(3);
  spec.mutable_phases(0)->mutable_run()->set_first_step(10);
  spec.add_phases()->mutable_run()->set_plan(second_plan);
  spec.add_phases()->mutable_save()->set_path("/g");
  spec.mutable_phases(2)->mutable_save()->set_suffix(".grad");
  spec.add_phases()->mutable_trace()->set_path("/t");
  return spec;
}

TEST(RunPhasesTest, LoadsWeightsAndRunsEveryPhaseInOrder) {
  RecordingEngine engine;
  EXPECT_OK(RunPhases(engine, Spec("evaluate"),
                      [&engine](int phase) { engine.calls.push_back(absl::StrCat("done ", phase)); }));
  EXPECT_THAT(engine.calls, ElementsAre("load /w", "run train 10+3", "done 0", "run evaluate 0+0", "done 1",
                                        "save /g '.grad'", "done 2", "trace /t", "done 3"));
}

TEST(RunPhasesTest, TheFirstErrorEndsItAndSaysWhere) {
  RecordingEngine engine;
  EXPECT_THAT(RunPhases(engine, Spec("broken"), [](int) {}),
              StatusIs(absl::StatusCode::kInternal, "phase 1: it broke"));
  EXPECT_THAT(engine.calls, ElementsAre("load /w", "run train 10+3", "run broken 0+0"));
}

}  // namespace
}  // namespace oneflow
