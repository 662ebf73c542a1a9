#include "tools/bench/boxing.h"

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"
#include "tools/bench/measurement.h"
#include "tools/bench/pytorch_case.h"
#include "tools/bench/run_job.h"
#include "tools/control/cluster/run_to_end.h"

namespace oneflow {
namespace {

constexpr int64_t kKiB = 1024, kMiB = 1024 * kKiB;
constexpr int64_t kBoxedBytes[] = {4 * kKiB, 64 * kKiB, kMiB, 16 * kMiB, 64 * kMiB, 256 * kMiB};
// Steps of a size: so many that they take far longer than starting and ending them, so few that a round of all takes a
// minute or two.
constexpr int64_t kBytesOfSteps = 512 * kMiB;
constexpr int64_t kLeastBoxings = 3, kMostBoxings = 500;

constexpr int64_t kLarge = 64 * kMiB;  // where latency is nothing beside copying
constexpr double kCopyingBar = 0.8, kGlooBar = 2;

int StepsOf(int64_t num_bytes) {
  return static_cast<int>(std::clamp(kBytesOfSteps / num_bytes, kLeastBoxings, kMostBoxings));
}

std::string BoxingKey(BoxingWay way, int64_t num_bytes) { return absl::StrCat(NameOf(way), " ", num_bytes); }

std::string SizeText(int64_t num_bytes) {
  return num_bytes < kMiB ? absl::StrCat(num_bytes / kKiB, " KiB") : absl::StrCat(num_bytes / kMiB, " MiB");
}

// Ranks that read in a way; each reads pieces of others that are so large.
int ReadersOf(BoxingWay way) { return way == BoxingWay::kSend ? kBoxingRanks / 2 : kBoxingRanks; }
int64_t PieceOf(BoxingWay way, int64_t num_bytes) { return num_bytes / ReadersOf(way); }

// Bytes per second that so many threads copy, all together: each pieces of this size from the others' memory in turn.
double CopiesPerSecond(int num_threads, int64_t piece) {
  const int64_t copies = std::max<int64_t>(kLeastBoxings, kBytesOfSteps / (piece * num_threads));
  std::vector<std::vector<char>> from(num_threads), to(num_threads);
  std::barrier together(num_threads);
  std::chrono::steady_clock::time_point begin;
  std::vector<std::thread> threads;
  for (int t = 0; t < num_threads; ++t) {
    threads.emplace_back([&, t] {
      from[t].assign(piece, static_cast<char>(t + 1));
      to[t].assign(piece, 0);
      together.arrive_and_wait();
      if (t == 0) begin = std::chrono::steady_clock::now();
      together.arrive_and_wait();
      for (int64_t i = 0; i < copies; ++i) {
        std::memcpy(to[t].data(), from[(t + 1 + i) % num_threads].data(), piece);
        std::atomic_signal_fence(std::memory_order_seq_cst);  // every copy is made
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return static_cast<double>(copies * piece * num_threads) / seconds;
}

using GlooSeconds = std::map<std::string, double>;  // by BoxingKey()

class BoxingCase : public BenchCase {
 public:
  explicit BoxingCase(const BenchContext& context) : context_(context) {
    for (const BoxingWay way : kBoxingWays) {
      for (const int64_t num_bytes : kBoxedBytes) rows_.push_back({.way = way, .num_bytes = num_bytes});
    }
  }

  absl::StatusOr<std::string> RunRound() override {
    for (BoxingRow& row : rows_) {
      if (context_.stop) return absl::CancelledError("interrupted");
      const double copied = CopiesPerSecond(ReadersOf(row.way), PieceOf(row.way, row.num_bytes));
      OF_ASSIGN_OR_RETURN_AT(const double seconds, RunRow(row), BoxingKey(row.way, row.num_bytes));
      row.rounds.push_back({.ours = seconds, .copying = CopiedBytes(row.way, row.num_bytes) / copied});
    }
    if (!context_.pytorch.empty()) OF_RETURN_IF_ERROR(RunGloo());
    for (const BoxingRow& row : rows_) {
      if (row.way != BoxingWay::kAllReduce || row.num_bytes != kLarge) continue;
      const BoxingSeconds& last = row.rounds.back();
      return absl::StrFormat("%9.1f ms an all-reduce of 64 MiB, %.2f of copying", 1e3 * last.ours,
                             last.copying / last.ours);
    }
    return absl::InternalError("there is no row for 64 MiB");
  }

  std::string Text() const override { return BoxingText(rows_, pytorch_); }

  nlohmann::json Json() const override {
    nlohmann::json json = nlohmann::json::array();
    for (const BoxingRow& row : rows_) {
      nlohmann::json& item = json.emplace_back(nlohmann::json{{"way", NameOf(row.way)}, {"bytes", row.num_bytes}});
      for (const BoxingSeconds& round : row.rounds) {
        item["rounds"].push_back(
            {{"seconds", round.ours}, {"copying_seconds", round.copying}, {"gloo_seconds", round.gloo}});
      }
    }
    return json;
  }

 private:
  absl::StatusOr<double> RunRow(const BoxingRow& row) const {
    const std::string file = row.rounds.empty() ? context_.dir + "/boxed.safetensors" : "";
    const int steps = StepsOf(row.num_bytes);
    OF_ASSIGN_OR_RETURN(const pb::JobSpec spec,
                        MakeBoxingJob(row.way, row.num_bytes, steps, context_.cores, file, context_.ops));
    OF_ASSIGN_OR_RETURN(const std::vector<pb::JobEvent> events, RunToEnd(spec, context_.stop));
    if (!file.empty()) {
      OF_RETURN_IF_ERROR(CheckBoxed(row.way, file));
      std::filesystem::remove(file);
    }
    return BoxingStepSeconds(events, spec);
  }

  absl::Status RunGloo() {
    nlohmann::json asked = {{"ranks", kBoxingRanks}};
    for (const BoxingRow& row : rows_) {
      asked["rows"].push_back({{"way", NameOf(row.way)}, {"bytes", row.num_bytes}, {"calls", StepsOf(row.num_bytes)}});
    }
    OF_ASSIGN_OR_RETURN(const std::optional<nlohmann::json> answer, AskPyTorch(context_, "pytorch_boxing", asked));
    if (!answer.has_value()) {
      pytorch_ = absl::StrCat("'", context_.pytorch, "' has no PyTorch");
      return absl::OkStatus();
    }
    const nlohmann::json& told = *answer;
    pytorch_ = told.value("title", "PyTorch");
    for (const auto& [way, why] : told["cannot"].items()) {
      absl::StrAppend(&pytorch_, "; no ", way, ": ", why.get<std::string>());
    }
    const GlooSeconds seconds = told["seconds"].get<GlooSeconds>();
    for (BoxingRow& row : rows_) {
      const auto found = seconds.find(BoxingKey(row.way, row.num_bytes));
      if (found != seconds.end()) row.rounds.back().gloo = found->second;
    }
    return absl::OkStatus();
  }

  const BenchContext& context_;
  std::vector<BoxingRow> rows_;
  std::string pytorch_;  // its title, or why there is none
};

// The median over the rounds that have it; 0 if none has.
double MedianOver(const BoxingRow& row, double (*value)(const BoxingSeconds&)) {
  std::vector<double> values;
  for (const BoxingSeconds& round : row.rounds) {
    if (const double one = value(round); one > 0) values.push_back(one);
  }
  return values.empty() ? 0 : Median(std::move(values));
}

const char* Held(double value, double bar) { return value >= bar ? "  held" : "  missed"; }

}  // namespace

double CopiedBytes(BoxingWay way, int64_t num_bytes) {
  const auto all = static_cast<double>(num_bytes), part = all / kBoxingRanks;
  double of_rank = 0;
  if (way == BoxingWay::kAllReduce) of_rank = (all + all + part + all) / 2;
  if (way == BoxingWay::kAllGather) of_rank = all;
  if (way == BoxingWay::kReduceScatter) of_rank = (all + part) / 2;
  if (way == BoxingWay::kAllToAll || way == BoxingWay::kSend) of_rank = part;
  return kBoxingRanks * of_rank;
}

std::string BoxingText(const std::vector<BoxingRow>& rows, const std::string& pytorch) {
  std::string text = absl::StrFormat(
      "boxing: %d devices in %d processes of a host, medians%s\n  %-26s %10s %8s %12s %14s   %s\n", kBoxingRanks,
      kBoxingProcesses, pytorch.empty() ? "" : absl::StrCat("; ", pytorch), "way, tensor", "us", "GB/s", "gloo's us",
      "times as fast", absl::StrFormat("of copying (bar %g from 64 MiB on)", kCopyingBar));
  for (const BoxingRow& row : rows) {
    const double ours = MedianOver(row, [](const BoxingSeconds& x) { return x.ours; });
    const double gloo = MedianOver(row, [](const BoxingSeconds& x) { return x.gloo; });
    const double faster = MedianOver(row, [](const BoxingSeconds& x) { return x.gloo / x.ours; });
    const double of_copying = MedianOver(row, [](const BoxingSeconds& x) { return x.copying / x.ours; });
    const bool against_gloo = row.way == BoxingWay::kAllReduce && row.num_bytes == kLarge && gloo > 0;
    absl::StrAppendFormat(&text, "  %-26s %10.1f %8.3f %12s %14s   %.2f%s%s\n",
                          absl::StrCat(NameOf(row.way), ", ", SizeText(row.num_bytes)), 1e6 * ours,
                          1e-9 * static_cast<double>(row.num_bytes) / ours,
                          gloo > 0 ? absl::StrFormat("%.1f", 1e6 * gloo) : "-",
                          gloo > 0 ? absl::StrFormat("%.2f", faster) : "-", of_copying,
                          row.num_bytes >= kLarge ? Held(of_copying, kCopyingBar) : "",
                          against_gloo ? absl::StrFormat("; %g times gloo%s", kGlooBar, Held(faster, kGlooBar)) : "");
  }
  return text;
}

std::unique_ptr<BenchCase> MakeBoxingCase(const BenchContext& context) { return std::make_unique<BoxingCase>(context); }

}  // namespace oneflow
