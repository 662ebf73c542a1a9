// A CSV file (RFC 4180) as a data set: its first line names the columns, every other one is a sample. Columns are
// chosen by name, whatever their order in the file.
//
//   age,"income, EUR",default        features: "income, EUR", age     label: default
//   31,52000.5,0                     ──►  f32 [52000.5, 31]            i32 0
//   "27",48000,1
//
// Fields may be in quotes, which may hold separators, line ends and quotes ("" is one). Lines end with "\n" or "\r\n";
// empty ones are skipped. Numbers are decimal and finite; there are no missing values. Errors name line, column (both
// from 1, columns in bytes) and the text that is wrong.
//
// Opening reads the file once: it checks every value that will be read and keeps where every row is (16 bytes for
// each). A sample is then read from its own range, so that the file may be larger than memory, and several processes
// share the system's cache of it. Gzip files are inflated into memory, as all data files are (data_file.h).
//
// Attributes: path, features (JoinTexts() of names of columns), label or target (a name), separator, split, seed;
// optionally validation_fraction, of the last rows (else all rows are of either split), and classes (labels at or above
// it are refused). Training samples come in a new permutation every epoch, validation samples in order.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "actor/data/data_file.h"
#include "actor/data/permutation.h"
#include "actor/data/sample_range.h"
#include "actor/data/source.h"
#include "kernels/random.h"
#include "oneflow_core/text_list.h"

