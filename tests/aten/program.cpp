// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// A C++ program on the installed prefix, built with -lopapi -lnnopbase -lascendcl alone: functions of the companion library
// between our own operators in one stream, handles that end before the work does, events, threads, a child, repeatable
// executors, sizes that the data decides, failures. functions_test.py has the values of each function.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "acl/acl.h"
#include "aclnnop/aclnn_add.h"
#include "aclnnop/aclnn_fused_infer_attention_score_v2.h"
#include "aclnnop/aclnn_grouped_bias_add_grad.h"
#include "aclnnop/aclnn_index_select.h"
#include "aclnnop/aclnn_matmul.h"
#include "aclnnop/aclnn_nonzero.h"
#include "aclnnop/aclnn_trans_matmul_weight.h"
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

struct DeviceTensor {
  DeviceTensor(std::vector<int64_t> dims, float value, aclDataType type = ACL_FLOAT) : shape(dims) {
    for (int64_t extent : dims) count *= static_cast<size_t>(extent);
    CHECK(aclrtMalloc(&data, count * 8, ACL_MEM_MALLOC_HUGE_FIRST) == 0);
    if (type == ACL_FLOAT) set(std::vector<float>(count, value));
    handle = aclCreateTensor(shape.data(), shape.size(), type, nullptr, 0, ACL_FORMAT_ND, shape.data(),
                             shape.size(), data);
  }
  ~DeviceTensor() {
    destroy_handle();
    CHECK(aclrtFree(data) == 0);
  }
  DeviceTensor(const DeviceTensor&) = delete;
  DeviceTensor& operator=(const DeviceTensor&) = delete;

