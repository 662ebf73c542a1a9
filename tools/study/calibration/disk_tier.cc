#include "tools/study/calibration/disk_tier.h"

#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "actor/tier_file.h"

namespace oneflow {

absl::StatusOr<double> DiskTierBytesPerS(const std::string& folder) {
  constexpr int64_t kBytesEach = 256 << 20;
  OF_ASSIGN_OR_RETURN(const std::unique_ptr<TierFile> file, TierFile::Create(folder, 2 * kBytesEach));
  std::vector<char> from(kBytesEach), to(kBytesEach);
  for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<char>(i * 7 + i / 4096);
  OF_RETURN_IF_ERROR(file->Write(file->addresses(), kBytesEach, from.data()));
  const auto began = std::chrono::steady_clock::now();
  absl::Status written;
  std::thread writer([&] { written = file->Write(file->addresses() + kBytesEach, kBytesEach, from.data()); });
  const absl::Status read = file->Read(file->addresses(), kBytesEach, to.data());
  writer.join();
  OF_RETURN_IF_ERROR(read);
  OF_RETURN_IF_ERROR(written);
  return 2.0 * kBytesEach / std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
}

}  // namespace oneflow
