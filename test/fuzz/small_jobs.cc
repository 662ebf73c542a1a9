#include "test/fuzz/small_jobs.h"

#include <fstream>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "glog/logging.h"
#include "oneflow_core/ops/ops.h"
#include "test/support/test_dir.h"
#include "tools/job/job.h"

namespace oneflow::testing {
namespace {

constexpr const char* kConfigs[] = {
    R"(model { gpt { layers: 1 width: 16 heads: 2 context: 8 dropout: 0.1 } }
       mesh { dp: 2 tp: 2 } cluster { processes: 2 }
       train { steps: 4 batch_size: 4 optimizer { adamw { weight_decay: 0.1 } clip_norm: 1 }
               schedule { learning_rate: 1e-3 kind: 'cosine' warmup_steps: 2 } }
       evaluate { every: 2 } generate { tokens: 4 prompt: 'a' })",
    R"(model { gpt { layers: 2 width: 16 heads: 2 context: 8 } } mesh { pp: 2 } cluster { processes: 2 }
       pipeline { schedule: 'gpipe' } precision { compute: BF16 } recompute { what: 'layers' }
       train { steps: 4 batch_size: 8 micro_batches: 4 optimizer { sgd { momentum: 0.9 } }
               schedule { learning_rate: 1e-3 } })",
    R"(model { margin_classifier { widths: [8] embedding: 8 } } mesh { tp: 2 } cluster { processes: 2 }
       data { prototypes { classes: 16 samples: 64 } }
       train { steps: 2 batch_size: 4 optimizer { sgd {} } schedule { learning_rate: 1e-2 } })",
};

std::vector<SmallJob> Make() {
  static const TestDir dir;
  const std::string text = dir.File("text");
  std::ofstream(text) << std::string(4000, 'a');
  const OpRegistry ops = StandardOps();
  std::vector<SmallJob> jobs;
  for (const char* const config_text : kConfigs) {
    absl::StatusOr<SourcedConfig> config = ParseConfig(absl::StrCat("name: 'small' ", config_text), "small.pbtxt");
    CHECK(config.ok()) << config.status();
    if (config->config.model().has_gpt()) config->config.mutable_data()->mutable_text()->set_path(text);
    SmallJob job{.config = config->config};
    absl::StatusOr<Job> made = MakeJob(*std::move(config), JobKind::kTrain, ops);
    CHECK(made.ok()) << made.status();
    absl::StatusOr<pb::PlanSet> plan = CompileJob(*made, ops);
    CHECK(plan.ok()) << plan.status();
    job.program = std::move(made->program);
    job.plan = *std::move(plan);
    jobs.push_back(std::move(job));
  }
  return jobs;
}

}  // namespace

const std::vector<SmallJob>& SmallJobs() {
  static const std::vector<SmallJob>& jobs = *new std::vector<SmallJob>(Make());
  return jobs;
}

}  // namespace oneflow::testing
