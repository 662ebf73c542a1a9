#include "tools/bench/published.h"

#include "absl/strings/str_cat.h"

namespace oneflow {
namespace {

constexpr PublishedModel k22B = {"22B", 48, 6144, 64}, k175B = {"175B", 96, 12288, 96},
                         k530B = {"530B", 105, 20480, 128}, k1T = {"1T", 128, 25600, 160};

// The four models of 2205.05198, with its layouts.
struct Selene {
  PublishedModel model;
  int pp, chunks;
  int64_t batch, micro;
  double full_seconds, selective_seconds;  // table 5: all recomputed; sequence parallel, attention recomputed
  double kept_gib, selective_gib;          // figure 1: nothing recomputed; sequence parallel, attention recomputed
};
constexpr Selene kSelene[] = {
    {k22B, 1, 1, 4, 4, 1.42, 1.10, 59.25, 9.56},
    {k175B, 8, 3, 64, 1, 18.13, 13.75, 66.84, 12.35},
    {k530B, 35, 3, 280, 1, 49.05, 37.83, 114.02, 23.08},
    {k1T, 64, 1, 512, 1, 94.42, 71.49, 131.25, 26.56},
};

PublishedRun RunOf(const Selene& it, Recomputed recomputed, bool sequence_parallel) {
  return {.name = absl::StrCat(it.model.name, recomputed == Recomputed::kLayers ? ", all recomputed"
                                              : recomputed == Recomputed::kAttention
                                                  ? ", sequence parallel, attention recomputed"
                                                  : ", nothing recomputed"),
          .model = it.model,
          .tp = 8,
          .pp = it.pp,
          .chunks = it.chunks,
          .batch = it.batch,
          .micro = it.micro,
          .recomputed = recomputed,
          .sequence_parallel = sequence_parallel};
}

// 2104.04473, table 1; a step's time follows from the operations that it counts and the rate that it gives.
struct TableOne {
  PublishedModel model;
  int tp, pp, dp;
  int64_t batch, micro;
  int chunks;
  double teraflops;  // per second and device
};
constexpr TableOne kTableOne[] = {
    {{"1.7B", 24, 2304, 24}, 1, 1, 32, 512, 16, 1, 137},      {{"3.6B", 30, 3072, 32}, 2, 1, 32, 512, 16, 1, 138},
    {{"7.5B", 36, 4096, 32}, 4, 1, 32, 512, 16, 1, 142},      {{"18.4B", 40, 6144, 48}, 8, 1, 32, 1024, 8, 1, 135},
    {{"39.1B", 48, 8192, 64}, 8, 2, 32, 1536, 4, 1, 138},     {{"76.1B", 60, 10240, 80}, 8, 4, 32, 1792, 2, 3, 140},
    {{"145.6B", 80, 12288, 96}, 8, 8, 24, 2304, 2, 2, 148},   {{"310.1B", 96, 16384, 128}, 8, 16, 15, 2160, 1, 2, 155},
    {{"529.6B", 105, 20480, 128}, 8, 35, 9, 2520, 1, 3, 163}, {{"1008B", 128, 25600, 160}, 8, 64, 6, 3072, 1, 1, 163},
};

constexpr PublishedModel kFigure13 = {"162B", 32, 20480, 128}, kFigure14 = {"5.9B", 32, 3840, 32},
                         kFigure16 = {"91B", 32, 15360, 128};

PublishedRun RunOfFigure(const PublishedModel& model, int tp, int pp, int dp, int64_t batch, int64_t micro) {
  return {.name = absl::StrCat("t", tp, " p", pp, " d", dp, " batch ", batch, " micro-batch ", micro),
          .model = model,
          .tp = tp,
          .pp = pp,
          .dp = dp,
          .batch = batch,
          .micro = micro,
          .products_add = false};
}

PublishedRun OnFrontier(int tp, int pp, int64_t batch) {
  PublishedRun run = RunOfFigure(k22B, tp, pp, 1, batch, 1);
  run.machine = Supercomputer::kFrontier;
  run.products_add = true;
  return run;
}

using Claim = PublishedOrder::Claim;

}  // namespace

double PublishedRun::flops() const {
  const auto b = static_cast<double>(batch), l = static_cast<double>(model.layers),
             h = static_cast<double>(model.width);
  constexpr auto kS = static_cast<double>(kPublishedContext), kV = static_cast<double>(kPublishedVocabulary);
  const double passes = recomputed == Recomputed::kLayers ? 4 : 3;
  const double layers = passes * b * l * (24 * kS * h * h + 4 * kS * kS * h), logits = 6 * b * kS * h * kV;
  return (layers + logits) / ranks();
}

std::vector<PublishedRun> SeleneRuns() {
  std::vector<PublishedRun> runs;
  for (const Selene& it : kSelene) {
    runs.push_back(RunOf(it, Recomputed::kLayers, false));
    runs.back().seconds = it.full_seconds;
    runs.push_back(RunOf(it, Recomputed::kAttention, true));
    runs.back().seconds = it.selective_seconds;
  }
  return runs;
}

std::vector<PublishedRun> TableOneRuns() {
  std::vector<PublishedRun> runs;
  for (const TableOne& it : kTableOne) {
    runs.push_back({.name = it.model.name,
                    .model = it.model,
                    .tp = it.tp,
                    .pp = it.pp,
                    .dp = it.dp,
                    .chunks = it.chunks,
                    .batch = it.batch,
                    .micro = it.micro,
                    .products_add = false});
    runs.back().seconds = runs.back().flops() / (1e12 * it.teraflops);
  }
  return runs;
}

std::vector<PublishedRun> ActivationRuns() {
  std::vector<PublishedRun> runs;
  for (const Selene& it : kSelene) {
    runs.push_back(RunOf(it, Recomputed::kNone, false));
    runs.back().gib = it.kept_gib;
    runs.push_back(RunOf(it, Recomputed::kAttention, true));
    runs.back().gib = it.selective_gib;
  }
  return runs;
}

std::vector<PublishedOrder> PublishedOrders() {
  std::vector<PublishedOrder> orders;
  for (const int64_t batch : {32, 128}) {
    PublishedOrder order{absl::StrCat("figure 13, batch ", batch), "t8 p8 is the fastest", Claim::kFirstIsBest, {}};
    for (const int tp : {8, 2, 4, 16, 32}) order.runs.push_back(RunOfFigure(kFigure13, tp, 64 / tp, 1, batch, 1));
    orders.push_back(std::move(order));
  }
  for (const int64_t batch : {32, 512}) {
    PublishedOrder order{absl::StrCat("figure 14, batch ", batch), "more stages are slower", Claim::kFalls, {}};
    for (const int pp : {2, 4, 8, 16, 32}) {
      if (batch >= 64 / pp) order.runs.push_back(RunOfFigure(kFigure14, 1, pp, 64 / pp, batch, 1));
    }
    orders.push_back(std::move(order));
  }
  for (const int64_t batch : {128, 512}) {
    PublishedOrder order{
        absl::StrCat("figure 16, batch ", batch), "micro-batches of 2 are the fastest", Claim::kFirstIsBest, {}};
    for (const int64_t micro : {2, 1, 4, 8}) order.runs.push_back(RunOfFigure(kFigure16, 8, 8, 1, batch, micro));
    orders.push_back(std::move(order));
  }
  PublishedOrder tensors{"Frontier III.1", "a larger tp is slower", Claim::kFalls, {}};
  for (const int tp : {2, 4, 8}) tensors.runs.push_back(OnFrontier(tp, 8, 128));
  orders.push_back(std::move(tensors));
  PublishedOrder batches{"Frontier III.2", "more micro-batches are faster", Claim::kFalls, {}};
  for (const int64_t batch : {256, 64, 16}) batches.runs.push_back(OnFrontier(4, 8, batch));
  orders.push_back(std::move(batches));
  PublishedOrder stages{"Frontier III.3", "more stages at the same batch are slower", Claim::kFalls, {}};
  for (const int pp : {4, 8, 16, 24}) stages.runs.push_back(OnFrontier(4, pp, 64));
  orders.push_back(std::move(stages));
  PublishedOrder ratio{
      "Frontier III.4", "as many micro-batches for every stage keep what more stages lose", Claim::kKept, {}};
  for (const int pp : {4, 8, 16}) ratio.runs.push_back(OnFrontier(4, pp, 8 * pp));
  ratio.runs.push_back(OnFrontier(4, 16, 8 * 4));
  orders.push_back(std::move(ratio));
  return orders;
}

}  // namespace oneflow
