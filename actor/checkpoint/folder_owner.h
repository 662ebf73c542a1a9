// Gives a folder to one job at a time, and to one attempt of it.
//
//   FOLDER/.owner     locked by its owner for as long as the process lives; says who that is
//
// The system releases the lock when its holder dies, so nobody has to judge whether someone is alive. A later attempt
// of the same job may take over from an earlier one that a lost host still runs: it replaces the locked file by a new
// one. The earlier attempt notices, before it makes anything visible, that the folder is no longer its own.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/time/time.h"
#include "oneflow_core/status.h"

namespace oneflow {

class FolderOwner {
 public:
  struct Who {
    std::string job;       // name, for people
    uint64_t run = 0;      // the same for all attempts of a job, and for no other job; 0: unknown, like no other
    uint64_t attempt = 0;  // from 1
  };

  // Takes the folder, which exists. FailedPrecondition naming the owner if it belongs to another job that runs, or to a
  // later attempt of this one; Unavailable if the file cannot be written. An earlier attempt of this job has `patience`
  // to go away by itself. Where the file system has no locks, the last comer owns the folder.
  static absl::StatusOr<std::unique_ptr<FolderOwner>> Take(const std::string& folder, const Who& who,
                                                           absl::Duration patience = absl::Seconds(5));
  ~FolderOwner();  // gives it back
  FolderOwner(const FolderOwner&) = delete;
  FolderOwner& operator=(const FolderOwner&) = delete;

  // A remark for the user about how it was taken: from an owner that died, or without locks; mostly empty.
  const std::string& remark() const { return remark_; }
  // FailedPrecondition naming the new owner if the folder has been taken over. If somebody removed the file, or the
  // folder and made it anew, it is taken again. One thread at a time.
  absl::Status Check();

 private:
  FolderOwner(std::string path, int fd, Who who, std::string remark)
      : path_(std::move(path)), who_(std::move(who)), remark_(std::move(remark)), fd_(fd) {}

  const std::string path_;  // of the file
  const Who who_;
  const std::string remark_;
  int fd_;
};

}  // namespace oneflow
