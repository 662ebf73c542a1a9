#include "test/support/cuda/watch.h"

#include <link.h>

#include <algorithm>
#include <cstdlib>

#include "test/support/cuda/block.h"
#include "test/support/cuda/memory.h"
#include "test/support/cuda/software_device.h"

namespace oneflow::cuda {

// The engine's name for it (kernels/cuda/launch.cuh). 227 KiB is what a block of an H100 may have.
extern thread_local float4 dynamic_shared_memory[];
thread_local float4 dynamic_shared_memory[software_cuda::kMaxSharedBytes / sizeof(float4)];

}  // namespace oneflow::cuda

namespace oneflow::software_cuda {
namespace {

constexpr size_t kWordBytes = 4;

// What the program's own image says.
struct Image {
  std::vector<Region> constants;
  Region thread_locals;  // of this thread: the program's, which are the kernels' shared variables and ours
};

int ReadImage(dl_phdr_info* info, size_t, void* result) {
  Image& image = *static_cast<Image*>(result);
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = info->dlpi_phdr[i];
    const char* const begin = reinterpret_cast<const char*>(info->dlpi_addr + segment.p_vaddr);
    if (segment.p_type == PT_TLS) {
      const char* const data = static_cast<const char*>(info->dlpi_tls_data);
      if (data != nullptr) image.thread_locals = {data, data + segment.p_memsz};
    }
    const bool is_constant =
        (segment.p_type == PT_LOAD && (segment.p_flags & PF_W) == 0) || segment.p_type == PT_GNU_RELRO;
    if (is_constant) image.constants.push_back({begin, begin + segment.p_memsz});
  }
  return 1;  // the program comes first; others do not matter
}

const Image& OwnImage() {
  thread_local const Image image = [] {
    Image result;
    dl_iterate_phdr(ReadImage, &result);
    return result;
  }();
  return image;
}

template <typename T>
Region RegionOf(const T& object) {
  const char* const begin = reinterpret_cast<const char*>(&object);
  return {begin, begin + sizeof object};
}

// threadIdx and its like.
bool IsPosition(const char* data) {
  return RegionOf(threadIdx).Has(data) || RegionOf(blockIdx).Has(data) || RegionOf(blockDim).Has(data) ||
         RegionOf(gridDim).Has(data);
}

}  // namespace

const bool kWatching = std::getenv("SOFTWARE_CUDA_UNWATCHED") == nullptr;
constinit thread_local Watch watch = {};

void Watch::BeginGrid(const Launch& launch, size_t dynamic_shared_bytes) {
  const char* const arguments = static_cast<const char*>(launch.arguments.get());
  arguments_ = {arguments, arguments + launch.argument_bytes};
  shared_ = OwnImage().thread_locals;
  const char* const dynamic = reinterpret_cast<const char*>(cuda::dynamic_shared_memory);
  dynamic_shared_ = {dynamic, dynamic + dynamic_shared_bytes};
  thread_local std::vector<Word> words;
  words.resize((shared_.end - shared_.begin) / kWordBytes + 2);
  words_ = &words;
}

void Watch::Atomic(const void* data, size_t bytes) {
  const Unwatched unwatched;
  if (!Check(static_cast<const char*>(data), bytes, Kind::kAtomic)) BlockRunner::OfThread().Abort();
}

void Watch::Misaligned(const void* data, size_t bytes, bool write) {
  const Unwatched unwatched;
  Fail(write ? Kind::kWrite : Kind::kRead, bytes,
       "at an address that is " + std::to_string(reinterpret_cast<uintptr_t>(data) % bytes) +
           " beyond a multiple of that");
  BlockRunner::OfThread().Abort();
}

void Watch::AccessOutside(const char* data, size_t bytes, bool write) {
  const Unwatched unwatched;
  if (!Check(data, bytes, write ? Kind::kWrite : Kind::kRead)) BlockRunner::OfThread().Abort();
}

