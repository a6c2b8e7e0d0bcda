// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Memory of the host for tensors and workspaces: kernels on every device may use it. Where there are CUDA devices, CUDA is
// told of it.
#pragma once

#include <cstddef>
#include <vector>

namespace aclgrad::test {

void let_kernels_use(void* memory, size_t bytes);
void let_kernels_use_no_longer(void* memory);

class KernelBytes {
 public:
  explicit KernelBytes(size_t bytes, std::byte contents = {}) : bytes_(bytes, contents) {
    let_kernels_use(data(), bytes);
  }
  ~KernelBytes() { let_kernels_use_no_longer(data()); }
  KernelBytes(const KernelBytes&) = delete;
  KernelBytes& operator=(const KernelBytes&) = delete;

  std::byte* data() { return bytes_.data(); }

 private:
  std::vector<std::byte> bytes_;
};

}  // namespace aclgrad::test
