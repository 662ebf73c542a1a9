// boxing: what a change of layout takes on a CPU, from 4 KiB to 256 MiB: four devices in two processes of a host, run
// as any job's (boxing_job.h), beside gloo with as many ranks, and beside plain copying.
//
//   way, tensor              us    GB/s    gloo's us    times as fast    of copying
//   all-reduce, 64 MiB    60000    1.12       240000             4.00          0.85
//
// GB/s are bytes of the logical tensor over a step's time. Copying is the time in which a thread for each rank that
// reads copies as many bytes as have to be read and written, at the rate that they reach with pieces of the same size
// in the same round, a copied byte being one that is read and one that is written:
//
//   T bytes, p ranks     a rank reads           and writes
//   all-reduce           T, then T              T/p, then T      its part of each addend; all sums
//   all-gather           T                      T
//   reduce-scatter       T                      T/p
//   all-to-all           T/p                    T/p
//   send                 2T/p, by half of them  2T/p
//
// Ranks that read the same memory at once find it in a cache that they share, so that gathering may be faster than
// that. What arrives is compared with what was sent, in the first round, here and there. Steps follow one another as
// slots of the plan allow, as gloo's calls do.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tools/bench/bench_case.h"
#include "tools/bench/boxing_job.h"

namespace oneflow {

struct BoxingSeconds {
  double ours = 0, copying = 0;
  double gloo = 0;  // 0: nobody measured it
};

struct BoxingRow {
  BoxingWay way = BoxingWay::kAllReduce;
  int64_t num_bytes = 0;  // of the logical tensor
  std::vector<BoxingSeconds> rounds;
};

// Of the bytes above, half of the sum: what a copy of as many bytes reads and writes. Of all ranks.
double CopiedBytes(BoxingWay way, int64_t num_bytes);

// With a bar for copying from 64 MiB on, and for gloo at 64 MiB of all-reduce. `pytorch`: its title, or why there is
// none; may be empty.
std::string BoxingText(const std::vector<BoxingRow>& rows, const std::string& pytorch);

BenchCaseMaker MakeBoxingCase;

}  // namespace oneflow
