// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Calls of executors, and both phases of each operator.
#include <algorithm>
#include <map>

#include "arguments.h"
#include "check/check.h"
#include "resize.h"

namespace aclgrad::fuzz {
namespace {

constexpr int64_t kMaxElements = 1 << 12;  // of a tensor in a problem that is run

// ---- Executors ----

enum class Counted { all, inputs, outputs };

template <auto kSet, Counted kCounted>
void set_address(Program& program) {
  const Executor executor(program);
  const Tensor tensor(program);
  const Any<size_t> index(program);
  void* to = program.address(program.draw<size_t>(0, kMaxAllocation));
  if (!program.succeeded(kSet(executor, index, tensor, to))) return;
  Plan& plan = program.plans[executor];
  Argument& argument = plan.arguments.at(index + (kCounted == Counted::outputs ? plan.inputs : 0));
  require(argument.given, "an argument that was not given has no address");
  argument.address = to;
}

template <auto kSet>
void set_dynamic_address(Program& program) {
  const Executor executor(program);
  const Handle<Kind::tensor_list> list(program);
  const Any<size_t> index(program), member(program);
  program.refused_if(true);  // no operator takes a list
  program.succeeded(kSet(executor, index, member, list, program.address(8)));
}

struct RepeatableExecutor : Executor {
  using Executor::Executor;
  void succeeded(Program& program) { program.plans[value].repeatable = true; }
};

const Call kExecutors[] = {
    CALL(aclSetAclOpExecutorRepeatable, RepeatableExecutor),
    CALL(aclDestroyAclOpExecutor, Ended<Kind::executor>),
    CALL(aclDestroyOpExecutor, Ended<Kind::executor>),
    {"aclSetTensorAddr", set_address<aclSetTensorAddr, Counted::all>},
    {"aclSetInputTensorAddr", set_address<aclSetInputTensorAddr, Counted::inputs>},
    {"aclSetOutputTensorAddr", set_address<aclSetOutputTensorAddr, Counted::outputs>},
    {"AclSetTensorAddr", set_address<AclSetTensorAddr, Counted::all>},
    {"AclSetInputTensorAddr", set_address<AclSetInputTensorAddr, Counted::inputs>},
    {"AclSetOutputTensorAddr", set_address<AclSetOutputTensorAddr, Counted::outputs>},
    {"aclSetDynamicTensorAddr", set_dynamic_address<aclSetDynamicTensorAddr>},
    {"aclSetDynamicInputTensorAddr", set_dynamic_address<aclSetDynamicInputTensorAddr>},
    {"aclSetDynamicOutputTensorAddr", set_dynamic_address<aclSetDynamicOutputTensorAddr>},
    {"AclSetDynamicTensorAddr", set_dynamic_address<AclSetDynamicTensorAddr>},
    {"AclSetDynamicInputTensorAddr", set_dynamic_address<AclSetDynamicInputTensorAddr>},
    {"AclSetDynamicOutputTensorAddr", set_dynamic_address<AclSetDynamicOutputTensorAddr>},
};

// ---- Operators: phase 1 ----

// Strides of memory in which the view leaves gaps, lies transposed or repeats an element.
Shape strides_of(Program& program, const Shape& shape) {
  Shape strides = contiguous_strides(shape);
  switch (program.draw(0, 5)) {
    case 0:
      for (int64_t& stride : strides) stride = std::min(stride, Reach::kFar) * 2;
      break;
    case 1:
      strides = contiguous_strides(Shape(shape.rbegin(), shape.rend()));
      std::reverse(strides.begin(), strides.end());
      break;
    case 2:
      if (!strides.empty()) strides[program.draw<size_t>(0, strides.size() - 1)] = 0;
      break;
    default:
      break;
  }
  return strides;
}

// A tensor that is right, with memory unless it is too large.
aclTensor* make_tensor(Program& program, const Shape& shape, aclDataType type) {
  View view{shape, strides_of(program, shape), program.rarely() ? program.draw(0, 9) : 0,
            static_cast<int64_t>(aclDataTypeSize(type))};
  const Reach reach = Program::reach_of(view);
  view.data = program.address(static_cast<size_t>(reach.bytes));
  const Shape storage = {program.rarely() ? program.integer() : (reach.bytes + 7) / 2};
  aclTensor* tensor = aclCreateTensor(shape.data(), shape.size(), type, view.strides.data(), view.offset,
                                      ACL_FORMAT_ND, storage.data(), program.draw(0, 1), view.data);
  require(tensor != nullptr, "a tensor can be made");
  program.add(Kind::tensor, tensor);
  program.views[tensor] = view;
  return tensor;
}

// The next argument of phase 1: mostly a tensor of that shape and type, rarely something else.
aclTensor* argument(Program& program, Plan& plan, Shape shape, aclDataType type, Null null = Null::refused) {
  aclTensor* tensor = nullptr;
  switch (program.draw(0, 40)) {
    case 40:
      tensor = program.handle<aclTensor>(Kind::tensor, null);
      break;
    case 39:
      if (!shape.empty()) shape[program.draw<size_t>(0, shape.size() - 1)] = program.integer();
      tensor = make_tensor(program, shape, type);
      break;
    case 38:
      tensor = make_tensor(program, shape, DataTypeValue(program));
      break;
    default:
      tensor = make_tensor(program, shape, type);
  }
  Argument taken;
  if (program.is_live(Kind::tensor, tensor)) {
    const View& view = program.views[tensor];
    taken = {true, Program::reach_of(view), view.data};
  }
  plan.arguments.push_back(taken);
  return tensor;
}

using Problem = std::vector<test::Value>;

// Right ones of the first type, with tensors that are small enough to run, and mistakes.
struct Problems {
  std::vector<Problem> right, wrong;

