// The place of an output, whatever its path leads to. All code that writes files for users asks here.
//
//   path ── links ──► a regular file, or nothing yet   replaced at once: written beside it, then renamed
//                     a terminal, pipe, device          written to, never replaced: it belongs to the system
//                     a folder, disk, socket            refused
#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "oneflow_core/status.h"

namespace oneflow {

struct OutputPlace {
  std::string path;        // behind all links
  bool is_stream = false;  // written in order, from its present end on, keeping its contents
};

// Follows the links of `path`. InvalidArgument that says where they lead and what is there, if that is refused or
// cannot be examined. The target of a link in /proc, such as /dev/stdout, is a stream: somebody has opened it.
absl::StatusOr<OutputPlace> FindOutput(const std::string& path);

// The same for outputs that are written out of order, or by several processes: streams are refused too.
absl::StatusOr<std::string> FileToReplace(const std::string& path);

// Gives the finished file `partial` the name `target`, which FindOutput() led to, and the permissions of the file that
// had that name. The name is on the disk when it returns. InvalidArgument if the present holder is no regular file;
// errors of Rename() (checkpoint/disk.h).
absl::Status ReplaceFileBy(const std::string& partial, const std::string& target);

// Writes all of `contents` there. Errors of the above; Unavailable, with the system's reason, if it cannot be written.
absl::Status WriteOutput(const std::string& path, absl::string_view contents);

}  // namespace oneflow
