// How much training steps read, where the first ones have smaller batches (TrainLoop.ramp).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "proto/control.pb.h"

namespace oneflow {

struct StepSize {
  int64_t samples = 0;  // of JobSpec.sample_unit
  int64_t rows = 0;     // of batches
};

// Steps [begin, end) run the same plan.
struct StepStage {
  std::string plan;
  int64_t begin = 0, end = 0;
  StepSize size;  // of each
};

class StepSizes {
 public:
  StepSizes() = default;
  // Of a job that trains; without a phase that does, of steps that are all `spec`'s.
  explicit StepSizes(const pb::JobSpec& spec);

  // Ascending; the last one has no end.
  const std::vector<StepStage>& stages() const { return stages_; }
  const StepStage& StageOf(int64_t step) const;
  // What steps [begin, end) read.
  StepSize Of(int64_t begin, int64_t end) const;
  // The first step at whose beginning those from `begin` on have read so many samples.
  int64_t StepAfter(int64_t begin, int64_t samples) const;

 private:
  std::vector<StepStage> stages_;
};

}  // namespace oneflow
