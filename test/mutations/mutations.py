"""Bugs to put into the engine's CUDA half, one at a time: each must make a test fail on software devices and name the
place.

A mutation replaces `text`, which occurs once in `file`, by `by`, and compiles `unit` (a header's user, else the file
itself) with it. `tests` is the gtest filter of what must fail in `program`, `says` a regular expression that its output
must match; where a bug lets a test wait for ever, the output ends with the name of that test. `op` is the only one
whose conformance is looked at.
"""

from typing import NamedTuple


class Mutation(NamedTuple):
    name: str
    file: str
    text: str
    by: str
    tests: str
    says: str
    program: str = "kernels_software_cuda_test"
    unit: str = ""
    op: str = ""


JOBS = "cuda_jobs_software_cuda_test"
COMMAND = "oneflow_on_software_cuda"  # which JOBS runs
CONFORMANCE = "*KernelsAgreeWithTheReference/cuda"
PATHS = "*PathsTest*/cuda"

KERNELS = [
    Mutation("no barrier before a tile is read", "kernels/cuda/copy_region.cu",
             "    __syncthreads();\n    for (int row = y; row < kTile; row += kTileRows) {\n      const int64_t i = "
             "inner_first + x",
             "    for (int row = y; row < kTile; row += kTileRows) {\n      const int64_t i = inner_first + x",
             CONFORMANCE, r"TransposeKernel.*reads .* of shared memory", op="transpose"),
    Mutation("no barrier before a tile is written again", "kernels/cuda/attention.cu",
             "    __syncthreads();  // the values of the last tile are used up\n", "",
             PATHS, r"ForwardKernel.*no barrier between"),
    Mutation("no barrier behind the numbers that one thread computes", "kernels/cuda/optimizer.cu",
             "  __syncthreads();\n  const float scale", "  const float scale", CONFORMANCE,
             r"AdamwKernel.*of shared memory that", op="adamw_update"),
    Mutation("a tensor's run that is taken for another one's", "kernels/cuda/optimizer.cu",
             "(at == 0 ? 0 : batch.end[at - 1])", "0", "*ManyCalls*/cuda",
             r"AdamwKernel|FAILED.*ManyCallsTest.UpdatesAtOnce"),
    Mutation("updates of two steps in one launch", "kernels/cuda/optimizer.cu",
             "a.in[scalar].data != b.in[scalar].data", "a.in[scalar].count != b.in[scalar].count", "*ManyCalls*/cuda",
             r"FAILED.*ManyCallsTest.UpdatesAtOnce"),
    Mutation("a norm of one addend", "kernels/cuda/norm.cuh", "(b == nullptr ? x : sum) + i", "x + i", CONFORMANCE,
             r"add_rms_norm",
             unit="kernels/cuda/rms_norm.cu", op="add_rms_norm"),
    Mutation("a product that forgets earlier micro-batches", "kernels/cuda/matmul.cc", "adding.accumulate = true;",
             "adding.accumulate = false;",
             "*LaterMicroBatchesAreAdded/cuda", r"FAILED.*LaterMicroBatchesAreAdded", op="accumulate_matmul_wgrad"),
    Mutation("a step on the operand of another", "kernels/cuda/elementwise.cu", "slots[step.b][k])",
             "slots[step.a][k])", CONFORMANCE,
             r"elementwise\(", op="elementwise"),
    Mutation("a step whose value is not rounded", "kernels/cuda/elementwise.cu", "RoundedAs(step.dtype, ",
             "RoundedAs(DType::kFloat32, ",
             CONFORMANCE, r"elementwise\(", op="elementwise"),
    Mutation("a ReLU that backward takes for open", "kernels/cuda/batch_norm.cu", "<= 0.0f) return 0;",
             "< -1e9f) return 0;",
             CONFORMANCE, r"batch_norm_relu_dx", op="batch_norm_relu_dx"),
    Mutation("a block of rows that forgets those before it", "kernels/cuda/matmul_cross_entropy.cu",
             "dw.accumulate = true;", "dw.accumulate = false;",
             "*Paths*SeveralBlocks/cuda", r"FAILED.*AHeadMayHaveSeveralBlocks"),
    Mutation("classes behind the last 64 that get no gradient", "kernels/cuda/matmul_cross_entropy.cu",
             "make_dw(last_rows,", "make_dw(0,",
             "*Paths*SeveralBlocks/cuda", r"FAILED.*AHeadMayHaveSeveralBlocks"),
    Mutation("columns that a bias' gradient leaves out", "kernels/cuda/column_sums.cuh",
             "at < kSums * kStrip; at += kThreads", "at < kSums * kStrip - 1; at += kThreads", CONFORMANCE,
             r"bias_grad", unit="kernels/cuda/bias.cu", op="bias_grad"),
    Mutation("levels in the order of the bits", "kernels/cuda/codec.cu", "level << (used * j)",
             "level << (used * (7 - j))", CONFORMANCE, r"quantize\(", op="quantize"),
    Mutation("the slowest algorithm", "kernels/cuda/gemm.cc", "if (seconds < fastest) chosen = i;",
             "if (!(seconds < fastest)) chosen = i;",
             "ProductAlgorithmsTest.TheFastest*", r"FAILED.*ProductAlgorithmsTest.TheFastest", JOBS),
    Mutation("a file of another GPU", "kernels/cuda/product_algorithms.cc", "line != where", "line == where + where",
             "ProductAlgorithmsTest.WhatIsForeign*", r"FAILED.*ProductAlgorithmsTest.WhatIsForeign", JOBS),
    Mutation("a row that nobody checks", "kernels/cuda/product_algorithms.cc",
             "return Row(*product, *algorithm) == row;", "return true;",
             "ProductAlgorithmsTest.WhatIsForeign*", r"FAILED.*ProductAlgorithmsTest.WhatIsForeign", JOBS),
    Mutation("updates that are joined with none", "actor/executor.cc", "c_.profile ? EachAlone", "true ? EachAlone",
             "JoinedTest.*", r"FAILED.*JoinedTest.AStepUpdates", JOBS),
    Mutation("no barrier before a list is read", "kernels/cuda/own_rows.cuh",
             "    __syncthreads();\n    return count;", "    return count;", PATHS,
             r"GradKernel.*of shared memory", unit="kernels/cuda/embedding.cu"),
    Mutation("no barrier behind each thread's largest", "kernels/cuda/generation.cu",
             "  of_thread[threadIdx.x] = best;\n  __syncthreads();\n", "  of_thread[threadIdx.x] = best;\n",
             CONFORMANCE, r"SampleKernel.*of shared memory that", op="sample_token"),
    Mutation("a barrier that only some come to", "kernels/cuda/optimizer.cu",
             "  __syncthreads();\n  const float scale",
             "  if (threadIdx.x > 200) return;\n  __syncthreads();\n  const float scale",
             CONFORMANCE, r"AdamwKernel.*a meeting that not all come to", op="adamw_update"),
    Mutation("one element too many", "kernels/cuda/cast.cu", "i < n; i += IndexStride()) y[i] = Narrow",
             "i <= n; i += IndexStride()) y[i] = Narrow", CONFORMANCE, r"CastKernel|cast", op="cast"),
    Mutation("a grid of one block too few", "kernels/cuda/cast.cu", "Blocks(x.count)", "Blocks(x.count) - 1",
             CONFORMANCE,
             r"cast.*invalid configuration argument|cast\(", op="cast"),
    Mutation("too little shared memory", "kernels/cuda/attention.cu", "AllowSharedMemory<kKernel>(",
             "AllowSharedMemory<kKernel>(0 * ", CONFORMANCE + ":" + PATHS, r"attention", op="attention"),
    Mutation("scores that the library does not scale", "kernels/cuda/attention.cu", ".scale = s.scale}", ".scale = 1}",
             CONFORMANCE, r"attention", op="attention"),
    Mutation("a row that is left out", "kernels/cuda/softmax.cu",
             "  for (int64_t row = team.first(); row < rows; row += team.stride()) {\n    const T* const x",
             "  for (int64_t row = team.first(); row + 1 < rows; row += team.stride()) {\n    const T* const x",
             CONFORMANCE, r"softmax", op="softmax"),
    Mutation("a lane that does not come", "kernels/cuda/softmax.cu", "    top = Reduce<kTeam>(top, MaxOf());",
             "    if (team.member() < c) top = Reduce<kTeam>(top, MaxOf());", CONFORMANCE,
             r"SoftmaxKernel.*a meeting that not all come to", op="softmax"),
    Mutation("rows packed where those of the group before are", "kernels/cuda/copy_rows.cu", "    packed += rows;\n",
             "",
             "*CopyRowsTest*/cuda", r"FAILED.*CopyRowsTest"),
    Mutation("a host's pointer given to a kernel", "kernels/cuda/embedding.cu",
             "  const int32_t* const ids = args.in[1].as<const int32_t>();\n  To* const y",
             "  const int32_t* const ids = reinterpret_cast<const int32_t*>(args.in[1].dims);\n  To* const y",
             CONFORMANCE,
             r"reads 4 bytes of the host's memory", op="embedding"),
    Mutation("a skipped step that changes weights", "kernels/cuda/optimizer.cu",
             "  if (isnan(scale)) return;  // skipped\n  const auto", "  const auto",
             CONFORMANCE, r"adamw_update", op="adamw_update"),
    Mutation("a convolution whose algorithm rounds in between", "kernels/cuda/conv2d.cc",
             "return Op::MultipliesOperands(perf.algo);", "return true;",
             CONFORMANCE, r"conv2d", op="conv2d"),
    Mutation("a product that is chosen for more than rows are aligned to", "kernels/cuda/matmul.cc",
             "    p.alignment = std::gcd(", "    std::gcd(",
             "*PathsTest.OperandsMay*/cuda", r"matmul \(between rows\)"),
    Mutation("four at once where operands begin between four", "kernels/cuda/launch.cuh",
             "  return aligned ? n / 4 : 0;",
             "  return aligned || n > 0 ? n / 4 : 0;", "*PathsTest.OperandsMay*/cuda", r"at an address that is",
             unit="kernels/cuda/unary.cu"),
    Mutation("a product on the wrong stream", "kernels/cuda/gemm.cc", "kLibraryBytes, stream);",
             "kLibraryBytes, stream == nullptr ? stream : nullptr);",
             "CudaLayoutsTest.LayersNarrower*:CudaLayoutsTest.AGpt*", r"FAILED.*CudaLayoutsTest", JOBS),
]

