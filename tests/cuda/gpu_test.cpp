// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// The CUDA kernels and the CUDA device on a GPU, on the cases that the CPU's tests have. A program without a test
// framework, so that it can be built wherever there is an nvcc. `gpu_test short` takes a few cases of each operator, for
// compute-sanitizer.
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <memory>
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

  void set(const void* from) { copy(data(), from, bytes_); }

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

// How the tensors of a problem lie in memory.
struct Memory {
  DataType type;
  bool aligned = true;
  bool channels_last = false;  // tensors with four axes or more: the second one innermost
};

class DeviceTensor {
 public:
  DeviceTensor(Memory memory, const Shape& shape, const std::vector<double>& values = {})
      : type_(memory.type),
        shape_(shape.data(), static_cast<int>(shape.size())),
        channels_last_(memory.channels_last && shape.size() >= 4),
        memory_(static_cast<size_t>(element_count(shape)) * size_of(type_),
                memory.aligned ? 0 : size_of(type_)) {
    if (values.empty()) return;
    Bytes bytes(values.size() * size_of(type_));
    for (size_t i = 0; i < values.size(); ++i)
      write_elements(&values[i], 1, type_, bytes.data() + size_of(type_) * place_of(i), 0);
    memory_.set(bytes.data());
  }

  Tensor tensor() const {
    if (!channels_last_) return {memory_.data(), type_, shape_};
    aclgrad::Shape strides = shape_;
    strides[1] = 1;
    int64_t step = shape_[1];
    for (int axis = shape_.rank() - 1; axis >= 2; step *= shape_[axis--]) strides[axis] = step;
    strides[0] = step;
    return {memory_.data(), type_, shape_, strides};
  }
  Bytes bytes() const { return memory_.get(); }
  std::vector<double> values() const {
    const Bytes bytes = memory_.get();
    std::vector<double> values(bytes.size() / size_of(type_));
    for (size_t i = 0; i < values.size(); ++i)
      read_elements(bytes.data() + size_of(type_) * place_of(i), 0, 1, type_, &values[i]);
    return values;
  }

 private:
  size_t place_of(size_t index) const {
    if (!channels_last_) return index;
    size_t pixels = 1;
    for (int axis = 2; axis < shape_.rank(); ++axis) pixels *= shape_[axis];
    const size_t channels = shape_[1], plane = index / pixels;
    return (plane / channels * pixels + index % pixels) * channels + plane % channels;
  }

  DataType type_;
  aclgrad::Shape shape_;
  bool channels_last_;
  DeviceBytes memory_;
};

DeviceTensor indices_on_device(const Shape& shape, const std::vector<int64_t>& values) {
  return {{DataType::int64}, shape, {values.begin(), values.end()}};
}

// A result of a problem, and what it must be.
template <class Problem>
struct Result {
  const char* name;
  Tensor Problem::*member;
  Shape shape;
  const std::vector<double>& expected;
  double allowed;
  double (*error)(const std::vector<double>& actual, const std::vector<double>& expected) = relative_error;
};

// Computes these results of a problem, and returns their bits.
template <class Problem>
std::vector<Bytes> expect_results(const std::string& what, Problem problem, Memory memory, bool deterministic,
                                  const std::vector<Result<Problem>>& results) {
  std::vector<std::unique_ptr<DeviceTensor>> outputs;
  for (const Result<Problem>& result : results) {
    outputs.push_back(std::make_unique<DeviceTensor>(memory, result.shape));
    problem.*result.member = outputs.back()->tensor();
  }
  const CudaLaunch on{.deterministic = deterministic};
  const DeviceBytes workspace(kernel_workspace_size(problem, on));
  run_kernel(problem, workspace.data(), on);
  require_success(cudaStreamSynchronize(nullptr));
  require_success(cudaGetLastError());
  workspace.get();
  std::vector<Bytes> bits;
  for (size_t i = 0; i < results.size(); ++i) {
    const double error = results[i].error(outputs[i]->values(), results[i].expected);
    expect(error <= results[i].allowed, what + name_of(memory.type) + (memory.aligned ? "" : " unaligned") +
                                            (deterministic ? " deterministic " : " ") + results[i].name +
                                            ": error " + std::to_string(error) + ", allowed " +
                                            std::to_string(results[i].allowed));
    bits.push_back(outputs[i]->bytes());
  }
  return bits;
}

