#include "test/tools/support/lossy_disk.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

namespace oneflow::testing {

// A file of the system's own, behind ours in memory, and what we know of it.
struct LossyFile {
  sqlite3_file base;
  LossyDisk* disk;
  LossyDisk::Image* image;  // null: a temporary file without a name, which nothing outlives

  static LossyFile& Of(sqlite3_file* file) { return *reinterpret_cast<LossyFile*>(file); }
  sqlite3_file* real() { return reinterpret_cast<sqlite3_file*>(this + 1); }
  const sqlite3_io_methods& methods() { return *real()->pMethods; }

  static sqlite3_vfs* System() { return sqlite3_vfs_find("unix"); }
  static int Open(sqlite3_vfs* vfs, const char* path, sqlite3_file* file, int flags, int* out_flags);
  static int Delete(sqlite3_vfs* vfs, const char* path, int sync_directory);
  static int Write(sqlite3_file* file, const void* data, int size, sqlite3_int64 offset);
  static int Truncate(sqlite3_file* file, sqlite3_int64 size);
  static int Sync(sqlite3_file* file, int flags);
};

namespace {

sqlite3_io_methods LossyMethods() {
  using F = LossyFile;
  sqlite3_io_methods m = {};
  m.iVersion = 1;  // no shared memory: the store has its file to itself
  m.xClose = [](sqlite3_file* f) { return F::Of(f).methods().xClose(F::Of(f).real()); };
  m.xRead = [](sqlite3_file* f, void* to, int size, sqlite3_int64 offset) {
    return F::Of(f).methods().xRead(F::Of(f).real(), to, size, offset);
  };
  m.xWrite = F::Write;
  m.xTruncate = F::Truncate;
  m.xSync = F::Sync;
  m.xFileSize = [](sqlite3_file* f, sqlite3_int64* size) {
    return F::Of(f).methods().xFileSize(F::Of(f).real(), size);
  };
  m.xLock = [](sqlite3_file* f, int kind) { return F::Of(f).methods().xLock(F::Of(f).real(), kind); };
  m.xUnlock = [](sqlite3_file* f, int kind) { return F::Of(f).methods().xUnlock(F::Of(f).real(), kind); };
  m.xCheckReservedLock = [](sqlite3_file* f, int* taken) {
    return F::Of(f).methods().xCheckReservedLock(F::Of(f).real(), taken);
  };
  m.xFileControl = [](sqlite3_file* f, int op, void* argument) {
    return F::Of(f).methods().xFileControl(F::Of(f).real(), op, argument);
  };
  m.xSectorSize = [](sqlite3_file* f) { return F::Of(f).methods().xSectorSize(F::Of(f).real()); };
  m.xDeviceCharacteristics = [](sqlite3_file*) { return 0; };  // it promises nothing
  return m;
}

}  // namespace

int LossyFile::Open(sqlite3_vfs* vfs, const char* path, sqlite3_file* file, int flags, int* out_flags) {
  static const sqlite3_io_methods kMethods = LossyMethods();
  LossyFile& lossy = Of(file);
  lossy.disk = static_cast<LossyDisk*>(vfs->pAppData);
  lossy.image = path == nullptr ? nullptr : &lossy.disk->images_[path];
  lossy.base.pMethods = nullptr;  // not to be closed if it is not opened
  const int opened = System()->xOpen(System(), path, lossy.real(), flags, out_flags);
  if (opened == SQLITE_OK) lossy.base.pMethods = &kMethods;
  return opened;
}

int LossyFile::Delete(sqlite3_vfs* vfs, const char* path, int sync_directory) {
  static_cast<LossyDisk*>(vfs->pAppData)->images_.erase(path);
  return System()->xDelete(System(), path, sync_directory);
}

int LossyFile::Write(sqlite3_file* file, const void* data, int size, sqlite3_int64 offset) {
  LossyFile& lossy = Of(file);
  if (lossy.image != nullptr) lossy.image->since.push_back({offset, std::string(static_cast<const char*>(data), size)});
  return lossy.methods().xWrite(lossy.real(), data, size, offset);
}

int LossyFile::Truncate(sqlite3_file* file, sqlite3_int64 size) {
  LossyFile& lossy = Of(file);
  if (lossy.image != nullptr) lossy.image->since.push_back({size, "", true});
  return lossy.methods().xTruncate(lossy.real(), size);
}

int LossyFile::Sync(sqlite3_file* file, int flags) {
  LossyFile& lossy = Of(file);
  if (lossy.image != nullptr) {
    for (const LossyDisk::Change& change : lossy.image->since) LossyDisk::Make(change, lossy.image->synced);
    lossy.image->since.clear();
  }
  return lossy.methods().xSync(lossy.real(), flags);
}

LossyDisk::LossyDisk(const std::string& name) : name_(name), vfs_(*LossyFile::System()) {
  vfs_.zName = name_.c_str();
  vfs_.szOsFile += sizeof(LossyFile);
  vfs_.pAppData = this;
  vfs_.xOpen = LossyFile::Open;
  vfs_.xDelete = LossyFile::Delete;
  // Those that look at their data are given the system's own.
  vfs_.xAccess = [](sqlite3_vfs*, const char* path, int flags, int* result) {
    return LossyFile::System()->xAccess(LossyFile::System(), path, flags, result);
  };
  vfs_.xFullPathname = [](sqlite3_vfs*, const char* path, int size, char* full) {
    return LossyFile::System()->xFullPathname(LossyFile::System(), path, size, full);
  };
  sqlite3_vfs_register(&vfs_, 0);
}

LossyDisk::~LossyDisk() { sqlite3_vfs_unregister(&vfs_); }

void LossyDisk::Make(const Change& change, std::string& contents) {
  if (change.truncates) return contents.resize(change.offset);
  contents.resize(std::max(contents.size(), change.offset + change.bytes.size()));
  std::memcpy(contents.data() + change.offset, change.bytes.data(), change.bytes.size());
}

void LossyDisk::FailPower(uint64_t seed, const std::string& directory) const {
  std::mt19937_64 random(seed);
  std::filesystem::create_directories(directory);
  for (const auto& [path, image] : images_) {
    std::string contents = image.synced;
    for (const Change& change : image.since) {
      if (random() % 2 == 0) Make(change, contents);
    }
    std::ofstream(directory + "/" + std::filesystem::path(path).filename().string(), std::ios::binary) << contents;
  }
}

}  // namespace oneflow::testing
