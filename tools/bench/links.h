// links: what ranks of different hosts take to reach one another, by jobs that do nothing else (boxing_job.h), on a
// running cluster of two machines with two cpu devices each (`--scheduler`), or on hosts of the plan that are all this
// machine, whose network is loopback.
//
//   hop                          half of a round trip of 64 bytes, its two acts included
//   all-reduce, flat             T bytes over four ranks of which the plan knows that each is a host of its own: two of
//                                them send 2 T to the other two
//   all-reduce, hierarchical     the same over two hosts of two: added up inside them first, so that a host sends T
//
//   links: between hosts of cluster '10.0.0.1:7000', medians
//     hop                                      40.1 us
//     all-reduce, 64 MiB, flat               1090.0 ms   a machine of two ranks sends 134.2 MB: 123.1 MB/s
//     all-reduce, 64 MiB, hierarchical        545.0 ms   a machine of two ranks sends  67.1 MB: 123.1 MB/s
//     hierarchical is 2.00 times as fast; 2.00 by the bytes
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tools/bench/bench_case.h"

namespace oneflow {

struct LinksRound {
  double hop_seconds = 0;
  double flat_seconds = 0, hierarchical_seconds = 0;  // of an all-reduce
};

std::string LinksText(const std::vector<LinksRound>& rounds, const std::string& where);

BenchCaseMaker MakeLinksCase;

}  // namespace oneflow
