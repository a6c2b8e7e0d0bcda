# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
# As on the CPU, a sum must not depend on which product the compiler fuses into it; where kernels want that, they say so.
set(aclgrad_cuda_flags -fmad=false --expt-relaxed-constexpr -Xcompiler=-Wall,-Wextra)
