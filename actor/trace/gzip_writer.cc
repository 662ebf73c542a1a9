#include "actor/trace/gzip_writer.h"

#include <cerrno>
#include <cstring>

namespace oneflow {
namespace {

// Of zlib's levels the quickest, which makes a trace a tenth of its size; and none.
constexpr char kQuickest[] = "wb1";
constexpr char kPlain[] = "wbT";
constexpr unsigned kBuffer = 1 << 20;

}  // namespace

absl::StatusOr<GzipWriter> GzipWriter::Create(const std::string& path, bool compressed) {
  GzipWriter writer(path);
  writer.file_.reset(gzopen(path.c_str(), compressed ? kQuickest : kPlain));
  if (writer.file_ == nullptr) {
    return absl::UnavailableError(absl::StrCat("'", path, "': cannot write: ", std::strerror(errno)));
  }
  gzbuffer(writer.file_.get(), kBuffer);
  return writer;
}

void GzipWriter::Write(absl::string_view text) {
  if (text.empty()) return;  // zlib answers 0 to that as to an error
  failed_ = failed_ || gzwrite(file_.get(), text.data(), static_cast<unsigned>(text.size())) == 0;
}

absl::Status GzipWriter::Close() {
  const bool closed = gzclose(file_.release()) == Z_OK;
  if (closed && !failed_) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("'", path_, "': cannot write: ", std::strerror(errno)));
}

}  // namespace oneflow
