// The page of `oneflow plan explain --html` without its data.
#pragma once

namespace oneflow {

// The document up to the place of the data, which is one JSON object, and the rest of it.
extern const char kPageHead[];
extern const char kPageTail[];

}  // namespace oneflow
