// The familiar picture of a schedule that was played: a row per rank, time from left to right.
#pragma once

#include <string>

#include "compiler/schedule/play.h"
#include "compiler/schedule/schedule.h"

namespace oneflow {

// For a terminal, in ASCII. What an action takes is filled with the mark of its kind, and begins with what there is
// room for: chunk, kind and micro-batch, or without the chunk, or the kind alone (of all, if of some there is only a
// column). Dots are idle.
//
//   rank 0 |F0>F1>......B0<<<<...B1<<<<|
//   rank 1 |...F0>B0<<<<F1>B1<<<<......|
//
// At most `width` columns, 0: as many as it takes to name every action, within reason. REQUIRES: `timeline` is what
// Play returned for `schedule`; so below.
std::string DrawText(const Schedule& schedule, const Timeline& timeline, int width = 0);

// As SVG, which needs nothing else. Colours are kinds, lighter shades are later chunks of a rank, numbers are
// micro-batches; what a pointer rests on says more. A pair that runs together shares its time, forward above.
std::string DrawSvg(const Schedule& schedule, const Timeline& timeline);

}  // namespace oneflow
