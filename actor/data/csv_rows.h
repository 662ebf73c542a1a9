// The rows of a CSV file (RFC 4180) and their fields. Fields may be in quotes, which may hold separators, line ends and
// quotes ("" is one). Lines end with "\n" or "\r\n"; empty ones are skipped.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "actor/data/data_file.h"

namespace oneflow {

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

// The fields of a row without its line end. A fault if there is a quote where none may be.
std::optional<CsvFault> SplitRow(absl::string_view row, char separator, std::vector<CsvField>& fields);

// "data file 'x.csv':7:12": the byte `at` of a row whose first line has the number `line`.
std::string CsvWhere(const std::string& path, int64_t line, absl::string_view row, size_t at);

// Calls visit(row, its offset, the number of its first line) for every row, the header too, but not for empty ones. The
// file is read a piece at a time. InvalidArgument if a row is too long for memory; errors of the file and of `visit`.
absl::Status ForEachRow(const DataFile& file,
                        absl::FunctionRef<absl::Status(absl::string_view row, int64_t offset, int64_t line)> visit);

}  // namespace oneflow
