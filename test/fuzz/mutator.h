// Changes inputs at random: bytes, and protobuf messages field by field, so that what is changed still parses and gets
// as far as the checks behind the parser.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "google/protobuf/message.h"

namespace oneflow::testing {

class Mutator {
 public:
  explicit Mutator(uint64_t seed) : random_(seed) {}

  // A few edits: bits, bytes, runs that are removed, repeated or moved. At most `most` bytes are left.
  void EditBytes(std::string& bytes, size_t most);
  // A few edits of fields anywhere in the message: other numbers, mostly near those that are there or at the ends of
  // their type; texts; parts that are removed, doubled, moved, or taken from what `donor` gives, a message of the same
  // type.
  void EditMessage(google::protobuf::Message& message, absl::FunctionRef<const google::protobuf::Message&()> donor);

 private:
  size_t Below(size_t n) { return n == 0 ? 0 : std::uniform_int_distribution<size_t>(0, n - 1)(random_); }
  bool OneIn(size_t n) { return Below(n) == 0; }
  template <typename Number>
  Number OtherNumber(Number old);
  std::string OtherText(std::string old, bool is_text);
  google::protobuf::Message* SomePart(google::protobuf::Message& message);
  void EditPart(google::protobuf::Message& part);
  void EditOne(google::protobuf::Message& part, const google::protobuf::FieldDescriptor& field);
  void EditRepeated(google::protobuf::Message& part, const google::protobuf::FieldDescriptor& field);
  void SetNumber(google::protobuf::Message& part, const google::protobuf::FieldDescriptor& field, int index);
  bool Transplant(google::protobuf::Message& message, const google::protobuf::Message& donor);

  std::mt19937_64 random_;
};

}  // namespace oneflow::testing
