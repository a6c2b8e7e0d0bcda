// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The CUDA kernels and the CUDA device on a GPU, on the cases that the CPU's tests have. A program without a test
// framework, so that it can be built wherever there is an nvcc. `gpu_test short` takes a few cases of each operator, for
// compute-sanitizer.
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>

#include "base/data_type.h"
#include "base/error.h"
#include "ops/grid_sampler/cases.h"
#include "ops/grid_sampler/kernel.h"
#include "ops/grouped_bias_add/cases.h"
#include "ops/grouped_bias_add/kernel.h"
#include "ops/multi_scale_deformable_attention/cases.h"
#include "ops/multi_scale_deformable_attention/kernel.h"
#include "ops/nsa_compress/cases.h"
#include "ops/nsa_compress/kernel.h"
#include "runtime/device.h"

namespace aclgrad::test {
namespace {

constexpr DataType kAllTypes[] = {DataType::float32, DataType::float16, DataType::bfloat16,
                                  DataType::float64};

int checks = 0;
int failures = 0;
bool short_list = false;

void expect(bool passed, const std::string& what) {
  ++checks;
  if (passed) return;
  ++failures;
  std::printf("FAILED: %s\n", what.c_str());
}

void require_success(cudaError_t error) {
  if (error == cudaSuccess) return;
  std::printf("CUDA error %s: %s\n", cudaGetErrorName(error), cudaGetErrorString(error));
  std::exit(1);
}

using Bytes = std::vector<std::byte>;

// Of the PTX machine: from here on memory holds no value, whatever is in it.
extern "C" [[gnu::weak]] void ptxUndefine(void* memory, size_t bytes);

// Device memory with a guard on each side, to see what is written there.
class DeviceBytes {
 public:
  // `shift` moves the start away from what a vector needs.
  explicit DeviceBytes(size_t bytes, size_t shift = 0) : bytes_(bytes), first_(kGuard + shift) {
    require_success(cudaMalloc(&memory_, first_ + bytes + kGuard));
    const Bytes pattern(first_ + bytes + kGuard, kPattern);
    copy(memory_, pattern.data(), pattern.size());
    if (ptxUndefine != nullptr) ptxUndefine(data(), bytes);
  }
  ~DeviceBytes() { cudaFree(memory_); }
  DeviceBytes(const DeviceBytes&) = delete;
  DeviceBytes& operator=(const DeviceBytes&) = delete;

  std::byte* data() const { return static_cast<std::byte*>(memory_) + first_; }

  void set(const Bytes& bytes) { copy(data(), bytes.data(), bytes.size()); }

  Bytes get() const {
    Bytes all(first_ + bytes_ + kGuard);
    copy(all.data(), memory_, all.size());
    const auto begin = all.begin() + static_cast<ptrdiff_t>(first_);
    const auto end = begin + static_cast<ptrdiff_t>(bytes_);
    const auto is_pattern = [](std::byte byte) { return byte == kPattern; };
    expect(std::all_of(all.begin(), begin, is_pattern) && std::all_of(end, all.end(), is_pattern),
           "nothing is written outside of the tensors");
    return {begin, end};
  }

 private:
  static constexpr size_t kGuard = 1024;
  static constexpr std::byte kPattern{0xA5};

  static void copy(void* to, const void* from, size_t bytes) {
    require_success(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, nullptr));
    require_success(cudaStreamSynchronize(nullptr));
  }

  void* memory_ = nullptr;
  size_t bytes_;
  size_t first_;
};

class DeviceTensor {
 public:
  DeviceTensor(int64_t count, DataType type, bool aligned)
      : type_(type), memory_(static_cast<size_t>(count) * size_of(type), aligned ? 0 : size_of(type)) {}
  DeviceTensor(const std::vector<double>& values, DataType type, bool aligned)
      : DeviceTensor(static_cast<int64_t>(values.size()), type, aligned) {
    Bytes bytes(values.size() * size_of(type));
    const auto count = static_cast<int64_t>(values.size());
    write_elements(values.data(), count, type, bytes.data(), static_cast<int64_t>(size_of(type)));
    memory_.set(bytes);
  }

  void* data() const { return memory_.data(); }
  Bytes bytes() const { return memory_.get(); }
  std::vector<double> values() const {
    const Bytes bytes = memory_.get();
    std::vector<double> values(bytes.size() / size_of(type_));
    const auto count = static_cast<int64_t>(values.size());
    read_elements(bytes.data(), static_cast<int64_t>(size_of(type_)), count, type_, values.data());
    return values;
  }

