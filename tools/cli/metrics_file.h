// The file of `--metrics`: a JSON object a line, one per training step, in the order of steps.
//
//   a run that goes on     lines of steps that are trained again are cut off, and the new ones follow
//   any other run          a file that has something keeps it under another name: "m.jsonl" becomes "m.jsonl.1", ...
//   a device or a pipe     is written to
//
// Nothing is opened before the first step has been trained: a job that is refused, or has nothing left to do, leaves a
// former run's file as it is.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/strings/string_view.h"
#include "oneflow_core/status.h"

namespace oneflow {

// Single-threaded.
class MetricsFile {
 public:
  // `say` is told what becomes of a file that is there. Nothing happens to it yet.
  MetricsFile(std::string path, bool goes_on, std::function<void(const std::string&)> say)
      : path_(std::move(path)), goes_on_(goes_on), say_(std::move(say)) {}
  ~MetricsFile();
  MetricsFile(const MetricsFile&) = delete;
  MetricsFile& operator=(const MetricsFile&) = delete;

  // InvalidArgument if no such file can come to be; FailedPrecondition if another run writes it now.
  static absl::Status Check(const std::string& path);

  // `line` is the object of a training step, whose "step" counts from 1, without an end of line. After an error, which
  // Finish() tells, nothing more is written.
  void Add(absl::string_view line);
  // At the end of a job that has `finished`: one that wrote nothing leaves an empty file if there is none. The first
  // error: Unavailable, with the system's reason; FailedPrecondition as Check().
  absl::Status Finish(bool finished);

 private:
  absl::Status Open(int64_t first_step);
  absl::Status OpenFile(const std::string& target, int64_t first_step);

  const std::string path_;
  const bool goes_on_;
  const std::function<void(const std::string&)> say_;
  int fd_ = -1;
  absl::Status status_;
};

// How many bytes of these lines come before the first that is of `step` or later, or is no metrics line of a step at
// all, such as one that a killed run left half-written.
size_t BytesBefore(int64_t step, absl::string_view lines);

}  // namespace oneflow
