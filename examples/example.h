// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
/// What the example programs share: a device with a stream, tensors in device memory, operators that can run
/// again and again, and a check of sampled results against double precision. Copy what you need.
#ifndef ACLGRAD_EXAMPLES_EXAMPLE_H
#define ACLGRAD_EXAMPLES_EXAMPLE_H

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <string>
#include <vector>

#include "acl/acl.h"
#include "aclnn/acl_meta.h"
#include "aclnn/opdev/bfloat16.h"
#include "aclnn/opdev/fp16_t.h"

namespace example {

constexpr double pi = 3.14159265358979;

// ---- Errors ----

/// Ends the program with the library's own words when a call has failed.
inline void check(int status, const char* call) {
  if (status == ACL_SUCCESS) return;
  const char* message = aclGetRecentErrMsg();
  std::fprintf(stderr, "%s failed with status %d: %s\n", call, status, message ? message : "no message");
  std::exit(EXIT_FAILURE);
}

// ---- Device, memory, tensors ----

/// The library, device 0 and one stream, from construction to destruction.
class Device {
 public:
  Device() {
    check(aclInit(nullptr), "aclInit");
    check(aclrtSetDevice(0), "aclrtSetDevice");
    check(aclrtCreateStream(&stream_), "aclrtCreateStream");
  }
  ~Device() {
    check(aclrtDestroyStream(stream_), "aclrtDestroyStream");
    check(aclrtResetDevice(0), "aclrtResetDevice");
    check(aclFinalize(), "aclFinalize");
  }
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  aclrtStream stream() const { return stream_; }

  /// Waits for all that was queued. Copies do not wait by themselves.
  void synchronize() const { check(aclrtSynchronizeStream(stream_), "aclrtSynchronizeStream"); }

 private:
  aclrtStream stream_ = nullptr;
};

class DeviceMemory {
 public:
  /// No memory for 0 bytes: data() is then null, which is what operators expect of an empty workspace.
  explicit DeviceMemory(size_t bytes) : bytes_(bytes) {
    if (bytes_ > 0) check(aclrtMalloc(&data_, bytes_, ACL_MEM_MALLOC_HUGE_FIRST), "aclrtMalloc");
  }
  ~DeviceMemory() {
    if (data_) check(aclrtFree(data_), "aclrtFree");
  }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  void* data_ = nullptr;
  size_t bytes_;
};

/// Owns a tensor handle or an array. The device memory that a tensor handle describes is not part of it.
template <typename Object>
class Handle {
 public:
  using Destroy = aclnnStatus (*)(const Object*);

  Handle(Object* object, Destroy destroy) : object_(object), destroy_(destroy) {
    check(object_ ? ACL_SUCCESS : ACL_ERROR_BAD_ALLOC, "creating a tensor or array");
  }
  ~Handle() { check(destroy_(object_), "destroying a tensor or array"); }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  operator Object*() const { return object_; }

 private:
  Object* object_;
  Destroy destroy_;
};

/// `rounding` is the greatest relative error of rounding to the type, `underflow` the greatest absolute error
/// of rounding a value that is too small for its full precision.
template <typename Element>
struct ElementType;
template <>
struct ElementType<float> {
  static constexpr aclDataType data_type = ACL_FLOAT;
  static constexpr double rounding = 0x1p-24, underflow = 0x1p-150;
};
template <>
struct ElementType<op::fp16_t> {
  static constexpr aclDataType data_type = ACL_FLOAT16;
  static constexpr double rounding = 0x1p-11, underflow = 0x1p-25;
};
template <>
struct ElementType<op::bfloat16> {
  static constexpr aclDataType data_type = ACL_BF16;
  static constexpr double rounding = 0x1p-8, underflow = 0x1p-134;
};
template <>
struct ElementType<int64_t> {
  static constexpr aclDataType data_type = ACL_INT64;
};

using Shape = std::vector<int64_t>;

inline int64_t element_count(const Shape& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, [](int64_t a, int64_t b) { return a * b; });
}

