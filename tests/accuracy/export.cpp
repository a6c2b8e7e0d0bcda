// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Writes the cases of every function, with inputs, results, what the references give and errors_in_terms, for
// accuracy.py. For each case there are lines that name it and its attributes, and for each array a line with its shape,
// followed by its values as doubles.
#include <cstdio>

#include "base/data_type.h"
#include "support/function.h"

namespace aclgrad::test {
namespace {

void write_values(const char* kind, const std::string& name, const Shape& shape,
                  const std::vector<double>& values) {
  std::printf("%s %s", kind, name.c_str());
  for (int64_t size : shape) std::printf(" %lld", static_cast<long long>(size));
  std::printf("\n");
  std::fwrite(values.data(), sizeof(double), values.size(), stdout);
}

void write_case(const Function& of, DataType type, const Case& c) {
  const FunctionCall call(of, c.arguments);
  call.run();
  std::printf("case %s %s\n", std::string(aclgrad::name_of(type)).c_str(), of.name.c_str());
  for (size_t i = 0; i < of.attributes.size(); ++i) {
    const auto value = static_cast<long long>(std::get<int64_t>(c.arguments[of.fields.size() + i]));
    std::printf("attribute %s %lld\n", of.attributes[i].c_str(), value);
  }
  const Outputs expected = outputs_with_terms(of.expected, c.arguments);
  const Outputs in_double = of.expected(c.arguments, of.uses_positions);
  size_t output = 0;
  for (size_t i = 0; i < of.fields.size(); ++i) {
    const auto& [name, role, dense_axes, free_axes] = of.fields[i];
    const TestTensor* tensor = call.tensor(i);
    if (tensor == nullptr) continue;
    if (!is_output(role)) {
      write_values("input", name, tensor->shape(), tensor->values());
      continue;
    }
    const auto& [values, allowed, error, jumps, terms] = *expected[output];
    const std::vector<double> ours = tensor->values();
    write_values("ours", name, tensor->shape(), ours);
    write_values("expected", name, tensor->shape(), values);
    write_values("in_terms", name, tensor->shape(), errors_in_terms(ours, values, terms, type));
    write_values("in_double", name, tensor->shape(), in_double[output++]->values);
  }
}

}  // namespace
}  // namespace aclgrad::test

int main() {
  using namespace aclgrad::test;
  for (const Function& of : functions()) {
    for (aclgrad::DataType type : of.types) {
      for (const Case& c : of.cases(type)) write_case(of, type, c);
    }
  }
  return std::fflush(stdout) == 0 && std::ferror(stdout) == 0 ? 0 : 1;
}