// Of a table, all entries or the first few.
template <class Table>
size_t entries_of(const Table& table) {
  return short_list ? std::min<size_t>(4, std::size(table)) : std::size(table);
}

// ---- Operators

void test_multi_scale_deformable_attention() {
  using namespace multi_scale_deformable_attention_cases;
  using Forward = MultiScaleDeformableAttention;
  using Backward = MultiScaleDeformableAttentionBackward;
  for (size_t k = 0; k < entries_of(kCases); ++k) {
    for (DataType type : kAllTypes) {
      Reference r = random_problem(kCases[k], type);
      r.positions_in_double = type == DataType::float64;
      r.run();
      const double allowed = tolerance(type, true);
      const std::string what = "MSDA case " + std::to_string(k) + " ";
      const DeviceTensor shapes = indices_on_device({r.levels, 2}, r.spatial_shape),
                         starts = indices_on_device({r.levels}, r.level_start_index);
      for (bool aligned : {true, false}) {
        const Memory memory{type, aligned};
        const DeviceTensor value(memory, value_shape(r), r.value),
            location(memory, location_shape(r), r.location),
            weight(memory, attention_shape(r), r.attention_weight),
            grad_output(memory, query_shape(r, false), r.grad_output);
        Backward problem;
        problem.value = value.tensor();
        problem.spatial_shapes = shapes.tensor();
        problem.level_start_index = starts.tensor();
        problem.sampling_locations = location.tensor();
        problem.attention_weights = weight.tensor();
        problem.grad_output = grad_output.tensor();

        Forward forward;
        static_cast<MultiScaleDeformableSampling&>(forward) = problem;
        expect_results(what, forward, memory, false,
                       {{"output", &Forward::output, query_shape(r, false), r.output, allowed}});

        const std::vector<Result<Backward>> all = {
            {"grad_value", &Backward::grad_value, value_shape(r), r.grad_value, allowed},
            {"grad_location", &Backward::grad_sampling_locations, location_shape(r), r.grad_location,
             allowed},
            {"grad_weight", &Backward::grad_attention_weights, attention_shape(r), r.grad_attention_weight,
             allowed}};
        // What is not wanted needs no memory.
        expect_results(what + "alone ", problem, memory, true, {all.back()});
        expect_results(what, problem, memory, false, all);
        expect(expect_results(what, problem, memory, true, all) ==
                   expect_results(what, problem, memory, true, all),
               what + "is bitwise the same again");
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
  static constexpr auto& kSizes = grid_sampler_cases::kSizes;
};

struct Volumes {
  using Sampling = grid_sampler_cases::Sampling3D;
  using Forward = GridSampler3D;
  using Backward = GridSampler3DBackward;
  static constexpr const char* kName = "3-D grid sampler";
  static constexpr auto& kSizes = grid_sampler_cases::kSizes3D;
};

template <class Kind>
void test_output(const typename Kind::Sampling& s, Memory memory, const grid_sampler_cases::Inputs& inputs,
                 const std::string& what) {
  using namespace grid_sampler_cases;
  using Forward = typename Kind::Forward;
  const DeviceTensor input(memory, input_shape(s), inputs.input), grid(memory, grid_shape(s), inputs.grid);
  const auto problem = problem_of<Forward>(s, input.tensor(), grid.tensor());
  const auto output = sample(s, inputs);
  expect_results(what, problem, memory, false,
                 {{"output", &Forward::output, output_shape(s), output, allowed_error(memory.type, output)}});
}

template <class Kind>
void test_gradients(const typename Kind::Sampling& s, Memory memory, const grid_sampler_cases::Inputs& inputs,
                    const std::string& what) {
  using namespace grid_sampler_cases;
  using Backward = typename Kind::Backward;
  const DataType type = memory.type;
  const DeviceTensor input(memory, input_shape(s), inputs.input), grid(memory, grid_shape(s), inputs.grid),
      grad_output(memory, output_shape(s), inputs.grad_output);
  auto problem = problem_of<Backward>(s, input.tensor(), grid.tensor());
  problem.grad_output = grad_output.tensor();
  const auto expected = gradients_of(s, inputs);
  const std::vector<Result<Backward>> gradients = {
      {"grad_input", &Backward::grad_input, input_shape(s), expected.input,
       allowed_error(type, expected.input)},
      {"grad_grid", &Backward::grad_grid, grid_shape(s), expected.grid, allowed_error(type, expected.grid),
       gradient_error}};
  for (const auto& gradient : gradients) expect_results(what + "alone ", problem, memory, false, {gradient});
  expect_results(what, problem, memory, false, gradients);
  expect(expect_results(what, problem, memory, true, gradients) ==
             expect_results(what, problem, memory, true, gradients),
         what + "is bitwise the same again");
}

template <class Kind>
void test_grid_sampler_case(const typename Kind::Sampling& s, Memory memory,
                            const grid_sampler_cases::Inputs& inputs, const std::string& what) {
  test_output<Kind>(s, memory, inputs, what);
  test_gradients<Kind>(s, memory, inputs, what);
}

template <class Kind>
void test_grid_sampler() {
  namespace cases = grid_sampler_cases;
  using Sampling = typename Kind::Sampling;
  for (size_t k = 0; k < entries_of(Kind::kSizes); ++k) {
    for (DataType type : kAllTypes) {
      cases::for_each_mode_to(cases::kLastMode<Sampling>, Kind::kSizes[k], type, [&](const Sampling& s) {
        cases::Inputs inputs(s, type, 1.3);
        const std::string what = std::string(Kind::kName) + " case " + std::to_string(k) + " mode " +
                                 std::to_string(s.mode) + " padding " + std::to_string(s.padding) +
                                 (s.align_corners ? " aligned " : " ");
        test_grid_sampler_case<Kind>(s, {type, true}, inputs, what);
        test_grid_sampler_case<Kind>(s, {type, false}, inputs, what);
        inputs.grid = cases::hostile_grid(s, type);
        test_grid_sampler_case<Kind>(s, {type, true}, inputs, what + "hostile ");
        if (k > 3) return;  // each kernel has had its turn
        // Of samples that read nothing, no gradient is used.
        std::fill(inputs.grid.begin(), inputs.grid.end(), std::nan(""));
        std::fill(inputs.grad_output.begin(), inputs.grad_output.end(),
                  std::numeric_limits<double>::infinity());
        test_gradients<Kind>(s, {type, true}, inputs, what + "without a place ");
      });
    }
  }
}

// Where neighbouring samples add to the same pixels: a few channels, whole quads of them, and many.
template <class Kind>
void test_smooth_grids(typename Kind::Sampling sizes) {
  namespace cases = grid_sampler_cases;
  for (int64_t channels : {4, 6, 8, 20}) {
    sizes.channels = channels;
    for (DataType type : kAllTypes) {
      cases::for_each_mode_to(0, sizes, type, [&](const auto& s) {
        cases::Inputs inputs(s, type, 1.0);
        inputs.grid = cases::smooth_grid(s, type);
        const std::string what =
            std::string("smooth ") + Kind::kName + " " + std::to_string(channels) + " channels ";
        test_gradients<Kind>(s, {type, true}, inputs, what);
        test_gradients<Kind>(s, {type, true, true}, inputs, what + "side by side ");
      });
    }
  }
}

// The image a little turned, and beyond its edges; or scattered.
grid_sampler_cases::Inputs inputs_of_large_image(const reference::GridSampling& s, DataType type,
                                                 bool is_smooth) {
  grid_sampler_cases::Inputs inputs(s, type, 1.1);
  if (!is_smooth) return inputs;
  for (int64_t i = 0; i < s.batch * s.output_height * s.output_width; ++i) {
    const double x = static_cast<double>(i % s.output_width) / 60 - 1.05;
    const double y = static_cast<double>(i / s.output_width % s.output_height) / 60 - 1.05;
    inputs.grid[2 * i] = x + 0.03 * y, inputs.grid[2 * i + 1] = y - 0.03 * x;
  }
  inputs.grid = rounded(inputs.grid, type);
  return inputs;
}

// So large that kernels look at the grid, with many channels, or that each warp looks at its own samples. On the PTX machine
// most of them take long.
void test_large_images() {
  for (bool is_smooth : {true, false}) {
    const std::string what = std::string(is_smooth ? "smooth" : "scattered") + " large image ";
    for (DataType type : {DataType::float32, DataType::float16}) {
      for (int mode : {0, 1}) {
        if (short_list && (type == DataType::float16 || mode == 1)) continue;
        // Rows that quads of pixels fill, and others.
        auto s = grid_sampler_cases::sizes(2, 17, 120, type == DataType::float32 ? 132 : 131, 125, 127);
        s.mode = mode;
        test_grid_sampler_case<Images>(s, {type, mode == 0}, inputs_of_large_image(s, type, is_smooth),
                                       what + "mode " + std::to_string(mode) + " ");
      }
    }
    if (short_list) continue;
    const Memory memory{DataType::float32, true};
    auto s = grid_sampler_cases::sizes(16, 34, 120, 132, 125, 127);
    test_output<Images>(s, memory, inputs_of_large_image(s, memory.type, is_smooth), what + "many channels ");
    s.batch = 8;
    test_gradients<Images>(s, memory, inputs_of_large_image(s, memory.type, is_smooth),
                           what + "many channels ");
    for (int64_t channels : {5, 9}) {
      s.batch = 4, s.channels = channels;
      test_grid_sampler_case<Images>(s, memory, inputs_of_large_image(s, memory.type, is_smooth),
                                     what + std::to_string(channels) + " channels ");
    }
  }
}

void test_nsa_compress_case(const reference::NsaSizes& sizes, Memory memory, const std::string& what) {
  using namespace nsa_compress_cases;
  const Values values(sizes, memory.type);
  const auto expected = reference::nsa_compress_grad(sizes, values.output_grad, values.input, values.weight);
  const auto expected_output = reference::nsa_compress(sizes, values.input, values.weight);
  const double allowed = tolerance(memory.type, false);
  const Shape of_tokens = {tokens_of(sizes), sizes.heads, sizes.channels},
              of_weight = {sizes.block, sizes.heads},
              of_windows = {windows_of(sizes), sizes.heads, sizes.channels};
  const DeviceTensor input(memory, of_tokens, values.input), weight(memory, of_weight, values.weight),
      output_grad(memory, of_windows, values.output_grad);
  const auto sequences = static_cast<int64_t>(sizes.sequence_ends.size());
  const DeviceTensor ends = indices_on_device({sequences}, sizes.sequence_ends);
  NsaCompressBackward problem;
  problem.input = input.tensor();
  problem.weight = weight.tensor();
  problem.stride = sizes.stride;
  problem.grad_output = output_grad.tensor();
  std::vector<Bytes> first;
  for (bool ends_on_gpu : {false, true}) {
    problem.sequence_ends = ends.tensor();
    if (!ends_on_gpu) problem.sequence_ends.data = sizes.sequence_ends.data();
    problem.ends_on_gpu = ends_on_gpu;
    const auto bits = expect_results(
        what, problem, memory, false,
        {{"grad_input", &NsaCompressBackward::grad_input, of_tokens, expected.input, allowed},
         {"grad_weight", &NsaCompressBackward::grad_weight, of_weight, expected.weight, allowed}});
    if (first.empty()) first = bits;
    expect(bits == first, what + "is bitwise the same again");

    NsaCompress forward;
    static_cast<NsaCompression&>(forward) = problem;
    expect_results(what, forward, memory, false,
                   {{"output", &NsaCompress::output, of_windows, expected_output, allowed}});
  }
}

void test_nsa_compress() {
  namespace cases = nsa_compress_cases;
  for (DataType type : kFloatTypes) {
    for (bool aligned : {true, false}) {
      const auto test = [&](const auto& table, const std::string& what) {
        for (size_t k = 0; k < entries_of(table); ++k)
          test_nsa_compress_case(table[k], {type, aligned}, what + std::to_string(k) + " ");
      };
      test(cases::kDocumentedSizes, "NSA compress documented case ");
      test(cases::kAnySizes, "NSA compress case ");
    }
  }
}

void test_grouped_bias_add() {
  namespace cases = grouped_bias_add_cases;
  for (size_t k = 0; k < entries_of(cases::kCases); ++k) {
    const cases::Case& c = cases::kCases[k];
    const auto ranges = cases::ranges_of(c.group_idx, c.group_idx_type, c.rows);
    const auto groups = static_cast<int64_t>(c.group_idx.size());
    const DeviceTensor indices({DataType::int64}, {groups}, c.group_idx);
    for (DataType type : kFloatTypes) {
      const std::vector<double> grad_y = rounded(uniform(c.rows * c.columns, -5, 5, 1), type);
      const auto expected = reference::grouped_bias_add_grad(grad_y, c.columns, ranges);
      for (bool aligned : {true, false}) {
        const std::string what = "grouped bias-add case " + std::to_string(k) + " ";
        const DeviceTensor rows({type, aligned}, {c.rows, c.columns}, grad_y);
        GroupedBiasAddBackward problem;
        problem.grad_output = rows.tensor();
        problem.group_idx = indices.tensor();
        problem.kind = static_cast<GroupKind>(c.group_idx_type);
        const auto bits = [&] {
          return expect_results(what, problem, {type, aligned}, false,
                                {{"grad_bias",
                                  &GroupedBiasAddBackward::grad_bias,
                                  {groups, c.columns},
                                  expected,
                                  tolerance(type, false)}});
        };
        expect(bits() == bits(), what + "is bitwise the same again");
      }
    }
  }
}

// ---- The device

// Of what a call throws.
template <class Call>
int status_of(Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.status();
  }
  return 0;
}

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
  expect(status_of([&] { queue->synchronize(std::nullopt); }) == 507035,
         "a failure comes out of synchronize");
  static const Error wrong_data(507015, "planted");
  const auto other_queue = device.make_queue(std::make_shared<std::atomic<bool>>(false));
  *other_queue->data_failure([](uint32_t) noexcept -> const Error& { return wrong_data; }) = 1;
  other_queue->record(end);
  expect(status_of([&] { end->wait(std::nullopt); }) == 507015,
         "a failure in the data comes out of an event behind it");
  expect(device.core_count() > 0, "it has multiprocessors");
  device.release(MemoryPlace::device, memory);
  device.release(MemoryPlace::host, host);
  expect(status_of([&] { device.allocate(MemoryPlace::device, size_t{1} << 60); }) == 207001,
         "too much memory is refused");
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
  test_smooth_grids<Images>(grid_sampler_cases::sizes(2, 1, 20, 28, 21, 45));
  test_large_images();
  test_grid_sampler<Volumes>();
  test_smooth_grids<Volumes>(grid_sampler_cases::sizes(2, 1, 4, 5, 12, 5, 6, 17));
  std::printf("%d checks, %d failed\n", checks, failures);
  return failures == 0 ? 0 : 1;
}
