#define ISTHMUS_KERNELS_NAME baseline
#include "outer/kernels_impl.hpp"