namespace oneflow {
namespace {

constexpr int64_t kPieceBytes = int64_t{1} << 20;    // of the file at a time, while it is opened
constexpr int64_t kMostRowBytes = int64_t{1} << 26;  // a quote that does not end would have the whole file in memory

// A field of a row, without its quotes.
struct CsvField {
  std::string text;
  size_t at = 0;  // where it begins in the row, its quote included
};

// What is wrong with a row, at a byte of it.
struct CsvFault {
  size_t at = 0;
  std::string what;
};

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

// The fields of a row without its line end. A fault if there is a quote where none may be.
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

// "data file 'x.csv':7:12": the byte `at` of a row whose first line has the number `line`.
std::string CsvWhere(const std::string& path, int64_t line, absl::string_view row, size_t at) {
  const absl::string_view before = row.substr(0, at);
  const size_t line_begin = before.rfind('\n') == absl::string_view::npos ? 0 : before.rfind('\n') + 1;
  return absl::StrCat(DataFileWhere(path), ":", line + std::count(before.begin(), before.end(), '\n'), ":",
                      at - line_begin + 1);
}

// Calls visit(row, its offset, the number of its first line) for every row, the header too, but not for empty ones.
template <typename Visit>
absl::Status ForEachRow(const DataFile& file, const Visit& visit) {
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

// The columns that are read: places in a row.
struct CsvColumns {
  std::vector<std::string> names;  // of all columns
  std::vector<size_t> features;
  size_t wanted = 0;     // label or target
  bool is_label = true;  // a class, else a number
  int64_t classes = 0;   // labels are below
  char separator = ',';
};

// The number of a field. A fault that says what it is instead.
std::optional<CsvFault> TakeNumber(const CsvField& field, const std::string& column, float& number) {
  const absl::string_view text = absl::StripAsciiWhitespace(field.text);
  if (!text.empty() && absl::SimpleAtof(text, &number) && std::isfinite(number)) return std::nullopt;
  return CsvFault{field.at, absl::StrCat("column '", column, "' is '", field.text, "', which is no finite number")};
}

std::optional<CsvFault> TakeLabel(const CsvField& field, const std::string& column, int64_t classes, int32_t& label) {
  const auto fault = [&](absl::string_view what) {
    return CsvFault{field.at, absl::StrCat("column '", column, "' is '", field.text, "', which is ", what)};
  };
  if (!absl::SimpleAtoi(absl::StripAsciiWhitespace(field.text), &label)) return fault("no integer");
  if (label < 0) return fault("negative");
  if (label >= classes) return fault(absl::StrCat("outside the ", classes, " classes from 0"));
  return std::nullopt;
}

// What a row says.
struct CsvSample {
  std::vector<float> features;
  int32_t label = 0;
  float target = 0;
};

std::optional<CsvFault> TakeSample(absl::string_view row, const CsvColumns& columns, std::vector<CsvField>& fields,
                                   CsvSample& sample) {
  if (std::optional<CsvFault> fault = SplitRow(row, columns.separator, fields)) return fault;
  if (fields.size() != columns.names.size()) {
    return CsvFault{0, absl::StrCat("the row has ", fields.size(), fields.size() == 1 ? " field" : " fields",
                                    ", the first line names ", columns.names.size())};
  }
  sample.features.resize(columns.features.size());
  for (size_t i = 0; i < columns.features.size(); ++i) {
    const size_t at = columns.features[i];
    if (auto fault = TakeNumber(fields[at], columns.names[at], sample.features[i])) return fault;
  }
  const std::string& wanted = columns.names[columns.wanted];
  if (columns.is_label) return TakeLabel(fields[columns.wanted], wanted, columns.classes, sample.label);
  return TakeNumber(fields[columns.wanted], wanted, sample.target);
}

// Where the column of a name is. InvalidArgument if there is none, or several.
absl::StatusOr<size_t> FindColumn(const std::vector<std::string>& names, const std::string& name) {
  const int64_t count = std::count(names.begin(), names.end(), name);
  if (count == 1) return static_cast<size_t>(std::find(names.begin(), names.end(), name) - names.begin());
  return absl::InvalidArgumentError(absl::StrCat(count == 0 ? "no column" : "several columns", " '", name,
                                                 "'; there are '", absl::StrJoin(names, "', '"), "'"));
}

absl::StatusOr<CsvColumns> ColumnsOf(const AttrMap& attributes, absl::string_view header, char separator) {
  CsvColumns columns;
  columns.separator = separator;
  columns.is_label = !attributes.Has("target");
  columns.classes = attributes.Int("classes", int64_t{std::numeric_limits<int32_t>::max()});
  absl::ConsumePrefix(&header, "\xef\xbb\xbf");  // the byte order mark of UTF-8
  std::vector<CsvField> fields;
  if (const auto fault = SplitRow(header, separator, fields)) return absl::InvalidArgumentError(fault->what);
  for (CsvField& field : fields) columns.names.push_back(std::move(field.text));
  OF_ASSIGN_OR_RETURN(const std::vector<std::string> features, SplitTexts(attributes.String("features")));
  for (const std::string& name : features) {
    OF_ASSIGN_OR_RETURN(columns.features.emplace_back(), FindColumn(columns.names, name));
  }
  OF_ASSIGN_OR_RETURN(columns.wanted,
                      FindColumn(columns.names, attributes.String(columns.is_label ? "label" : "target")));
  return columns;
}

class CsvSource : public Source {
 public:
  CsvSource(DataFile file, CsvColumns columns, std::vector<std::pair<int64_t, int32_t>> rows, bool shuffled,
            uint64_t seed)
      : file_(std::move(file)),
        columns_(std::move(columns)),
        rows_(std::move(rows)),
        shuffled_(shuffled),
        seed_(seed) {}

  int64_t num_samples() const override { return static_cast<int64_t>(rows_.size()); }

  absl::Status Read(int64_t step, int64_t micro_batch, int64_t micro_batches, std::span<const TensorArg> outputs,
                    int64_t row_shift) override {
    const DType wanted = columns_.is_label ? DType::kInt32 : DType::kFloat32;
    if (outputs.size() != 2 || outputs[0].dtype != DType::kFloat32 || outputs[0].rank != 2 ||
        outputs[1].dtype != wanted || outputs[1].rank != 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("csv fills f32[batch,columns] and ", Name(wanted), "[batch] only"));
    }
    const TensorArg &x = outputs[0], &y = outputs[1];
    const auto width = static_cast<int64_t>(columns_.features.size());
    if (x.logical_dims[1] != width || x.dims[1] != width) {
      return absl::InvalidArgumentError(absl::StrCat("csv was opened with ", width,
                                                     " columns, and is split by samples "
                                                     "only, but the tensor has ",
                                                     x.dims[1], " of ", x.logical_dims[1]));
    }
    const int64_t first_x = FirstSample(step, micro_batch, micro_batches, x, row_shift);
    const int64_t first_y = FirstSample(step, micro_batch, micro_batches, y, row_shift);
    const bool together = first_x == first_y && x.dims[0] == y.dims[0];
    CsvSample sample;
    for (int64_t row = 0; row < x.dims[0]; ++row) {
      OF_RETURN_IF_ERROR(ReadSample(first_x + row, sample));
      std::copy(sample.features.begin(), sample.features.end(), x.as<float>() + row * width);
      if (together) Put(sample, row, y);
    }
    for (int64_t row = 0; !together && row < y.dims[0]; ++row) {
      OF_RETURN_IF_ERROR(ReadSample(first_y + row, sample));
      Put(sample, row, y);
    }
    return absl::OkStatus();
  }

 private:
  void Put(const CsvSample& sample, int64_t row, const TensorArg& y) const {
    if (columns_.is_label) {
      y.as<int32_t>()[row] = sample.label;
    } else {
      y.as<float>()[row] = sample.target;
    }
  }

  // The row of the sample at place `position` since the job began.
  size_t RowOf(int64_t position) const {
    const auto n = static_cast<uint64_t>(rows_.size()), at = static_cast<uint64_t>(position);
    return shuffled_ ? PermutedIndex(RandomKey(seed_, at / n), n, at % n) : at % n;
  }

  absl::Status ReadSample(int64_t position, CsvSample& sample) const {
    const auto [offset, length] = rows_[RowOf(position)];
    std::vector<uint8_t> bytes(length);
    OF_RETURN_IF_ERROR(file_.ReadAt(offset, absl::MakeSpan(bytes)));
    std::vector<CsvField> fields;
    const absl::string_view row(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    const std::optional<CsvFault> fault = TakeSample(row, columns_, fields, sample);
    if (!fault.has_value()) return absl::OkStatus();
    return absl::DataLossError(absl::StrCat(DataFileWhere(file_.path()), ": the row at byte ", offset,
                                            " has changed since the file was opened: ", fault->what));
  }

  const DataFile file_;
  const CsvColumns columns_;
  const std::vector<std::pair<int64_t, int32_t>> rows_;  // offset and bytes, without the line end
  const bool shuffled_;
  const uint64_t seed_;
};

// Leaves those of the split. InvalidArgument if there are none.
absl::Status KeepSplit(const AttrMap& attributes, bool train, const std::string& path,
                       std::vector<std::pair<int64_t, int32_t>>& rows) {
  const double fraction = attributes.Double("validation_fraction");
  if (!(fraction >= 0 && fraction < 1)) {
    return absl::InvalidArgumentError(absl::StrCat("validation_fraction ", fraction, " is not in [0, 1)"));
  }
  const size_t all = rows.size();
  if (attributes.Has("validation_fraction")) {
    const auto held_out = static_cast<int64_t>(std::floor(static_cast<double>(all) * fraction));
    const auto boundary = rows.end() - held_out;
    rows = train ? std::vector(rows.begin(), boundary) : std::vector(boundary, rows.end());
  }
  if (!rows.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(DataFileWhere(path), ": its part '", attributes.String("split"),
                                                 "' has none of its ", all, " rows"));
}

absl::StatusOr<std::unique_ptr<Source>> OpenCsvSource(const AttrMap& attributes) {
  OF_ASSIGN_OR_RETURN(DataFile file, DataFile::Open(attributes.String("path")));
  OF_ASSIGN_OR_RETURN(const bool train, IsTrainSplit(attributes));
  const std::string separator = attributes.String("separator", ",");
  if (separator.size() != 1 || separator == "\"" || separator == "\n" || separator == "\r") {
    return absl::InvalidArgumentError(absl::StrCat("csv: separator '", separator, "' is no single character"));
  }
  std::optional<CsvColumns> columns;
  std::vector<std::pair<int64_t, int32_t>> rows;
  std::vector<CsvField> fields;
  CsvSample sample;
  OF_RETURN_IF_ERROR(ForEachRow(file, [&](absl::string_view row, int64_t offset, int64_t line) -> absl::Status {
    if (!columns.has_value()) {
      OF_ASSIGN_OR_RETURN_AT(columns, ColumnsOf(attributes, row, separator[0]), CsvWhere(file.path(), line, row, 0));
      return absl::OkStatus();
    }
    rows.push_back({offset, static_cast<int32_t>(row.size())});
    const std::optional<CsvFault> fault = TakeSample(row, *columns, fields, sample);
    if (!fault.has_value()) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(CsvWhere(file.path(), line, row, fault->at), ": ", fault->what));
  }));
  if (!columns.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat(DataFileWhere(file.path()), ": has no line that names columns"));
  }
  OF_RETURN_IF_ERROR(KeepSplit(attributes, train, file.path(), rows));
  return std::make_unique<CsvSource>(std::move(file), *std::move(columns), std::move(rows), train,
                                     static_cast<uint64_t>(attributes.Int("seed")));
}

}  // namespace

std::vector<SourceKind> CsvSources() { return {{"csv", OpenCsvSource}}; }

}  // namespace oneflow
