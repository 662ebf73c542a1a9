// The familiar picture of a schedule that was played: a row per rank, time from left to right.
#pragma once

#include <string>

#include "compiler/schedule/play.h"
#include "compiler/schedule/schedule.h"

namespace oneflow {

// For a terminal, in ASCII. The columns of an action are filled with the mark of its kind. They begin with a label that
// fits: chunk, kind and micro-batch, or without the chunk, or the kind alone (for all actions, if some have only one
// column). Dots are idle.
//
//   rank 0 |F0>F1>......B0<<<<...B1<<<<|
//   rank 1 |...F0>B0<<<<F1>B1<<<<......|
//
// At most `width` columns; 0: as many as are needed to name every action, within reason. REQUIRES, here and below:
// `timeline` is what Play returned for `schedule`.
std::string DrawText(const Schedule& schedule, const Timeline& timeline, int width = 0);

// As SVG, which needs nothing else. Colours are kinds, lighter shades are later chunks of a rank, numbers are
// micro-batches; a tooltip says more. A pair that runs together shares its time, forward above.
std::string DrawSvg(const Schedule& schedule, const Timeline& timeline);

}  // namespace oneflow