  explicit Problems(const test::Operator& of) {
    for (test::Case& one : of.cases(of.types.front())) {
      if (is_small(one.arguments)) right.push_back(without_values(std::move(one.arguments)));
    }
    for (test::Mistake& one : of.all_mistakes()) wrong.push_back(without_values(std::move(one.arguments)));
  }

 private:
  static bool is_small(const Problem& problem) {
    const std::vector<int64_t> counts = test::element_counts_in(problem);
    return std::all_of(counts.begin(), counts.end(), [](int64_t count) { return count <= kMaxElements; });
  }

  // Device memory has contents of its own here.
  static Problem without_values(Problem problem) {
    for (test::Value& value : problem) {
      if (auto* tensor = std::get_if<test::TensorValue>(&value)) tensor->values = {};
    }
    return problem;
  }
};

Problem draw_problem(Program& program, const test::Operator& of) {
  static std::map<const test::Operator*, Problems> all;
  const Problems& problems = all.try_emplace(&of, of).first->second;
  const std::vector<Problem>& some = program.rarely() ? problems.wrong : problems.right;
  Problem problem = some[program.draw<size_t>(0, some.size() - 1)];
  if (program.coin()) resize(problem, [&](auto first, auto last) { return program.draw(first, last); });
  const DataType type = of.types[program.draw<size_t>(0, of.types.size() - 1)];
  for (test::Value& value : problem) {
    if (auto* tensor = std::get_if<test::TensorValue>(&value)) {
      if (tensor->type == of.types.front()) {
        tensor->type = type;
      } else if (program.coin()) {
        tensor->type = tensor->type == DataType::int32 ? DataType::int64 : DataType::int32;
      }
    } else if (auto* number = std::get_if<int64_t>(&value)) {
      if (program.rarely()) *number = program.integer();
    } else if (auto* integers = std::get_if<std::vector<int64_t>>(&value)) {
      if (program.rarely()) *integers = program.integers(program.draw<size_t>(0, 5));
    } else if (auto* text = std::get_if<std::string>(&value)) {
      if (program.rarely()) *text = program.text();
    }
  }
  return problem;
}

template <class Array>
test::CArgument array_argument(Program& program, Kind kind, Array* array) {
  require(array != nullptr, "an array can be made");
  program.add(kind, array);
  return {.handle = program.rarely() ? program.handle<Array>(kind, Null::allowed) : array};
}

// An argument as drawn, or rarely something else.
test::CArgument argument(Program& program, Plan& plan, test::Value& value, test::Role role) {
  if (const auto* tensor = std::get_if<test::TensorValue>(&value)) {
    const bool is_needed = role == test::Role::input || role == test::Role::output;
    return {.handle = argument(program, plan, tensor->shape, static_cast<aclDataType>(tensor->type),
                               is_needed ? Null::refused : Null::allowed)};
  }
  if (role != test::Role::attribute) plan.arguments.push_back({});
  if (const auto* number = std::get_if<int64_t>(&value)) return {.number = *number};
  if (const auto* integers = std::get_if<std::vector<int64_t>>(&value))
    return array_argument(program, Kind::int_array, aclCreateIntArray(integers->data(), integers->size()));
  if (const auto* flags = std::get_if<std::vector<bool>>(&value)) {
    const auto values = std::make_unique<bool[]>(flags->size());
    for (size_t i = 0; i < flags->size(); ++i) values[i] = (*flags)[i] != program.coin();
    return array_argument(program, Kind::bool_array, aclCreateBoolArray(values.get(), flags->size()));
  }
  if (auto* text = std::get_if<std::string>(&value))
    return {.handle = program.rarely() ? nullptr : text->data()};
  return {};
}

constexpr std::string_view kPhase1 = "GetWorkspaceSize";

void plan(Program& program) {
  const std::string_view function = program.function();
  const test::Operator& of = test::operator_named(function.substr(0, function.size() - kPhase1.size()));
  Problem problem = draw_problem(program, of);
  const size_t first_output = of.outputs().front();
  Plan plan;
  plan.operator_name = of.said_name;
  test::CArguments arguments;
  bool is_array_null = false;
  for (size_t i = 0; i < problem.size(); ++i) {
    if (i == first_output) plan.inputs = plan.arguments.size();
    arguments.push_back(argument(program, plan, problem[i], of.parameters[i].role));
    const bool is_array = std::holds_alternative<std::vector<int64_t>>(problem[i]) ||
                          std::holds_alternative<std::vector<bool>>(problem[i]);
    is_array_null = is_array_null || (is_array && arguments.back().handle == nullptr);
  }
  // Without an array nothing may be asked for, so that nothing else is looked at.
  if (is_array_null) program.nothing_is_wrong();
  uint64_t size = 0;
  aclOpExecutor* executor = nullptr;
  uint64_t* size_at = program.out(size);
  const bool planned = program.succeeded(of.phase1(arguments, size_at, program.out(executor)));
  require(planned == (executor != nullptr), "there is an executor where phase 1 succeeds, and only there");
  if (!planned) return;
  plan.workspace_size = size;
  program.add(Kind::executor, executor);
  program.plans[executor] = plan;
}

// ---- Operators: phase 2 ----

// Whether the plan ends soon and stays in its memory, or the checker will refuse it.
bool may_run(const Program& program, const Plan& plan) {
  for (const Argument& argument : plan.arguments) {
    if (argument.reach.elements > kMaxElements) return false;
    if (program.fits(argument.address, argument.reach.bytes)) continue;
    if (!check::enabled || !program.is_of_library(argument.address)) return false;
  }
  return true;
}

bool meets(const Argument& argument, const void* memory, size_t bytes) {
  const auto* first = static_cast<const std::byte*>(argument.address);
  const auto* begin = static_cast<const std::byte*>(memory);
  return first != nullptr && begin != nullptr && first < begin + bytes &&
         begin < first + argument.reach.bytes;
}

void run(Program& program) {
  const char* function = program.function();
  if (program.live(Kind::executor).empty() && !program.rarely()) {
    call(program, function + std::string(kPhase1));
    program.begin(function);
  }
  const Executor executor(program);
  const Stream stream(program);
  const bool live = program.is_live(Kind::executor, executor);
  const Plan plan = live ? program.plans[executor] : Plan();
  if (!may_run(program, plan)) return;
  const auto needed = static_cast<size_t>(plan.workspace_size);
  const size_t size = program.rarely() ? program.draw<size_t>(0, 2 * needed) : needed;
  void* workspace = program.address(size + 1);
  if (workspace != nullptr) workspace = static_cast<std::byte*>(workspace) + program.draw(0, 1);
  for (const Argument& argument : plan.arguments) {
    if (meets(argument, workspace, size)) return;
  }
  const bool foreign = live && plan.operator_name != function;
  program.refused_if(foreign || (needed > 0 && (workspace == nullptr || size < needed)));
  if (stream != nullptr && needed == 0 && !program.is_live(Kind::stream, stream)) {
    program.nothing_is_wrong();  // no work needs no stream
    program.refused_if(!live || foreign);
  }
  const void* user = program.user_of(stream);
  program.use(workspace, user);
  for (const Argument& argument : plan.arguments) program.use(argument.address, user);
  const Status status = test::operator_named(function).phase2(workspace, size, executor, stream);
  if (!plan.repeatable && !foreign) program.gone(Kind::executor, executor);
  program.succeeded(status);
}

}  // namespace

Calls executor_calls() {
  return kExecutors;
}

Calls operator_calls() {
  static const std::vector<Call> calls = [] {
    std::vector<Call> made;
    // Which the calls refer to; never destroyed, as the counts are printed at exit.
    static auto& names = *new std::vector<std::string>(test::operators().size());
    auto name = names.begin();
    for (const test::Operator& of : test::operators()) {
      made.push_back({(*name = std::string(of.name) += kPhase1).c_str(), plan});
      ++name;
      if (of.said_name == of.name) made.push_back({of.name.data(), run});
    }
    return made;
  }();
  return calls;
}

}  // namespace aclgrad::fuzz