 private:
  DataType type_;
  DeviceBytes memory_;
};

class DeviceIndices {
 public:
  explicit DeviceIndices(const std::vector<int64_t>& values) : memory_(values.size() * sizeof(int64_t)) {
    Bytes bytes(values.size() * sizeof(int64_t));
    std::memcpy(bytes.data(), values.data(), bytes.size());
    memory_.set(bytes);
  }
  const int64_t* data() const { return reinterpret_cast<const int64_t*>(memory_.data()); }

 private:
  DeviceBytes memory_;
};

template <class Problem>
void run(const Problem& problem, bool deterministic) {
  const CudaLaunch on{.deterministic = deterministic};
  const DeviceBytes workspace(kernel_workspace_size(problem, on));
  run_kernel(problem, workspace.data(), on);
  require_success(cudaStreamSynchronize(nullptr));
  require_success(cudaGetLastError());
  workspace.get();
}

void expect_close(const std::vector<double>& actual, const std::vector<double>& expected, double allowed,
                  const std::string& what) {
  const double error = relative_error(actual, expected);
  expect(error <= allowed,
         what + ": error " + std::to_string(error) + ", allowed " + std::to_string(allowed));
}

// Of a table, all entries or the first few.
template <class Table>
size_t entries_of(const Table& table) {
  return short_list ? std::min<size_t>(4, std::size(table)) : std::size(table);
}

// ---- Operators

void test_multi_scale_deformable_attention() {
  namespace cases = multi_scale_deformable_attention_cases;
  for (size_t k = 0; k < entries_of(cases::kCases); ++k) {
    for (DataType type : kAllTypes) {
      cases::Reference r = cases::random_problem(cases::kCases[k], type);
      r.positions_in_double = type == DataType::float64;
      r.run();
      for (bool aligned : {true, false}) {
        const DeviceTensor value(r.value, type, aligned), location(r.location, type, aligned);
        const DeviceTensor weight(r.attention_weight, type, aligned),
            grad_output(r.grad_output, type, aligned);
        const DeviceIndices shape(r.spatial_shape), start(r.level_start_index);
        const auto count = [](const std::vector<double>& like) { return static_cast<int64_t>(like.size()); };
        auto problem = cases::problem_of<MultiScaleDeformableAttentionBackward>(
            r, type, value.data(), location.data(), weight.data(), shape.data(), start.data());
        problem.grad_output = {grad_output.data(), type, cases::output_shape(r)};
        const std::string what =
            "MSDA case " + std::to_string(k) + " " + name_of(type) + (aligned ? "" : " unaligned");
        const double allowed = tolerance(type, true);

        MultiScaleDeformableAttention forward;
        static_cast<MultiScaleDeformableSampling&>(forward) = problem;
        const DeviceTensor output(count(r.output), type, aligned);
        forward.output = {output.data(), type, cases::output_shape(r)};
        run(forward, false);
        expect_close(output.values(), r.output, allowed, what + " output");

        // What is not wanted needs no memory.
        const DeviceTensor only_weight(count(r.attention_weight), type, aligned);
        problem.grad_attention_weights = {only_weight.data(), type, problem.attention_weights.shape};
        run(problem, true);
        expect_close(only_weight.values(), r.grad_attention_weight, allowed,
                     what + " grad_attention_weight alone");

        Bytes first;
        for (bool deterministic : {false, true, true}) {
          const DeviceTensor grad_value(count(r.value), type, aligned),
              grad_location(count(r.location), type, aligned);
          const DeviceTensor grad_weight(count(r.attention_weight), type, aligned);
          problem.grad_value = {grad_value.data(), type, problem.value.shape};
          problem.grad_sampling_locations = {grad_location.data(), type, problem.sampling_locations.shape};
          problem.grad_attention_weights = {grad_weight.data(), type, problem.attention_weights.shape};
          run(problem, deterministic);
          const std::string mode = what + (deterministic ? " deterministic" : " fast");
          expect_close(grad_value.values(), r.grad_value, allowed, mode + " grad_value");
          expect_close(grad_location.values(), r.grad_location, allowed, mode + " grad_location");
          expect_close(grad_weight.values(), r.grad_attention_weight, allowed,
                       mode + " grad_attention_weight");
          if (!deterministic) continue;
          if (first.empty()) first = grad_value.bytes();
          expect(grad_value.bytes() == first, mode + " is bitwise the same again");
        }
      }
    }
  }
}

// What the grid samplers of images and of volumes differ in.
struct Images {
  using Sampling = grid_sampler_cases::Sampling;
  using Forward = GridSampler2D;
  using Backward = GridSampler2DBackward;
  static constexpr const char* kName = "grid sampler";
  static constexpr int kModes = 3;
  static constexpr auto& kSizes = grid_sampler_cases::kSizes;
};

struct Volumes {
  using Sampling = grid_sampler_cases::Sampling3D;
  using Forward = GridSampler3D;
  using Backward = GridSampler3DBackward;
  static constexpr const char* kName = "3-D grid sampler";
  static constexpr int kModes = 2;
  static constexpr auto& kSizes = grid_sampler_cases::kSizes3D;
};

template <class Kind>
void test_grid_sampler_case(const typename Kind::Sampling& s, DataType type,
                            const grid_sampler_cases::Inputs& inputs, bool aligned, const std::string& what) {
  namespace cases = grid_sampler_cases;
  const DeviceTensor input(inputs.input, type, aligned), grid(inputs.grid, type, aligned);
  const DeviceTensor grad_output(inputs.grad_output, type, aligned);
  auto problem = cases::problem_of<typename Kind::Backward>(s, type, input.data(), grid.data());
  problem.grad_output = {grad_output.data(), type, cases::output_extents(s)};

  typename Kind::Forward forward;
  static_cast<GridSampling&>(forward) = problem;
  const DeviceTensor output(element_count(cases::output_shape(s)), type, aligned);
  forward.output = {output.data(), type, cases::output_extents(s)};
  run(forward, false);
  const auto expected_output = cases::sample(s, inputs);
  expect_close(output.values(), expected_output, cases::allowed_error(type, expected_output),
               what + " output");

  const auto expected = cases::gradients_of(s, inputs);
  Bytes first;
  for (bool deterministic : {false, true, true}) {
    const DeviceTensor input_grad(element_count(cases::input_shape(s)), type, aligned);
    const DeviceTensor grid_grad(element_count(cases::grid_shape(s)), type, aligned);
    problem.grad_input = {input_grad.data(), type, problem.input.shape};
    problem.grad_grid = {grid_grad.data(), type, problem.grid.shape};
    run(problem, deterministic);
    const std::string mode = what + (deterministic ? " deterministic" : " fast");
    expect_close(input_grad.values(), expected.input, cases::allowed_error(type, expected.input),
                 mode + " input_grad");
    expect(
        cases::gradient_error(grid_grad.values(), expected.grid) <= cases::allowed_error(type, expected.grid),
        mode + " grid_grad");
    if (!deterministic) continue;
    if (first.empty()) first = input_grad.bytes();
    expect(input_grad.bytes() == first, mode + " is bitwise the same again");
  }
}

template <class Kind>
void test_grid_sampler() {
  namespace cases = grid_sampler_cases;
  for (size_t k = 0; k < entries_of(Kind::kSizes); ++k) {
    for (DataType type : kAllTypes) {
      for (int variant = 0; variant < Kind::kModes * 6; ++variant) {
        auto s = Kind::kSizes[k];
        s.mode = variant % Kind::kModes, s.padding = variant / Kind::kModes % 3;
        s.align_corners = variant >= Kind::kModes * 3;
        s.positions_in_double = type == DataType::float64;
        cases::Inputs inputs(s, type, 1.3);
        const std::string what = std::string(Kind::kName) + " case " + std::to_string(k) + " mode " +
                                 std::to_string(s.mode) + " padding " + std::to_string(s.padding) +
                                 (s.align_corners ? " aligned " : " ") + name_of(type);
        test_grid_sampler_case<Kind>(s, type, inputs, true, what);
        test_grid_sampler_case<Kind>(s, type, inputs, false, what + " unaligned");
        inputs.grid = cases::hostile_grid(s, type);
        test_grid_sampler_case<Kind>(s, type, inputs, true, what + " hostile");
      }
    }
  }
}

// So large that what is fast depends on the grid: smooth, with the image a little turned and beyond its edges, and scattered.
void test_large_images() {
  namespace cases = grid_sampler_cases;
  for (bool is_smooth : {true, false}) {
    for (DataType type : {DataType::float32, DataType::float16}) {
      for (int mode : {0, 1}) {
        auto s = cases::sizes(2, 17, 120, 131, 125, 127);
        s.mode = mode;
        cases::Inputs inputs(s, type, 1.1);
        if (is_smooth) {
          for (int64_t i = 0; i < s.batch * s.output_height * s.output_width; ++i) {
            const double x = static_cast<double>(i % s.output_width) / 60 - 1.05;
            const double y = static_cast<double>(i / s.output_width % s.output_height) / 60 - 1.05;
            inputs.grid[2 * i] = x + 0.03 * y, inputs.grid[2 * i + 1] = y - 0.03 * x;
          }
          inputs.grid = rounded(inputs.grid, type);
        }
        const bool aligned = mode == 0;
        test_grid_sampler_case<Images>(s, type, inputs, aligned,
                                       std::string(is_smooth ? "smooth" : "scattered") +
                                           " large image mode " + std::to_string(mode) + " " + name_of(type));
      }
    }
  }
}

void test_nsa_compress_case(const reference::NsaSizes& sizes, DataType type, bool aligned,
                            const std::string& what) {
  const nsa_compress_cases::Values values(sizes, type);
  const auto expected = reference::nsa_compress_grad(sizes, values.output_grad, values.input, values.weight);
  const auto expected_output = reference::nsa_compress(sizes, values.input, values.weight);
  const DeviceTensor input(values.input, type, aligned), weight(values.weight, type, aligned);
  const DeviceTensor output_grad(values.output_grad, type, aligned);
  const DeviceIndices ends(sizes.sequence_ends);
  const auto count = [](const std::vector<double>& like) { return static_cast<int64_t>(like.size()); };
  const aclgrad::Shape of_tokens = {nsa_compress_cases::tokens_of(sizes), sizes.heads, sizes.channels},
                       of_windows = {nsa_compress_cases::windows_of(sizes), sizes.heads, sizes.channels},
                       of_weight = {sizes.block, sizes.heads};
  Bytes first;
  for (bool ends_on_gpu : {false, true}) {
    const DeviceTensor input_grad(count(values.input), type, aligned),
        output(count(expected_output), type, aligned);
    const DeviceTensor weight_grad(count(values.weight), type, aligned);
    NsaCompressBackward problem;
    problem.input = {input.data(), type, of_tokens};
    problem.weight = {weight.data(), type, of_weight};
    problem.stride = sizes.stride;
    problem.sequence_ends = {ends_on_gpu ? ends.data() : sizes.sequence_ends.data(),
                             {static_cast<int64_t>(sizes.sequence_ends.size())}};
    problem.ends_on_gpu = ends_on_gpu;
    problem.grad_output = {output_grad.data(), type, of_windows};
    problem.grad_input = {input_grad.data(), type, of_tokens};
    problem.grad_weight = {weight_grad.data(), type, of_weight};
    run(problem, false);
    expect_close(input_grad.values(), expected.input, tolerance(type, false), what + " input_grad");
    expect_close(weight_grad.values(), expected.weight, tolerance(type, false), what + " weight_grad");
    if (first.empty()) first = weight_grad.bytes();
    expect(weight_grad.bytes() == first, what + " is bitwise the same again");

    NsaCompress forward;
    static_cast<NsaCompression&>(forward) = problem;
    forward.output = {output.data(), type, of_windows};
    run(forward, false);
    expect_close(output.values(), expected_output, tolerance(type, false), what + " output");
  }
}

void test_nsa_compress() {
  for (DataType type : kFloatTypes) {
    for (bool aligned : {true, false}) {
      const std::string with = std::string(" ") + name_of(type) + (aligned ? "" : " unaligned");
      for (size_t k = 0; k < entries_of(nsa_compress_cases::kDocumentedSizes); ++k) {
        test_nsa_compress_case(nsa_compress_cases::kDocumentedSizes[k], type, aligned,
                               "NSA compress documented case " + std::to_string(k) + with);
      }
      for (size_t k = 0; k < entries_of(nsa_compress_cases::kAnySizes); ++k) {
        test_nsa_compress_case(nsa_compress_cases::kAnySizes[k], type, aligned,
                               "NSA compress case " + std::to_string(k) + with);
      }
    }
  }
}

void test_grouped_bias_add() {
  namespace cases = grouped_bias_add_cases;
  for (size_t k = 0; k < entries_of(cases::kCases); ++k) {
    const cases::Case& c = cases::kCases[k];
    const cases::Ranges ranges = cases::ranges_of(c.group_idx, c.group_idx_type, c.rows);
    std::vector<int64_t> group_idx;
    for (double value : c.group_idx) group_idx.push_back(static_cast<int64_t>(value));
    const DeviceIndices indices(group_idx);
    for (DataType type : kFloatTypes) {
      const std::vector<double> grad_y = rounded(uniform(c.rows * c.columns, -5, 5, 1), type);
      const auto expected = reference::grouped_bias_add_grad(grad_y, c.columns, ranges.begin, ranges.end);
      for (bool aligned : {true, false}) {
        const std::string what = "grouped bias-add case " + std::to_string(k) + " " + name_of(type);
        const DeviceTensor rows(grad_y, type, aligned);
        Bytes first;
        for (int again = 0; again < 2; ++again) {
          const DeviceTensor out(static_cast<int64_t>(expected.size()), type, aligned);
          const auto groups = static_cast<int64_t>(c.group_idx.size());
          GroupedBiasAddBackward problem;
          problem.grad_output = {rows.data(), type, {c.rows, c.columns}};
          problem.group_idx = {indices.data(), {groups}};
          problem.kind = static_cast<GroupKind>(c.group_idx_type);
          problem.grad_bias = {out.data(), type, {groups, c.columns}};
          run(problem, false);
          expect_close(out.values(), expected, tolerance(type, false), what);
          if (first.empty()) first = out.bytes();
          expect(out.bytes() == first, what + " is bitwise the same again");
        }
      }
    }
  }
}

// ---- The device

void test_device() {
  Device& device = DeviceDriver::get(DeviceKind::cuda, 0);
  expect(device.memory_info().total_bytes > 0, "the device tells its memory");
  auto* host = static_cast<uint32_t*>(device.allocate(MemoryPlace::host, 4096));
  void* memory = device.allocate(MemoryPlace::device, 4096);
  const auto queue = device.make_queue(std::make_shared<std::atomic<bool>>(false));
  const auto start = device.make_event_state(), end = device.make_event_state();
  queue->record(start);
  queue->fill({memory, 0x11, 4096});
  queue->copy({host, 4096, memory, 4096, 4096, 1});
  bool called = false;
  queue->submit_host([&](Queue&) { called = true; });
  queue->record(end);
  expect(queue->synchronize(std::nullopt), "the queue ends");
  expect(queue->idle() && end->reached(), "it is idle then, and the event reached");
  expect(called && host[0] == 0x11111111 && host[1023] == 0x11111111, "its work is done");
  expect(end->milliseconds_since(*start) >= 0, "events measure time");
  queue->submit(0, [](Queue&) { throw Error(507035, "planted"); });
  bool failed = false;
  try {
    queue->synchronize(std::nullopt);
  } catch (const Error& error) {
    failed = error.status() == 507035;
  }
  expect(failed, "a failure comes out of synchronize");
  static const Error wrong_data(507015, "planted");
  *queue->data_failure([](uint32_t) noexcept -> const Error& { return wrong_data; }) = 1;
  const auto behind = device.make_event_state();
  queue->record(behind);
  bool told = false;
  try {
    behind->wait(std::nullopt);
  } catch (const Error&) {
    told = true;
  }
  expect(told, "a failure in the data comes out of an event behind it");
  expect(device.core_count() > 0, "it has multiprocessors");
  device.release(MemoryPlace::device, memory);
  device.release(MemoryPlace::host, host);
  bool refused = false;
  try {
    device.allocate(MemoryPlace::device, size_t{1} << 60);
  } catch (const Error& error) {
    refused = error.status() == 207001;
  }
  expect(refused, "too much memory is refused");
}

}  // namespace
}  // namespace aclgrad::test

int main(int argc, char** argv) {
  using namespace aclgrad::test;
  if (aclgrad::DeviceDriver::count(aclgrad::DeviceKind::cuda) == 0) {
    std::printf("There is no CUDA device, or no driver for it: nothing was tested.\n");
    return 2;
  }
  short_list = argc > 1 && std::string(argv[1]) == "short";
  test_device();
  test_grouped_bias_add();
  test_nsa_compress();
  test_multi_scale_deformable_attention();
  test_grid_sampler<Images>();
  test_large_images();
  test_grid_sampler<Volumes>();
  std::printf("%d checks, %d failed\n", checks, failures);
  return failures == 0 ? 0 : 1;
}