bool Watch::Check(const char* data, size_t bytes, Kind kind) {
  const bool reads = kind == Kind::kRead;
  if (shared_.Has(data)) {
    const bool is_position = reads && !dynamic_shared_.Has(data) && IsPosition(data);
    return is_position || CheckShared(data, bytes, kind);
  }
  if (IsDeviceAddress(data)) {
    if (known_generation_ == AllocationGeneration() && known_.Has(data, bytes)) return true;
    const std::optional<Allocation> found = FindAllocation(data);
    if (!found.has_value()) return Fail(kind, bytes, "where no allocation is");
    if (!found->bytes.Has(data, bytes)) {
      return Fail(
          kind, bytes,
          "across the end of an allocation of " + std::to_string(found->bytes.end - found->bytes.begin) + " bytes");
    }
    if (found->device != DeviceOfThread()) {
      return Fail(kind, bytes,
                  "of device " + std::to_string(found->device) + ", running on " + std::to_string(DeviceOfThread()));
    }
    known_ = found->bytes;
    known_generation_ = AllocationGeneration();
    return true;
  }
  if (reads && arguments_.Has(data, bytes)) return true;
  const auto has = [&](const Region& region) { return region.Has(data, bytes); };
  const std::vector<Region>& constants = OwnImage().constants;
  if (reads && std::any_of(constants.begin(), constants.end(), has)) return true;
  return Fail(kind, bytes, "of the host's memory");
}

bool Watch::CheckShared(const char* data, size_t bytes, Kind kind) {
  const Region all_dynamic = RegionOf(cuda::dynamic_shared_memory[0]);  // begins there
  if (data >= all_dynamic.begin && data < all_dynamic.begin + kMaxSharedBytes && !dynamic_shared_.Has(data, bytes)) {
    return Fail(kind, bytes,
                "at " + std::to_string(data - all_dynamic.begin) + " of dynamic shared memory of " +
                    std::to_string(dynamic_shared_.end - dynamic_shared_.begin) + " bytes");
  }
  const size_t begin = data - shared_.begin, end = begin + bytes;
  Word* word = words_->data() + begin / kWordBytes;
  for (size_t at = begin; at < end; ++word) {
    const size_t first = at % kWordBytes, count = std::min(end - at, kWordBytes - first);
    const auto mask = static_cast<uint8_t>(((1u << count) - 1) << first);
    if (!(kind == Kind::kRead && IsReadAgain(*word, mask)) && !CheckWord(*word, mask, kind)) return false;
    at += count;
  }
  return true;
}

bool Watch::CheckWord(Word& word, uint8_t bytes, Kind kind) {
  const auto [thread, epoch, warp_epoch] = running_;
  const int warp = thread / kWarp;
  if (word.block != block_) word = {.block = block_};
  // Whether what another thread did may happen at the same time.
  const auto races = [&](int other, int other_warp, uint32_t other_epoch, uint32_t other_warp_epoch) {
    if (other_epoch != epoch || other == kNobody || other == thread) return false;
    return other_warp != warp || other_warp_epoch == warp_epoch;
  };
  const bool both_atomic = kind == Kind::kAtomic && word.is_atomic;
  if (kind != Kind::kWrite && (bytes & ~word.written) != 0) return FailInShared(bytes, kind, kNobody, "has written");
  if ((bytes & word.last_written) != 0 && !both_atomic &&
      races(word.writer, word.writer_warp, word.write_epoch, word.write_warp_epoch)) {
    return FailInShared(bytes, kind, word.writer, "has written");
  }
  if (kind != Kind::kRead && (bytes & word.read) != 0 && !both_atomic &&
      races(word.reader, word.reader_warp, word.read_epoch, word.read_warp_epoch)) {
    return FailInShared(bytes, kind, word.reader, word.reader == kMany ? "read" : "reads");
  }
  if (kind == Kind::kRead) {
    const bool is_first = word.reader == kNobody || word.read_epoch != epoch;
    word.reader = static_cast<int16_t>(is_first || word.reader == thread ? thread : kMany);
    word.reader_warp = static_cast<int8_t>(is_first || word.reader_warp == warp ? warp : kMany);
    word.read = static_cast<uint8_t>(is_first ? bytes : word.read | bytes);
    word.read_epoch = epoch;
    word.read_warp_epoch = warp_epoch;
    return true;
  }
  word.written |= bytes;
  word.last_written = bytes;
  word.is_atomic = kind == Kind::kAtomic;
  word.writer = static_cast<int16_t>(thread);
  word.writer_warp = static_cast<int8_t>(warp);
  word.write_epoch = epoch;
  word.write_warp_epoch = warp_epoch;
  return true;
}