  template <class T>
  void set(const std::vector<T>& values) {
    CHECK(aclrtMemcpy(data, count * 8, values.data(), values.size() * sizeof(T), ACL_MEMCPY_HOST_TO_DEVICE) ==
          0);
  }
  template <class T = float>
  std::vector<T> get() const {
    std::vector<T> values(count);
    const size_t bytes = count * sizeof(T);
    CHECK(aclrtMemcpy(values.data(), bytes, data, bytes, ACL_MEMCPY_DEVICE_TO_HOST) == 0);
    return values;
  }
  void destroy_handle() { CHECK(aclDestroyTensor(std::exchange(handle, nullptr)) == 0); }

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
  for (DeviceTensor* each : {&a, &b, &c}) each->destroy_handle();
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

// The stride of an axis with one element is not used.
void stride_of_one_element(aclrtStream stream) {
  DeviceTensor a({1, 4}, 3), out({1, 4}, 0);
  const int64_t strides[] = {INT64_MIN, 1};
  CHECK(aclInitTensor(a.handle, a.shape.data(), 2, ACL_FLOAT, strides, 0, ACL_FORMAT_ND, a.shape.data(), 2,
                      a.data) == 0);
  run(stream, aclnnMulGetWorkspaceSize, aclnnMul, a.handle, a.handle, out.handle);
  CHECK(aclrtSynchronizeStream(stream) == 0 && out.get()[3] == 9);
}

// A program may ask whether a call in place is accepted, and compute otherwise if it is not.
void refused_in_place(aclrtStream stream) {
  DeviceTensor a({4}, 2), wrong({3}, 1), out({4}, 0);
  uint64_t size = 0;
  aclOpExecutor* executor = nullptr;
  CHECK(aclnnInplaceMulGetWorkspaceSize(a.handle, wrong.handle, &size, &executor) == 161002);
  run(stream, aclnnMulGetWorkspaceSize, aclnnMul, a.handle, a.handle, out.handle);
  CHECK(aclrtSynchronizeStream(stream) == 0 && out.get()[3] == 4);
}

// Paged keys.
void unserved_argument() {
  DeviceTensor query({1, 3, 2, 4}, 1), keys({1, 5, 1, 4}, 1), values({1, 5, 1, 4}, 1), out({1, 3, 2, 4}, 0);
  aclTensorList *key = aclCreateTensorList(&keys.handle, 1), *value = aclCreateTensorList(&values.handle, 1);
  char layout[] = "BSND";
  const auto plan = [&](aclTensor* block_table) {
    uint64_t size = 0;
    aclOpExecutor* executor = nullptr;
    return aclnnFusedInferAttentionScoreV2GetWorkspaceSize(
        query.handle, key, value, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr,
        nullptr, nullptr, nullptr, block_table, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr,
        nullptr, nullptr, 2, 0.5, 65535, 65535, layout, 1, 0, 2, 0, 0, false, 0, 0, out.handle, nullptr,
        &size, &executor);
  };
  CHECK(plan(query.handle) == 161002);
  CHECK(std::strstr(aclGetRecentErrMsg(), "blockTableOptional") != nullptr);
  CHECK(aclDestroyTensorList(key) == 0 && aclDestroyTensorList(value) == 0);
  keys.handle = values.handle = nullptr;  // the lists have destroyed them
}

// Phase 2 tells how many there are. Nothing is written where the results do not fit, and the program hears of it.
void places_of_what_is_not_zero() {
  DeviceTensor x({2, 3}, 0);
  x.set(std::vector<float>{0, 3, 0, 0, -1, 2});
  for (const int64_t room : {6, 2}) {
    DeviceTensor places({room, 2}, 0, ACL_INT64);
    const std::vector<int64_t> before(places.count, -1), found = {0, 1, 1, 1, 1, 2};
    places.set(before);
    aclrtStream stream = nullptr;
    CHECK(aclrtCreateStream(&stream) == 0);
    run(stream, aclnnNonzeroGetWorkspaceSize, aclnnNonzero, x.handle, places.handle);
    CHECK(aclrtSynchronizeStream(stream) == (room == 6 ? 0 : 507015));
    const char* message = "aclnnNonzero: out: expected room for [3, 2]";
    CHECK(room == 6 || std::strstr(aclGetRecentErrMsg(), message) != nullptr);
    int64_t* shape = nullptr;
    uint64_t rank = 0;
    CHECK(aclGetViewShape(places.handle, &shape, &rank) == 0 && rank == 2);
    CHECK(shape[0] == (room == 6 ? 3 : 2));
    delete[] shape;
    CHECK(aclrtDestroyStream(stream) == 0);
    const std::vector<int64_t> after = places.get<int64_t>();
    CHECK(room == 6 ? std::equal(found.begin(), found.end(), after.begin()) : after == before);
  }
}

// The handle that would get the shape is gone.
void output_destroyed_between_the_phases() {
  DeviceTensor x({2, 3}, 1), places({6, 2}, 0, ACL_INT64);
  aclrtStream stream = nullptr;
  uint64_t size = 0;
  aclOpExecutor* executor = nullptr;
  CHECK(aclrtCreateStream(&stream) == 0);
  CHECK(aclnnNonzeroGetWorkspaceSize(x.handle, places.handle, &size, &executor) == 0);
  places.destroy_handle();
  CHECK(aclnnNonzero(nullptr, size, executor, stream) == 0 && aclrtSynchronizeStream(stream) == 507015);
  const char* message = "aclnnNonzero: out: expected a live tensor, got one that was destroyed";
  CHECK(std::strstr(aclGetRecentErrMsg(), message) != nullptr && aclrtDestroyStream(stream) == 0);
}

// What programs do with a weight before they multiply with it. Here its layout stays.
void private_formats(aclrtStream stream) {
  DeviceTensor weight({3, 4}, 5), cast({3, 4}, 0);
  int64_t* shape = nullptr;
  uint64_t rank = 0, elements = 0;
  int format = 0;
  CHECK(aclnnNpuFormatCastCalculateSizeAndFormat(weight.handle, 29, ACL_FLOAT, &shape, &rank, &format) == 0);
  CHECK(std::vector<int64_t>(shape, shape + rank) == weight.shape && format == ACL_FORMAT_ND);
  aclIntArray* extents = aclCreateIntArray(shape, rank);
  delete[] shape;
  CHECK(aclnnCalculateMatmulWeightSizeV2(extents, ACL_FLOAT, &elements) == 0 && elements == 12);
  CHECK(aclnnCalculateMatmulWeightSize(extents, nullptr) == 161001 && aclDestroyIntArray(extents) == 0);
  run(stream, aclnnNpuFormatCastGetWorkspaceSize, aclnnNpuFormatCast, weight.handle, cast.handle);
  run(stream, aclnnTransMatmulWeightGetWorkspaceSize, aclnnTransMatmulWeight, cast.handle);
  CHECK(aclrtSynchronizeStream(stream) == 0 && cast.get() == weight.get());
}

void works_in_a_child() {
  const pid_t child = fork();
  if (child == 0) {
    alarm(100);  // a child that waits for a lock for ever ends, too
    aclrtStream own = nullptr;
    CHECK(aclrtSetDevice(0) == 0 && aclrtCreateStream(&own) == 0);
    mixed(own, 50000);
    two_streams();
    std::fflush(stdout);
    _exit(0);
  }
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
}

// The first call opens PyTorch, even if it is refused. A thread that forks meanwhile waits until it is open.
void fork_during_the_first_call() {
  DeviceTensor a({4}, 2), other({4}, 0, ACL_FLOAT8_E4M3FN);
  std::thread first([&] {
    uint64_t size = 0;
    aclOpExecutor* executor = nullptr;
    CHECK(aclrtSetDevice(0) == 0);
    CHECK(aclnnMulGetWorkspaceSize(a.handle, other.handle, a.handle, &size, &executor) == 161002);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  works_in_a_child();
  first.join();
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
  aclrtStream stream = nullptr;
  CHECK(aclInit(nullptr) == 0 && aclrtSetDevice(0) == 0 && aclrtCreateStream(&stream) == 0);
  fork_during_the_first_call();
  mixed(stream, 3);
  mixed(stream, 50000);
  two_streams();
  repeatable(stream);
  late_failure();
  stride_of_one_element(stream);
  refused_in_place(stream);
  unserved_argument();
  places_of_what_is_not_zero();
  if (std::getenv("ACLGRAD_CHECK") == nullptr) output_destroyed_between_the_phases();  // which it finds
  private_formats(stream);

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

  works_in_a_child();

  std::printf("a call of 4 elements takes %.2f us\n", microseconds_of_a_call(stream));
  CHECK(aclrtDestroyStream(stream) == 0 && aclrtResetDevice(0) == 0 && aclFinalize() == 0);
  std::printf("all right\n");
}
