// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Calls of any operator or function of the C++ interface, held against its reference.
#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "support/function.h"

namespace aclgrad::test {

inline std::unique_ptr<CallTensors> run_call(const Operator& of, const std::vector<Value>& values,
                                             Layout layout = Layout::contiguous) {
  auto arguments = std::make_unique<Arguments>(values, layout);
  EXPECT_EQ(of.run(*arguments), OK);
  return arguments;
}

inline std::unique_ptr<CallTensors> run_call(const Function& of, const std::vector<Value>& values,
                                             Layout layout = Layout::contiguous) {
  auto call = std::make_unique<FunctionCall>(of, values, layout);
  call->run();
  return call;
}

struct Way {
  Layout layout;
  int threads;  // 0: as many as the processor has
};

inline constexpr std::initializer_list<Way> kHardWays = {
    {Layout::contiguous, 1}, {Layout::contiguous, 16}, {Layout::transposed, 3}, {Layout::gapped, 16}};

// Values, bitwise the same in every way unless they `may_round`, and nothing written between the elements. Returns how many
// outputs it has held against a reference.
template <class Described>
int expect_reference(const Described& of, const std::vector<Case>& cases, std::initializer_list<Way> ways,
                     bool may_round = false) {
  const std::vector<size_t> outputs = of.outputs();
  int checked = 0;
  for (const Case& c : cases) {
    SCOPED_TRACE(c.title);
    const Outputs expected = outputs_with_terms(of.expected, c.arguments);
    EXPECT_EQ(expected.size(), outputs.size());
    std::vector<std::byte> first;
    for (const auto& [layout, threads] : ways) {
      SCOPED_TRACE(name_of(layout) + ", threads " + std::to_string(threads));
      set_thread_count(threads);
      const auto call = run_call(of, c.arguments, layout);
      EXPECT_TRUE(call->holes_untouched());
      for (size_t i = 0; i < outputs.size(); ++i) {
        SCOPED_TRACE("output " + std::to_string(i));
        const TestTensor& output = *call->tensor(outputs[i]);
        if (!expected.at(i).has_value()) {
          EXPECT_EQ(output.bytes(), TestTensor(output.shape(), output.type(), layout).bytes());
          continue;
        }
        EXPECT_EQ(mistake_in(output.values(), output.type(), *expected[i], c.mixes_infinities), "");
        ++checked;
      }
      if (first.empty() || may_round) first = call->bytes(outputs);
      EXPECT_EQ(call->bytes(outputs), first);
    }
  }
  set_thread_count(0);
  return checked;
}

}  // namespace aclgrad::test
