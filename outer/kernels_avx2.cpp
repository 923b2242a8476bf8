#define ISTHMUS_KERNELS_NAME avx2
#include "outer/kernels_impl.hpp"
