#include "tools/study/calibration/device.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <iostream>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "actor/mailbox.h"
#include "actor/memory.h"
#include "actor/tier_file.h"
#include "actor/transport/message_ring.h"
#include "glog/logging.h"
#include "kernels/device.h"
#include "kernels/kernel.h"
#include "sbp/device_kinds.h"
#include "tools/control/process/write_file.h"
#include "tools/job/device_table.h"
#include "tools/job/median.h"
#include "tools/job/outputs.h"
#include "tools/study/calibration/disk_tier.h"
#include "tools/study/calibration/operand_values.h"

namespace oneflow {
namespace {

// What is computed on a kind of device. Products are beyond what small ones lose to starting, memory is beyond caches.
struct Sizes {
  int64_t side = 0;          // of a product
  int64_t side_of_best = 0;  // where the shortest of many runs counts
  int64_t elements = 0;      // of f32 in memory
  int launches = 1;          // behind one another before they are waited for
};
constexpr Sizes kCpuSizes = {1024, 512, 16 << 20, 1};
constexpr Sizes kCudaSizes = {4096, 4096, 64 << 20, 10};
constexpr int64_t kDrawn = 1 << 20;         // values of an operand; behind them they come again
constexpr size_t kCopiedBytes = 16 << 20;   // what a large register has
constexpr int kRounds = 7;                  // of which the median counts
constexpr double kSecondsOfARound = 20e-3;  // far above what a clock resolves

double SecondsOf(const auto& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Of several rounds, the median says what a machine does. What it can do say single runs that fit between those of
// others, of which there are many.
enum class Which { kMedian, kShortest };
constexpr double kSecondsOfSingles = 0.5;

double ShortestOf(const auto& work) {
  double shortest = SecondsOf(work), spent = 0;
  while (spent < kSecondsOfSingles) {
    const double seconds = SecondsOf(work);
    shortest = std::min(shortest, seconds);
    spent += seconds;
  }
  return shortest;
}

// The median time of one `work`, repeated until a round is long enough.
double TimeOf(const auto& work) {
  const double once = std::max(SecondsOf(work), 1e-9);
  const int repeats = std::max(1, static_cast<int>(kSecondsOfARound / once));
  std::vector<double> rounds;
  for (int round = 0; round < kRounds; ++round) {
    rounds.push_back(SecondsOf([&] {
                       for (int i = 0; i < repeats; ++i) work();
                     }) /
                     repeats);
  }
  return Median(std::move(rounds));
}

// One kernel on tensors of one shape.
class KernelBench {
 public:
  KernelBench(DeviceContext& device, DType dtype, std::vector<int64_t> dims, Which which, int launches)
      : device_(device), dtype_(dtype), which_(which), launches_(launches) {
    dims_ = std::move(dims);
    start_.assign(dims_.size(), 0);
  }

  bool Has(const std::string& op) const { return device_.kernels().Find(op, dtype_) != nullptr; }

  // Seconds of one run with so many inputs.
  absl::StatusOr<double> Run(const std::string& op, int inputs) {
    const Kernel* const kernel = device_.kernels().Find(op, dtype_);
    if (kernel == nullptr) return absl::InternalError(absl::StrCat("there is no kernel '", op, "'"));
    std::vector<TensorArg> tensors;
    for (int i = 0; i <= inputs; ++i) {
      OF_ASSIGN_OR_RETURN(tensors.emplace_back(), Tensor());
    }
    KernelArgs args;
    args.in = {tensors.data(), static_cast<size_t>(inputs)};
    args.out = {tensors.data() + inputs, 1};
    const AttrMap attrs;
    args.attrs = &attrs;
    args.stream = device_.stream();
    args.threads = device_.threads();
    if (kernel->workspace_bytes != nullptr) args.workspace = device_.Allocate(kernel->workspace_bytes(args));
    std::shared_ptr<void> state;
    if (kernel->prepare != nullptr) state = kernel->prepare(args);
    args.state = state.get();
    const char* failed = nullptr;
    const auto run = [&] {
      int event = 0;
      const char* error = nullptr;
      for (int i = 0; i < launches_ && error == nullptr; ++i) error = kernel->run(args);
      if (error == nullptr) error = device_.RecordEvent(&event);
      if (error == nullptr) error = device_.WaitEvent(event);
      if (error != nullptr) failed = error;
    };
    const double seconds = which_ == Which::kMedian ? TimeOf(run) : ShortestOf(run);
    if (failed != nullptr) return absl::InternalError(absl::StrCat("'", op, "': ", failed));
    return seconds / launches_;
  }

 private:
  absl::StatusOr<TensorArg> Tensor() {
    TensorArg tensor{nullptr, dtype_, static_cast<int>(dims_.size()), 1, dims_.data(), dims_.data(), start_.data()};
    for (const int64_t dim : dims_) tensor.count *= dim;
    const size_t num_bytes = tensor.count * SizeOf(dtype_);
    tensor.data = device_.Allocate(num_bytes);
    if (tensor.data == nullptr) return absl::ResourceExhaustedError(absl::StrCat("no ", num_bytes, " bytes"));
    const std::vector<uint8_t> values = OperandValues(dtype_, std::min(tensor.count, kDrawn), ++seed_);
    for (size_t at = 0; at < num_bytes; at += values.size()) {
      const size_t size = std::min(values.size(), num_bytes - at);
      if (const char* const error = device_.CopyFromHost(static_cast<char*>(tensor.data) + at, values.data(), size);
          error != nullptr)
        return absl::InternalError(error);
    }
    return tensor;
  }

  DeviceContext& device_;
  DType dtype_;
  Which which_;
  int launches_;
  std::vector<int64_t> dims_, start_;
  uint64_t seed_ = 0;
};

absl::StatusOr<double> FlopsPerSecond(DeviceContext& device, DType dtype, double otherwise, Which which,
                                      const Sizes& sizes) {
  const int64_t side = which == Which::kMedian ? sizes.side : sizes.side_of_best;
  KernelBench bench(device, dtype, {side, side}, which, sizes.launches);
  if (!bench.Has("matmul")) return otherwise;
  OF_ASSIGN_OR_RETURN(const double seconds, bench.Run("matmul", 2));
  return 2.0 * static_cast<double>(side * side * side) / seconds;
}

// Seconds of a message to another thread and back, through two mailboxes.
double RoundTripThroughMailboxes() {
  Mailbox<int> there, back;
  std::thread echo([&] {
    std::vector<int> mail;
    for (bool stop = false; !stop;) {
      there.Wait();
      there.TakeAll(mail);
      stop = mail.back() < 0;
      back.Push(mail.back());
    }
  });
  std::vector<int> mail;
  const auto exchange = [&](int message) {
    there.Push(message);
    back.Wait();
    back.TakeAll(mail);
  };
  const double seconds = TimeOf([&] { exchange(1); });
  exchange(-1);
  echo.join();
  return seconds;
}

// Numbers from one thread to another through a ring in memory that is mapped twice, as processes of a host have it.
class RingChannel {
 public:
  static absl::StatusOr<std::unique_ptr<RingChannel>> Create() {
    OF_ASSIGN_OR_RETURN(SharedMemory owned, SharedMemory::Create(kRingAt + RingMemory::NumBytes(kCapacity)));
    OF_ASSIGN_OR_RETURN(SharedMemory mapped,
                        SharedMemory::Map(getpid(), owned.fd(), owned.size(), SharedMemory::Access::kWrite));
    return std::unique_ptr<RingChannel>(new RingChannel(std::move(owned), std::move(mapped)));
  }
  absl::Status Send(int number) {
    const Message message{.slot = number};
    return writer_.Write({&message, 1}, 0);
  }
  absl::Status Receive(int& number) {
    Doorbell::Sleep(BellIn(owned_), [this] { return reader_.HasMail(); });
    return reader_.TakeAll([&](const Message& message, int64_t) { number = message.slot; });
  }

 private:
  static constexpr uint32_t kCapacity = 1;
  static constexpr int64_t kRingAt = 64;
  RingChannel(SharedMemory owned, SharedMemory mapped)
      : owned_(std::move(owned)),
        mapped_(std::move(mapped)),
        reader_(RingIn(owned_), kCapacity),
        writer_(RingIn(mapped_), kCapacity, BellIn(mapped_)) {}
  static RingMemory& RingIn(const SharedMemory& x) { return *reinterpret_cast<RingMemory*>(x.data() + kRingAt); }
  static Doorbell::Word& BellIn(const SharedMemory& x) { return *reinterpret_cast<Doorbell::Word*>(x.data()); }

  SharedMemory owned_, mapped_;
  RingReader reader_;
  RingWriter writer_;
};

// The same as through mailboxes.
absl::StatusOr<double> RoundTripThroughRings() {
  OF_ASSIGN_OR_RETURN(const std::unique_ptr<RingChannel> there, RingChannel::Create());
  OF_ASSIGN_OR_RETURN(const std::unique_ptr<RingChannel> back, RingChannel::Create());
  absl::Status of_echo, status;
  std::thread echo([&] {
    for (int number = 0; number >= 0;) {
      of_echo.Update(there->Receive(number));
      of_echo.Update(back->Send(number));
    }
  });
  const auto exchange = [&](int number) {
    status.Update(there->Send(number));
    status.Update(back->Receive(number));
  };
  const double seconds = TimeOf([&] { exchange(1); });
  exchange(-1);
  echo.join();
  status.Update(of_echo);
  OF_RETURN_IF_ERROR(status);
  return seconds;
}

// Bytes per second of copying what another thread wrote.
double CopyRate() {
  std::vector<char> source(kCopiedBytes), target(kCopiedBytes);
  std::thread([&] {
    for (size_t i = 0; i < source.size(); ++i) source[i] = static_cast<char>(i);
  }).join();
  return static_cast<double>(kCopiedBytes) / TimeOf([&] { std::memcpy(target.data(), source.data(), kCopiedBytes); });
}

absl::Status MeasureLinks(DeviceSpeeds& speeds) {
  const double in_process = RoundTripThroughMailboxes(), rate = CopyRate();
  OF_ASSIGN_OR_RETURN(const double on_host, RoundTripThroughRings());
  speeds.act_s = in_process;
  speeds.same_process = {in_process / 2, 1 / rate};
  speeds.same_host = {on_host / 2, 1 / rate};
  return absl::OkStatus();
}

absl::StatusOr<DeviceSpeeds> MeasureKernelRates(DeviceContext& device, DeviceKind kind, Which which) {
  device.BindThread();
  const Sizes& sizes = kind == DeviceKind::kCpu ? kCpuSizes : kCudaSizes;
  DeviceSpeeds speeds = UsualDevice(kind);
  OF_ASSIGN_OR_RETURN(speeds.f32_flops, FlopsPerSecond(device, DType::kFloat32, 0, which, sizes));
  OF_ASSIGN_OR_RETURN(speeds.bf16_flops, FlopsPerSecond(device, DType::kBFloat16, speeds.f32_flops, which, sizes));
  OF_ASSIGN_OR_RETURN(speeds.f16_flops, FlopsPerSecond(device, DType::kFloat16, speeds.f32_flops, which, sizes));
  KernelBench relu(device, DType::kFloat32, {sizes.elements}, which, sizes.launches);
  OF_ASSIGN_OR_RETURN(const double seconds, relu.Run("relu", 1));
  speeds.memory_bytes_per_s = 2.0 * sizeof(float) * static_cast<double>(sizes.elements) / seconds;
  return speeds;
}

absl::StatusOr<std::unique_ptr<DeviceContext>> OpenDevice(DeviceKind kind, int cores) {
  std::string why = "no memory";
  std::unique_ptr<DeviceContext> device = kind == DeviceKind::kCpu ? MakeCpuDevice(cores) : MakeCudaDevice(0, &why);
  if (device == nullptr) return absl::UnavailableError(absl::StrCat("cuda:0: ", why));
  return device;
}

}  // namespace

absl::StatusOr<DeviceSpeeds> PeakRates(DeviceKind kind, int cores) {
  OF_ASSIGN_OR_RETURN(const std::unique_ptr<DeviceContext> device, OpenDevice(kind, cores));
  return MeasureKernelRates(*device, kind, Which::kShortest);
}

void KeepFaster(const DeviceSpeeds& one, DeviceSpeeds& best) {
  best.f32_flops = std::max(best.f32_flops, one.f32_flops);
  best.bf16_flops = std::max(best.bf16_flops, one.bf16_flops);
  best.f16_flops = std::max(best.f16_flops, one.f16_flops);
  best.memory_bytes_per_s = std::max(best.memory_bytes_per_s, one.memory_bytes_per_s);
}

absl::StatusOr<DeviceSpeeds> MeasureDevice(DeviceKind kind, int cores) {
  OF_ASSIGN_OR_RETURN(const std::unique_ptr<DeviceContext> device, OpenDevice(kind, cores));
  OF_ASSIGN_OR_RETURN(DeviceSpeeds speeds, MeasureKernelRates(*device, kind, Which::kMedian));
  if (kind == DeviceKind::kCpu) OF_RETURN_IF_ERROR(MeasureLinks(speeds));
  if (const absl::StatusOr<double> disk = DiskTierBytesPerS(TierFile::UsualFolder()); disk.ok()) {
    speeds.disk_tier.beta_s_per_byte = 1 / *disk;
  } else {
    LOG(WARNING) << "the disk keeps the figures of a usual one: " << disk.status().message();
  }
  return speeds;
}

absl::Status BenchDeviceCommand(const BenchDeviceArguments& arguments) {
  if (arguments.device != "cpu" && arguments.device != "cuda")
    return absl::InvalidArgumentError(absl::StrCat("device '", arguments.device, "' is neither 'cpu' nor 'cuda'"));
  if (arguments.cores < 1)
    return absl::InvalidArgumentError(absl::StrCat(arguments.cores, " cores: at least 1 is needed"));
  if (!arguments.output.empty())
    OF_RETURN_IF_ERROR_AT(CheckWritable(arguments.output, /*may_be_stream=*/true), "--output");
  OF_ASSIGN_OR_RETURN(DeviceSpeeds speeds,
                      MeasureDevice(arguments.device == "cpu" ? DeviceKind::kCpu : DeviceKind::kCuda, arguments.cores));
  speeds.kind = arguments.kind.empty() ? arguments.device : arguments.kind;
  const std::string text = DeviceTableText({speeds});
  if (arguments.output.empty()) {
    std::cout << text;
    return absl::OkStatus();
  }
  OF_RETURN_IF_ERROR(WriteFile("--output", arguments.output, text));
  std::cout << "wrote '" << arguments.output << "'; a job names it in cluster.device_table\n";
  return absl::OkStatus();
}

}  // namespace oneflow
