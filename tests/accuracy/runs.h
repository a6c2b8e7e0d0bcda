// The operators' test cases, run on this machine's processor and by their definition: what the errors in docs/accuracy.md
// are made of.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "support/values.h"

namespace aclgrad::test {

struct Input {
  std::string name;
  Shape shape;
  std::vector<double> values;
};

struct Output {
  std::string name;
  std::vector<double> ours;
  std::vector<double>
      expected;  // by the definition in double precision, at the positions that the type's arithmetic gives
  std::vector<double> in_double;  // the same with positions in double precision, too
  // Whether a position that is rounded to the other side of a pixel's centre or edge makes it another value.
  bool jumps;
};

// One problem: the gradient and, where there is one, the forward operator.
struct CaseRun {
  std::string operation;
  DataType type;
  bool uses_coordinates;
  std::map<std::string, std::vector<int64_t>> attributes;
  std::vector<Input> inputs;
  std::vector<Output> outputs;
};

void for_each_run(const std::function<void(const CaseRun&)>& visit);

// || ours - expected || / || expected ||. Where the terms of a result cancel, as all slopes of an image of one pixel do,
// relative to the terms, which are about 100.
double error_of(const std::vector<double>& ours, const std::vector<double>& expected);

}  // namespace aclgrad::test
