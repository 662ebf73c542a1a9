#include "kernels/cuda/product_algorithms.h"

#include <cuda_runtime.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <sstream>

namespace oneflow::cuda {
namespace {

constexpr const char* kFirstLine = "oneflow products 1";

// FNV-1a: finds what was cut or changed by accident.
uint32_t Check(const std::string& text) {
  uint32_t hash = 0x811c9dc5;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x01000193;
  return hash;
}

std::string Row(const std::string& product, const cublasLtMatmulAlgo_t& algorithm) {
  std::string row = product + " =";
  char number[32];
  for (const uint64_t word : algorithm.data) {
    std::snprintf(number, sizeof number, " %" PRIx64, word);
    row += number;
  }
  std::snprintf(number, sizeof number, " check %08" PRIx32, Check(row));
  return row + number;
}

// False if `row` is not one that Row() has written.
bool ParseRow(const std::string& row, std::string* product, cublasLtMatmulAlgo_t* algorithm) {
  const size_t equals = row.find(" =");
  if (equals == std::string::npos) return false;
  *product = row.substr(0, equals);
  std::istringstream words(row.substr(equals + 2));
  for (uint64_t& word : algorithm->data) {
    if (!(words >> std::hex >> word)) return false;
  }
  return Row(*product, *algorithm) == row;
}

// A file that others may open too, held alone until the end of the scope.
class HeldFile {
 public:
  explicit HeldFile(const std::string& path, int flags) : file_(open(path.c_str(), flags | O_CLOEXEC, 0644)) {
    if (file_ >= 0) flock(file_, LOCK_EX);
  }
  HeldFile(const HeldFile&) = delete;
  ~HeldFile() {
    if (file_ >= 0) close(file_);
  }
  bool ok() const { return file_ >= 0; }

  // False, with errno, if it cannot be read.
  bool Read(std::string* text) const {
    char piece[4096];
    ssize_t got = 0;
    while ((got = read(file_, piece, sizeof piece)) > 0) text->append(piece, static_cast<size_t>(got));
    return got == 0;
  }
  bool Append(const std::string& text) const {
    const ssize_t written = write(file_, text.data(), text.size());
    if (written >= 0 && static_cast<size_t>(written) < text.size()) errno = ENOSPC;
    return written == static_cast<ssize_t>(text.size());
  }

 private:
  const int file_;
};

}  // namespace

ProductAlgorithms& ProductAlgorithms::OfProcess() {
  static ProductAlgorithms* const algorithms = [] {
    const char* const file = std::getenv("ONEFLOW_CUDA_PRODUCTS");
    if (file == nullptr || *file == '\0') return new ProductAlgorithms();
    const char* const measure = std::getenv("ONEFLOW_CUDA_MEASURE");
    auto* const read = new ProductAlgorithms(file, Where(), measure != nullptr && std::string(measure) == "1");
    if (!read->error().empty()) {
      std::fprintf(stderr, "ONEFLOW_CUDA_PRODUCTS: '%s': %s; it is not used\n", file, read->error().c_str());
    }
    return read;
  }();
  return *algorithms;
}

std::string ProductAlgorithms::Where() {
  int device = 0, driver = 0;
  cudaDeviceProp properties = {};
  cudaGetDevice(&device);
  cudaGetDeviceProperties(&properties, device);
  cudaDriverGetVersion(&driver);
  std::ostringstream where;
  where << "gpu " << properties.name << ", cublaslt " << cublasLtGetVersion() << ", driver " << driver;
  return where.str();
}

ProductAlgorithms::ProductAlgorithms(std::string file, const std::string& where, bool measure)
    : file_(std::move(file)), measures_(measure) {
  Read(where);
  if (error_.empty()) return;
  measures_ = false;
  algorithms_.clear();
}

void ProductAlgorithms::Read(const std::string& where) {
  const HeldFile file(file_, measures_ ? O_RDWR | O_APPEND | O_CREAT : O_RDONLY);
  std::string text;
  if (!file.ok() || !file.Read(&text)) {
    error_ = std::strerror(errno);
  } else if (text.empty() && measures_) {
    if (!file.Append(std::string(kFirstLine) + "\n" + where + "\n")) error_ = std::strerror(errno);
  } else {
    error_ = Parse(text, where);
  }
}

std::string ProductAlgorithms::Parse(const std::string& text, const std::string& where) {
  std::istringstream lines(text);
  std::string line, product;
  if (!std::getline(lines, line) || line != kFirstLine) return "line 1 is not '" + std::string(kFirstLine) + "'";
  if (!std::getline(lines, line) || line != where) {
    return "it is for '" + line + "', but here is '" + where + "': measure again, into another file";
  }
  for (int number = 3; std::getline(lines, line); ++number) {
    cublasLtMatmulAlgo_t algorithm = {};
    if (lines.eof() || !ParseRow(line, &product, &algorithm)) {
      return "line " + std::to_string(number) + " is damaged: remove it, or measure again";
    }
    algorithms_.emplace(product, algorithm);
  }
  return "";
}

std::optional<cublasLtMatmulAlgo_t> ProductAlgorithms::Find(const std::string& product) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = algorithms_.find(product);
  return found == algorithms_.end() ? std::nullopt : std::optional(found->second);
}

void ProductAlgorithms::Add(const std::string& product, const cublasLtMatmulAlgo_t& algorithm) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!algorithms_.emplace(product, algorithm).second) return;
  const HeldFile file(file_, O_WRONLY | O_APPEND);
  if (file.ok() && file.Append(Row(product, algorithm) + "\n")) return;
  std::fprintf(stderr, "ONEFLOW_CUDA_PRODUCTS: '%s': %s; '%s' is not in it\n", file_.c_str(), std::strerror(errno),
               product.c_str());
}

}  // namespace oneflow::cuda
