#include "tools/bench/eager_op.h"

#include <fstream>

#include "absl/strings/str_cat.h"
#include "tools/bench/pytorch_case.h"
#include "tools/control/process/log_tail.h"

namespace oneflow {
namespace {

// Prints nanoseconds, then the version. Exit code 3: there is no PyTorch.
constexpr char kProgram[] = R"(
import sys, time
try:
    import torch
except ImportError:
    sys.exit(3)
torch.set_num_threads(1)
a, b = torch.rand(16), torch.rand(16)
runs = []
for _ in range(7):
    begin = time.perf_counter()
    for _ in range(50000):
        a + b
    runs.append((time.perf_counter() - begin) / 50000)
with open(sys.argv[1], "w") as out:
    print(1e9 * sorted(runs)[3], torch.__version__, file=out)
)";

}  // namespace

absl::StatusOr<EagerOp> MeasureEagerOp(const std::string& python, const std::string& dir,
                                       const std::atomic<bool>& stop) {
  const std::string answer = dir + "/eager_op", log = dir + "/eager_op.log";
  OF_ASSIGN_OR_RETURN_AT(const int code, RunPython(python, {"-c", kProgram, answer}, log, stop), "PyTorch");
  if (code == kNoPyTorch) return absl::UnavailableError(absl::StrCat("'", python, "' has no PyTorch"));
  EagerOp op;
  std::string version;
  std::ifstream(answer) >> op.ns >> version;
  if (code != 0 || op.ns <= 0) {
    return absl::InternalError(absl::StrCat("PyTorch: '", python, "' ended with code ", code, "; it wrote:\n",
                                            LastLines(ReadTail(log, 4 << 10), 10)));
  }
  op.title = absl::StrCat("PyTorch ", version);
  return op;
}

}  // namespace oneflow
