#define ISTHMUS_KERNELS_NAME avx512
#include "outer/kernels_impl.hpp"
