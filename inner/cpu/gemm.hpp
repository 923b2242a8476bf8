// Our own fp32 matrix product over threads (inner/cpu/kernels/gemm.hpp has the arithmetic).
#pragma once

#include "inner/cpu/kernels.hpp"
#include "inner/ops/buffer_plan.hpp"

namespace isthmus::inner::cpu {

/// BITS    the same for every number of threads.
/// THREAD  one at a time. Allocates its scratch (1.8 MB a thread, touched on use) once.
class Gemm {
  public:
    explicit Gemm(const CpuContext&);
    /// `args.scratch` is ignored. At most a few rows (generation) go through dot products.
    void run(const GemmArgs& args);

  private:
    /// How many parts C's rows and columns are cut into.
    struct Grid {
        int rows = 1;
        int cols = 1;
    };
    Grid choose_grid(const GemmArgs&) const;

    CpuContext context_;
    Arena scratch_;
};

}  // namespace isthmus::inner::cpu
