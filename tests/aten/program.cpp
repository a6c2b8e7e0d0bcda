// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// A C++ program on the installed prefix, built with -lopapi -lnnopbase -lascendcl alone. First in the style of an inference
// engine's back end: tensors as views of one buffer, workspaces from a pool that the stream's order makes safe, copies and
// events on streams, weights of few bits, attention, an unserved combination. Then functions of the companion library between
// our own operators in one stream, events, threads, a child, repeatable executors, failures.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "acl/acl.h"
#include "aclnnop/aclnn_add.h"
#include "aclnnop/aclnn_cast.h"
#include "aclnnop/aclnn_convert_weight_to_int4_pack.h"
#include "aclnnop/aclnn_fused_infer_attention_score_v2.h"
#include "aclnnop/aclnn_grouped_bias_add_grad.h"
#include "aclnnop/aclnn_index_select.h"
#include "aclnnop/aclnn_matmul.h"
#include "aclnnop/aclnn_nonzero.h"
#include "aclnnop/aclnn_trans_matmul_weight.h"
#include "aclnnop/aclnn_weight_quant_batch_matmul_v2.h"
#include "aclnnop/level2/aclnn_mul.h"

#define CHECK(condition)                                                              \
  do {                                                                                \
    if (!(condition)) {                                                               \
      const char* message = aclGetRecentErrMsg();                                     \
      std::printf("line %d: %s\n%s\n", __LINE__, #condition, message ? message : ""); \
      std::exit(1);                                                                   \
    }                                                                                 \
  } while (false)

namespace {

using Shape = std::vector<int64_t>;

struct Backend {
  Backend() {
    CHECK(aclInit(nullptr) == ACL_SUCCESS && aclrtSetDevice(0) == ACL_SUCCESS);
    size_t free = 0, total = 0;
    CHECK(aclrtGetMemInfo(ACL_HBM_MEM, &free, &total) == ACL_SUCCESS && free > 0 && free <= total);
    CHECK(aclrtGetSocName() != nullptr && aclrtCreateStream(&stream) == ACL_SUCCESS);
    CHECK(aclrtMalloc(reinterpret_cast<void**>(&buffer), kBytes, ACL_MEM_MALLOC_HUGE_FIRST) == ACL_SUCCESS);
    CHECK(aclrtMemsetAsync(buffer, kBytes, 0xFF, kBytes, stream) == ACL_SUCCESS);
  }
  ~Backend() {
    for (auto& [data, size] : pool) CHECK(aclrtFree(data) == ACL_SUCCESS);
    CHECK(aclrtFree(buffer) == ACL_SUCCESS && aclrtDestroyStream(stream) == ACL_SUCCESS);
    CHECK(aclrtResetDevice(0) == ACL_SUCCESS && aclFinalize() == ACL_SUCCESS);
  }

  void* workspace(size_t size) {
    for (auto& [data, bytes] : pool) {
      if (bytes >= size) return data;
    }
    pool.push_back({nullptr, size});
    CHECK(aclrtMalloc(&pool.back().data, size, ACL_MEM_MALLOC_HUGE_FIRST) == ACL_SUCCESS);
    return pool.back().data;
  }

  // Both phases; the handles are destroyed while the stream still works.
  template <class First, class Second, class... Arguments>
  void call(First first, Second second, Arguments... arguments) {
    uint64_t size = 0;
    aclOpExecutor* executor = nullptr;
    CHECK(first(arguments..., &size, &executor) == ACL_SUCCESS);
    CHECK(second(size > 0 ? workspace(size) : nullptr, size, executor, stream) == ACL_SUCCESS);
    (destroy(arguments), ...);
  }
  static void destroy(aclTensor* tensor) { CHECK(aclDestroyTensor(tensor) == ACL_SUCCESS); }
  static void destroy(aclTensorList* list) { CHECK(aclDestroyTensorList(list) == ACL_SUCCESS); }
  template <class T>
  static void destroy(T) {}

  size_t take(size_t bytes) { return std::exchange(used, used + (bytes + 63) / 64 * 64); }

  aclTensor* tensor(size_t at, aclDataType type, const Shape& shape, const Shape& strides = {},
                    int64_t offset = 0) {
    int64_t stored = offset + 1;
    for (size_t i = 0; i < strides.size(); ++i) stored += (shape[i] - 1) * strides[i];
    if (strides.empty()) stored = 1 << 20;
    return aclCreateTensor(shape.data(), shape.size(), type, strides.empty() ? nullptr : strides.data(),
                           offset, ACL_FORMAT_ND, &stored, 1, buffer + at);
  }

  template <class T>
  size_t put(const std::vector<T>& values) {
    const size_t at = take(values.size() * sizeof(T));
    CHECK(aclrtMemcpyAsync(buffer + at, values.size() * sizeof(T), values.data(), values.size() * sizeof(T),
                           ACL_MEMCPY_HOST_TO_DEVICE, stream) == ACL_SUCCESS);
    CHECK(aclrtSynchronizeStream(stream) == ACL_SUCCESS);
    return at;
  }
  size_t put_half(const std::vector<float>& values) {
    const size_t from = put(values), at = take(values.size() * 2);
    const Shape shape{static_cast<int64_t>(values.size())};
    call(aclnnCastGetWorkspaceSize, aclnnCast, tensor(from, ACL_FLOAT, shape), ACL_FLOAT16,
         tensor(at, ACL_FLOAT16, shape));
    return at;
  }
  std::vector<float> get(size_t at, size_t count, aclDataType type) {
    std::vector<float> values(count);
    const Shape shape{static_cast<int64_t>(count)};
    const size_t to = take(count * 4);
    call(aclnnCastGetWorkspaceSize, aclnnCast, tensor(at, type, shape), ACL_FLOAT,
         tensor(to, ACL_FLOAT, shape));
    CHECK(aclrtMemcpyAsync(values.data(), count * 4, buffer + to, count * 4, ACL_MEMCPY_DEVICE_TO_HOST,
                           stream) == ACL_SUCCESS);
    CHECK(aclrtSynchronizeStream(stream) == ACL_SUCCESS);
    return values;
  }

  static constexpr size_t kBytes = 8 << 20;
  struct Block {
    void* data;
    size_t size;
  };
  aclrtStream stream = nullptr;
  std::byte* buffer = nullptr;
  size_t used = 0;
  std::vector<Block> pool;
};

bool near(float value, double expected) {
  return std::abs(value - expected) <= 0.01 * std::max(1.0, std::abs(expected));
}

float element(int64_t i) {
  return static_cast<float>((i * 37 + 11) % 19 - 9) / 8;
}

std::vector<float> numbers(int64_t count) {
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(element(i));
  return values;
}

// Rows of columns, transposed by strides and with an offset, added and scaled.
void views(Backend& b) {
  const size_t x = b.put(numbers(13)), y = b.put(numbers(12)), out = b.take(48);
  float one_value = 1;
  aclScalar* one = aclCreateScalar(&one_value, ACL_FLOAT);
  b.call(aclnnAddGetWorkspaceSize, aclnnAdd, b.tensor(x, ACL_FLOAT, {3, 4}, {1, 3}, 1),
         b.tensor(y, ACL_FLOAT, {3, 4}), one, b.tensor(out, ACL_FLOAT, {3, 4}));
  CHECK(aclDestroyScalar(one) == ACL_SUCCESS);
  const std::vector<float> sums = b.get(out, 12, ACL_FLOAT);
  for (int64_t i = 0; i < 12; ++i)
    CHECK(near(sums[static_cast<size_t>(i)], element(1 + i / 4 + i % 4 * 3) + element(i)));
}

// x [2, 64] by weights of int4 and int8 with a scale for each 32 rows of each column; stored column by column.
void weights_of_few_bits(Backend& b, bool is_int4) {
  constexpr int64_t kRows = 64, kColumns = 4, kGroup = 32;
  const auto weight = [](int64_t k, int64_t n) { return static_cast<int>((k * 7 + n * 5) % 16) - 8; };
  const auto scale = [](int64_t g, int64_t n) { return static_cast<float>(1 + g + n) / 8; };
  std::vector<int32_t> integers;
  std::vector<float> scales;
  for (int64_t n = 0; n < kColumns; ++n) {
    for (int64_t k = 0; k < kRows; ++k) integers.push_back(weight(k, n));
    for (int64_t g = 0; g < kRows / kGroup; ++g) scales.push_back(scale(g, n));
  }
  const size_t x = b.put_half(numbers(2 * kRows)), wide = b.put(integers), w = b.take(integers.size()),
               s = b.put_half(scales), out = b.take(64);
  if (is_int4) {
    b.call(aclnnConvertWeightToINT4PackGetWorkspaceSize, aclnnConvertWeightToINT4Pack,
           b.tensor(wide, ACL_INT32, {kColumns, kRows}), b.tensor(w, ACL_INT4, {kColumns, kRows}));
  } else {
    b.call(aclnnCastGetWorkspaceSize, aclnnCast, b.tensor(wide, ACL_INT32, {kColumns, kRows}), ACL_INT8,
           b.tensor(w, ACL_INT8, {kColumns, kRows}));
  }
  aclTensor* const none = nullptr;
  b.call(aclnnWeightQuantBatchMatmulV2GetWorkspaceSize, aclnnWeightQuantBatchMatmulV2,
         b.tensor(x, ACL_FLOAT16, {2, kRows}),
         b.tensor(w, is_int4 ? ACL_INT4 : ACL_INT8, {kRows, kColumns}, {1, kRows}),
         b.tensor(s, ACL_FLOAT16, {kRows / kGroup, kColumns}, {1, kRows / kGroup}), none, none, none, none,
         static_cast<int>(kGroup), b.tensor(out, ACL_FLOAT16, {2, kColumns}));
  const std::vector<float> products = b.get(out, 2 * kColumns, ACL_FLOAT16);
  for (int64_t i = 0; i < 2 * kColumns; ++i) {
    double expected = 0;
    for (int64_t k = 0; k < kRows; ++k)
      expected +=
          element(i / kColumns * kRows + k) * weight(k, i % kColumns) * scale(k / kGroup, i % kColumns);
    CHECK(near(products[static_cast<size_t>(i)], expected));
  }
}

aclnnStatus plan_attention(aclTensor* query, aclTensorList* key, aclTensorList* value, aclTensor* shift,
                           aclTensor* table, aclTensor* out, uint64_t* size, aclOpExecutor** executor) {
  char layout[] = "BSND";
  return aclnnFusedInferAttentionScoreV2GetWorkspaceSize(
      query, key, value, shift, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr,
      nullptr, nullptr, table, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr,
      nullptr, 2, 0.5, 65535, 65535, layout, 1, 0, 2, 0, 0, false, 0, 0, out, nullptr, size, executor);
}

// Two heads of queries that share a head of keys; paged keys are refused by name.
void attention(Backend& b) {
  constexpr int64_t kQueries = 3, kKeys = 5, kHeads = 2, kChannels = 4;
  const size_t q = b.put_half(numbers(kQueries * kHeads * kChannels)),
               k = b.put_half(numbers(kKeys * kChannels)), v = b.put_half(numbers(kKeys * kChannels)),
               out = b.take(256);
  std::vector<float> shifts;
  for (int64_t i = 0; i < kHeads * kQueries * kKeys; ++i)
    shifts.push_back(i % kKeys > i / kKeys % kQueries + 2 ? -INFINITY : 0.0F);
  const size_t shift = b.put_half(shifts);
  aclTensor* query = b.tensor(q, ACL_FLOAT16, {1, kQueries, kHeads, kChannels});
  aclTensor* const keys = b.tensor(k, ACL_FLOAT16, {1, kKeys, 1, kChannels});
  aclTensor* const values = b.tensor(v, ACL_FLOAT16, {1, kKeys, 1, kChannels});
  aclTensorList* key = aclCreateTensorList(&keys, 1);
  aclTensorList* value = aclCreateTensorList(&values, 1);
  aclTensor* by = b.tensor(shift, ACL_FLOAT16, {1, kHeads, kQueries, kKeys});
  aclTensor* result = b.tensor(out, ACL_FLOAT16, {1, kQueries, kHeads, kChannels});
  uint64_t size = 0;
  aclOpExecutor* executor = nullptr;
  CHECK(plan_attention(query, key, value, by, by, result, &size, &executor) == 161002);
  CHECK(std::strstr(aclGetRecentErrMsg(), "blockTableOptional") != nullptr);
  CHECK(plan_attention(query, key, value, by, nullptr, result, &size, &executor) == ACL_SUCCESS);
  CHECK(aclnnFusedInferAttentionScoreV2(nullptr, size, executor, b.stream) == ACL_SUCCESS);
  for (aclTensor* tensor : {query, by, result}) Backend::destroy(tensor);
  Backend::destroy(key);
  Backend::destroy(value);
  const std::vector<float> found = b.get(out, kQueries * kHeads * kChannels, ACL_FLOAT16);
  for (int64_t row = 0; row < kQueries * kHeads; ++row) {
    double sum = 0, weighted[kChannels] = {};
    for (int64_t j = 0; j < kKeys && j <= row / kHeads + 2; ++j) {
      double score = 0;
      for (int64_t c = 0; c < kChannels; ++c)
        score += 0.5 * element(row * kChannels + c) * element(j * kChannels + c);
      sum += std::exp(score);
      for (int64_t c = 0; c < kChannels; ++c) weighted[c] += std::exp(score) * element(j * kChannels + c);
    }
    for (int64_t c = 0; c < kChannels; ++c)
      CHECK(near(found[static_cast<size_t>(row * kChannels + c)], weighted[c] / sum));
  }
}

// Phase 2 tells how many there are. Nothing is written where the results do not fit, and the program hears of it.
void places_of_what_is_not_zero(Backend& b) {
  const size_t x = b.put(std::vector<float>{0, 3, 0, 0, -1, 2});
  for (const int64_t room : {6, 2}) {
    const size_t out = b.put(std::vector<int64_t>(12, -1));
    aclTensor* result = b.tensor(out, ACL_INT64, {room, 2});
    aclTensor* from = b.tensor(x, ACL_FLOAT, {2, 3});
    aclrtStream stream = nullptr;
    uint64_t size = 0, rank = 0;
    int64_t* shape = nullptr;
    aclOpExecutor* executor = nullptr;
    CHECK(aclrtCreateStream(&stream) == ACL_SUCCESS);
    CHECK(aclnnNonzeroGetWorkspaceSize(from, result, &size, &executor) == ACL_SUCCESS);
    CHECK(aclnnNonzero(nullptr, size, executor, stream) == ACL_SUCCESS);
    const char* message = "aclnnNonzero: out: expected room for [3, 2]";
    CHECK(aclrtSynchronizeStream(stream) == (room == 6 ? ACL_SUCCESS : 507015));
    if (room == 2) CHECK(std::strstr(aclGetRecentErrMsg(), message) != nullptr);
    CHECK(aclGetViewShape(result, &shape, &rank) == ACL_SUCCESS && rank == 2 &&
          shape[0] == (room == 6 ? 3 : 2));
    delete[] shape;
    Backend::destroy(from);
    Backend::destroy(result);
    CHECK(aclrtDestroyStream(stream) == ACL_SUCCESS);
    const std::vector<float> written = {0, 1, 1, 1, 1, 2}, untouched(6, -1);
    CHECK(b.get(out, 6, ACL_INT64) == (room == 6 ? written : untouched));
  }
}

// What programs do with a weight before they multiply with it. Here its layout stays.
void private_formats(Backend& b) {
  const size_t x = b.put(numbers(12)), y = b.take(48);
  int64_t* shape = nullptr;
  uint64_t rank = 0, elements = 0;
  int format = 0;
  aclTensor* weight = b.tensor(x, ACL_FLOAT, {3, 4});
  CHECK(aclnnNpuFormatCastCalculateSizeAndFormat(weight, 29, ACL_FLOAT, &shape, &rank, &format) ==
        ACL_SUCCESS);
  aclIntArray* extents = aclCreateIntArray(shape, rank);
  CHECK(aclnnCalculateMatmulWeightSizeV2(extents, ACL_FLOAT, &elements) == ACL_SUCCESS && elements == 12);
  CHECK(aclnnCalculateMatmulWeightSize(extents, nullptr) == 161001 &&
        aclDestroyIntArray(extents) == ACL_SUCCESS);
  aclTensor* cast = aclCreateTensor(shape, rank, ACL_FLOAT, nullptr, 0, static_cast<aclFormat>(format), shape,
                                    rank, b.buffer + y);
  delete[] shape;
  b.call(aclnnNpuFormatCastGetWorkspaceSize, aclnnNpuFormatCast, weight, cast);
  b.call(aclnnTransMatmulWeightGetWorkspaceSize, aclnnTransMatmulWeight, b.tensor(y, ACL_FLOAT, {3, 4}));
  CHECK(b.get(y, 12, ACL_FLOAT) == numbers(12));
}

struct DeviceTensor {
  DeviceTensor(std::vector<int64_t> dims, float value, aclDataType type = ACL_FLOAT) : shape(dims) {
    for (int64_t extent : dims) count *= static_cast<size_t>(extent);
    CHECK(aclrtMalloc(&data, count * 8, ACL_MEM_MALLOC_HUGE_FIRST) == 0);
    if (type == ACL_FLOAT) set(std::vector<float>(count, value));
    handle = aclCreateTensor(shape.data(), shape.size(), type, nullptr, 0, ACL_FORMAT_ND, shape.data(),
                             shape.size(), data);
  }
  ~DeviceTensor() {
    aclDestroyTensor(handle);
    aclrtFree(data);
  }
  DeviceTensor(const DeviceTensor&) = delete;
  DeviceTensor& operator=(const DeviceTensor&) = delete;

  template <class T>
  void set(const std::vector<T>& values) {
    CHECK(aclrtMemcpy(data, count * 8, values.data(), values.size() * sizeof(T), ACL_MEMCPY_HOST_TO_DEVICE) ==
          0);
  }
  std::vector<float> get() const {
    std::vector<float> values(count);
    CHECK(aclrtMemcpy(values.data(), count * 4, data, count * 4, ACL_MEMCPY_DEVICE_TO_HOST) == 0);
    return values;
  }

  std::vector<int64_t> shape;
  size_t count = 1;
  void* data = nullptr;
  aclTensor* handle = nullptr;
};

template <class First, class Second, class... Arguments>
void run(aclrtStream stream, First first, Second second, Arguments... arguments) {
  uint64_t size = 0;
  aclOpExecutor* executor = nullptr;
  CHECK(first(arguments..., &size, &executor) == 0);
  void* workspace = nullptr;
  if (size > 0) CHECK(aclrtMalloc(&workspace, size, ACL_MEM_MALLOC_HUGE_FIRST) == 0);
  CHECK(second(workspace, size, executor, stream) == 0);
  if (size > 0) CHECK(aclrtSynchronizeStream(stream) == 0 && aclrtFree(workspace) == 0);
}

// out = (a * 2 + 1), its groups summed by our operator, and the sums doubled.
void mixed(aclrtStream stream, int rows) {
  DeviceTensor a({2, rows, 4}, 3), two({1}, 2), b({2, rows, 4}, 0), sums({2, 4}, 0), product({2, 4}, 0);
  float one_value = 1;
  aclScalar* one = aclCreateScalar(&one_value, ACL_FLOAT);
  run(stream, aclnnMulGetWorkspaceSize, aclnnMul, a.handle, two.handle, b.handle);
  run(stream, aclnnInplaceAddsGetWorkspaceSize, aclnnInplaceAdds, b.handle, one, one);
  run(stream, aclnnGroupedBiasAddGradGetWorkspaceSize, aclnnGroupedBiasAddGrad, b.handle,
      static_cast<aclTensor*>(nullptr), sums.handle);
  run(stream, aclnnMulGetWorkspaceSize, aclnnMul, sums.handle, two.handle, product.handle);
  CHECK(aclrtSynchronizeStream(stream) == 0);
  for (float value : product.get()) CHECK(value == static_cast<float>(2 * 7 * rows));
  aclDestroyScalar(one);
}

void two_streams() {
  aclrtStream first = nullptr, second = nullptr;
  aclrtEvent event = nullptr;
  CHECK(aclrtCreateStream(&first) == 0 && aclrtCreateStream(&second) == 0 && aclrtCreateEvent(&event) == 0);
  DeviceTensor a({300, 300}, 1), b({300, 300}, 0), c({300, 300}, 0);
  run(first, aclnnMatmulGetWorkspaceSize, aclnnMatmul, a.handle, a.handle, b.handle, int8_t{0});
  CHECK(aclrtRecordEvent(event, first) == 0 && aclrtStreamWaitEvent(second, event) == 0);
  run(second, aclnnMulGetWorkspaceSize, aclnnMul, b.handle, b.handle, c.handle);
  CHECK(aclrtSynchronizeStream(second) == 0);
  for (float value : c.get()) CHECK(value == 90000);
  CHECK(aclrtDestroyEvent(event) == 0 && aclrtDestroyStream(first) == 0 && aclrtDestroyStream(second) == 0);
}

void repeatable(aclrtStream stream) {
  DeviceTensor a({4}, 2), b({4}, 5), other({4}, 7), out({4}, 0);
  uint64_t size = 0;
  aclOpExecutor* executor = nullptr;
  CHECK(aclnnMulGetWorkspaceSize(a.handle, b.handle, out.handle, &size, &executor) == 0);
  CHECK(aclSetAclOpExecutorRepeatable(executor) == 0);
  CHECK(aclnnMul(nullptr, 0, executor, stream) == 0 && aclrtSynchronizeStream(stream) == 0 &&
        out.get()[3] == 10);
  CHECK(aclSetInputTensorAddr(executor, 1, b.handle, other.data) == 0);
  CHECK(aclnnMul(nullptr, 0, executor, stream) == 0 && aclrtSynchronizeStream(stream) == 0 &&
        out.get()[3] == 14);
  CHECK(aclDestroyAclOpExecutor(executor) == 0);
}

// What only the kernel can see comes out of the next synchronisation.
void late_failure() {
  aclrtStream stream = nullptr;
  CHECK(aclrtCreateStream(&stream) == 0);
  DeviceTensor a({4, 2}, 1), index({2}, 0, ACL_INT64), out({2, 2}, 0);
  index.set(std::vector<int64_t>{1, 9});
  run(stream, aclnnIndexSelectGetWorkspaceSize, aclnnIndexSelect, a.handle, int64_t{0}, index.handle,
      out.handle);
  CHECK(aclrtSynchronizeStream(stream) == 507015);
  const char* message = aclGetRecentErrMsg();
  CHECK(message != nullptr && std::strstr(message, "aclnnIndexSelect") != nullptr);
  CHECK(aclrtDestroyStream(stream) == 0);
}

double microseconds_of_a_call(aclrtStream stream) {
  DeviceTensor a({4}, 2), out({4}, 0);
  double least = 1e9;
  constexpr int kCalls = 1000;
  for (int repeat = 0; repeat < 20; ++repeat) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < kCalls; ++i)
      run(stream, aclnnMulGetWorkspaceSize, aclnnMul, a.handle, a.handle, out.handle);
    const std::chrono::duration<double, std::micro> taken = std::chrono::steady_clock::now() - start;
    least = std::min(least, taken.count() / kCalls);
  }
  CHECK(aclrtSynchronizeStream(stream) == 0);
  return least;
}

}  // namespace

int main() {
  Backend backend;
  views(backend);
  weights_of_few_bits(backend, false);
  weights_of_few_bits(backend, true);
  attention(backend);
  private_formats(backend);
  places_of_what_is_not_zero(backend);

  mixed(backend.stream, 3);
  mixed(backend.stream, 50000);
  two_streams();
  repeatable(backend.stream);
  late_failure();

  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([i] {
      CHECK(aclrtSetDevice(0) == 0);
      aclrtStream own = nullptr;
      CHECK(aclrtCreateStream(&own) == 0);
      for (int repeat = 0; repeat < 20; ++repeat) mixed(own, 10 + 5000 * i);
      CHECK(aclrtDestroyStream(own) == 0);
    });
  }
  for (std::thread& thread : threads) thread.join();

  const pid_t child = fork();
  if (child == 0) {
    aclrtStream own = nullptr;
    CHECK(aclrtSetDevice(0) == 0 && aclrtCreateStream(&own) == 0);
    mixed(own, 50000);
    two_streams();
    std::fflush(stdout);
    _exit(0);
  }
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child && status == 0);

  std::printf("a call of 4 elements takes %.2f us\n", microseconds_of_a_call(backend.stream));
  std::printf("all right\n");
}
