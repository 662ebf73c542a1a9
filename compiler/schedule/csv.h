// Schedules as text: PyTorch's form for pipeline schedules, comma-separated values.
//
//   0F0,0F1,,,0B0,0B1           a row per rank, a cell per action; an empty cell is a bubble
//   ,1F0,1B0,1F1,1B1
//
//   2F0 1I3 1W3 0B2             chunk (PyTorch: stage), kind, micro-batch
//   (0F3;7B1)OVERLAP_F_B        two that run together
//   3SEND_F1 1UNSHARD ..        transfers and sharding: known, and left out, for the plan has its own
//
// An empty row is a rank without actions. Lines end with \n or \r\n; the last may end with the text.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "compiler/schedule/schedule.h"

namespace oneflow {

// Without bubbles.
std::string ScheduleToCsv(const Schedule& schedule);

// Inverse of ScheduleToCsv. Chunks lie where their actions are. InvalidArgument, with `name` (of the file), row, column
// and the text of the cell, for a cell that is no action, an action of a chunk that lies on another rank already, and
// numbers that leave gaps. The text may be any bytes. CheckSchedule says whether the schedule can be followed.
absl::StatusOr<Schedule> ScheduleFromCsv(absl::string_view text, absl::string_view name);

// Reads a file. NotFound if it cannot be read.
absl::StatusOr<Schedule> ReadSchedule(const std::string& path);

}  // namespace oneflow
