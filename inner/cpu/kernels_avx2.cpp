// The kernels for AVX2, FMA and F16C.
#define KERNEL_TABLE kKernelsAvx2
#include "inner/cpu/kernels/table.inc"
