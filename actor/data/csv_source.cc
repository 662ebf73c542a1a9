// CSV files as data sets (csv_rows.h): the first line names the columns, every other one is a sample. Columns are
// chosen by name, whatever their order in the file. Errors name line, column (both from 1, columns in bytes) and the
// text that is wrong.
//
//   age,"income, EUR",default        csv: features "income, EUR", age; label default
//   31,52000.5,0                     ──►  f32 [52000.5, 31]            i32 0
//   "27",48000,1
//
//   stars,review                     texts: text review; label stars; context 6, first_token 256, padding_token 0
//   4,Good                           ──►  i32 [256, 71, 111, 111, 100, 0]    i32 4    padding i32 [0, 0, 0, 0, 0, 1]
//
// Numbers are decimal and finite; there are no missing values. Tokens of a text are its bytes, or the whole numbers
// that it consists of, with white space between.
//
// Opening reads the file once: it checks every value that will be read and keeps where every row is (16 bytes for
// each). A sample is then read from its own range, so that the file may be larger than memory, and several processes
// share the system's cache of it. Gzip files are inflated into memory, as all data files are (data_file.h).
//
// Attributes: path, separator, split, seed; optionally validation_fraction, of the last rows (else all rows are of
// either split), and classes (labels at or above it are refused). Of csv: features (JoinTexts() of names of columns),
// label or target (a name). Of texts: text and label (names), tokens ("bytes" or "ids"), context, vocabulary (which
// tokens are below), first_token (0: none) and padding_token. Training samples come in a new permutation every epoch,
// validation samples in order.
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
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "actor/data/csv_rows.h"
#include "actor/data/permutation.h"
#include "actor/data/sample_range.h"
#include "actor/data/source.h"
#include "kernels/random.h"
#include "oneflow_core/text_list.h"

