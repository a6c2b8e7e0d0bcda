// Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
// Kernels with one mistake each, and right ones beside them.
#pragma once

namespace ptx::test {

// One block of `threads`, but for what is about several.
void store_each(float* to, int threads);  // to[thread]
void store_each_in_blocks(float* to,
                          int blocks);     // to[thread of the grid], by blocks of 32, in steps of the grid
void store_to_one(float* to, int blocks);  // to[0], by a thread of each block
void add_to_one(float* to, int blocks);    // the same atomically
void add_and_store(float* to);             // one thread adds atomically, another one stores
void load_at(const char* from, long offset, float* to);  // a float at that byte
void copy_each(const float* from, float* to, int threads);
void branch_on(const float* from, float* to);
void load_shared_unwritten(float* to);
enum class Barrier { none, of_half_warps, of_warp, of_block };
void reverse_in_shared(float* values, int threads, Barrier barrier);
void count_equals(int* values);  // of a warp: for each value, how many there are
void end_before_barrier(float* to, int threads);
void exchange(float* values, unsigned mask, int last_lane);  // with the neighbour, in lanes up to that one
void divide(const int* values, int* quotient);
void count_down(int* values, int threads);  // each thread another number of rounds
struct Arithmetic {
  int int_of_float;
  long long long_of_double;
  unsigned shifted;
  int quotient;
  float not_a_number, exact_product;
};
void compute(const float* given, Arithmetic* result);

}  // namespace ptx::test
