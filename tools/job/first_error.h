// Why a text of protobuf cannot be read.
#pragma once

#include <string>

#include "google/protobuf/io/tokenizer.h"

namespace oneflow {

// Keeps the first error of a parse. Lines and columns count from 1.
class FirstError : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, google::protobuf::io::ColumnNumber column, const std::string& message) override {
    if (!message_.empty()) return;
    message_ = message;
    line_ = line + 1;
    column_ = column + 1;
  }
  bool empty() const { return message_.empty(); }
  const std::string& message() const { return message_; }
  int line() const { return line_; }
  int column() const { return column_; }

 private:
  std::string message_;
  int line_ = 0;
  int column_ = 0;
};

}  // namespace oneflow
