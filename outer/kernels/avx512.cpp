// The kernels for AVX-512 F, BW, VL and DQ.
#define KERNEL_TABLE kKernelsAvx512
#include "outer/kernels/kernels.inc"