/// Device memory and the handle that describes it, row-major without gaps.
template <typename Element>
class Tensor {
 public:
  explicit Tensor(const Shape& shape)
      : shape_(shape), memory_(element_count(shape) * sizeof(Element)), handle_(describe(shape, nullptr)) {}
  Tensor(const Shape& shape, const std::vector<Element>& elements) : Tensor(shape) { upload(elements); }

  /// The argument to give to an operator.
  operator aclTensor*() const { return handle_; }
  const Shape& shape() const { return shape_; }

  /// Another view of the same memory. Strides count elements.
  Handle<aclTensor> view(const Shape& shape, const Shape& strides) const {
    return describe(shape, strides.data());
  }

  void upload(const std::vector<Element>& elements) {
    check(aclrtMemcpy(memory_.data(), memory_.bytes(), elements.data(), elements.size() * sizeof(Element),
                      ACL_MEMCPY_HOST_TO_DEVICE),
          "aclrtMemcpy to the device");
  }

  /// Call Device::synchronize first when an operator writes the tensor.
  std::vector<Element> download() const {
    std::vector<Element> elements(element_count(shape_));
    check(aclrtMemcpy(elements.data(), elements.size() * sizeof(Element), memory_.data(), memory_.bytes(),
                      ACL_MEMCPY_DEVICE_TO_HOST),
          "aclrtMemcpy from the device");
    return elements;
  }

 private:
  Handle<aclTensor> describe(const Shape& shape, const int64_t* strides) const {
    return {aclCreateTensor(shape.data(), shape.size(), ElementType<Element>::data_type, strides, 0,
                            ACL_FORMAT_ND, shape_.data(), shape_.size(), memory_.data()),
            aclDestroyTensor};
  }

  Shape shape_;
  DeviceMemory memory_;
  Handle<aclTensor> handle_;
};

// ---- Operators ----

/// An operator with its arguments: phase 1 runs once, in the constructor, phase 2 as often as you like. Its
/// tensors must live as long as it does, and the stream must be synchronised before it goes.
class Operator {
 public:
  using Phase2 = aclnnStatus (*)(void* workspace, uint64_t workspace_size, aclOpExecutor*, aclrtStream);

  /// `phase1` is the operator's GetWorkspaceSize function. Its last two arguments are not among these.
  template <typename Phase1, typename... Arguments>
  Operator(const Device& device, const char* name, Phase2 phase2, Phase1 phase1, Arguments&&... arguments)
      : device_(device), name_(name), phase2_(phase2), workspace_(plan(phase1, arguments...)) {
    // Without this, phase 2 would free the executor.
    check(aclSetAclOpExecutorRepeatable(executor_), "aclSetAclOpExecutorRepeatable");
  }
  ~Operator() { check(aclDestroyAclOpExecutor(executor_), "aclDestroyAclOpExecutor"); }
  Operator(const Operator&) = delete;
  Operator& operator=(const Operator&) = delete;

  const char* name() const { return name_; }

  /// Phase 2: queues the work and returns.
  void enqueue() const {
    check(phase2_(workspace_.data(), workspace_.bytes(), executor_, device_.stream()), name_);
  }

  /// Milliseconds of each of `runs` runs, ascending, after one that is not counted.
  std::vector<double> time(int runs) const {
    std::vector<double> milliseconds;
    for (int run = 0; run <= runs; ++run) {
      const auto start = std::chrono::steady_clock::now();
      enqueue();
      device_.synchronize();
      const std::chrono::duration<double, std::milli> elapsed = std::chrono::steady_clock::now() - start;
      if (run > 0) milliseconds.push_back(elapsed.count());
    }
    std::sort(milliseconds.begin(), milliseconds.end());
    return milliseconds;
  }

 private:
  template <typename Phase1, typename... Arguments>
  size_t plan(Phase1 phase1, Arguments&... arguments) {
    uint64_t workspace_size = 0;
    check(phase1(arguments..., &workspace_size, &executor_), name_);
    return workspace_size;
  }

  const Device& device_;
  const char* name_;
  Phase2 phase2_;
  aclOpExecutor* executor_ = nullptr;
  DeviceMemory workspace_;
};

