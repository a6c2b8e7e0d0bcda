// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// A program in the style of an inference engine's back end: tensors as views of one buffer, workspaces from a pool that the
// stream's order makes safe, copies and events on streams, weights of few bits, attention, an unserved combination.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#include "acl/acl.h"
#include "aclnnop/aclnn_add.h"
#include "aclnnop/aclnn_cast.h"
#include "aclnnop/aclnn_fused_infer_attention_score_v2.h"
#include "aclnnop/aclnn_nonzero.h"
#include "aclnnop/aclnn_rms_norm.h"
#include "aclnnop/aclnn_weight_quant_batch_matmul_v2.h"
#include "aclnnop/level2/aclnn_mul.h"
#include "check.h"

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
  std::vector<int8_t> bytes(static_cast<size_t>(kRows * kColumns), 0);
  std::vector<float> scales;
  for (int64_t n = 0; n < kColumns; ++n) {
    for (int64_t k = 0; k < kRows; ++k) {
      const int64_t i = n * kRows + k;
      if (is_int4) {
        bytes[static_cast<size_t>(i / 2)] |= static_cast<int8_t>((weight(k, n) & 15) << (i % 2 * 4));
      } else {
        bytes[static_cast<size_t>(i)] = static_cast<int8_t>(weight(k, n));
      }
    }
    for (int64_t g = 0; g < kRows / kGroup; ++g) scales.push_back(scale(g, n));
  }
  const size_t x = b.put_half(numbers(2 * kRows)), w = b.put(bytes), s = b.put_half(scales), out = b.take(64);
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

// The output has room for all; phase 2 tells how many there are.
void places_of_what_is_not_zero(Backend& b) {
  const size_t x = b.put(std::vector<float>{0, 3, 0, 0, -1, 2}), out = b.take(6 * 2 * 8);
  aclTensor* result = b.tensor(out, ACL_INT64, {6, 2});
  aclTensor* from = b.tensor(x, ACL_FLOAT, {2, 3});
  uint64_t size = 0;
  aclOpExecutor* executor = nullptr;
  CHECK(aclnnNonzeroGetWorkspaceSize(from, result, &size, &executor) == ACL_SUCCESS);
  CHECK(aclnnNonzero(nullptr, size, executor, b.stream) == ACL_SUCCESS);
  CHECK(aclrtSynchronizeStream(b.stream) == ACL_SUCCESS);
  int64_t* shape = nullptr;
  uint64_t rank = 0;
  CHECK(aclGetViewShape(result, &shape, &rank) == ACL_SUCCESS && rank == 2 && shape[0] == 3 && shape[1] == 2);
  delete[] shape;
  Backend::destroy(from);
  Backend::destroy(result);
  CHECK((b.get(out, 6, ACL_INT64) == std::vector<float>{0, 1, 1, 1, 1, 2}));
}

// Nothing is written where the results do not fit, and the program hears of it.
void too_little_room(Backend& b) {
  const size_t x = b.put(std::vector<float>{1, 2, 3, 4}), out = b.put(std::vector<int64_t>{-1, -1, -1, -1});
  aclTensor* result = b.tensor(out, ACL_INT64, {3, 1});
  aclTensor* from = b.tensor(x, ACL_FLOAT, {4});
  aclrtStream stream = nullptr;
  uint64_t size = 0;
  aclOpExecutor* executor = nullptr;
  CHECK(aclrtCreateStream(&stream) == ACL_SUCCESS);
  CHECK(aclnnNonzeroGetWorkspaceSize(from, result, &size, &executor) == ACL_SUCCESS);
  CHECK(aclnnNonzero(nullptr, size, executor, stream) == ACL_SUCCESS);
  CHECK(aclrtSynchronizeStream(stream) == 507015);
  CHECK(std::strstr(aclGetRecentErrMsg(), "aclnnNonzero: out: expected room for [4, 1]") != nullptr);
  int64_t* shape = nullptr;
  uint64_t rank = 0;
  CHECK(aclGetViewShape(result, &shape, &rank) == ACL_SUCCESS && rank == 2 && shape[0] == 3);
  delete[] shape;
  Backend::destroy(from);
  Backend::destroy(result);
  CHECK(aclrtDestroyStream(stream) == ACL_SUCCESS);
  CHECK((b.get(out, 4, ACL_INT64) == std::vector<float>{-1, -1, -1, -1}));
}

}  // namespace

int main() {
  {
    Backend backend;
    views(backend);
    weights_of_few_bits(backend, false);
    weights_of_few_bits(backend, true);
    attention(backend);
    places_of_what_is_not_zero(backend);
    too_little_room(backend);
  }
  std::printf("all right\n");
}
