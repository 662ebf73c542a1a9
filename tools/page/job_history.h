// What happened to a job, made of its events, as the page shows it: curves of what it fetched, the time of its steps,
// results of evaluations, generated text, and the last events that a person reads. Of bounded size, whatever the job
// did.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "nlohmann/json.hpp"
#include "proto/control.pb.h"
#include "tools/job/step_clock.h"
#include "tools/job/weighted_mean.h"
#include "tools/page/curve.h"

namespace oneflow {

class JobHistory {
 public:
  // REQUIRES: in order, from the first on.
  void Add(const pb::JobEvent& event);

  int64_t num_events() const { return next_; }
  // {"steps": done, "curves": {"train/loss": {"generation": 3, "from": 0, "last": 2.5,
  //                                           "points": [[step, mean, least, most], ...]}, ...},
  //  "events": [{"time_us", "kind", "text"}, ...], "generated": "..."}
  // `known`: {"train/loss": [3, 120]}, of which curves the reader has how many points of which generation: these but
  // for the last are left out.
  nlohmann::json Json(const nlohmann::json& known) const;

 private:
  struct Told {
    int64_t time_us;
    const char* kind;
    std::string text;
  };

  void OnState(int64_t time_us, const pb::StateChange& state);
  void OnFetched(int64_t time_us, const pb::FetchedValue& value);
  void OnPhaseDone(int64_t time_us, const pb::PhaseDone& done);
  void OnTimed(const std::optional<StepClock::Span>& span);
  void Tell(int64_t time_us, const char* kind, const std::string& text);
  Curve* CurveOf(const std::string& name);  // null: there are too many

  int64_t next_ = 0;
  int64_t steps_ = 0;      // done
  std::string step_name_;  // of the value by which steps are timed: the first that came
  StepClock clock_;
  std::map<std::string, Curve> curves_;
  std::map<std::string, std::map<std::string, WeightedMean>> sums_;  // by plan and name
  std::deque<Told> told_;
  std::string generated_;
};

}  // namespace oneflow
