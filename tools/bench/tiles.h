// tiles: the kernels that go by tiles (kernels/cpu/tile.h), on the shapes of a GPT-2 124M of 4 x 256 tokens and of a
// small GPT of 32 x 128, in bf16, one layer or head of each.
//
// Where the processor has tiles they are timed, beside the same op by the kernels of the variant below, which asks the
// library. Elsewhere nothing can be timed; what the kernels ask of tiles is counted instead, in a run of their twin,
// and turned into the time that tiles alone take on two cores of an Emerald Rapids at 2.8 GHz:
//
//   max(products x 20 cycles, loads x 8.5) + stores x 16      per core; measured there, of random operands in the first
//                                                             cache
//
// That is a floor: packing, softmax, GELU and memory come on top of it. `floor` is that of the flops alone, at 4,590
// GF/s.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernels/cpu/variant.h"
#include "tools/bench/bench_case.h"

namespace oneflow {

struct TilesRow {
  std::string name;  // "head and its loss"
  double flops = 0;  // of the products
  TileCounts counts;
  // The best seconds so far; 0: nobody measured them.
  double on_tiles = 0, by_library = 0;

  // Of tiles alone, on two cores.
  double tile_seconds() const;
  double floor_seconds() const;
};

std::string TilesText(const std::vector<TilesRow>& rows, int cores);

BenchCaseMaker MakeTilesCase;

}  // namespace oneflow
