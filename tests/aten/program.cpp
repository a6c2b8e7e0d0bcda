// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// A C++ program on the installed prefix, built with -lopapi -lnnopbase -lascendcl alone: functions of the companion library
// between our own operators in one stream, events, threads, a child, repeatable executors, failures.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "acl/acl.h"
#include "aclnnop/aclnn_add.h"
#include "aclnnop/aclnn_grouped_bias_add_grad.h"
#include "aclnnop/aclnn_index_select.h"
#include "aclnnop/aclnn_matmul.h"
#include "aclnnop/aclnn_mul.h"
#include "check.h"

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
  CHECK(aclInit(nullptr) == 0 && aclrtSetDevice(0) == 0);
  aclrtStream stream = nullptr;
  CHECK(aclrtCreateStream(&stream) == 0);
  mixed(stream, 3);
  mixed(stream, 50000);
  two_streams();
  repeatable(stream);
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

  std::printf("a call of 4 elements takes %.2f us\n", microseconds_of_a_call(stream));
  CHECK(aclrtDestroyStream(stream) == 0 && aclrtResetDevice(0) == 0 && aclFinalize() == 0);
  std::printf("all right\n");
}
