#include "outer/kernels.hpp"

namespace isthmus::outer {

namespace baseline {
extern const Kernels kKernels;
}
namespace avx2 {
extern const Kernels kKernels;
}
namespace avx512 {
extern const Kernels kKernels;
}

std::vector<const Kernels*> all_kernels() {
    std::vector<const Kernels*> all{&baseline::kKernels};
    if (__builtin_cpu_supports("avx2")) all.push_back(&avx2::kKernels);
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq")) {
        all.push_back(&avx512::kKernels);
    }
    return all;
}

const Kernels& kernels() {
    static const Kernels& best = *all_kernels().back();
    return best;
}

}  // namespace isthmus::outer
