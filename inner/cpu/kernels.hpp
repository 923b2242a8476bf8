// The table of vector kernels: one source, compiled for three instruction sets.
//
// A kernel knows nothing of threads: it works on a range (rows, units, elements) that the caller
// chose. Sources are kernels/*.inc; kernels_baseline.cpp, kernels_avx2.cpp and kernels_avx512.cpp
// include them. A new group of kernels is a struct of function pointers in a header of its own, a
// member below, and a line in kernels/table.inc.
#pragma once

#include "inner/cpu/cpu_ops.hpp"
#include "inner/cpu/kernels/activation.hpp"
#include "inner/cpu/kernels/attention.hpp"
#include "inner/cpu/kernels/flat.hpp"
#include "inner/cpu/kernels/gemm.hpp"
#include "inner/cpu/kernels/loss.hpp"
#include "inner/cpu/kernels/norm.hpp"

namespace isthmus::inner {

/// Kernels for one element type E (float or bf16).
template <class E>
struct TypedKernels {
    NormKernels<E> norm;
    ActivationKernels<E> activation;
    LossKernels<E> loss;
    ConvertKernels<E> convert;
    AttentionKernels<E> attention;
};

struct Kernels {
    int lanes;  ///< floats a vector
    TypedKernels<float> f32;
    TypedKernels<bf16> b16;
    GemmKernels gemm;
    EmbeddingKernels embedding;
    FlatKernels flat;

    template <class E>
    const TypedKernels<E>& of() const {
        if constexpr (sizeof(E) == sizeof(float)) {
            return f32;
        } else {
            return b16;
        }
    }
};

extern const Kernels kKernelsBaseline;
extern const Kernels kKernelsAvx2;
extern const Kernels kKernelsAvx512;

/// REQUIRES  the processor has the instruction set.
const Kernels& kernels_of(InstructionSet);

/// What every CPU op needs to run.
struct CpuContext {
    const Kernels* kernels = nullptr;
    int threads = 1;
};

}  // namespace isthmus::inner
