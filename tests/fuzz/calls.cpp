// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Any calls of the C interface in any order, right or wrong: null, destroyed and foreign handles, values outside of
// enumerations, tensors and arrays of any description, streams, events and callbacks that wait for each other. With
// ACLGRAD_CHECK=1 also memory that is too small or freed, which the checker must refuse.
//
// Whatever is called, the library must not crash; what is wrong must fail, with a documented status and a message that
// names the function; and when the program has destroyed what it made, nothing may be left.
//
// What no library can survive is not generated, as SECURITY.md says. Without the checker: addresses other than
// null that are not of memory large enough, and work of two streams, or of one and the host, that meets in
// memory without waiting. With it or without: a workspace that is part of a tensor, arrays shorter than the
// count passed with them, waits that nothing can end, and problems that would run for long.
#include "calls.h"

#include <cstdio>
#include <cstdlib>

#include "acl/acl.h"

namespace aclgrad::fuzz {
namespace {

constexpr int kMaxCalls = 100;
constexpr uint8_t kFirstOfOperators = 192;  // number of their first call

struct Function {
  Call call;
  uint64_t calls = 0;
  uint64_t successes = 0;
};

std::vector<Function>& functions() {
  // Never destroyed: the counts are printed at exit.
  static auto& functions = *new std::vector<Function>([] {
    std::vector<Function> all;
    for (const Calls some : {runtime_calls(), tensor_calls(), executor_calls(), older_calls(), later_calls(),
                             operator_calls()}) {
      for (const Call& one : some) all.push_back({one});
    }
    return all;
  }());
  return functions;
}

// So that a new operator changes the meaning of few byte strings.
Function& function_of(uint8_t number) {
  const size_t of_operators = operator_calls().size();
  const size_t others = functions().size() - of_operators;
  const bool is_of_operator = number >= kFirstOfOperators;
  return functions()[is_of_operator ? others + (number - kFirstOfOperators) % of_operators : number % others];
}

void call(Program& program, Function& function) {
  program.begin(function.call.name);
  function.call.make(program);
  ++function.calls;
  if (!program.has_failed()) ++function.successes;
}

// Something of everything, so that few bytes go far.
void begin_as_usual(Program& program) {
  constexpr const char* kUsual[] = {
      "aclrtSetDevice",      "aclrtCtxSetSysParamOpt", "aclrtCreateStream",   "aclrtSubscribeReport",
      "aclrtCreateEvent",    "aclrtRecordEvent",       "aclrtMalloc",         "aclrtMalloc",
      "aclrtMallocHost",     "aclCreateTensor",        "aclCreateScalar",     "aclCreateIntArray",
      "aclCreateFloatArray", "aclCreateBoolArray",     "aclCreateTensorList", "aclCreateScalarList",
      "aclCreateTensorDesc", "aclCreateDataBuffer",    "HcclCommInitAll",
  };
  FuzzedDataProvider nothing(nullptr, 0);  // of which only right arguments are drawn
  program.read(nothing);
  for (const char* name : kUsual) call(program, name);
}

// Calls these in a program of their own, with right arguments.
void call_all(const std::vector<const char*>& names, bool as_usual) {
  Program program;
  if (as_usual) begin_as_usual(program);
  FuzzedDataProvider nothing(nullptr, 0);  // of which only right arguments are drawn
  program.read(nothing);
  for (const char* name : names) call(program, name);
}

std::vector<const char*> names_of(Calls calls) {
  std::vector<const char*> names;
  for (const Call& one : calls) names.push_back(one.name);
  return names;
}

// No byte string may know a new function yet. A new operator changes the meaning of others, too, so what succeeds in few
// of them, after certain calls, is called here as well.
void call_what_is_rare() {
  const std::vector<const char*> of_operators = names_of(operator_calls());
  call_all(of_operators, true);
  call_all({of_operators[0], "aclSetAclOpExecutorRepeatable", "aclSetTensorAddr", "AclSetTensorAddr",
            "aclSetInputTensorAddr", "AclSetInputTensorAddr", "aclSetOutputTensorAddr",
            "AclSetOutputTensorAddr", "aclDestroyAclOpExecutor"},
           true);
  call_all({of_operators[0], "aclDestroyOpExecutor"}, true);
  call_all({"aclrtCreateContext", "aclrtDestroyContext"}, false);
  call_all(names_of(later_calls()), true);
  call_all({"HcclGetRootInfo", "HcclCommInitRootInfo", "HcclCommInitRootInfoConfig"}, false);
}

// For check_calls.py, which asks for it in the environment.
void print_counts() {
  for (const Function& function : functions()) {
    std::printf("%s %llu %llu\n", function.call.name, static_cast<unsigned long long>(function.calls),
                static_cast<unsigned long long>(function.successes));
  }
}

}  // namespace

void call(Program& program, const std::string& name) {
  for (Function& function : functions()) {
    if (function.call.name == name) return call(program, function);
  }
}

}  // namespace aclgrad::fuzz

using namespace aclgrad::fuzz;

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  if (std::getenv("ACLGRAD_COUNT_CALLS") != nullptr) std::atexit(print_counts);
  // Later ones must be as the first one of the process.
  if (aclInit(nullptr) != ACL_SUCCESS || aclFinalize() != ACL_SUCCESS) return 1;
  call_what_is_rare();
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  FuzzedDataProvider bytes(data, size);
  Program program;
  if (bytes.ConsumeIntegralInRange(0, 15) < 14) begin_as_usual(program);
  program.read(bytes);
  for (int calls = 0; calls < kMaxCalls && bytes.remaining_bytes() > 0; ++calls) {
    call(program, function_of(bytes.ConsumeIntegral<uint8_t>()));
  }
  return 0;
}
