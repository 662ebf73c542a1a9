// A file of events as TensorBoard reads them (proto/tensorboard.proto), and how they are framed:
//
//   8 bytes       4 bytes          length bytes   4 bytes
//   length        its checksum     Event          its checksum        little-endian; masked CRC-32C
//
// TensorBoard takes the files of a folder for one run, in the order of their names, which begin with the second in
// which they were made. A file's first events say its version, and from which step on what stands in those before it is
// void.
#pragma once

#include <cstdint>
#include <fstream>
#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "oneflow_core/status.h"
#include "proto/tensorboard.pb.h"

namespace oneflow {

// CRC-32C (Castagnoli) as the format stores it.
uint32_t MaskedCrc32c(absl::string_view bytes);

class EventFile {
 public:
  // Makes a file in `folder`, and the folder if there is none, whose name comes after those that are there. Unavailable
  // with the system's reason.
  static absl::StatusOr<std::unique_ptr<EventFile>> Create(const std::string& folder, int64_t first_step);

  void Add(const pb::tensorboard::Event& event);
  // What was added goes to the system, in one piece. Unavailable; then the file is of no more use.
  absl::Status Flush();

  const std::string& path() const { return path_; }

 private:
  explicit EventFile(std::string path);

  const std::string path_;
  std::ofstream stream_;
  std::string pending_;
};

}  // namespace oneflow
