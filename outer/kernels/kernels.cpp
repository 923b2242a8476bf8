#include "outer/kernels/kernels.hpp"

#include "base/check.hpp"

namespace isthmus::outer {

std::string_view name(InstructionSet set) {
    switch (set) {
        case InstructionSet::kBaseline:
            return "baseline";
        case InstructionSet::kAvx2:
            return "avx2";
        case InstructionSet::kAvx512:
            return "avx512";
    }
    CHECK(false, "instruction set {}", static_cast<int>(set));
}

std::vector<InstructionSet> available_instruction_sets() {
    std::vector<InstructionSet> sets = {InstructionSet::kBaseline};
    // The builtins also ask whether the operating system saves the wide registers.
    if (!__builtin_cpu_supports("avx2")) return sets;
    sets.push_back(InstructionSet::kAvx2);
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq"))
        sets.push_back(InstructionSet::kAvx512);
    return sets;
}

const Kernels& kernels_of(InstructionSet set) {
    switch (set) {
        case InstructionSet::kBaseline:
            return kKernelsBaseline;
        case InstructionSet::kAvx2:
            return kKernelsAvx2;
        case InstructionSet::kAvx512:
            return kKernelsAvx512;
    }
    CHECK(false, "instruction set {}", static_cast<int>(set));
}

const Kernels& kernels() {
    static const Kernels& best = kernels_of(available_instruction_sets().back());
    return best;
}

}  // namespace isthmus::outer