DEVICES = [
    Mutation("a kernel does not wait for what is read", "kernels/cuda/host_transfer.cc",
             "cudaStreamWaitEvent(compute, slot_read_[slot], 0)", "cudaSuccess", "*HostTransfer*/cuda",
             r"NoValueIsOvertakenByTheNext/cuda"),
    Mutation("a slot is written again while it is read", "kernels/cuda/host_transfer.cc",
             "return ErrorText(cudaEventSynchronize(slot_read_[slot]));", "return slot < 0 ? \"\" : nullptr;",
             "*HostTransfer*/cuda", r"FAILED.*NoSlotIsWrittenWhileItIsRead/cuda"),
    Mutation("a value is fetched before it is there", "kernels/cuda/host_transfer.cc",
             "cudaStreamWaitEvent(bus, filled_, 0)",
             "cudaSuccess", "*HostTransfer*/cuda", r"NoValueIsOvertakenByTheNext/cuda"),
    Mutation("a buffer that was freed", "kernels/cuda/device.cc", "    areas_.push_back(data);\n",
             "    areas_.push_back(data);\n    cudaFree(data);\n", CONFORMANCE, r"Kernel.*free|no device memory",
             op="relu"),
    Mutation("a thread that is bound to no device", "kernels/cuda/device.cc",
             "return ErrorText(cudaSetDevice(index_));",
             "return nullptr;", "CudaLayoutsTest.LayersNarrower*", r"rank [12] \(cuda:[12]\).*resource handle", JOBS),
    Mutation("an event whose error is not asked for", "kernels/cuda/runtime.h",
             "const char* const error = ErrorText(cudaEventSynchronize(Get(number)));",
             "const char* const error = (cudaEventSynchronize(Get(number)), nullptr);", "DeviceFaultsTest.Whatever*",
             r"FAILED.*DeviceFaultsTest.WhateverWorkFails", JOBS, unit="kernels/cuda/device.cc"),
]

