// What a person and a program see of a running job: a progress line, evaluation results, generated text, and the metrics file.
//
//   step  120/750  loss 2.1034  lr 0.00198  18.2k tokens/s  ETA 1:32
//   validation loss 1.5562 after step 750 (20 batches)
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "proto/control.pb.h"
#include "proto/plan.pb.h"

namespace oneflow {

// A pure consumer of job events; time is the events' own. Single-threaded.
class Progress {
 public:
  struct Options {
    // The progress line is rewritten in place (a terminal) or printed anew every few seconds.
    bool terminal = false;
    std::function<void(const std::string&)> print;  // text for the person, with newlines or carriage returns
    std::function<void(const std::string&)>
        metrics_line;    // one JSON object per training step, without newline; may be null
    std::string prompt;  // printed before generated text
  };
  Progress(const pb::JobSpec& spec, const pb::PlanSet& plan, Options options);

  void OnEvent(const pb::JobEvent& event);
  // Flushes what was held back.
  void Finish();

  // Of the last evaluation; empty if there was none.
  const std::map<std::string, double>& evaluation() const { return evaluation_; }
  const std::string& generated() const { return generated_; }

 private:
  struct Step {
    int64_t step = 0;
    std::map<std::string, double> values;
    double samples_per_s = 0;
  };

  void OnFetched(int64_t time_us, const pb::FetchedValue& value);
  void OnTrained(int64_t time_us, Step step);
  void OnPhaseDone(int64_t time_us, const pb::PhaseDone& done);
  void PrintStep(int64_t time_us, const Step& step, bool force);
  void WritePending();

  const pb::JobSpec spec_;
  const Options options_;
  std::set<std::string> train_names_;  // what one training step fetches
  int64_t total_steps_ = 0;

  std::map<int64_t, Step> partial_;  // training steps of which some values have come
  std::deque<int64_t> times_us_;     // when the last steps ended, for the displayed speed
  bool has_pending_ = false;
  Step pending_;  // its metrics line is held back until it is known whether an evaluation follows
  int64_t printed_us_ = 0;
  bool line_open_ = false;  // the cursor stands behind an in-place line

  std::map<std::string, std::pair<double, int64_t>> evaluating_;  // name -> sum, count
  std::map<std::string, double> evaluation_;
  std::string generated_;
};

}  // namespace oneflow
