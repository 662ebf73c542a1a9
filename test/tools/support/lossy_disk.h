// A file system for SQLite whose power can fail: what was written but not synced may be there afterwards, or not.
//
//   LossyDisk disk("lossy");
//   auto store = Store::Open(path, "lossy");
//   ...
//   disk.FailPower(seed, directory);   // the files as they would be found; the store here runs on, unknowing
//
// Every write since a file's last sync is kept or lost by itself, as a disk reorders them. One of a name at a time; not
// thread-safe.
#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace oneflow::testing {

class LossyDisk {
 public:
  explicit LossyDisk(const std::string& name);
  ~LossyDisk();
  LossyDisk(const LossyDisk&) = delete;
  LossyDisk& operator=(const LossyDisk&) = delete;

  // Writes what is left of each file into `directory`, under its own name.
  void FailPower(uint64_t seed, const std::string& directory) const;

 private:
  friend struct LossyFile;
  // Bytes at an offset, or the file's new size.
  struct Change {
    int64_t offset = 0;
    std::string bytes;
    bool truncates = false;
  };
  struct Image {
    std::string synced;
    std::vector<Change> since;
  };
  static void Make(const Change& change, std::string& contents);

  std::string name_;
  sqlite3_vfs vfs_;
  std::map<std::string, Image> images_;  // by path
};

}  // namespace oneflow::testing
