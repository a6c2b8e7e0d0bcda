// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// A function of the C++ interface as the tests see it: the fields of its problem, right problems with what they must
// give, and mistakes with the field that their refusal must name. Each operator describes its functions in
// src/ops/<operator>/description.cpp; what must hold for every function is a loop over functions(), in
// tests/interface/, tests/large/ and tests/accuracy/.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/data_type.h"
#include "support/operator.h"

namespace aclgrad::test {

// The problem of any function.
class AnyProblem {
 public:
  virtual ~AnyProblem() = default;
  virtual std::unique_ptr<AnyProblem> copy() const = 0;

  virtual Tensor tensor(size_t field) const = 0;
  virtual void set_tensor(size_t field, const Tensor& tensor) = 0;
  virtual void set_attribute(size_t attribute, int64_t value) = 0;

  virtual size_t workspace_size() const = 0;
  virtual size_t workspace_size(const CudaLaunch& on) const = 0;
  virtual void run(const WorkspaceView& workspace) const = 0;
  virtual void run(const WorkspaceView& workspace, const CudaLaunch& on) const = 0;
};

inline constexpr size_t kContiguous = aclgrad::Shape::kMaxRank;  // dense axes

// A tensor of a problem.
struct Field {
  std::string name;
  Role role;
  size_t dense_axes;              // so many of its last axes must lie side by side
  std::vector<size_t> free_axes;  // those of an input whose extent nothing else fixes
};

struct ProblemMistake {
  std::string field;  // which the refusal names
  std::function<void(AnyProblem&)> make;
  bool is_in_memory;  // and not seen where only the size of the workspace is asked for
};

// A call with more than 2^31 elements, and a small one whose results are bitwise the same where it lies in the large
// one. Inputs of the large one that have no values are zero elsewhere.
struct LargeCase {
  struct Part {
    Shape first{};      // where in the large tensor the small one lies
    double factor = 1;  // of the large one's values
  };

  std::string title;
  std::vector<Value> large, small;    // as the arguments of a Case
  std::vector<Part> parts;            // of each field
  int64_t memory = int64_t{1} << 30;  // bytes that the test writes, with room for what runs beside it
};

struct Function {
  std::string name;
  std::vector<Field> fields;
  std::vector<std::string> attributes;
  std::vector<DataType> types;
  // Their arguments are the problem's tensors, in the order of `fields`, then its attributes.
  std::vector<Case> (*cases)(DataType type);
  std::vector<Case> (*hard_cases)(DataType type);  // as of an operator, where none computes this
  ReferenceCall expected;
  bool uses_positions;  // which are computed in the type's arithmetic
  std::vector<ProblemMistake> mistakes;
  std::vector<LargeCase> (*large_cases)();
  bool runs_on_gpu;
  std::function<std::unique_ptr<AnyProblem>()> make_problem;

  std::vector<size_t> outputs() const { return outputs_among(fields); }
};

inline const std::vector<Function>& functions() {
  return described<Function>();
}

// A function's problem on tensors of its own.
class FunctionCall : public CallTensors {
 public:
  FunctionCall(const Function& of, const std::vector<Value>& arguments, Layout layout = Layout::contiguous);

  void run() const;  // with a workspace of the size that the function asks for

  AnyProblem& problem() const { return *problem_; }

 private:
  std::unique_ptr<AnyProblem> problem_;
};

inline std::vector<LargeCase> no_large_cases() {
  return {};
}

// ---- How an operator describes a function, whose problem is a `P`

template <class P>
struct FieldOf : Field {
  using Member = std::variant<ConstTensor P::*, Tensor P::*>;

  FieldOf(std::string field, Role of_role, Member of_problem, size_t dense = 0, std::vector<size_t> free = {})
      : Field{std::move(field), of_role, dense, std::move(free)}, member(of_problem) {}

  Member member;
};

template <class P>
struct AttributeOf {
  std::string name;
  void (*set)(P& problem, int64_t value);
};

template <class P>
struct MistakeOf {
  std::string field;
  void (*make)(P& problem);
  bool is_in_memory = false;
};

template <class P>
struct FunctionOf {
  std::string name;
  size_t (*workspace_size)(const P&);
  size_t (*workspace_size_on_gpu)(const P&, const CudaLaunch&) = nullptr;  // where it runs on CPUs alone
  void (*run)(const P&, const WorkspaceView&);
  void (*run_on_gpu)(const P&, const WorkspaceView&, const CudaLaunch&) = nullptr;
  std::vector<FieldOf<P>> fields;
  std::vector<AttributeOf<P>> attributes;
  std::vector<DataType> types;
  ReferenceCall expected;
  bool uses_positions = false;
  std::vector<Case> (*cases)(DataType type);
  std::vector<Case> (*hard_cases)(DataType type) = no_cases;
  std::vector<MistakeOf<P>> mistakes{};  // beyond those that a tensor of any function may have
  std::vector<LargeCase> (*large_cases)() = no_large_cases;
};

template <class P>
class ProblemOf final : public AnyProblem {
 public:
  explicit ProblemOf(std::shared_ptr<const FunctionOf<P>> of) : of_(std::move(of)) {}

  std::unique_ptr<AnyProblem> copy() const override { return std::make_unique<ProblemOf>(*this); }

  Tensor tensor(size_t field) const override {
    return std::visit(
        [&](auto member) {
          const auto& tensor = problem.*member;
          return Tensor(const_cast<void*>(tensor.data), tensor.type, tensor.shape, tensor.strides);
        },
        of_->fields.at(field).member);
  }
  void set_tensor(size_t field, const Tensor& tensor) override {
    std::visit([&](auto member) { problem.*member = tensor; }, of_->fields.at(field).member);
  }
  void set_attribute(size_t attribute, int64_t value) override {
    of_->attributes.at(attribute).set(problem, value);
  }

  size_t workspace_size() const override { return of_->workspace_size(problem); }
  size_t workspace_size(const CudaLaunch& on) const override {
    return of_->workspace_size_on_gpu(problem, on);
  }
  void run(const WorkspaceView& workspace) const override { of_->run(problem, workspace); }
  void run(const WorkspaceView& workspace, const CudaLaunch& on) const override {
    of_->run_on_gpu(problem, workspace, on);
  }

  P problem;

 private:
  std::shared_ptr<const FunctionOf<P>> of_;
};

// A static object of this type adds a function.
struct FunctionRegistration {
  template <class P>
  explicit FunctionRegistration(FunctionOf<P> description) {
    const auto of = std::make_shared<const FunctionOf<P>>(std::move(description));
    Function function;
    function.name = of->name;
    function.types = of->types;
    function.cases = of->cases;
    function.hard_cases = of->hard_cases;
    function.expected = of->expected;
    function.uses_positions = of->uses_positions;
    function.large_cases = of->large_cases;
    function.runs_on_gpu = of->run_on_gpu != nullptr;
    function.make_problem = [of] { return std::make_unique<ProblemOf<P>>(of); };
    function.fields.assign(of->fields.begin(), of->fields.end());
    for (const auto& attribute : of->attributes) function.attributes.push_back(attribute.name);
    for (const auto& [field, make, is_in_memory] : of->mistakes) {
      const auto make_in_any = [make = make](AnyProblem& any) {
        make(static_cast<ProblemOf<P>&>(any).problem);
      };
      function.mistakes.push_back({field, make_in_any, is_in_memory});
    }
    register_described(std::move(function));
  }
};

}  // namespace aclgrad::test
