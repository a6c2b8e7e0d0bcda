// Writes the runs in float, with their inputs, results and definitions, for accuracy.py: for each run lines that name it and
// its attributes, and for each array a line with its shape, followed by its values as doubles.
#include <cstdio>

#include "accuracy/runs.h"

namespace aclgrad::test {
namespace {

const char* name_of(DataType type) {
  switch (type) {
    case DataType::float32:
      return "float32";
    case DataType::float16:
      return "float16";
    case DataType::bfloat16:
      return "bfloat16";
    default:
      return "float64";
  }
}

void write_numbers(const std::vector<int64_t>& numbers) {
  for (int64_t number : numbers) std::printf(" %lld", static_cast<long long>(number));
  std::printf("\n");
}

void write_values(const char* kind, const std::string& name, const Shape& shape,
                  const std::vector<double>& values) {
  std::printf("%s %s", kind, name.c_str());
  write_numbers(shape);
  std::fwrite(values.data(), sizeof(double), values.size(), stdout);
}

void write_run(const CaseRun& run) {
  std::printf("run %s %s\n", name_of(run.type), run.operation.c_str());
  for (const auto& [name, numbers] : run.attributes) {
    std::printf("attribute %s", name.c_str());
    write_numbers(numbers);
  }
  if (run.type == DataType::float32) {
    for (const Input& input : run.inputs) write_values("input", input.name, input.shape, input.values);
  }
  for (const Output& output : run.outputs) {
    const Shape shape = {static_cast<int64_t>(output.ours.size())};
    write_values("ours", output.name, shape, output.ours);
    write_values("expected", output.name, shape, output.expected);
    write_values("in_double", output.name, shape, output.in_double);
  }
}

}  // namespace
}  // namespace aclgrad::test

int main() {
  aclgrad::test::for_each_run(aclgrad::test::write_run);
  return std::fflush(stdout) == 0 && std::ferror(stdout) == 0 ? 0 : 1;
}
