// Models and tables for them that are drawn at random.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "oneflow_core/shape.h"
#include "tools/study/weights/correspondence.h"

namespace oneflow::testing {

// How a table begins whose rules follow.
inline constexpr char kTableHead[] = "model: \"graph\" families { model_type: \"t\" }\n";

// A model and a table for it, drawn at random: tensors of theirs that are one variable or several along an axis, which
// lie in them as they are or with their dimensions exchanged.
struct DrawnModel {
  std::string rules;
  std::vector<ModelVariable> variables;
  std::map<std::string, Shape> theirs;  // by name

  // The variables as a graph of one's own.
  std::string Graph() const {
    std::string text = "graph \"train\"\n";
    for (size_t i = 0; i < variables.size(); ++i) {
      absl::StrAppend(&text, "%", i, ":", variables[i].type.ToString(), " = variable() \"", variables[i].name,
                      "\" {dtype=\"f32\", init=\"zeros\", shape=", variables[i].type.shape.ToString(),
                      ", trainable=true}\n");
    }
    return text;
  }
};

inline DrawnModel DrawModel(std::mt19937& random) {
  const auto number = [&](int least, int most) { return std::uniform_int_distribution<int>(least, most)(random); };
  DrawnModel drawn;
  const int layers = number(1, 3);
  for (int tensor = number(1, 5); tensor-- > 0;) {
    const int parts = number(0, 3), rank = number(parts > 0 ? 1 : 0, 4), axis = rank == 0 ? 0 : number(0, rank - 1);
    std::vector<int64_t> dims;
    const int most = rank > 2 ? 6 : 40;
    for (int d = 0; d < rank; ++d) dims.push_back(number(1, most));
    std::vector<int64_t> whole = dims;
    if (parts > 0) whole[axis] = 0;
    for (int part = 0; part < std::max(1, parts); ++part) {
      const bool transpose = rank == 2 && number(0, 1) == 1;
      if (parts > 0) whole[axis] += dims[axis] = number(part == 0 ? 1 : 0, most);
      std::vector<int64_t> ours = dims;
      if (transpose) std::swap(ours[0], ours[1]);
      const std::string cut =
          parts == 0 ? "" : absl::StrCat("part { axis: ", axis, " index: ", part, " of: ", parts, " }");
      absl::StrAppend(&drawn.rules, "rules { ours: \"h{i}/", tensor, "/", part, "\" theirs: \"{i+1}.", tensor, "x\" ",
                      transpose ? "transpose: true " : "", cut, " }\n");
      for (int i = 0; i < layers; ++i) {
        drawn.variables.push_back({absl::StrCat("h", i, "/", tensor, "/", part), {DType::kFloat32, Shape(ours)}});
      }
    }
    for (int i = 0; i < layers; ++i) drawn.theirs[absl::StrCat(i + 1, ".", tensor, "x")] = Shape(whole);
  }
  std::shuffle(drawn.variables.begin(), drawn.variables.end(), random);
  return drawn;
}

}  // namespace oneflow::testing
