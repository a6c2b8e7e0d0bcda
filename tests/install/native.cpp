// The C++ interface: no tensors, no executors, no device.
#include <aclgrad/grid_sampler.h>
#include <aclgrad/grouped_bias_add.h>
#include <aclgrad/multi_scale_deformable_attention.h>
#include <aclgrad/nsa_compress.h>

#include <cstdint>
#include <cstdio>
#include <new>
#include <vector>

int main() {
  const std::vector<float> rows = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};  // five rows of two
  const std::vector<int32_t> counts = {2, 3};
  const std::vector<float> expected = {4, 6, 21, 24};
  std::vector<float> sums(4);

  aclgrad::GroupedBiasAddGrad problem;
  problem.kind = aclgrad::GroupedBiasAddGrad::Groups::counts;
  problem.groups = 2;
  problem.rows = 5;
  problem.columns = 2;
  problem.grad_y = rows.data();
  problem.row_stride = 2;
  problem.group_idx = {counts.data(), aclgrad::DataType::int32};
  problem.out = sums.data();

  constexpr std::align_val_t kAlignment{64};
  void* workspace = ::operator new(aclgrad::workspace_size(problem), kAlignment);
  aclgrad::grouped_bias_add_grad(problem, workspace);
  ::operator delete(workspace, kAlignment);
  if (sums != expected) {
    std::fprintf(stderr, "got %g %g %g %g\n", sums[0], sums[1], sums[2], sums[3]);
    return 1;
  }
  std::puts("sums are right");
  return 0;
}