inline void print_times(const std::vector<const Operator*>& operators) {
  constexpr int runs = 5;
  std::printf("\n%-42s %15s %10s\n", "operator", "fastest of 5", "median");
  for (const Operator* op : operators) {
    const std::vector<double> milliseconds = op->time(runs);
    std::printf("%-42s %12.2f ms %7.2f ms\n", op->name(), milliseconds.front(), milliseconds[runs / 2]);
  }
}

// ---- References ----

/// A sum in double precision. The magnitudes of its terms say how far off the same sum in float may be.
struct ReferenceSum {
  double value = 0;
  double magnitude = 0;

  void add(double term) {
    value += term;
    magnitude += std::fabs(term);
  }
};

/// Compares sampled elements of one result with references and keeps the worst.
///
/// Allowed is one rounding to the type of the result, plus the error of the sum in float: its terms come with
/// a few roundings each, and a sum in blocks adds few more, however long it is. 16 roundings are generous for
/// both. Where no term contributes the result must be zero.
template <typename Element>
class Comparison {
 public:
  Comparison(const char* name, const Shape& shape) : name_(name), shape_(shape) {}

  void compare(Element result, const ReferenceSum& reference) {
    using Type = ElementType<Element>;
    const double error = std::fabs(static_cast<double>(result) - reference.value);
    const double sum_error = 16 * ElementType<float>::rounding * reference.magnitude;
    const double allowed = reference.magnitude > 0
                               ? Type::rounding * std::fabs(reference.value) + Type::underflow + sum_error
                               : 0;
    ++count_;
    largest_error_ = std::max(largest_error_, error);
    largest_value_ = std::max(largest_value_, std::fabs(reference.value));
    // Written so that a NaN is a failure.
    if (!(error <= allowed)) ++failures_;
    if (allowed > 0) largest_share_ = std::max(largest_share_, error / allowed);
  }

  /// Prints the row of the table; true when no element failed, and there were some.
  bool print() const {
    std::string shape;
    for (int64_t size : shape_) shape += (shape.empty() ? "" : " x ") + std::to_string(size);
    std::printf("%-15s %-27s %9lld %15.3g %14.2g %10.0f %% %9lld\n", name_, shape.c_str(),
                static_cast<long long>(count_), largest_value_, largest_error_, 100 * largest_share_,
                static_cast<long long>(failures_));
    return failures_ == 0 && count_ > 0;
  }

 private:
  const char* name_;
  Shape shape_;
  int64_t count_ = 0;
  int64_t failures_ = 0;
  double largest_error_ = 0;
  double largest_value_ = 0;
  double largest_share_ = 0;
};

/// Whether all that was printed has arrived; it does not on a full disk.
inline bool printed_all() {
  if (std::fflush(stdout) == 0 && !std::ferror(stdout)) return true;
  std::fprintf(stderr, "standard output cannot be written\n");
  return false;
}

/// Prints a table of the comparisons, and how they went; the result is the program's exit status.
template <typename Element>
int report(const std::vector<Comparison<Element>>& comparisons) {
  std::printf("\n%-15s %-27s %9s %15s %14s %12s %9s\n", "result", "shape", "compared", "largest value",
              "largest error", "of allowed", "failures");
  bool passed = true;
  for (const Comparison<Element>& comparison : comparisons) passed = comparison.print() && passed;
  std::printf("\n%s\n", passed ? "All compared values are as exact as their type allows."
                               : "FAILED: some values are further off than rounding explains.");
  return printed_all() && passed ? EXIT_SUCCESS : EXIT_FAILURE;
}

// ---- Random numbers ----

/// Small and fast, for hundreds of millions of values; the same ones on every machine.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  /// Uniform in [low, high).
  double uniform(double low, double high) { return low + (high - low) * 0x1p-53 * (next() >> 11); }

  template <typename Element>
  std::vector<Element> uniform_vector(int64_t count, double low, double high) {
    std::vector<Element> elements(count);
    for (Element& element : elements) element = Element(uniform(low, high));
    return elements;
  }

 private:
  /// The generator SplitMix64.
  uint64_t next() {
    uint64_t mixed = (state_ += 0x9E3779B97F4A7C15);
    mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9;
    mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EB;
    return mixed ^ (mixed >> 31);
  }

  uint64_t state_;
};

}  // namespace example

#endif
