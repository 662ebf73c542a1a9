#include "tools/bench/device.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <iostream>
#include <memory>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "actor/mailbox.h"
#include "kernels/device.h"
#include "sbp/device_kinds.h"
#include "tools/bench/measurement.h"
#include "tools/bench/operand_values.h"
#include "tools/job/device_table.h"
#include "tools/process/write_file.h"

namespace oneflow {
namespace {

constexpr int64_t kSide = 1024;             // of a product: beyond what a small one loses to starting
constexpr int64_t kElements = 16 << 20;     // of f32 in memory: 64 MiB, beyond most caches
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
constexpr int64_t kSideOfSingles = 512;

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
  KernelBench(DeviceContext& device, DType dtype, std::vector<int64_t> dims, Which which)
      : device_(device), dtype_(dtype), which_(which) {
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
      const char* error = kernel->run(args);
      if (error == nullptr) error = device_.RecordEvent(&event);
      if (error == nullptr) error = device_.WaitEvent(event);
      if (error != nullptr) failed = error;
    };
    const double seconds = which_ == Which::kMedian ? TimeOf(run) : ShortestOf(run);
    if (failed != nullptr) return absl::InternalError(absl::StrCat("'", op, "': ", failed));
    return seconds;
  }

 private:
  absl::StatusOr<TensorArg> Tensor() {
    TensorArg tensor{nullptr, dtype_, static_cast<int>(dims_.size()), 1, dims_.data(), dims_.data(), start_.data()};
    for (const int64_t dim : dims_) tensor.count *= dim;
    const size_t num_bytes = tensor.count * SizeOf(dtype_);
    tensor.data = device_.Allocate(num_bytes);
    if (tensor.data == nullptr) return absl::ResourceExhaustedError(absl::StrCat("no ", num_bytes, " bytes"));
    const std::vector<uint8_t> values = OperandValues(dtype_, tensor.count, ++seed_);
    if (const char* const error = device_.CopyFromHost(tensor.data, values.data(), num_bytes); error != nullptr)
      return absl::InternalError(error);
    return tensor;
  }

  DeviceContext& device_;
  DType dtype_;
  Which which_;
  std::vector<int64_t> dims_, start_;
  uint64_t seed_ = 0;
};

absl::StatusOr<double> FlopsPerSecond(DeviceContext& device, DType dtype, double otherwise, Which which) {
  const int64_t side = which == Which::kMedian ? kSide : kSideOfSingles;
  KernelBench bench(device, dtype, {side, side}, which);
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

// A pair of connected sockets on the loopback device.
absl::StatusOr<std::pair<int, int>> LoopbackSockets() {
  const auto failed = [](const char* what) {
    return absl::UnavailableError(absl::StrCat("loopback socket: ", what, ": ", std::strerror(errno)));
  };
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  if (listener < 0 || bind(listener, any, size) != 0 || listen(listener, 1) != 0) return failed("listen");
  if (getsockname(listener, any, &size) != 0) return failed("getsockname");
  const int here = socket(AF_INET, SOCK_STREAM, 0);
  if (here < 0 || connect(here, any, size) != 0) return failed("connect");
  const int there = accept(listener, nullptr, nullptr);
  close(listener);
  if (there < 0) return failed("accept");
  const int on = 1;
  for (const int end : {here, there}) setsockopt(end, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  return std::pair(here, there);
}

absl::StatusOr<double> RoundTripOverLoopback() {
  OF_ASSIGN_OR_RETURN(const auto ends, LoopbackSockets());
  const auto [here, there] = ends;
  std::thread echo([end = there] {
    char message[64];
    while (read(end, message, sizeof(message)) > 0 && write(end, message, sizeof(message)) > 0) {
    }
  });
  bool broken = false;
  char message[64] = {};
  const double seconds = TimeOf([&, end = here] {
    broken |= write(end, message, sizeof(message)) != sizeof(message) || read(end, message, sizeof(message)) <= 0;
  });
  shutdown(here, SHUT_RDWR);
  echo.join();
  close(here);
  close(there);
  if (broken) return absl::UnavailableError("loopback socket: the connection broke");
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
  OF_ASSIGN_OR_RETURN(const double on_host, RoundTripOverLoopback());
  speeds.act_s = in_process;
  speeds.same_process = {in_process / 2, 1 / rate};
  speeds.same_host = {on_host / 2, 1 / rate};
  return absl::OkStatus();
}

absl::StatusOr<DeviceSpeeds> MeasureKernelRates(DeviceContext& device, DeviceKind kind, Which which) {
  device.BindThread();
  DeviceSpeeds speeds = UsualDevice(kind);
  OF_ASSIGN_OR_RETURN(speeds.f32_flops, FlopsPerSecond(device, DType::kFloat32, 0, which));
  OF_ASSIGN_OR_RETURN(speeds.bf16_flops, FlopsPerSecond(device, DType::kBFloat16, speeds.f32_flops, which));
  OF_ASSIGN_OR_RETURN(speeds.f16_flops, FlopsPerSecond(device, DType::kFloat16, speeds.f32_flops, which));
  OF_ASSIGN_OR_RETURN(const double seconds, KernelBench(device, DType::kFloat32, {kElements}, which).Run("relu", 1));
  speeds.memory_bytes_per_s = 2.0 * sizeof(float) * kElements / seconds;
  return speeds;
}

}  // namespace

absl::StatusOr<DeviceSpeeds> PeakRates(int cores) {
  return MeasureKernelRates(*MakeCpuDevice(cores), DeviceKind::kCpu, Which::kShortest);
}

void KeepFaster(const DeviceSpeeds& one, DeviceSpeeds& best) {
  best.f32_flops = std::max(best.f32_flops, one.f32_flops);
  best.bf16_flops = std::max(best.bf16_flops, one.bf16_flops);
  best.f16_flops = std::max(best.f16_flops, one.f16_flops);
  best.memory_bytes_per_s = std::max(best.memory_bytes_per_s, one.memory_bytes_per_s);
}

absl::StatusOr<DeviceSpeeds> MeasureDevice(DeviceKind kind, int cores) {
  std::string why = "no memory";
  const std::unique_ptr<DeviceContext> device =
      kind == DeviceKind::kCpu ? MakeCpuDevice(cores) : MakeCudaDevice(0, &why);
  if (device == nullptr) return absl::UnavailableError(absl::StrCat("cuda:0: ", why));
  OF_ASSIGN_OR_RETURN(DeviceSpeeds speeds, MeasureKernelRates(*device, kind, Which::kMedian));
  if (kind == DeviceKind::kCpu) OF_RETURN_IF_ERROR(MeasureLinks(speeds));
  return speeds;
}

absl::Status BenchDeviceCommand(const BenchDeviceArguments& arguments) {
  if (arguments.device != "cpu" && arguments.device != "cuda")
    return absl::InvalidArgumentError(absl::StrCat("device '", arguments.device, "' is neither 'cpu' nor 'cuda'"));
  if (arguments.cores < 1)
    return absl::InvalidArgumentError(absl::StrCat(arguments.cores, " cores: at least 1 is needed"));
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