RUNTIME = [
    Mutation("a launch whose error is ignored", "actor/instruction/compute.cc", "return Checked(kernel_->run(args));",
             "kernel_->run(args);\n    return absl::OkStatus();", "EngineTest.*", r"told to fail", "actor_test"),
    Mutation("an error of the device that is taken for its end", "actor/stream_follower.cc",
             "place.then(device_.WaitEvent(place.event));", "device_.WaitEvent(place.event);\n    place.then(nullptr);",
             # which waits for it
             "ActorThreadTest.*", r"RUN.*ActorThreadTest.AnErrorOfTheDeviceEndsTheRun", "actor_test"),
    Mutation("a run that is over before its device is", "actor/actor_thread.cc", "  return followed_.load() == 0;",
             "  return true;", "ActorThreadTest.*", r"FAILED.*ActorThreadTest.IsDoneWhenItsDeviceIs", "actor_test"),
    Mutation("messages that do not wait for the device", "actor/actor_thread.cc",
             "  if (followers_.empty()) {\n    if (!others",
             "  if (true) {\n    if (!others", "ActorThreadTest.*", r"FAILED.*HoldsMessagesToOtherRanks", "actor_test"),
    Mutation("a stream that does not wait for another", "actor/actor_thread.cc",
             "    if (error == nullptr) error = c_.lanes[entry.lane].device.WaitBehind(other, x.event);\n", "",
             "ActorThreadTest.*", r"FAILED.*ActsOnOtherStreamsAreLaunchedBehind", "actor_test"),
    Mutation("collectives that are not aborted", "actor/engine/running.cc",
             "  if (options_.collectives != nullptr) options_.collectives->Abort();\n", "",
             "DeviceFaultsTest.ADeviceThatFails*",
             r"DeviceFaultsTest.ADeviceThatFailsEndsTheRun", JOBS),
]

