// The kernels for AVX2.
#define KERNEL_TABLE kKernelsAvx2
#include "outer/kernels/kernels.inc"