namespace oneflow {
namespace {

// The column of texts, and what becomes of these.
struct TextColumn {
  size_t at = 0;
  bool ids = false;  // tokens are numbers, not bytes
  int64_t context = 0, vocabulary = 0;
  int32_t first_token = 0, padding_token = 0;
};

// The columns that are read: places in a row.
struct CsvColumns {
  std::vector<std::string> names;  // of all columns
  std::vector<size_t> features;
  std::optional<TextColumn> text;  // in their place
  size_t wanted = 0;               // label or target
  bool is_label = true;            // a class, else a number
  int64_t classes = 0;             // labels are below
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

// The tokens of a field, of which the first `context` are kept.
std::optional<CsvFault> TakeTokens(const CsvField& field, const std::string& name, const TextColumn& column,
                                   std::vector<int32_t>& tokens) {
  tokens.clear();
  if (column.first_token > 0) tokens.push_back(column.first_token);
  const auto outside = [&](absl::string_view token) {
    return CsvFault{field.at, absl::StrCat("column '", name, "' has ", token, ", which is no token of a vocabulary of ",
                                           column.vocabulary)};
  };
  const auto take = [&](int32_t token) {
    if (static_cast<int64_t>(tokens.size()) < column.context) tokens.push_back(token);
  };
  if (column.ids) {
    for (const absl::string_view id : absl::StrSplit(field.text, absl::ByAnyChar(" \t\r\n"), absl::SkipEmpty())) {
      int32_t token = -1;
      if (!absl::SimpleAtoi(id, &token) || token < 0 || token >= column.vocabulary) {
        return outside(absl::StrCat("'", id, "'"));
      }
      take(token);
    }
  } else {
    for (const unsigned char byte : field.text) {
      if (byte >= column.vocabulary) return outside(absl::StrCat("byte ", byte));
      take(byte);
    }
  }
  if (!tokens.empty()) return std::nullopt;
  return CsvFault{field.at, absl::StrCat("column '", name, "' has no token")};
}

// What a row says.
struct CsvSample {
  std::vector<float> features;
  std::vector<int32_t> tokens;
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
  if (columns.text.has_value()) {
    const size_t at = columns.text->at;
    if (auto fault = TakeTokens(fields[at], columns.names[at], *columns.text, sample.tokens)) return fault;
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

absl::StatusOr<TextColumn> TextColumnOf(const AttrMap& attributes, const std::vector<std::string>& names) {
  TextColumn column = {.ids = attributes.String("tokens") == "ids",
                       .context = attributes.Int("context"),
                       .vocabulary = attributes.Int("vocabulary"),
                       .first_token = static_cast<int32_t>(attributes.Int("first_token")),
                       .padding_token = static_cast<int32_t>(attributes.Int("padding_token"))};
  OF_ASSIGN_OR_RETURN(column.at, FindColumn(names, attributes.String("text")));
  for (const int32_t token : {column.first_token, column.padding_token}) {
    if (token >= 0 && token < column.vocabulary) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("token ", token, " is outside the vocabulary of ", column.vocabulary));
  }
  return column;
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
  if (attributes.Has("text")) {
    OF_ASSIGN_OR_RETURN(columns.text, TextColumnOf(attributes, columns.names));
  } else {
    OF_ASSIGN_OR_RETURN(const std::vector<std::string> features, SplitTexts(attributes.String("features")));
    for (const std::string& name : features) {
      OF_ASSIGN_OR_RETURN(columns.features.emplace_back(), FindColumn(columns.names, name));
    }
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
    OF_RETURN_IF_ERROR(CheckOutputs(outputs));
    std::vector<int64_t> first;
    bool together = true;
    for (const TensorArg& out : outputs) {
      first.push_back(FirstSample(step, micro_batch, micro_batches, out, row_shift));
      together &= first.back() == first[0] && out.dims[0] == outputs[0].dims[0];
    }
    CsvSample sample;
    const size_t passes = together ? 1 : outputs.size();
    for (size_t pass = 0; pass < passes; ++pass) {
      for (int64_t row = 0; row < outputs[pass].dims[0]; ++row) {
        OF_RETURN_IF_ERROR(ReadSample(first[pass] + row, sample));
        for (size_t i = pass; i < (together ? outputs.size() : pass + 1); ++i) Put(sample, i, row, outputs[i]);
      }
    }
    return absl::OkStatus();
  }

 private:
  // The columns of an output; 0: it has one number of each sample.
  struct Output {
    DType dtype;
    int64_t columns;
  };
  std::vector<Output> Outputs() const {
    const Output wanted = {columns_.is_label ? DType::kInt32 : DType::kFloat32, 0};
    if (!columns_.text.has_value()) {
      return {{DType::kFloat32, static_cast<int64_t>(columns_.features.size())}, wanted};
    }
    const Output tokens = {DType::kInt32, columns_.text->context};
    return {tokens, wanted, tokens};
  }

  absl::Status CheckOutputs(std::span<const TensorArg> outputs) const {
    const std::vector<Output> needed = Outputs();
    if (outputs.size() != needed.size()) {
      return absl::InvalidArgumentError(absl::StrCat("rows fill ", needed.size(), " tensors, not ", outputs.size()));
    }
    for (size_t i = 0; i < needed.size(); ++i) {
      const auto& [dtype, columns] = needed[i];
      const TensorArg& out = outputs[i];
      const bool fits = out.dtype == dtype && out.rank == (columns > 0 ? 2 : 1) &&
                        (columns == 0 || (out.logical_dims[1] == columns && out.dims[1] == columns));
      if (fits) continue;
      return absl::InvalidArgumentError(absl::StrCat("rows fill ", Name(dtype), "[batch",
                                                     columns > 0 ? absl::StrCat(",", columns) : "",
                                                     "], split by samples only, but output ", i, " is another"));
    }
    return absl::OkStatus();
  }

  void Put(const CsvSample& sample, size_t output, int64_t row, const TensorArg& out) const {
    if (output == 1 && columns_.is_label) {
      out.as<int32_t>()[row] = sample.label;
    } else if (output == 1) {
      out.as<float>()[row] = sample.target;
    } else if (!columns_.text.has_value()) {
      std::copy(sample.features.begin(), sample.features.end(), out.as<float>() + row * out.dims[1]);
    } else {
      int32_t* const to = out.as<int32_t>() + row * out.dims[1];
      const auto filled = static_cast<int64_t>(sample.tokens.size());
      std::fill(to, to + out.dims[1], output == 0 ? columns_.text->padding_token : 1);
      if (output == 0) std::copy(sample.tokens.begin(), sample.tokens.end(), to);
      if (output == 2) std::fill(to, to + filled, 0);
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

std::vector<SourceKind> CsvSources() { return {{"csv", OpenCsvSource}, {"texts", OpenCsvSource}}; }

}  // namespace oneflow
