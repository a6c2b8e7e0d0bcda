// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// JSON files of the program.
#pragma once

#include <fstream>
#include <nlohmann/json.hpp>

#include "runtime/entry.h"

namespace aclgrad {

using Json = nlohmann::json;

// To compare or print deep documents takes a deep stack.
inline constexpr int kMaxJsonDepth = 100;

// The object in the file.
inline Json read_json(Parameter parameter, const char* path, Status not_readable, Status no_object) {
  std::ifstream file(path);
  file.peek();  // a folder opens, too
  require(!file.fail(), not_readable, parameter, "a readable file", path);
  bool is_deep = false;
  const auto keep = [&](int depth, Json::parse_event_t, const Json&) {
    is_deep = is_deep || depth >= kMaxJsonDepth;
    return !is_deep;
  };
  Json document = Json::parse(file, keep, /*allow_exceptions=*/false);
  require(!is_deep, no_object, parameter, fmt::format("a file with at most {} levels", kMaxJsonDepth), path);
  require(document.is_object(), no_object, parameter, "a file with a JSON object", path);
  return document;
}

}  // namespace aclgrad
