#include "actor/data/csv_rows.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/types/span.h"

namespace oneflow {
namespace {

constexpr int64_t kPieceBytes = int64_t{1} << 20;    // of the file at a time, while it is opened
constexpr int64_t kMostRowBytes = int64_t{1} << 26;  // a quote that does not end would have the whole file in memory

// The text in the quotes that open at row[at]; then `at` is behind those that close them. False: none do.
bool TakeQuoted(absl::string_view row, size_t& at, std::string& text) {
  for (++at; at < row.size(); ++at) {
    if (row[at] != '"') {
      text += row[at];
    } else if (at + 1 < row.size() && row[at + 1] == '"') {
      text += row[at++];
    } else {
      ++at;
      return true;
    }
  }
  return false;
}

// How long the row is that begins at bytes[0], with its line end. 0: it does not end in these bytes.
size_t RowLength(absl::string_view bytes) {
  bool quoted = false;
  for (size_t i = 0; i < bytes.size(); ++i) {
    quoted ^= bytes[i] == '"';
    if (bytes[i] == '\n' && !quoted) return i + 1;
  }
  return 0;
}

absl::string_view WithoutLineEnd(absl::string_view row) {
  absl::ConsumeSuffix(&row, "\n");
  absl::ConsumeSuffix(&row, "\r");
  return row;
}

}  // namespace

std::optional<CsvFault> SplitRow(absl::string_view row, char separator, std::vector<CsvField>& fields) {
  fields.clear();
  for (size_t at = 0;; ++at) {
    CsvField& field = fields.emplace_back();
    field.at = at;
    if (at < row.size() && row[at] == '"') {
      if (!TakeQuoted(row, at, field.text)) return CsvFault{field.at, "a quoted field does not end"};
      if (at < row.size() && row[at] != separator) return CsvFault{at, "something follows a quoted field"};
    }
    for (; at < row.size() && row[at] != separator; ++at) {
      if (row[at] == '"') return CsvFault{at, "a quote in a field that does not begin with one"};
      field.text += row[at];
    }
    if (at == row.size()) return std::nullopt;
  }
}

std::string CsvWhere(const std::string& path, int64_t line, absl::string_view row, size_t at) {
  const absl::string_view before = row.substr(0, at);
  const size_t line_begin = before.rfind('\n') == absl::string_view::npos ? 0 : before.rfind('\n') + 1;
  return absl::StrCat(DataFileWhere(path), ":", line + std::count(before.begin(), before.end(), '\n'), ":",
                      at - line_begin + 1);
}

absl::Status ForEachRow(const DataFile& file,
                        absl::FunctionRef<absl::Status(absl::string_view row, int64_t offset, int64_t line)> visit) {
  std::string bytes;  // read, and not yet visited
  int64_t offset = 0, read = 0, line = 1;
  const auto take = [&](absl::string_view with_end) -> absl::Status {
    const absl::string_view row = WithoutLineEnd(with_end);
    if (!row.empty()) OF_RETURN_IF_ERROR(visit(row, offset, line));
    line += std::count(with_end.begin(), with_end.end(), '\n');
    offset += static_cast<int64_t>(with_end.size());
    return absl::OkStatus();
  };
  while (read < file.size()) {
    std::vector<uint8_t> piece(std::min(kPieceBytes, file.size() - read));
    OF_RETURN_IF_ERROR(file.ReadAt(read, absl::MakeSpan(piece)));
    read += static_cast<int64_t>(piece.size());
    bytes.append(piece.begin(), piece.end());
    const absl::string_view all = bytes;
    size_t done = 0;
    for (size_t length; (length = RowLength(all.substr(done))) > 0; done += length) {
      OF_RETURN_IF_ERROR(take(all.substr(done, length)));
    }
    bytes.erase(0, done);
    if (static_cast<int64_t>(bytes.size()) > kMostRowBytes) {
      return absl::InvalidArgumentError(absl::StrCat(CsvWhere(file.path(), line, bytes, 0), ": a row of more than ",
                                                     kMostRowBytes, " bytes; does a quoted field not end?"));
    }
  }
  return bytes.empty() ? absl::OkStatus() : take(bytes);  // the last line may have no end
}

}  // namespace oneflow
