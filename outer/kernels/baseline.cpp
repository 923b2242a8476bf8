// The kernels for SSE2, which every x86-64 has.
#define KERNEL_TABLE kKernelsBaseline
#include "outer/kernels/kernels.inc"
