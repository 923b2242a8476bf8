// The contexts every CPU op is tested under: each instruction set of this processor, 1 and 2
// threads.
#pragma once

#include <fmt/core.h>

#include <vector>

#include "inner/cpu/kernels.hpp"

namespace isthmus::inner::test {

inline std::vector<CpuContext> cpu_contexts() {
    std::vector<CpuContext> contexts;
    for (const InstructionSet set : available_instruction_sets())
        for (const int threads : {1, 2}) contexts.push_back({&kernels_of(set), threads});
    return contexts;
}

inline std::string describe(const CpuContext& context, DType dtype) {
    return fmt::format("{} lanes, {} threads, {}", context.kernels->lanes, context.threads,
                       dtype == DType::kF32 ? "fp32" : "bf16");
}

}  // namespace isthmus::inner::test