COLLECTIVES = [
    Mutation("collectives in another order on one rank", "actor/actor_thread.cc",
             "      orders[lane_of[order.queue()]].assign(order.actors().begin(), order.actors().end());",
             "      if (c_.rank == 1) {\n        orders[lane_of[order.queue()]].assign(order.actors().rbegin(), "
             "order.actors().rend());\n      } else {\n"
             "        orders[lane_of[order.queue()]].assign(order.actors().begin(), order.actors().end());\n      }",
             "CudaLayoutsTest.AGpt*", r"rank \d of \d, call \d|RUN.*CudaLayoutsTest.AGpt", JOBS),
    Mutation("a rank that skips a collective", "actor/instruction/collective.cc",
             "  absl::Status Run(const CurrentAct&) override {\n",
             "  absl::Status Run(const CurrentAct& act) override {\n    if (call_.rank == 1 && act.step == 1) return "
             "absl::OkStatus();\n",
             "CudaLayoutsTest.ClassesMayBeSplit*", r"rank \d of \d, call \d|RUN.*CudaLayoutsTest.Classes", JOBS),
    Mutation("counts that are read before they are there", "actor/instruction/counts_on_host.cc",
             "  if (event_ >= 0) OF_RETURN_IF_ERROR(Checked(device_.WaitEvent(std::exchange(event_, -1))));\n", "",
             "CudaRaggedTest.*", r"FAILED.*CudaRaggedTest|RUN.*CudaRaggedTest", JOBS),
    Mutation("counts that do not follow what writes them", "actor/executor.cc", "for (; launched <= i; ++launched) {",
             "for (; false; ++launched) {",
             "CudaRaggedTest.CountsMay*", r"FAILED.*CudaRaggedTest.CountsMayDiffer", JOBS),
    Mutation("rows that are computed though they are not filled", "actor/instruction/ragged_call.cc",
             "const int64_t filled = rows.Filled(counts.as<const int32_t>()[g]);", "const int64_t filled = rows.rows;",
             "RaggedCostTest.*", r"FAILED.*RaggedCostTest.RowsThatAreNotFilledCostNothing", JOBS),
    Mutation("a sum that is a maximum", "actor/collective/nccl_collectives.cc",
             "reduction == Reduction::kSum ? ncclSum",
             "reduction == Reduction::kSum ? ncclMax", "CudaLayoutsTest.AGpt*",
             r"FAILED.*CudaLayoutsTest.AGpt", JOBS),
    Mutation("a share that is taken for the whole", "actor/collective/nccl_collectives.cc",
             "return ncclReduceScatter(call.in.data, call.out.data, out,",
             "return ncclReduceScatter(call.in.data, call.out.data, std::max(in, out),",
             "CudaLayoutsTest.AGpt*", r"FAILED.*CudaLayoutsTest.AGpt", JOBS),
    Mutation("peers that are waited for without end", "actor/collective/nccl_collectives.cc",
             "if (now - last > absl::ToChronoMilliseconds(timeout)) return", "if (now < last) return",
             "CommunicatorFaultsTest.Peers*",
             r"CommunicatorFaultsTest.PeersThatDoNotCome", JOBS),
    Mutation("a peer's death that nobody asks about", "actor/collective/nccl_collectives.cc",
             "if (state != ncclSuccess && state != ncclInProgress) return", "if (state < 0) return",
             "CommunicatorFaultsTest.APeer*", r"FAILED.*CommunicatorFaultsTest.APeerThatDiesIsSeen", JOBS),
    Mutation("a stream that is not let go", "actor/collective/nccl_collectives.cc",
             "if (comm != nullptr) ncclCommAbort(comm);", "(void)comm;",
             "CommunicatorFaultsTest.Abort*", r"CommunicatorFaultsTest.AbortFreesADevice", JOBS),
    Mutation("a device counted by the host, not by the process", "actor/local_device.cc",
             ".index = static_cast<int>(before.size())}", ".index = own.index}", "CudaProcessesTest.AConvNet*",
             r"rank [12](: | \()cuda:[12]", COMMAND),
]

MUTATIONS = KERNELS + DEVICES + RUNTIME + COLLECTIVES
