#include "tools/bench/links.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"
#include "tools/bench/boxing_job.h"
#include "tools/bench/measurement.h"
#include "tools/bench/run_job.h"
#include "tools/control/cluster/run_to_end.h"

namespace oneflow {
namespace {

constexpr int64_t kReducedBytes = 64 << 20;
constexpr int kReduceSteps = 8;  // a link of 1 Gbit/s takes half a second or one for each
constexpr int kHopSteps = 5000;  // a second or less
constexpr double kFlatBytes = 2.0 * kReducedBytes, kHierarchicalBytes = 1.0 * kReducedBytes;  // from two ranks to two

double MedianOf(const std::vector<LinksRound>& rounds, double LinksRound::*seconds) {
  std::vector<double> values;
  for (const LinksRound& round : rounds) values.push_back(round.*seconds);
  return Median(std::move(values));
}

class LinksCase : public BenchCase {
 public:
  explicit LinksCase(const BenchContext& context) : context_(context) {}

  absl::StatusOr<std::string> RunRound() override {
    LinksRound round;
    OF_ASSIGN_OR_RETURN(const pb::JobSpec hop, MakeRoundTripJob(kHopSteps, 2 * context_.cores, context_.ops));
    OF_ASSIGN_OR_RETURN_AT(const double round_trip, StepSeconds(hop), "hop");
    round.hop_seconds = round_trip / 2;
    OF_ASSIGN_OR_RETURN_AT(round.flat_seconds, AllReduceSeconds(BoxingPlace::kFourHostsOfOne), "flat");
    OF_ASSIGN_OR_RETURN_AT(round.hierarchical_seconds, AllReduceSeconds(BoxingPlace::kTwoHostsOfTwo), "hierarchical");
    rounds_.push_back(round);
    return absl::StrFormat("%9.1f us a hop, all-reduces of 64 MiB %.1f ms flat, %.1f hierarchical",
                           1e6 * round.hop_seconds, 1e3 * round.flat_seconds, 1e3 * round.hierarchical_seconds);
  }

  std::string Text() const override {
    const std::string& address = context_.scheduler.address;
    return LinksText(rounds_,
                     address.empty() ? "this machine, over loopback" : absl::StrCat("cluster '", address, "'"));
  }

  nlohmann::json Json() const override {
    nlohmann::json json = nlohmann::json::array();
    for (const LinksRound& round : rounds_) {
      json.push_back({{"hop_seconds", round.hop_seconds},
                      {"flat_seconds", round.flat_seconds},
                      {"flat_bytes", kFlatBytes},
                      {"hierarchical_seconds", round.hierarchical_seconds},
                      {"hierarchical_bytes", kHierarchicalBytes}});
    }
    return json;
  }

 private:
  absl::StatusOr<double> AllReduceSeconds(BoxingPlace place) const {
    OF_ASSIGN_OR_RETURN(const pb::JobSpec spec, MakeBoxingJob(BoxingWay::kAllReduce, kReducedBytes, kReduceSteps,
                                                              context_.cores, /*file=*/"", context_.ops, place));
    return StepSeconds(spec);
  }
  absl::StatusOr<double> StepSeconds(const pb::JobSpec& spec) const {
    OF_ASSIGN_OR_RETURN(const std::vector<pb::JobEvent> events,
                        context_.scheduler.address.empty() ? RunToEnd(spec, context_.stop)
                                                           : RunToEndOn(context_.scheduler, spec, context_.stop));
    return BoxingStepSeconds(events, spec);
  }

  const BenchContext& context_;
  std::vector<LinksRound> rounds_;
};

}  // namespace

std::string LinksText(const std::vector<LinksRound>& rounds, const std::string& where) {
  const double flat = MedianOf(rounds, &LinksRound::flat_seconds);
  const double hierarchical = MedianOf(rounds, &LinksRound::hierarchical_seconds);
  const auto row = [](const char* way, double seconds, double bytes) {
    return absl::StrFormat("  %-34s %10.1f ms   a machine of two ranks sends %5.1f MB: %.1f MB/s\n",
                           absl::StrCat("all-reduce, 64 MiB, ", way), 1e3 * seconds, 1e-6 * bytes,
                           1e-6 * bytes / seconds);
  };
  return absl::StrFormat("links: between hosts of %s, medians\n  %-34s %10.1f us\n", where, "hop",
                         1e6 * MedianOf(rounds, &LinksRound::hop_seconds)) +
         row("flat", flat, kFlatBytes) + row("hierarchical", hierarchical, kHierarchicalBytes) +
         absl::StrFormat("  hierarchical is %.2f times as fast; %.2f by the bytes\n", flat / hierarchical,
                         kFlatBytes / kHierarchicalBytes);
}

std::unique_ptr<BenchCase> MakeLinksCase(const BenchContext& context) { return std::make_unique<LinksCase>(context); }

}  // namespace oneflow
