// The engine and PyTorch train one model, from the same weights, on the same batches: who is faster by how much, who
// takes less memory, and where the engine's time goes.
//
//                                step s (least..most)   cpu s   tokens/s  peak GB     loss 1     loss 7
//   engine, 1 device              1.000 (0.990..1.100)  1.900       1024     1.50   5.500000   5.100000
//   PyTorch 2.1 compile, ...      1.500 (1.400..1.600)  2.800        683     3.00   5.500000   5.100000
//   against PyTorch 2.1 compile, the fastest: speed 1.50 x (1.41..1.62), cpu time 0.68 x, peak memory 0.50 x
//
// Rounds take all in turn, so that what slows the machine down slows all: ratios are those of rounds, and their median.
#pragma once

#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "sbp/topology.h"
#include "tools/bench/measurement.h"
#include "tools/bench/op_table.h"

namespace oneflow {

// One way to train it: on one device of the engine, in another layout, in a mode of PyTorch.
struct Contender {
  std::string name;           // "dp2-tp2", "compile"
  std::string title;          // for people
  std::vector<Round> rounds;  // empty: it never ran
  std::string cannot;         // why not
};

struct Contest {
  std::string title;    // "gpt2-124m: GPT of 12 layers..."
  std::string unit;     // "tokens"
  double per_step = 0;  // of these
  int cores = 0;        // that each may use
  // Memory is that of a cuda device: of the engine what its plan has there, of PyTorch the most that it had in use.
  bool on_cuda = false;
  int warmup = 0, steps = 0;
  Contender engine;                // on one device
  std::vector<Contender> layouts;  // of the engine too
  std::vector<Contender> peers;    // modes of PyTorch
  // Of one more round of the engine, profiled; the floors are those of a device of these rates.
  DeviceSpeeds rates;
  std::vector<OpRow> ops;
  double profiled_run_seconds = 0, profiled_kernel_seconds = 0;
};

// The mode that had the fastest round, since what else the machine did only slows; null if none ran.
const Contender* FastestPeer(const Contest& contest);

// How far two lists of losses are apart at most, relative to the second, in steps that both have; and in which, counted
// from 1. Step 0: they have none in common.
struct LossGap {
  double relative = 0;
  int step = 0;
};
LossGap LargestGap(const std::vector<double>& losses, const std::vector<double>& others);

// REQUIRES: the engine has run a round, and whoever has run at all has run in all rounds.
std::string ContestText(const Contest& contest);
nlohmann::json ContestJson(const Contest& contest);

}  // namespace oneflow