bool Watch::FailInShared(uint8_t bytes, Kind kind, int other, const char* does) {
  const std::string who = other == kNobody ? "no thread of the block"
                          : other == kMany ? "others"
                                           : "thread " + std::to_string(other);
  return Fail(kind, static_cast<size_t>(__builtin_popcount(bytes)),
              "of shared memory that " + who + " " + does + (other == kNobody ? "" : ", with no barrier between"));
}

bool Watch::Fail(Kind kind, size_t bytes, const std::string& what) {
  const std::string does = kind == Kind::kRead ? "reads " : kind == Kind::kWrite ? "writes " : "adds to ";
  Report(BlockRunner::OfThread().Where() + ": " + does + std::to_string(bytes) + " bytes " + what);
  return false;
}

}  // namespace oneflow::software_cuda

// --- What the compiler calls ---------------------------------------------------------------------

namespace {

void Read(const void* data, size_t bytes) { oneflow::software_cuda::watch.Access(data, bytes, false); }
void Write(const void* data, size_t bytes) { oneflow::software_cuda::watch.Access(data, bytes, true); }
// Of a type that must be aligned.
void ReadAligned(const void* data, size_t bytes) { oneflow::software_cuda::watch.AlignedAccess(data, bytes, false); }
void WriteAligned(const void* data, size_t bytes) { oneflow::software_cuda::watch.AlignedAccess(data, bytes, true); }

}  // namespace

extern "C" {
void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}
void __tsan_read1(void* data) { Read(data, 1); }
void __tsan_read2(void* data) { ReadAligned(data, 2); }
void __tsan_read4(void* data) { ReadAligned(data, 4); }
void __tsan_read8(void* data) { ReadAligned(data, 8); }
void __tsan_read16(void* data) { ReadAligned(data, 16); }
void __tsan_unaligned_read2(void* data) { Read(data, 2); }
void __tsan_unaligned_read4(void* data) { Read(data, 4); }
void __tsan_unaligned_read8(void* data) { Read(data, 8); }
void __tsan_unaligned_read16(void* data) { Read(data, 16); }
void __tsan_read_range(void* data, size_t bytes) { Read(data, bytes); }
void __tsan_write1(void* data) { Write(data, 1); }
void __tsan_write2(void* data) { WriteAligned(data, 2); }
void __tsan_write4(void* data) { WriteAligned(data, 4); }
void __tsan_write8(void* data) { WriteAligned(data, 8); }
void __tsan_write16(void* data) { WriteAligned(data, 16); }
void __tsan_unaligned_write2(void* data) { Write(data, 2); }
void __tsan_unaligned_write4(void* data) { Write(data, 4); }
void __tsan_unaligned_write8(void* data) { Write(data, 8); }
void __tsan_unaligned_write16(void* data) { Write(data, 16); }
void __tsan_write_range(void* data, size_t bytes) { Write(data, bytes); }

// Atomic variables of the host's code in the same sources; kernels add by atomicAdd.
#define SOFTWARE_CUDA_ATOMICS(bits, T)                                                                               \
  T __tsan_atomic##bits##_load(const volatile T* data, int order) { return __atomic_load_n(data, order); }           \
  void __tsan_atomic##bits##_store(volatile T* data, T value, int order) { __atomic_store_n(data, value, order); }   \
  T __tsan_atomic##bits##_exchange(volatile T* data, T value, int order) {                                           \
    return __atomic_exchange_n(data, value, order);                                                                  \
  }                                                                                                                  \
  T __tsan_atomic##bits##_fetch_add(volatile T* data, T value, int order) {                                          \
    return __atomic_fetch_add(data, value, order);                                                                   \
  }                                                                                                                  \
  T __tsan_atomic##bits##_fetch_sub(volatile T* data, T value, int order) {                                          \
    return __atomic_fetch_sub(data, value, order);                                                                   \
  }                                                                                                                  \
  T __tsan_atomic##bits##_fetch_or(volatile T* data, T value, int order) {                                           \
    return __atomic_fetch_or(data, value, order);                                                                    \
  }                                                                                                                  \
  bool __tsan_atomic##bits##_compare_exchange_strong(volatile T* data, T* expected, T value, int order, int other) { \
    return __atomic_compare_exchange_n(data, expected, value, false, order, other);                                  \
  }
SOFTWARE_CUDA_ATOMICS(8, int8_t)
SOFTWARE_CUDA_ATOMICS(32, int32_t)
SOFTWARE_CUDA_ATOMICS(64, int64_t)
#undef SOFTWARE_CUDA_ATOMICS
}
